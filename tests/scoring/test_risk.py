"""Names of risk tags, and what does and does not disclose a risk."""

from pathlib import Path

import pytest

from memfin.dataset import SAMPLE, align_turn_pairs, load_dataset_jsonl
from memfin.scoring.detectors import read_content
from memfin.scoring.risk import CANONICAL_TAGS, EXTENSION_TAGS, canonical_risk_tag
from tests.support import each_case

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded" / "MemFinConv.jsonl"


@each_case(
    ("name", "tag"),
    [
        ("波动风险", "volatility_risk"),
        ("不保证收益", "no_guaranteed_return"),
        ("市场不确定性", "market_uncertainty"),
        ("适当性匹配", "suitability_match"),
        ("不构成个股买卖建议", "not_buy_sell_advice"),
        ("不构成投资建议", "not_investment_advice"),
        ("信用风险", "credit_risk"),
        ("流动性风险", "liquidity_risk"),
        ("利率风险", "interest_rate_risk"),
        ("过往业绩不代表未来表现", "past_performance_not_future"),
        ("过往业绩不预示未来", "past_performance_not_future"),
        ("历史收益未必代表将来", "past_performance_not_future"),
        ("无明确风险提示", "risk_disclosure_present"),
        ("汇率风险", "fx_risk"),
        ("再投资风险", "reinvestment_risk"),
        ("不构成税务建议", "not_tax_advice"),
        ("政策不确定性", "policy_risk"),
        ("政策变化风险", "policy_risk"),
        ("费用侵蚀收益", "cost_risk"),
        ("高波动风险", "volatility_risk"),
        ("估值波动风险", "valuation_risk"),
        ("Volatility Risk", "volatility_risk"),
        ("ｃｒｅｄｉｔ－ｒｉｓｋ", "credit_risk"),
        ("太阳黑子风险", None),
        ("", None),
    ],
)
def test_names_of_tags(name: str, tag: str | None) -> None:
    assert canonical_risk_tag(name) == tag


@each_case("tag", [*CANONICAL_TAGS, *EXTENSION_TAGS])
def test_every_tag_is_its_own_name(tag: str) -> None:
    assert canonical_risk_tag(tag) == tag


@pytest.mark.parametrize("dataset", [SAMPLE, RECORDED], ids=["sample", "recorded"])
def test_every_name_of_a_dataset_is_known(dataset: Path) -> None:
    if not dataset.exists():
        pytest.skip("the recorded dataset is not beside the repository")
    pairs = [pair for dialog in load_dataset_jsonl(dataset) for pair in align_turn_pairs(dialog)]
    names = {name for pair in pairs for name in pair.gt_turn_tags.risk_disclosure_required_gt}
    assert len(names) > 5
    assert {name for name in names if canonical_risk_tag(name) is None} == set()


@each_case(
    ("text", "tags"),
    [
        ("转债一天跌掉十几个点也可能发生，拿着要有准备。", {"volatility_risk"}),
        ("投进去的钱有可能拿不回来。", {"no_guaranteed_return"}),
        ("明年利率往哪边走，眼下没有人拿得准。", {"market_uncertainty"}),
        ("买之前先对照一下自己的风险等级。", {"suitability_match"}),
        ("内容供学习参考，请勿据此投资。", {"not_investment_advice"}),
        ("城投平台万一还不上钱，债券就会打折。", {"credit_risk"}),
        ("往年的成绩单说明不了明年。", {"past_performance_not_future"}),
        ("后面是反弹还是续跌，我判断不了。", {"market_uncertainty"}),
        ("The company behind this note could fail to pay it back.", {"credit_risk"}),
        ("市场有风险，投资需谨慎。", set()),
        ("如果费率再少两成，您每年省下两百元。", set()),
        ("Shops had a good year: sales rose 3%.", set()),
        ("公司营收波动主要来自季节性，存货的变现能力不错。", set()),
        ("您的信用卡额度是5万元，房贷利率3.1%。", set()),
        ("宣传折页上印着“仅供参考”四个小字。", set()),
        ("国债没有信用风险。", set()),
        ("您能承受多大的亏损？资金打算放多久？", set()),
        ("The market volatility index stands at 18.", set()),
    ],
)
def test_a_disclosure_counts_and_a_mention_does_not(text: str, tags: set[str]) -> None:
    assert set(read_content(text).risk_tags) == tags


@pytest.mark.parametrize("speaker", ["宣传册上写着：", "那几个字是"])
def test_the_words_of_others_disclose_nothing(speaker: str) -> None:
    assert read_content("这只基金净值可能大幅波动。").risk_tags == ["volatility_risk"]
    assert read_content(f"{speaker}这只基金净值可能大幅波动。").risk_tags == []
