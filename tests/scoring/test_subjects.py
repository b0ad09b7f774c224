"""What a loss, a promise or a judgement is about decides which disclosure it is, and whether it is one."""

import pytest

from memfin.scoring.content import read_content
from memfin.scoring.guards.subjects import of_a_rate, of_a_service, of_principal, of_the_record
from memfin.scoring.text.language import analyze


@pytest.mark.parametrize(
    ("text", "loss", "principal"),
    [
        ("基金的本金是有可能亏损的。", "亏损", True),
        ("将来可能更低，本金缩水的可能也存在。", "缩水", True),
        ("投进去的钱可能缩水。", "缩水", True),
        ("可能亏损本金。", "亏损", True),
        ("Your capital can still shrink for good.", "shrink", True),
        ("本金之外，净值可能缩水。", "缩水", False),
        ("本金会随市场波动。", "波动", False),
        ("基金净值可能缩水。", "缩水", False),
        ("Capital values will fall.", "fall", False),
        ("The fund's value can still shrink.", "shrink", False),
    ],
)
def test_a_loss_of_principal_is_no_fluctuation(text: str, loss: str, principal: bool) -> None:
    analysis = analyze(text)
    start = analysis.norm.index(loss)
    assert of_principal(analysis, start, start + len(loss)) is principal


@pytest.mark.parametrize(
    ("text", "words", "record"),
    [
        ("拿旧成绩推断以后，推不出来。", "推不出来", True),
        ("旧名次当不了新依据。", "当不了新依据", True),
        ("以后的行情，推不出来。", "推不出来", False),
        ("以上历史数据当不了投资建议。", "当不了投资建议", False),
    ],
)
def test_a_record_that_tells_nothing(text: str, words: str, record: bool) -> None:
    analysis = analyze(text)
    start = analysis.norm.index(words)
    assert of_the_record(analysis, start, start + len(words)) is record


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ("The courier does not guarantee delivery by Thursday.", True),
        ("We cannot guarantee a seat at the seminar.", True),
        ("The manager does not guarantee any return.", False),
        ("We cannot guarantee delivery of the income we project.", False),
    ],
)
def test_a_service_that_is_not_guaranteed(text: str, service: bool) -> None:
    analysis = analyze(text)
    start = analysis.norm.index("guarantee")
    assert of_a_service(analysis, start, start + len("guarantee")) is service


@pytest.mark.parametrize(("text", "rate"), [("4.2%早就锁死了", True), ("资金锁死三年", False)])
def test_a_rate_that_is_locked(text: str, rate: bool) -> None:
    analysis = analyze(text)
    start = analysis.norm.index("锁死")
    assert of_a_rate(analysis, start, start + 2) is rate


@pytest.mark.parametrize(
    ("text", "tag", "made"),
    [
        ("参数换一组，结论也会跟着变。", "market_uncertainty", False),
        ("我的结论会随着数据更新。", "market_uncertainty", True),
        ("Please tell me how long the money can stay locked away.", "liquidity_risk", False),
        ("I need to know how much loss you can bear.", "suitability_match", False),
        ("Tell me what you think; the money is locked away for years.", "liquidity_risk", True),
        ("净值下跌的可能性为零。", "volatility_risk", False),
        ("门店客流周末和平日起伏很大。", "volatility_risk", False),
        ("营收稳定，股价却波动很大。", "volatility_risk", True),
        ("近五年最深回落4.7%，没有碰到您10%的线。", "volatility_risk", False),
        ("近五年最深回落47%，今后也可能回落这么多。", "volatility_risk", True),
        ("到期的本息，平台可能付不出来。", "no_guaranteed_return", False),
        ("If the town runs short, your interest may not be paid.", "no_guaranteed_return", False),
        ("If the town runs short, your interest may not be paid.", "credit_risk", True),
        ("The dividend may not be paid.", "no_guaranteed_return", True),
        ("后面还能不能涨没有人敢打包票。", "no_guaranteed_return", False),
        ("后面还能不能涨没有人敢打包票。", "market_uncertainty", True),
        ("能不能赚钱没有人敢打包票。", "no_guaranteed_return", True),
        ("这条消息我不传，也劝您不要照着做。", "not_investment_advice", False),
        ("以上只是我的思路，请不要照着做。", "not_investment_advice", True),
        ("别家的怕利率上行，我们家这只百毒不侵。", "interest_rate_risk", False),
        ("这只长债基金怕利率上行，我们也不例外。", "interest_rate_risk", True),
        ("Whoever you are, this fund suits you.", "suitability_match", False),
        ("This fund suits your five-year horizon.", "suitability_match", True),
        ("您的申请结果还不确定。", "market_uncertainty", False),
        ("行情的结果还不确定。", "market_uncertainty", True),
        ("合同上写着不保本，但那是格式条款，实际保本。", "no_guaranteed_return", False),
        ("合同上写着不保本，请您留意。", "no_guaranteed_return", True),
        ("净值下跌的可能性不为零。", "volatility_risk", True),
    ],
)
def test_what_a_disclosure_is_about(text: str, tag: str, made: bool) -> None:
    assert (tag in read_content(text).risk_tags) is made
