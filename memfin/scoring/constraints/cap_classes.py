"""The classes of assets that a constraint may cap or ask for, by the words that name them."""

from typing import Final

from memfin.scoring.patterns.expressions import late

CAP_CLASSES: Final = (
    (
        "government_bond",
        late(r"国债|政金债|利率债|(?<![a-z])gov(?:ernment|t|ie)s?\b|treasur|\bgilts?\b|sovereign"),
    ),
    ("convertible", late(r"转债|convertible")),
    ("low_rated", late(r"低评级|低等级|高收益债|垃圾债|下沉|high[- ]yield|\bjunk\b")),
    ("credit", late(r"信用债|企业债|公司债|城投|corporate|\bcredits?\b")),
    ("hong_kong", late(r"港股|恒生|hong kong")),
    ("america", late(r"美股|纳指|标普|\b(?:us|american) (?:stocks|equit)")),
    ("emerging", late(r"新兴市场|emerging")),
    ("reits", late(r"reits?(?![a-z])|real estate trusts?")),
    ("crypto", late(r"crypto|加密|比特币|虚拟货币|bitcoin")),
    ("commodity", late(r"商品|commodit|原油")),
    ("private", late(r"私募|\bprivate (?:equity|funds?|assets)")),
    ("small_cap", late(r"小盘|微盘|small[- ]caps?")),
    (
        "technology",
        late(r"科技股|科技(?:类|主题|板块)?(?=[^,;]{0,4}(?:合计|总|占|不|最|上限|控制))|\btech(?:nology)?\b"),
    ),
    (
        "health_care",
        late(
            r"医药股|医药(?=[^,;板块]{0,2}(?:合计|总|占|不|最|上限))|\bhealth ?care\b|\bpharma\b|\bbiotech\b"
        ),
    ),
    ("financial", late(r"银行股|金融股|券商股|\bfinancials\b|\bbanks\b")),
    ("dividend", late(r"红利|高股息|\bdividend")),
    ("sector", late(r"行业|板块|赛道|sector|industry")),
    (
        "foreign_currency",
        late(r"外币|外汇|美元|港元|港币|欧元|日元|foreign[- ]currenc|\b(?:dollar|euro|yen) assets?\b"),
    ),
    ("overseas", late(r"海外|境外|港股|美股|qdii|跨境|overseas|foreign|international|offshore")),
    ("risk", late(r"风险资产|高风险(?:资产|产品|品种|类)|\brisk(?:y)? assets\b|\bhigh-risk\b")),
    ("other", late(r"商品|另类|私募|信托|非标|reits?(?![a-z])|commodit|alternativ|crypto|加密|比特币")),
    (
        "equity",
        late(
            r"权益|股票|偏股|股市|股类|炒股|个股|混合基金|含权|仓位|\bequit(?:y|ies)\b|"
            r"\bstocks?\b|\bshares\b|\b(?:share|stock|equity)[- ](?:market|type|like)\b"
        ),
    ),
    ("domestic", late(r"a股|国内|境内|内地|\bdomestic\b|\bhome market\b")),
    ("bond", late(r"债|固收|\bbonds?\b|fixed income")),
    ("gold", late(r"黄金|贵金属|\bgold\b|precious")),
    ("cash", late(r"现金|货币|货币基金|余额宝|\bcash\b")),
)

_ANY_SECTOR: Final = late(
    r"单[一个只]|每|任[一何]|[同某一](?:一?个)?(?:行业|板块|赛道)|\b(?:single|any|each|per|one)\b"
)


def capped_class(name: str, norm: str) -> str:
    """Return the class that a cap is held against: sectors together, one sector, or a class."""
    if name == "sector" and not _ANY_SECTOR.search(norm):
        return "sectors"
    return "bond" if name == "government_bond" else name
