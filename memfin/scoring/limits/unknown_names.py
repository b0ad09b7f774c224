"""Names of products that no list knows, told by the plan they stand in: 安诚双利16%, 甲22%、乙18%.

All offsets count in ``Analysis.norm``.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.patterns.expressions import compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.weight import Weight

_STEM: Final = late(r"[甲乙丙丁戊己a-e]")
_TARGET_DATE: Final = late(
    r"[\u4e00-\u9fff]{0,4}?(?:养老|退休|目标日期|生命周期)[\u4e00-\u9fff]{0,8}20[2-6]\d(?!年)[\u4e00-\u9fff()]{0,8}"
)
_PLANS: Final = late(r"方案|账户|组合[甲乙丙丁]|档|情形|方式|乙方|甲方|客户|类")
_FUNDS: Final = late(r"[只支]|基金|etf|公募")
_BRANDED: Final = (
    r"(?:混合|双利|双债|回报|优选|精选|添利|丰利|增利|添益|双息|价值成长|成长价值|灵活配置|平衡混合|稳健回报|"
    r"价值精选|fof|[一二三四五六七八九]号(?:[\u4e00-\u9fff]{0,4}(?:理财|计划|产品|专户))?|转债优选|"
    r"量化(?:精选|优选|增强)?|策略|升级|优势|睿选|臻选|领航|先锋|远见|增益|稳债|稳健|增强|成长|价值|收益)(?:债券|混合|股票)?(?:[a-e])?"
)
"""How the name of a fund ends, and the name of no class."""
_NAME: Final = late(r"[\u4e00-\u9fffa-z0-9()]{2,16}")
_BRAND: Final = late(rf"(?P<brand>[\u4e00-\u9fff]{{2,4}}?)(?P<kind>[\u4e00-\u9fff\da-z()]*?{_BRANDED})")
_TRAIL: Final = late(
    r"(?:占比?|约|(?<!灵活)(?<!均衡)(?<!资产)配置?|放|买|先买|先|给|拿|各|仓位|比例|:|为|[\s*(])*$"
)
_EDGE: Final = late(r"[:;,、。!?\n|*]|[-•·]|\d[.)](?!\d)|配(?!置)|买入?|放|^")
_OPENING: Final = late(
    r"(?:建议|可以|我会|我想|不妨|那么?|就|拿出?|用|把|将|再|先|你|我|给|从|家庭|总资产|资产|资金|全部|里|中|的)*"
)
_JOINT: Final = late(r"[和与及跟]")
_TAKEN: Final = late(
    r"(?:左右)?的?(?:资金|钱|仓位)?(?:来|去|用来|可以|就|全部?)?(?:买入?|放[进到入在]?|投[进到入向]?|配[置到给]?|申购|认购|交?给|换成)"
    r"(?P<whose>他的|她的|这位(?:经理)?的|该经理的)?(?P<name>[\u4e00-\u9fffa-z0-9()]{2,14}?)(?=[,、;。!?\n]|$|,|里|上)"
)
_PLAIN: Final = (
    "型|类|资产|部分|产品|基金|指数|联接|etf|主动|被动|海外|境外|国内|境内|国外|短期|中期|长期|高等级|低波动?|核心|卫星|行业|主题|"
    "信用|利率|地方|美国|香港|欧洲|日本|印度|全球|亚洲|新兴市场|优质|优秀|沪深|中证|上证|深证|科技|医药|医疗|消费|新能源|"
    "半导体|军工|银行|家庭|其他|其余|剩余|应急|教育|养老|备用|货币|商品|另类|二级|一级|中短|超短|绝对|灵活|平衡|均衡|偏股|偏债|"
    "普通|传统|大盘|中盘|小盘|龙头|蓝筹|成长|价值|周期|制造|能源|资源|有色|煤炭|地产|金融|券商|保险|农业|食品|饮料|白酒|家电|"
    "汽车|机械|化工|电力|公用事业|通信|电子|计算机|传媒|环保|军民|国防|北交所|科创|创业板|央企|国企|龙头|稳健|进取|保守|激进|"
    "积极|防守|进攻|量化|策略|增强|混合|债|股|金|权益|固收|现金|管理|存款|理财|定期|活期|大额|一年|两年|三年|五年|半年|同业|"
    "长线|短线|底仓|配置|组合|收益|股息|分红|对冲|套利|打新|增值|保本|保值|防御|弹性|回报|资金|每月|定投|分散|追求|兼顾|"
    "类似|相关|低估值?|高估值?|估值|优选|精选|升级|中小|理财|这[只款个]|那[只款个]|一只|它们?|两只|三只|几只|首选|"
    "合计|总共|总仓|仓位|单只|每只|日常|孩子|家里|自己|你的|他的|她的|我们|剩下|另外|其中|最后|首先|起步|目前|"
    "现有|原有|已有|可以|建议|考虑|适当|逐步|先买|再买|买入|加仓|补仓|减仓|保留|维持|控制"
)
_FEWEST: Final = 2


_SIGNS: Final = compile_pattern(
    rf"[甲乙丙丁戊己](?=\d|[一二两三四五六七八九])|20[2-6]\d(?!年)|{_BRANDED}|[的里]\S{{2,8}}(?:混合|fof)"
)
"""What shows that such a name may stand in the reply; looked for first."""


def may_be_named(analysis: Analysis) -> bool:
    """Say whether the reply may name such a product beside its weight."""
    return _SIGNS.search(analysis.norm) is not None or analysis.norm.count("%") > _FEWEST


def unknown_product(analysis: Analysis, group: Sequence[Weight], weight: Weight) -> bool:
    """Say whether what carries the weight is a product by its name and by the names beside it."""
    name, whose = _name_of(analysis, weight)
    if not name:
        return False
    if _TARGET_DATE.fullmatch(name):
        return True
    if _STEM.fullmatch(name):
        low, _ = analysis.sentence_span(weight.start)
        stems = [each for each in group if _STEM.fullmatch(_name_of(analysis, each)[0])]
        told = not name.isascii() or _FUNDS.search(analysis.norm, *analysis.sentence_span(low)) is not None
        return told and len(stems) >= _FEWEST and _PLANS.search(analysis.norm, low, weight.start) is None
    whole = f"某某{name}" if whose else name
    if whose or not _has_brand(name) or _BRAND.fullmatch(name):
        return (whose or _has_brand(name)) and _BRAND.fullmatch(whole) is not None
    others = [_name_of(analysis, each)[0] for each in group if each.start != weight.start]
    branded = list(filter(_has_brand, others))
    return len(branded) >= _FEWEST or any(map(_BRAND.fullmatch, branded))


def _name_of(analysis: Analysis, weight: Weight) -> tuple[str, bool]:
    """Return the bare name a weight is of, before it or behind it, and whether it is called somebody's."""
    norm = analysis.norm
    low, high = analysis.sentence_span(weight.start)
    trail = _TRAIL.search(norm, low, weight.start)
    end = trail.start() if trail else weight.start
    start = low
    for edge in _EDGE.finditer(norm, low, end):
        start = edge.end()
    name = norm[start:end].strip()
    if not _has_brand(name):
        name = _JOINT.split(name)[-1]
    if _STEM.fullmatch(name) or (_NAME.fullmatch(name) and not _OPENING.fullmatch(name)):
        return name, False
    taken = _TAKEN.match(norm, weight.end, high)
    return (taken["name"], taken["whose"] is not None) if taken else ("", False)


