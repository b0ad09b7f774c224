"""What is bought of one holding or one class step by step: 已有15%,再分两次各加10个百分点.

Every function returns the half-open span (in ``Analysis.norm``) of the last step, or None.
"""

import re
from typing import Final

from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import QUESTION_END, disowned, in_quotes
from memfin.scoring.constraints.counted_limits import NUMERAL, count_of
from memfin.scoring.constraints.instruments import PRODUCT, company
from memfin.scoring.limits.step_plans import OTHERS_URGE, planned
from memfin.scoring.limits.unknown_names import names_another, names_product
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.reading import Reading

Span = tuple[int, int]

_EPSILON: Final = 1e-9
_SIGN: Final = late(r"[再又每预各]|追加|留着|备着|备用的|\b(?:another|each|every|then|further)\b")
_STEP: Final = late(
    r"(?:(?:每|再)[跌降回涨]?[^,。;!?\n]{0,8}?[,]?(?:就|再|便|则)?|各(?=[再补加添买追提])|每[次笔批回期月周季]|再|又|追加|另外?|也|继续|随后|之后)"
    r"(?:各|再|就|分别)?(?:补|加|添|买|投|追|配|打|提高?)(?:仓|进|上|入|个|到位)?(?:大?约)?$|(?:再[^,。;]{0,8}各|每[次笔批回])(?:大?约)?$|"
    r"\b(?:another|add(?:ing)?|a further|an extra|then|top (?:it )?up by)(?: another| about)? $"
)
"""Right before a share that is bought on top of what there is."""
_RESERVED: Final = late(
    r"(?:预留|留着|备着|留下|剩下|备用|机动|手里|暂时不动|先不动|没动)的?(?:那|这)?$|把(?:另外|剩下)的?$"
)
"""Right before a share that was kept back and is now to be bought as well."""
_GOES_IN: Final = late(
    r"(?:的?(?:资金|钱|仓位|额度))?(?:也|都|再|就|全部?|一起|一并|一次|分批|[,\s])*(?:打进去|打进来|加进去|投进去|补进去|买进去|"
    r"加上去?|补上去?|用上|投入|打满|补仓|加仓|买入|加到(?:里面|股票|权益)|投进(?:股票|权益)|买(?:股票|权益|宽基))"
)
_TIMES: Final = late(
    rf"(?:最多|至多|一共|总共|共|连续|连着|加满|分|坚持|累计|上限|重复|加|补|买)(?:再|只)?(?:加|补|买|做)?(?P<count>{NUMERAL})"
    r"(?:次|回|笔|批|档|个月|个季度|期|周|步)|"
    rf"(?P<span>{NUMERAL})(?:个季度|个月|个星期|[周批笔次期])(?=[^,。;]{{0,3}}每)|"
    r"\b(?P<english>two|three|four|five|six|\d{1,2}) (?:times|months|"
    r"quarters|steps|tranches|instal?ments)\b|\b(?P<twice>twice)\b"
)
_REPEATS: Final = late(
    r"每[次笔批回期月周季个跌降回涨]|每个?[月季]|各|\b(?:each|every|per|a (?:month|quarter|week))\b"
)
_START: Final = late(
    r"(?:已有|已经?占|目前|现在|现有|手[里上头]|起始|起步|初始|底仓|先|首[次笔期批]|第一[次笔步批]|从|占|配|放|建|是|仓位)"
    r"[^,。;!?\n\d一二两三四五六七八九半]{0,8}$|"
    r"\b(?:start|first|begin|hold|have|own|at|is|stands?)\b[^,.;!?\n\d]{0,20}$"
)
_OTHER_WAY: Final = late(r"减|卖|赎|降到|止[盈损]|收益|回撤|亏|止于|为止不|不再|别|不(?:要|加|补|建议|再)|勿")
_MOVES: Final = late(
    r"[跌涨降回升](?:了|幅|破|到|超过|满|够|去|落|撤|调)?(?:大?约)?$|"
    r"\b(?:falls?|drops?|dips?|declines?|rises?)(?: by| another)? $"
)
"""Right before what the market moves by."""
_FRACTIONS: Final = frozenset({"一半", "分之", "half"})
_MOST: Final = 90
_REACH: Final = 26
_CLASS: Final = late(r"股票|权益|偏股|股基|仓位|\b(?:stocks?|equit(?:y|ies)|shares)\b")
_ONE: Final = late(r"这[只支款]|它(?!们)|该(?:基金|股|产品)|同一[只支款]")
_ELSEWHERE: Final = late(
    r"(?:的|到|进|给|在)?[^,。;!?\n]{0,3}?(?:国债|债|黄金|货币|存款|存单|另[一外]|其他|别的|新的|第二只)|"
    r" (?:percentage )?(?:points? )?(?:of |in |into |to )(?:another|gold|bonds?|gilts?|treasur|"
    r"a (?:second|different))"
)


