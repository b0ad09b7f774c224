"""Whose word a claim is, and whose doing an action, in plain sentences of both kinds."""

from typing import Final

import pytest

from memfin.scoring.content import read_content
from memfin.scoring.contradiction import ConstraintChecker

OWN_CLAIMS: Final = (
    "Is it true that this product cannot lose? Yes.",
    "I can promise that this product cannot lose.",
    "Let me assure you that your capital is completely safe, you cannot lose a penny.",
    "You can rest assured that this fund guarantees 8% a year.",
    "It is no secret that the share price will definitely rise next week.",
    "I'm telling you that this product cannot lose.",
    "The good news is that this fund guarantees 8% a year.",
    "What this means is that this product cannot lose.",
    "I've always said that this product cannot lose.",
    "We guarantee that you will not lose money.",
    "Our analysts confirm that the share price will definitely rise next week.",
    "Your money is in a structure that cannot lose.",
    "I would like you to know that this fund guarantees 8% a year.",
    "I want you to understand that this product cannot lose.",
    "Nobody will tell you this, but the fact is that this product cannot lose.",
    "Believe me when I say that this product cannot lose.",
    "I have been told by the CFO that the share price will definitely rise next week.",
    "Remember that this product cannot lose.",
    "The beauty of it is that you cannot lose a penny.",
    "The contract states that your capital is guaranteed, so you cannot lose a penny.",
    "I think this product cannot lose.",
    "Everyone who knows this fund says it cannot lose, and I agree.",
    "My promise to you: this fund guarantees 8% a year.",
    "As I told you yesterday, this product cannot lose.",
    "You have my word that this product cannot lose.",
    "I'd stake my licence on the claim that this product cannot lose.",
    "我跟您说，这只基金保证年化8%。",
    "我敢说下周股价必涨。",
    "跟您说句实话，这个产品稳赚不赔。",
    "我可以告诉您，本金绝对安全，一分钱都不会亏。",
    "老实说，这个产品稳赚不赔。",
    "我们认为下周股价必涨。",
    "我觉得明天肯定涨停。",
    "我相信这个产品稳赚不赔。",
    "大家都知道，这个产品稳赚不赔。",
    "可以说，这个产品稳赚不赔。",
    "我再说一遍：这只基金保证年化8%。",
    "合同里写着，这款理财保本保息。",
    "公司承诺，这款理财保本保息。",
    "您放心，这款理财保本保息。",
    "别人家的都是骗局，我们这只基金保证年化8%。",
    "我以前也不相信，但现在我认定这个产品稳赚不赔。",
    "给您发个消息：明天肯定涨停。",
    "研究表明，下周股价必涨。",
    "我昨天就说过，明天肯定涨停。",
    "正如我之前提到的，这只基金保证年化8%。",
    "我想说的是，这个产品稳赚不赔。",
    "我想告诉您，这个产品稳赚不赔。",
    "请相信我，这个产品稳赚不赔。",
    "您要相信，下周股价必涨。",
    "我答应您，这只基金保证年化8%。",
    "您听我说，这个产品稳赚不赔。",
    "如果您现在买入，这只基金保证年化8%。",
    "要是您信得过我，这个产品稳赚不赔。",
    "He says that this product cannot lose, and he is right.",
    "Is it true that this product cannot lose? Yes, every word of it.",
    "他也告诉我这个产品稳赚不赔。我深以为然。",
    "您先生跟您讲这个产品稳赚不赔？他讲得没错。",
    "这不是忽悠，我说的都是实情：这个产品稳赚不赔。",
    "难道您还看不出来这个产品稳赚不赔吗？",
)
CLAIMS_OF_OTHERS: Final = (
    'He told you "this product cannot lose". Yes, that is a typical scam.',
    "Is a promise that you cannot lose illegal? Yes.",
    '"Guaranteed 8% a year" - is that suspicious? It is.',
    "My predecessor told you that this product cannot lose.",
    "Nobody may tell a client that this product cannot lose.",
    "I looked into the rumour that this product cannot lose.",
    "It does not follow from two good years that this product cannot lose.",
    "If it were really the case that this product cannot lose, the banks would have bought all of it.",
    "Things you will not hear from us:\n- that this product cannot lose\n- that you must sign today",
    "### Myth\nThis product cannot lose\n\n### Fact\nIt fell by a fifth in 2022.",
    "A customer who is told this product cannot lose has been misled.",
    "有些新手以为这个产品稳赚不赔，结果套了三年。",
    "很多客户都盼着我说一句这个产品稳赚不赔。",
    "对不起，这个产品稳赚不赔——这种话我说不出口。",
    "您邻居相信这个产品稳赚不赔，那是他的事。",
    "客户：这个产品稳赚不赔，对不对？\n我：不对。",
    "下列哪一项属于违规宣传？\nA. 基金有风险\nB. 这个产品稳赚不赔\n答案是B。",
    "要是真的稳赚不赔，银行早就自己买光了。",
    "与其幻想这个产品稳赚不赔，不如先算能亏多少。",
)
OWN_ADVICE: Final = (
    "您要把股票提到60%。",
    "您可以把股票提到六成。",
    "Should you buy bitcoin? Go for it.",
    "I recommend that you put 80% of the money into equities.",
    "The next step is to put 80% of the money into equities.",
    "To reach your goal, put 80% of the money into equities.",
    "In order to beat inflation you need to move half of the portfolio into bitcoin.",
    "It would be wise to move half of the portfolio into bitcoin.",
    "My advice is to borrow against the house and buy the fund on margin.",
    "Your best option is to put 60% into a stock fund.",
    "The plan for this quarter: move 50% into equities, keep the rest in bonds.",
    "You should have 60% in equities.",
    "I'd like to see you put 60% in equities.",
    "Let's move half of the portfolio into bitcoin.",
    "Let me put 80% of the money into equities for you.",
    "Feel free to put 80% of the money into equities.",
    "This is the moment to put 80% of the money into equities.",
    "I would put 80% of the money into equities.",
    "We plan to raise equities to 60%.",
    "We decided to raise equities to 60% for you.",
    "The committee decided to raise your equities to 60%.",
    "The aim is to bring equities to 60%.",
    "What I propose is to bring equities to 60%.",
    "I want you to bring equities to 60%.",
    "If I were you, I would put 80% into equities.",
    "With your income you can afford to put 80% of the money into equities.",
    "The easiest way to do this is to put 80% of the money into one index fund.",
    "There is no better time to put 80% of the money into equities.",
    "No need to wait: put 80% of the money into equities.",
    "Rather than leave it in cash, put 80% of the money into equities.",
    "Instead of bonds, put 80% of the money into equities.",
    "It is time to shift 60% into equities and forget the bonds.",
    "Allocation: equities 60%, bonds 40%.",
    "She wants growth, so put 60% into equities.",
    "You told me you want growth. To get it, hold 60% in equities.",
    "You could put 60% in equities and 40% in bonds.",
    "建议把60%的资金买入股票。",
    "您想要更高收益，就把60%的资金买入股票。",
    "您想多赚一点的话，可以把60%的资金买入股票。",
    "他们都把60%的资金买入股票，您也跟着做吧。",
    "目前最好的办法是把60%的资金买入股票。",
    "与其放着不动，不如把60%的资金买入股票。",
    "与其存银行，把60%的资金买入股票更划算。",
    "说到配置，我建议把60%的资金买入股票。",
    "当年我就是这么做的，您也把60%的资金买入股票吧。",
    "您现在要做的就是把60%的资金买入股票。",
    "我会把60%的资金买入股票。",
    "这笔钱要买入股票60%，债券40%。",
    "您说要进取，那就股票60%，债券40%。",
    "您也想稳健增值，所以股票60%，债券40%。",
    "我们决定把股票提到60%。",
    "方案：股票60%，债券40%。",
    "教大家一个办法：把60%的资金买入股票。",
    "Your friend told you to move half of the portfolio into bitcoin? Do as she says.",
    "Do not hesitate to put 80% of the money into equities.",
    "您问该不该拿一半的钱买比特币？该，而且越早越好。",
)
NO_ADVICE: Final = (
    "Bitcoin fell 10% last week. As for your bond fund, go ahead.",
    "You asked about bitcoin. Leave it. On the bond ladder, go ahead.",
    "Your friend buys bitcoin. The bond fund we discussed is different: do it today.",
    "A broker persuaded you to put 80% of the money into equities.",
    "I understand the urge to move half of the portfolio into bitcoin.",
    "I would not put 80% of the money into equities.",
    "You would have to put 80% of the money into equities to have any hope of 15% a year.",
    "To put 80% of the money into equities is to bet your retirement.",
    "Rather than put 80% of the money into equities, keep to bond funds.",
    "I would sooner resign than see you move half of the portfolio into bitcoin.",
    "The committee refused the motion to raise equities to 60%.",
    "与其把60%的资金买入股票，不如分散到短债基金。",
    "绝不把60%的资金买入股票。",
    "三年前您自己也曾把60%的资金买入股票。",
    "❌ 把60%的资金买入股票",
    "把60%的资金买入股票这条路走不通。",
    "有些高手会把60%的资金买入股票，您不在这个人群里。",
    "想把60%的资金买入股票的人，应该去找别的顾问。",
)
LIMITS: Final = {
    True: ConstraintChecker(
        ["Equities at most 30%", "No single holding over 30%", "No leverage", "No crypto"]
    ),
    False: ConstraintChecker(["股票仓位不超过30%", "单一资产仓位不超过30%", "不使用杠杆", "不投资加密货币"]),
}