def _has_brand(name: str) -> bool:
    """Say whether something is left at the head of a name that no class and no plain word explains."""
    return _HEAD.match(name) is not None and not (_plain().match(name) or _plain().match(name, 1))


_HEAD: Final = late(r"[\u4e00-\u9fff]{3}")


_CHINESE: Final = late(r"[\u4e00-\u9fff]{2}")


@cache
def _plain() -> re.Pattern[str]:
    """Return a pattern of the words that classes and their plain attributes are made of."""
    words = {word for term in load_vocabulary().classes for word in term.words if _CHINESE.match(word)}
    longest = sorted(map(re.escape, words), key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(longest)}|{_PLAIN})")


def names_product(norm: str, low: int, high: int) -> str:
    """Return the name of an unknown product at the beginning of a stretch, or ""."""
    match = _SUBJECT.match(norm, low, high)
    if match is None:
        return ""
    name = match["name"]
    return name if "fof" in name or _has_brand(name) or _TARGET_DATE.match(name) else ""


_SUBJECT: Final = late(
    rf"(?:[^,。;:]{{0,6}}[:])?(?P<name>(?:[\u4e00-\u9fff]{{2,6}}{_BRANDED}|{_TARGET_DATE.pattern}))"
    r"(?=先|已|目前|现在|首|起|从|占|建|放|买|配)"
)


def names_another(norm: str, low: int, high: int, subject: str) -> bool:
    """Say whether a stretch names an unknown product that is not the subject."""
    return any(
        subject not in match.group() and match.group() not in subject
        for match in _OWN_NAME.finditer(norm, low, high)
    )


_OWN_NAME: Final = late(rf"[\u4e00-\u9fff]{{2}}{_BRANDED}")
