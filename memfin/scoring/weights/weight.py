"""The words of asset classes in a reply, and the shares of the money that it puts where."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from memfin.scoring.patterns.expressions import late
from memfin.scoring.weights.roles import Role


class Label(NamedTuple):
    """A word of an asset class in the reply."""

    asset_class: str
    start: int
    end: int


class Weight(NamedTuple):
    """One share of the money.

    ``role`` tells a proposed weight from one that is held today, added to what is held, a step of a
    reduction, or the sum of others. ``group`` numbers the allocation it belongs to. ``each`` marks a
    weight that every one of ``holdings`` holdings has. ``low`` and ``high`` are fractions of the whole.
    """

    asset_class: str | None
    low: float
    high: float
    start: int
    end: int
    label: str
    role: Role
    group: int
    each: bool
    holdings: int = 1


_NARROW: Final[Mapping[str, re.Pattern[str]]] = {
    name: late(pattern)
    for name, pattern in (
        ("government_bond", r"国债|政金|利率债|政府债|国开|\bgov|treasur|gilt|sovereign"),
        ("convertible", r"转债|convertible"),
        ("low_rated", r"低评级|低等级|高收益债|垃圾债|下沉|弱资质|high[- ]yield|\bjunk\b"),
        ("credit", r"信用债?|企业债|公司债|城投|产业债|中票|短融|corporate|\bcredit\b|high[- ]yield"),
        (
            "overseas",
            (
                r"海外|境外|港股|恒生|h股|中概|美[股债]|纳指|纳斯达克|标普|道琼|日经|日股|德国|法国|欧洲|"
                r"印度|越南|"
                r"qdii|跨境|全球|新兴市场|\b(?:overseas|foreign|international|global|world|us|u\.s\.|"
                r"nasdaq|s&p|"
                r"emerging|europe\w*|japan\w*|china|indian?)\b"
            ),
        ),
        (
            "foreign_currency",
            (
                r"外币|外汇|美元|港元|港币|欧元|日元|英镑|qdii|\b(?:foreign[- ]currency|dollars?|euros?|yen|"
                r"sterling|usd|eur|jpy)\b"
            ),
        ),
        ("hong_kong", r"港股|恒生|h股|\bhong kong|hang seng"),
        ("america", r"美股|纳指|纳斯达克|标普|道琼|\b(?:us|u\.s\.|nasdaq|s&p)\b"),
        ("emerging", r"新兴市场|印度|越南|\bemerging|\bindian?\b"),
        ("reits", r"reits?(?![a-z])|real estate"),
        ("crypto", r"加密|比特币|虚拟货币|以太|crypto|bitcoin|ethereum"),
        ("commodity", r"商品|原油|豆粕|铜|commodit|\boil\b"),
        ("private", r"私募|\bprivate\b"),
        (
            "technology",
            (
                r"科技|半导体|芯片|算力|软件|互联网|人工智能|机器人|云计算|通信|科创|纳斯达克|纳指|"
                r"\b(?:tech\w*|chips?|semi\w*|"
                r"software|ai|nasdaq|qqq)\b"
            ),
        ),
        ("health_care", (r"医药|医疗|创新药|中药|生物|cxo|\b(?:health ?care|pharma\w*|biotech|medical)\b")),
        (
            "financial",
            (
                r"银行股|银行etf|银行指数|银行主题|金融股|金融地产|券商|证券etf|保险股|\b(?:banks?|insurers?|"
                r"financials?) (?:stocks?|etf|shares)|\bfinancials\b"
            ),
        ),
        ("dividend", r"红利|股息|\bdividend"),
        (
            "domestic",
            (
                r"a股|a50\d?|国内|境内|内地|沪深|中证|上证|深证|创业板|科创|双创|宽基|\b(?:domestic|csi|"
                r"a-shares?)\b"
            ),
        ),
        (
            "risk",
            (
                r"转债|reits?(?![a-z])|比特币|加密|商品|原油|高收益债|垃圾债|低评级|私募|r[45](?!\d)|"
                r"\b(?:crypto|bitcoin|commodit\w*|"
                r"high[- ]yield bonds?|junk|convertibles?)\b"
            ),
        ),
        ("small_cap", r"小盘|微盘|中证[12]000|国证2000|small[- ]caps?"),
    )
}
"""What a label says of a class that is narrower than, or lies across, the classes of the vocabulary."""


def is_narrow(asset_class: str) -> bool:
    """Say whether a class is told by the words of labels and not by the vocabulary's classes."""
    return asset_class in _NARROW


def belongs(weight: Weight, asset_class: str) -> bool:
    """Say whether a weight is one of the class."""
    narrow = _NARROW.get(asset_class)
    if asset_class == "risk" and weight.asset_class in ("equity", "gold"):
        return True
    return weight.asset_class == asset_class if narrow is None else narrow.search(weight.label) is not None
