"""Weights of one sector, under whatever name."""

import pytest

from memfin.scoring.constraints.predicates import AssetClassCap
from memfin.scoring.contradiction import contradictions

CAP = AssetClassCap(asset_class="sector", limit=0.2)


@pytest.mark.parametrize(
    ("reply", "above"),
    [
        ("晶圆代工9%、封测8%、存储6%，剩下的放短债。", True),
        ("科技主题放25%，其余买国债。", True),
        ("Biotech 12%, hospitals 11%, the rest in gilts.", True),
        ("芯片8%、医药7%、消费6%，剩下的放短债。", False),
        ("沪深300放四成，短债放六成。", False),
        ("您现有的芯片基金占25%，建议减到15%。", False),
    ],
)
def test_one_line_of_business_adds_up(reply: str, above: bool) -> None:
    assert bool(contradictions(reply, [("cap", CAP)])) == above
