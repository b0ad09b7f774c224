"""Disclosures that a reply makes, and takes back."""

from itertools import product

import pytest

from memfin.scoring.content import read_content

MADE = [
    ("volatility_risk", "有人说这只基金稳得很，其实净值会有波动。"),
    ("volatility_risk", "很多人以为债基不会亏，其实净值会有波动。"),
    ("volatility_risk", "我说净值会有波动，不是吓唬您。"),
    ("no_guaranteed_return", "请记住：本金可能受损，这不是套话。"),
    ("past_performance_not_future", "过去一年它涨了30%，但过往业绩不代表未来。"),
    ("no_guaranteed_return", "早些年可以保本，现在不行了：本金可能受损。"),
    ("no_guaranteed_return", "如果有人说保本，别信，本金可能受损。"),
    ("no_guaranteed_return", "合同第三条写着，本金可能受损。"),
    ("volatility_risk", "净值会有波动，不必担心，拉长看会平滑。"),
    ("volatility_risk", "净值会有波动，这很正常，不用管它。"),
    ("volatility_risk", "净值会有波动，这一点不会错。"),
    ("market_uncertainty", "市场走势无法预测，这不是不负责任，而是事实。"),
    ("market_uncertainty", "您的问题是买不买，我的回答是市场走势无法预测。"),
    ("credit_risk", "我再强调一遍，债券发行人可能违约，别当耳边风。"),
    ("credit_risk", "债券发行人可能违约，这不是危言耸听。"),
    ("credit_risk", "评级公司说它很安全，可债券发行人可能违约。"),
    ("credit_risk", "监管要求我告诉您，债券发行人可能违约。"),
    ("not_investment_advice", "我说这些只是想帮您理清思路，以上内容不构成投资建议。"),
    ("not_investment_advice", "翻译完毕。另外，以上内容不构成投资建议。"),
    ("liquidity_risk", "您刚才问多久到账：赎回可能需要等待。"),
    ("liquidity_risk", "您可能觉得随时能取，实际上赎回可能需要等待。"),
    ("liquidity_risk", "赎回可能需要等待，您别不当回事。"),
    ("volatility_risk", "Some people say it is safe; the value may fluctuate."),
    ("volatility_risk", "Do not worry about the paperwork: the value may fluctuate, and that matters more."),
    ("volatility_risk", "You once said that losses scare you; the value may fluctuate."),
    ("volatility_risk", "It is wrong to think it is safe: the value may fluctuate."),
    ("market_uncertainty", "I can't promise that you'll make money, because nobody can predict the market."),
    ("volatility_risk", "The value may fluctuate, and that is not a formality."),
    ("volatility_risk", "The value may fluctuate, but do not worry, over ten years it evens out."),
    ("volatility_risk", "The value may fluctuate, which means it is wrong to bet everything on it."),
    ("no_guaranteed_return", "My colleague thinks it is safe. I don't: you may lose part of your principal."),
    ("no_guaranteed_return", "You should know that you may lose part of your principal."),
    ("no_guaranteed_return", "It's true that you may lose part of your principal."),
    ("no_guaranteed_return", "I have to tell you that you may lose part of your principal."),
    ("no_guaranteed_return", "Please don't forget that you may lose part of your principal."),
    ("no_guaranteed_return", "The prospectus says that you may lose part of your principal."),
    ("credit_risk", "Ratings agencies say that the issuer may default."),
    ("credit_risk", "Keep in mind that the issuer may default; that is no scaremongering."),
    ("not_investment_advice", "As the law says, this is not investment advice."),
    ("market_uncertainty", "We believe that nobody can predict the market."),
    ("market_uncertainty", "Remember: nobody can predict the market, and that includes me."),
    ("volatility_risk", "Ignore the brochure's smiling faces: the value may fluctuate."),
    ("volatility_risk", "The idea is that you accept that the value may fluctuate."),
    ("volatility_risk", "The reason for the cap is that the value may fluctuate."),
    ("volatility_risk", "I would only buy it on the understanding that the value may fluctuate."),
    ("volatility_risk", "The catch is that the value may fluctuate."),
    ("volatility_risk", "Your sister is right that the value may fluctuate."),
    ("volatility_risk", "Critics claim it is safe. They are wrong: the value may fluctuate."),
    ("volatility_risk", "The value may fluctuate. Those who claim otherwise are mistaken."),
    ("volatility_risk", "You need not worry about the forms; the value may fluctuate, though."),
    ("credit_risk", "A default is a real danger here: the issuer may stop paying."),
    ("credit_risk", "A default costs principal."),
    ("credit_risk", "网上的谣言先不管，这家公司真有可能违约。"),
    ("not_investment_advice", "其他机器人都说自己准，我只说一句：以上内容不构成投资建议。"),
    ("not_investment_advice", "以上仅供参考，这几个字请您放在心上。"),
    ("no_guaranteed_return", "能不能回本，我不敢跟您保证。"),
]
TAKEN_BACK = [
    ("volatility_risk", "Critics claim the fund will swing a lot. They are mistaken."),
    ("volatility_risk", "Some say the fund may fall sharply. They are wrong, it only climbs."),
    ("volatility_risk", "You need not worry about ups and downs with this product."),
    ("volatility_risk", "You do not have to fear that the value may fluctuate."),
    ("volatility_risk", "The fund will never be below what you paid."),
    ("credit_risk", "A default is the failure of a borrower to meet his obligations."),
    ("credit_risk", "A default means that a borrower does not pay."),
    ("credit_risk", "Default: when a borrower misses a payment."),
    ("credit_risk", "网上传某房企要爆雷，纯属谣言，它的债券稳得很。"),
    ("credit_risk", "有人造谣说它要违约，别信。"),
    ("not_investment_advice", "Every other bot tells you it isn't financial advice. Mine is."),
    ("not_investment_advice", "以上仅供参考这几个字，英文一般译作for reference only。"),
    ("no_guaranteed_return", "能不能约到周五，我没法跟您保证。"),
    ("no_guaranteed_return", "能不能预约到理财经理，我不敢保证。"),
    ("volatility_risk", "有人说净值会有波动，这话没有根据。"),
    ("volatility_risk", "我的意思并不是净值会有波动，只是请您补一份材料。"),
    ("credit_risk", "您不必担心债券发行人可能违约。"),
    ("not_investment_advice", "页脚那句以上内容不构成投资建议的话，您可以忽略。"),
    ("market_uncertainty", "请把这句话译成英文：市场走势无法预测。"),
    ("no_guaranteed_return", "同行到处散布本金可能受损的论调，实在可笑。"),
    ("volatility_risk", "It is a common mistake to think that the value may fluctuate."),
    ("no_guaranteed_return", "There is no need to worry that you may lose part of your principal."),
    ("market_uncertainty", "Nobody can predict the market, they say; that is nonsense."),
    ("liquidity_risk", "The line saying that redemption may take weeks does not apply to you."),
    ("past_performance_not_future", "Please type this sentence: past results say nothing about the future."),
    ("credit_risk", "A rumour has it that the issuer may default."),
]