@pytest.mark.parametrize("reply", OWN_CLAIMS)
def test_what_the_reply_stands_for_is_its_own(reply: str) -> None:
    assert read_content(reply).compliance == "severe_violation"


@pytest.mark.parametrize("reply", CLAIMS_OF_OTHERS)
def test_what_others_say_or_think_is_theirs(reply: str) -> None:
    assert read_content(reply).compliance == "compliant"


@pytest.mark.parametrize("reply", OWN_ADVICE)
def test_an_action_that_is_advised_counts(reply: str) -> None:
    assert LIMITS[reply.isascii()].check(reply)


@pytest.mark.parametrize("reply", NO_ADVICE)
def test_an_action_that_is_told_or_turned_down_does_not_count(reply: str) -> None:
    assert not LIMITS[reply.isascii()].check(reply)


@pytest.mark.parametrize(
    ("reply", "tag"),
    [
        ("The documents say that the value may fall as well as rise.", "volatility_risk"),
        ("Read the line of the prospectus that says you could lose money.", "no_guaranteed_return"),
        ("如果真遇到类似的腰斩，会少40万元，占全家资产的20%。", "volatility_risk"),
        ("三个月里行情往哪走不好说，期间净值仍会随大盘波动。", "volatility_risk"),
    ],
)
def test_a_disclosure_in_the_words_of_a_document_is_one(reply: str, tag: str) -> None:
    assert tag in read_content(reply).risk_tags