def stepwise(reading: Reading, cap: float, asset_class: str | None) -> Span | None:
    """Return the step with which one holding, or all of a class, comes above the cap."""
    analysis, norm = reading.analysis, reading.analysis.norm
    if _SIGN.search(norm) is None:
        return None
    total, last = 0.0, -_MOST
    subject = ""
    for share in reading.shares:
        if (
            not 0 < share.low <= 1
            or share.unit in _FRACTIONS
            or _MOVES.search(norm, max(0, share.start - 12), share.start)
        ):
            continue
        low, high = analysis.sentence_span(share.start)
        first = max(low, share.start - _REACH)
        adds = _step(norm, share, first, high)
        if not adds:
            named = _subject(reading, share, asset_class)
            if named and _START.search(norm, first, share.start) and share.low <= cap + _EPSILON:
                total, last, subject = share.low, share.end, named
            elif subject:
                total, last, subject = 0.0, -_MOST, ""
            continue
        if not subject or share.start - last > _MOST or _other(reading, share, subject, asset_class):
            continue
        total += share.low * (_count(norm, share, last, high))
        last = share.end
        turned = _OTHER_WAY.search(norm, max(low, share.start - 10), share.start)
        if cap + _EPSILON < total <= 1 and not turned and _meant(analysis, share):
            return share.start, share.end
    return None


_PLAN: Final = late(
    r"建议|可以|安排|规则|计划|方案|打算|我会|我给|我想|先|步骤|\b(?:plan|suggest|recommend|would)\b"
)


def _meant(analysis: Analysis, share: Quantity) -> bool:
    """Say whether a step is advised, be it as one of a plan that is laid out."""
    start, end = share.start, share.end
    if planned(analysis, start, end):
        return True
    low, high = analysis.sentence_span(start)
    norm = analysis.norm
    return (
        _PLAN.search(norm, low, start) is not None
        and OTHERS_URGE.search(norm, low, start) is None
        and not (disowned(analysis, start, end) or rejected(analysis, start, end))
        and not (in_quotes(analysis, start, end) or QUESTION_END.search(norm, low, high))
    )


def _step(norm: str, share: Quantity, first: int, high: int) -> bool:
    if _STEP.search(norm, first, share.start):
        return True
    return bool(_RESERVED.search(norm, first, share.start) and _GOES_IN.match(norm, share.end, high))


def _count(norm: str, share: Quantity, low: int, high: int) -> int:
    """Return how often a step is made; only what is done each time is done more than once."""
    if _REPEATS.search(norm, max(low, share.start - _REACH), share.end + 10) is None:
        return 1
    match = _TIMES.search(norm, max(low, share.start - _REACH), share.start) or _TIMES.search(
        norm, share.end, min(high, share.end + 2 * _REACH)
    )
    if match is None:
        return 1
    return 2 if match["twice"] else count_of(match["count"] or match["span"] or match["english"]) or 1


def _subject(reading: Reading, share: Quantity, asset_class: str | None) -> str:
    """Return what the share is one of: the class, or the name of a product."""
    analysis, norm = reading.analysis, reading.analysis.norm
    low, _ = analysis.sentence_span(share.start)
    clause, _ = analysis.clause_span(share.start, share.end)
    _, behind = analysis.clause_span(share.end, share.end)
    if asset_class is not None:
        for first, end in ((clause, behind), (low, behind)):
            classes = {label.asset_class for label in reading.labels if first <= label.start < end}
            told = asset_class == "equity" and _CLASS.search(norm, first, end) is not None
            if classes == {asset_class} or (not classes and told):
                return asset_class
            if classes:
                return ""
        return ""
    for first in (clause, low):
        found = list(PRODUCT.finditer(norm, first, behind)) or list(company().finditer(norm, first, behind))
        found = found or list(_ONE.finditer(norm, first, share.start))
        if found:
            return _key(norm, found[-1])
        name = names_product(norm, first, share.start)
        if name:
            return name
    return ""


def _other(reading: Reading, share: Quantity, subject: str, asset_class: str | None) -> bool:
    """Say whether a step goes into something else than what it would be added to."""
    analysis, norm = reading.analysis, reading.analysis.norm
    clause, behind = analysis.clause_span(share.start, share.end)
    if asset_class is not None:
        classes = {label.asset_class for label in reading.labels if clause <= label.start < behind}
        return classes != {asset_class} if classes else _ELSEWHERE.match(norm, share.end, behind) is not None
    if _ELSEWHERE.match(norm, share.end, behind):
        return True
    named = {_key(norm, match) for match in PRODUCT.finditer(norm, clause, behind)} - _KINDS
    if names_another(norm, clause, share.start, subject):
        return True
    return bool(named) and not any(name in subject or subject in name for name in named)


_WRAPPER: Final = late(r"etf|lof|联接|基金|fund|tracker")


def _key(norm: str, match: re.Match[str]) -> str:
    """Return the name of a product; what only wraps it has the name in front."""
    wrapper = _WRAPPER.fullmatch(match.group()) is not None
    return norm[max(0, match.start() - 2) : match.end()] if wrapper else match.group()


_KINDS: Final = frozenset({"基金", "etf", "债基", "lof", "联接", "fund", "tracker", "各", "每只", "它"})
"""What is no name of its own."""