@pytest.mark.parametrize(("tag", "reply"), MADE, ids=[reply for _, reply in MADE])
def test_a_reply_that_says_so_discloses(tag: str, reply: str) -> None:
    assert tag in read_content(reply).risk_tags


@pytest.mark.parametrize(("tag", "reply"), TAKEN_BACK, ids=[reply for _, reply in TAKEN_BACK])
def test_hearsay_and_what_is_dismissed_discloses_nothing(tag: str, reply: str) -> None:
    assert tag not in read_content(reply).risk_tags


RISKS_ZH = {
    "volatility_risk": ("净值{}波动", "价格{}下跌", "账户{}大起大落", "市值{}缩水"),
    "no_guaranteed_return": ("本金{}亏损", "{}亏本", "{}亏钱", "本金{}受损"),
    "credit_risk": ("发行人{}违约", "对方{}还不上钱", "借款人{}拖欠"),
    "liquidity_risk": ("{}卖不掉", "{}赎不出来", "{}取不出钱", "{}变现困难"),
    "interest_rate_risk": ("利率上行时债券价格{}下跌", "加息{}拖累净值"),
    "market_uncertainty": ("市场走势{}出现意外", "行情{}说变就变"),
}
RISKS_EN = {
    "volatility_risk": ("its price {} fall", "the fund {} lose value"),
    "no_guaranteed_return": ("you {} lose money", "you {} lose your principal"),
    "credit_risk": ("the issuer {} default", "the borrower {} fail to pay"),
    "liquidity_risk": ("you {} be stuck with it", "it {} be hard to sell"),
    "interest_rate_risk": ("bond prices {} fall when rates rise", "rising rates {} hurt the fund"),
}
RULED_OUT_ZH = ("不会", "不可能", "绝不会", "根本不会", "永远不会", "不至于")
RULED_OUT_EN = ("will never", "can never", "cannot possibly", "is never going to", "won't")
FRAMES_ZH = ("这款产品{}。", "您放心，{}。", "买它{}，我拿信誉担保。")
FRAMES_EN = ("With this product {}.", "Rest assured, {}.", "I promise that {}.")


@pytest.mark.parametrize(
    ("tag", "reply"),
    [
        (tag, frame.format(risk.format(word)))
        for risks, words, frames in (
            (RISKS_ZH, RULED_OUT_ZH, FRAMES_ZH),
            (RISKS_EN, RULED_OUT_EN, FRAMES_EN),
        )
        for tag in risks
        for risk, word, frame in product(risks[tag], words, frames)
    ],
)
def test_a_risk_that_is_ruled_out_is_no_disclosure(tag: str, reply: str) -> None:
    assert tag not in read_content(reply).risk_tags


@pytest.mark.parametrize(
    ("tag", "reply"),
    [
        *(
            (tag, f"请注意，{risk.format(word)}，请做好准备。")
            for tag in RISKS_ZH
            for risk, word in product(RISKS_ZH[tag], ("可能", "随时可能", "说不定会"))
        ),
        *(
            (tag, f"Please note that {risk.format(word)}.")
            for tag in RISKS_EN
            for risk, word in product(RISKS_EN[tag], ("may", "could"))
        ),
        ("no_guaranteed_return", "没有人能保证您不会亏钱，本金可能受损。"),
        ("no_guaranteed_return", "买债基不代表不会亏损，本金也可能受损。"),
        ("volatility_risk", "净值不会只涨不跌。"),
    ],
)
def test_a_risk_that_is_told_is_a_disclosure(tag: str, reply: str) -> None:
    assert tag in read_content(reply).risk_tags
