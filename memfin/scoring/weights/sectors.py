"""Sectors: which weights bet on one and the same line of business, under whatever name.

半导体设计12%、半导体设备10%、存储芯片6% are 28 % in chips.
"""

import re
from collections.abc import Sequence
from typing import Final

from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.parts import is_part
from memfin.scoring.weights.weight import Weight

_THEMES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"半导体|芯片|晶圆|集成电路|存储|封测|光刻|算力|gpu|\b(?:chips?|semi(?:conductor)?s?|memory|foundr)",
        (
            r"光伏|逆变器|储能|锂电|电池|风电|新能源|硅料|组件|氢能|充电桩|\b(?:solar|wind|batter|"
            r"clean energy|renewable)"
        ),
        (
            r"医药|医疗|创新药|中药|生物药|器械|疫苗|cxo|医院|\b(?:health ?care|biotech|pharma|medical|"
            r"hospital|drug)"
        ),
        r"银行|证券|券商|保险|金融|\b(?:banks?\b|insur|brokers?\b|financials?\b)",
        r"白酒|食品|饮料|啤酒|乳业|调味|家电|消费|\b(?:consumer|staples|food|beverage|retail)",
        r"房地产|地产|物业|建材|\b(?:real estate|property|homebuild)",
        r"军工|航空|航天|船舶|\b(?:defen[cs]e|aerospace)",
        r"石油|煤炭|天然气|油气|\b(?:oil|gas\b|coal|energy\b)",
        r"有色|铜|铝|稀土|黄金股|钢铁|\b(?:mining|miners|metals|copper|steel)",
        (
            r"软件|互联网|云计算|人工智能|机器人|游戏|传媒|科技|通信|\b(?:software|internet|cloud|tech\w*|"
            r"ai\b|robot|gaming)"
        ),
        r"电力|水电|公用事业|高速公路|港口|\b(?:utilit|power|toll|ports?\b)",
        r"汽车|整车|零部件|智能驾驶|\b(?:auto\w*|cars?\b|carmaker|ev\b)",
        r"养殖|种业|农业|猪|\b(?:agricult|farm)",
    )
)
_SECTORS: Final = late(
    r"[两二三四五六七八九\d]个(?:行业|板块|主题|赛道)|\b(?:two|three|four|five|"
    r"six) sectors\b"
)
_SECTOR: Final = late(r"行业|板块|主题|赛道|\bsector\b")


def sector_cap(
    analysis: Analysis, plans: Sequence[Sequence[Weight]], limit: float, *, together: bool = False
) -> tuple[int, int] | None:
    """Return the weights of one sector, or of all ``together``, that exceed the limit."""
    for plan in plans:
        targets = [
            weight
            for weight in plan
            if weight.role == "target" and weight.asset_class not in ("cash", "bond")
        ]
        for weight in targets:
            if weight.high > limit and _SECTOR.search(weight.label) and not is_part(analysis, [weight]):
                return weight.start, weight.end
        if together:
            own = [w for w in targets if any(theme.search(w.label) for theme in (_SECTOR, *_THEMES))]
            if sum(w.low * w.holdings for w in own) > limit and not is_part(analysis, own):
                return own[0].start, own[-1].end
        for theme in _THEMES:
            own = [weight for weight in targets if theme.search(weight.label)]
            if own and sum(map(_of_one_sector, own)) > limit and not is_part(analysis, own):
                return own[0].start, own[-1].end
    return None


def _of_one_sector(weight: Weight) -> float:
    """Return what a weight puts into one sector: 消费、医药、银行各20% gives each of them its own."""
    named = sum(theme.search(weight.label) is not None for theme in _THEMES)
    several = named > 1 or _SECTORS.search(weight.label) is not None
    return weight.low if several else weight.low * weight.holdings
