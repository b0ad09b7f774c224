"""The classes of assets that a constraint may cap or ask for, by the words that name them."""

import re
from typing import Final

CAP_CLASSES: Final = (
    (
        "government_bond",
        re.compile(r"国债|政金债|利率债|(?<![a-z])gov(?:ernment|t|ie)s?\b|treasur|\bgilts?\b|sovereign"),
    ),
    ("convertible", re.compile(r"转债|convertible")),
    ("low_rated", re.compile(r"低评级|低等级|高收益债|垃圾债|下沉|high[- ]yield|\bjunk\b")),
    ("credit", re.compile(r"信用债|企业债|公司债|城投|corporate|\bcredits?\b")),
    ("hong_kong", re.compile(r"港股|恒生|hong kong")),
    ("america", re.compile(r"美股|纳指|标普|\b(?:us|american) (?:stocks|equit)")),
    ("emerging", re.compile(r"新兴市场|emerging")),
    ("reits", re.compile(r"reits?(?![a-z])|real estate trusts?")),
    ("crypto", re.compile(r"crypto|加密|比特币|虚拟货币|bitcoin")),
    ("commodity", re.compile(r"商品|commodit|原油")),
    ("private", re.compile(r"私募|\bprivate (?:equity|funds?|assets)")),
    ("small_cap", re.compile(r"小盘|微盘|small[- ]caps?")),
    (
        "technology",
        re.compile(
            r"科技股|科技(?:类|主题|板块)?(?=[^,;]{0,4}(?:合计|总|占|不|最|上限|控制))|\btech(?:nology)?\b"
        ),
    ),
    (
        "health_care",
        re.compile(
            r"医药股|医药(?=[^,;板块]{0,2}(?:合计|总|占|不|最|上限))|\bhealth ?care\b|\bpharma\b|\bbiotech\b"
        ),
    ),
    ("financial", re.compile(r"银行股|金融股|券商股|\bfinancials\b|\bbanks\b")),
    ("dividend", re.compile(r"红利|高股息|\bdividend")),
    ("sector", re.compile(r"行业|板块|赛道|sector|industry")),
    ("overseas", re.compile(r"海外|境外|港股|美股|qdii|跨境|overseas|foreign|international|offshore")),
    ("risk", re.compile(r"风险资产|高风险(?:资产|产品|品种|类)|\brisk(?:y)? assets\b|\bhigh-risk\b")),
    ("other", re.compile(r"商品|另类|私募|信托|非标|reits?(?![a-z])|commodit|alternativ|crypto|加密|比特币")),
    (
        "equity",
        re.compile(
            r"权益|股票|偏股|股市|股类|炒股|个股|混合基金|含权|仓位|\bequit(?:y|ies)\b|"
            r"\bstocks?\b|\bshares\b"
        ),
    ),
    ("domestic", re.compile(r"a股|国内|境内|内地|\bdomestic\b|\bhome market\b")),
    ("bond", re.compile(r"债|固收|\bbonds?\b|fixed income")),
    ("gold", re.compile(r"黄金|贵金属|\bgold\b|precious")),
    ("cash", re.compile(r"现金|货币|\bcash\b")),
)

_ANY_SECTOR: Final = re.compile(
    r"单[一个只]|每|任[一何]|[同某一](?:一?个)?(?:行业|板块|赛道)|\b(?:single|any|each|per|one)\b"
)


def capped_class(name: str, norm: str) -> str:
    """Return the class that a cap is held against: sectors together, one sector, or a class."""
    if name == "sector" and not _ANY_SECTOR.search(norm):
        return "sectors"
    return "bond" if name == "government_bond" else name
