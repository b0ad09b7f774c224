"""A loss that rising rates bring is told apart from one that the market brings."""

import pytest

from memfin.scoring.guards.causes import rate_driven
from memfin.scoring.text.language import analyze


@pytest.mark.parametrize(
    ("text", "loss", "driven"),
    [
        ("A rise in yields would shave 5% off the price.", "shave", True),
        ("If rates climb again, it will be marked down.", "marked", True),
        ("It will be worth less should borrowing costs rise.", "worth", True),
        ("Bonds slip if yields go up, and shares can tumble.", "tumble", False),
        ("Rates are high. Shares can tumble.", "tumble", False),
        ("一旦利率往上走，放大的那部分估值会跌得更多。", "估值", True),
        ("反过来，央行一加息，债券价格就会下跌。", "债券", True),
        ("利率上行或股市走弱时，净值会下跌。", "净值", False),
        ("若利率快速反弹，净值会有回撤。", "净值会有回撤", False),
        ("利率上行，债价先跌。股市不好时，净值会跌。", "净值", False),
        ("一旦加息，股票会大跌。", "股票", False),
        ("If profits fall, it will be marked down.", "marked", False),
    ],
)
def test_rates_in_the_clause_or_the_condition_before_it(text: str, loss: str, driven: bool) -> None:
    analysis = analyze(text)
    start = analysis.norm.index(loss)
    assert rate_driven(analysis, start, start + len(loss)) is driven
