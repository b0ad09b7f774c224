"""Reserves that a plan spends later, cash that it runs down to a share, and money it puts to work whole.

Every function returns the half-open span (in ``Analysis.norm``) of what breaks the floor, or None.
"""

from operator import itemgetter
from typing import Final

from memfin.scoring.limits.cash_taken import cash_share_short
from memfin.scoring.limits.step_plans import planned
from memfin.scoring.patterns.expressions import apart, compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.weight import Weight

Span = tuple[int, int]

_EPSILON: Final = 1e-9
_SIGNS: Final = compile_pattern(
    r"备用|应急|现金|活钱|活期|cash|reserve|emergenc|buffer|cushion|remaining|to work|every|held? .{0,20}back"
)
_VERBS_EN: Final = (
    "put",
    "invest",
    "move",
    "use ",
    "deploy",
    "shift",
    "draw",
    "spend",
    "tap ",
    "dip",
    "raid",
    "switch",
    "lock",
    "place",
)
_LIQUID: Final = (
    r"(?:现金|货币|货币基金|活期|余额宝|存款|通知存款|随取|日常|零钱|cash|money market|savings|"
    r"current account|checking|"
    r"liquid|instant)"
)
_RESERVE: Final = (
    r"(?:(?:备用|应急)(?:金|现金|资金|储备|的?(?:那)?(?:部分|笔)?(?:钱|资金)|的那?(?:部分|笔|份))|"
    r"活钱|剩(?:下|"
    r"余)?的?(?:现金|活钱|活期)|"
    r"留着的现金|(?:这|那)(?:[一两二三]成|\d+%|部分|笔)(?:现金|活钱|钱|备用金)?)"
)
_SPENT_ZH: Final = compile_pattern(
    rf"{_RESERVE}(?:也|再|就|都|可以|先|一起)*(?:全部|全|一次性|都)(?:都)?"
    rf"(?:打|投|买|砸|加|补|换成|转|用)(?!(?:进去?|入|到|成|去)?{_LIQUID})(?:进去|进|入|去|出去|光|满|上)?|"
    rf"{_RESERVE}(?:也|就|都|可以|先)*(?:拿去|拿来|用来|用去|取出来|拿出来|投到|挪去|挪来|转去)"
    r"(?:抄底|加仓|补仓|买(?!药|菜|单|货币|现金)|投(?!保)|配|认购|申购|"
    r"存[^,。;]{0,4}(?:定期|大额|年期|存单|三年|五年|两年))"
)
_SPENT_TOO: Final = late(
    r"(?:备用|应急)(?:金|现金|资金|储备|的?钱)(?:也|一起|一并)+(?:投|打|买|砸|补)(?:进去|进|"
    r"入)(?!货币|现金|活期|余额宝)"
)
_ABOVE: Final = late(r"(?:超出|超过|多出|多余|富余|以外|之外)[^,。;]{0,12}$")
_NEAR: Final = 16
_ABOUT_CASH: Final = late(r"现金|活钱|备用|应急|活期|储备")
_USED_EN: Final = late(
    r"\b(?:use|draw on|spend|deploy|tap|dip into|raid|put|invest|move|shift|switch|"
    r"lock) (?:all (?:of )?)?(?:that|the|your|this) (?:\d+ ?% )?"
    r"(?:(?:emergency|rainy[- ]day|cash) (?:reserve|money|fund|buffer|cushion|savings|pot)|reserve|"
    r"buffer|cushion)s?\b"
    r"[^.;!?\n]{0,16}?\b(?:to (?:buy|purchase|invest|top up|add|work)|(?:up )?(?:in|into|"
    r"on) (?!cash|savings|an? (?:money market|savings|instant)|case|hand|bills?|food|rent|repairs?|"
    r"the (?:bank|repair|roof|car|hospital|savings|money))|"
    r"for (?:this|the) dip|and (?:buy|purchase|invest))\b"
)
_REMAINING_EN: Final = late(
    r"\b(?:put|invest|move|deploy|shift|place) (?:the )?(?:remaining|last|other|final) (?:\d+ ?%|"
    r"fifth|quarter|cash|reserve)"
    rf"[^.;!?\n]{{0,12}}?\b(?:in|into|to work)\b(?![^.;!?\n]{{0,24}}{_LIQUID})"
)
_FIRST_STEP: Final = late(r"\b(?:step|first|start|begin|phase|stage|now|hold|keep)\b")
_MOVED_ALL: Final = late(
    r"\b(?:reserve|buffer|cushion|emergency fund|cash)\b[^.!\n]{0,30}[?.;,]\s*[^.?!\n]{0,40}?"
    r"(?P<act>\b(?:move|put|shift|invest|place) (?:all of it|it all|the lot|the whole (?:lot|of it|"
    r"thing)|every (?:cent|penny) "
    rf"of it) (?:in)?to (?![^.;!?\n]{{0,24}}{_LIQUID}))"
)
_FULL: Final = late(
    r"\bput(?:ting)? (?:the full|all|a full|the whole)? ?100 ?% (?:of (?:it|the money|your money|"
    r"the account) )?to work\b|\b(?:invest|deploy) every (?:last |single )?(?:yuan|dollar|cent|"
    r"penny|pound|euro)\b"
)


def reserve_spent(analysis: Analysis) -> Span | None:
    """Return where the plan spends, at once or later, what it calls the reserve."""
    norm = analysis.norm
    if _SIGNS.search(norm) is None:
        return None
    spans: list[Span] = [
        match.span(1)
        for match in apart(_SPENT_ZH, norm)
        if _ABOUT_CASH.search(norm, max(0, match.start(1) - _BACK), match.end(1))
        and _ABOVE.search(norm, max(0, match.start(1) - _NEAR), match.start(1)) is None
    ]
    if "备用" in norm or "应急" in norm:
        spans += [match.span() for match in _SPENT_TOO.finditer(norm)]
    if any(map(norm.__contains__, _VERBS_EN)):
        spans += [match.span() for match in _USED_EN.finditer(norm)]
        spans += [
            match.span()
            for match in _REMAINING_EN.finditer(norm)
            if _FIRST_STEP.search(norm, 0, match.start())
        ]
        spans += [match.span("act") for match in _MOVED_ALL.finditer(norm)]
        spans += [match.span() for match in _FULL.finditer(norm)]
    for start, end in few(analysis, spans, itemgetter(0)):
        if _PART_ONLY.search(norm, end, end + 40) is None and planned(analysis, start, end):
            return start, end
    return None


_PART_ONLY: Final = late(
    r"以外|之外|超过|多出|beyond|above|over and above|in excess|only (?:for|in|if)|bills|job loss"
)


_RUNS_DOWN: Final = late(
    r"(?:现金|活钱|活期|备用金|应急金)[^,。;\d]{0,4}(?:只|就)?剩(?:下|余)?(?:大?约|到)?$|"
    r"(?:现金|活钱|备用金|应急金|活期|留着?)[^。;!?\n]{0,36}(?:用|降|花|减)[低少]?到$|"
    r"(?:备用|应急)(?:金|的?钱)[^。;!]{0,14}[^。;\n]{0,24}(?:留|剩)(?:个|下)?$|"
    r"\b(?:cut|trim|lower|reduc|bring|shrink|run|draw|drop)\w* (?:back |down )?(?:your|the|"
    r"that) (?:cash|reserve|emergency)\b"
    r"[^.;!?\n]{0,40}\bto (?:about |around |roughly |just |only )?$|"
    r"\b(?:cut|trim|lower|reduc|bring|shrink|run|draw|drop)\w* (?:back |down )?(?:your|the|"
    r"that) (?:cash|reserve|emergency)\b"
    r"[^.;!?\n]{0,40}\bfrom [^.;!?\n,]{1,16} to $|"
    r"\b(?:until|till) (?:only |just )?(?:about |around |some )?$"
)
_IS_LEFT: Final = late(
    r" (?:of it |of the cash |in cash )?(?:is|are) left| (?:of it )?remains?\b| in cash\b| cash\b"
)
_UNTIL: Final = late(r"\b(?:until|till)\b[^.;]{0,24}$")
_CASH_SAID: Final = late(r"\b(?:cash|reserve|buffer|emergency fund)\b")
_FORGIVES: Final = late(
    r"(?:左右)?(?:周转|应急|备用|零花|日常)?(?:就|也|都)?(?:行|够|可以|不要紧|没关系|没事|无妨|不碍事|"
    r"好|即可|足够)|,|。|$|;|左右"
)
_BACK: Final = 80


def runs_down(reading: Reading, floor: float) -> Span | None:
    """Return the share below the floor to which the plan runs the cash down."""
    analysis = reading.analysis
    norm = analysis.norm
    if _SIGNS.search(norm) is None:
        return None
    for share in reading.shares:
        if not share.low < floor - _EPSILON:
            continue
        low, _ = analysis.sentence_span(share.start)
        first = max(0, share.start - _BACK)
        if norm[low : low + 2].isascii():
            if _RUNS_DOWN.search(norm, low, share.start) is None:
                continue
            if _UNTIL.search(norm, low, share.start) and not (
                _IS_LEFT.match(norm, share.end) and _CASH_SAID.search(norm, first, share.end + 12)
            ):
                continue
        elif _RUNS_DOWN.search(norm, first, share.start) is None or _FORGIVES.match(norm, share.end) is None:
            continue
        if planned(analysis, share.start, share.end):
            return share.start, share.end
    return None


_HALF_TAKEN: Final = late(
    r"(?:拿|抽|取|挪|划|匀|用)(?:出)?(?:其中|里面|它)?的?(?P<part>一半|三分之一|三分之二|四分之[一三]|"
    r"[一二三四五六七八九]成)"
    r"(?:左右)?(?:去|来|出来)?(?:的钱)?(?:抄底|买|投|加仓|补仓|配|申购|认购)"
)
_CASH_NOW: Final = late(
    r"(?:目前|现在|手[里上头]|现有|你)[^。;!?\n]{0,12}?(\d+(?:\.\d+)?)%的?(?:现金|活期|货币基金|备用金)|"
    r"(?:目前|现在|手[里上头]|现有|你)[^。;!?\n]{0,12}?(?:现金|活期|货币基金|"
    r"备用金)[^,。;!?\n\d]{0,6}(\d+(?:\.\d+)?)%"
)
_PARTS: Final = {"一半": 1 / 2, "三分之一": 1 / 3, "三分之二": 2 / 3, "四分之一": 1 / 4, "四分之三": 3 / 4}
_HUNDREDTH: Final = 0.01
_TENTH: Final = 0.1


def part_taken(analysis: Analysis, floor: float) -> Span | None:
    """Return the part of the cash there is that is put to work, so that less than the floor is left."""
    norm = analysis.norm
    if not any(map(norm.__contains__, ("一半", "分之", "成"))):
        return None
    for match in _HALF_TAKEN.finditer(norm):
        held = _CASH_NOW.search(norm, max(0, match.start() - _BACK), match.start())
        if held is None:
            continue
        word = match["part"]
        part = _PARTS.get(word) or ("零一二三四五六七八九".index(word[0]) * _TENTH)
        whole = float(held.group(1) or held.group(2)) * _HUNDREDTH
        if whole * (1 - part) < floor - _EPSILON and planned(analysis, *match.span()):
            return match.span()
    return None


_OF_ALL: Final = late(
    r" of (?:the|your|all (?:the|your)) (?:account|portfolio|money|savings|capital|total|assets)\b"
)
_OF_ALL_ZH: Final = late(r"(?:总资产|账户|资金|组合|全部钱|本金|积蓄)的$")


_INTO: Final = late(
    r"(?! (?:is|are|sits?|was|were)\b)[^.;!?\n]{0,8}\b(?:in|into) (?:the |a |an |this |that |"
    r"your )?(?:[a-z-]+ ){0,3}(?:fund|bonds?|stocks?|shares|etf|reit|note|gold)s?\b"
)
_STANDS: Final = late(r" (?:is|are|sits?|was|were|has been)\b")
_ANY_LIQUID: Final = late(_LIQUID)


def _invested(analysis: Analysis, weight: Weight, end: int) -> bool:
    """Say whether the weight goes into what is no cash; savings may be what it is taken from."""
    _, high = analysis.clause_span(weight.start, weight.end)
    liquid = _ANY_LIQUID.search(analysis.norm, max(end, weight.end), high) is not None
    if liquid or _STANDS.match(analysis.norm, end):
        return False
    return weight.asset_class not in ("cash", None) or _INTO.match(analysis.norm, end) is not None


def little_left(reading: Reading, floor: float) -> Span | None:
    """Return the one weight, not of cash, that leaves less than the floor of the whole."""
    analysis = reading.analysis
    norm = analysis.norm
    if not any(1 - floor + _EPSILON < share.low <= 1 for share in reading.shares):
        return None
    targets = [weight for weight in reading.weights if weight.role in ("target", "added")]
    if len(targets) != 1 or targets[0].low <= 1 - floor + _EPSILON:
        return None
    share = next((each for each in reading.shares if each.start == targets[0].start), None)
    if share is None or share.low > 1:
        return None
    whole = _OF_ALL.match(norm, share.end) or _OF_ALL_ZH.search(norm, max(0, share.start - 8), share.start)
    if whole is None or not _invested(analysis, targets[0], whole.end()):
        return None
    if planned(analysis, share.start, share.end):
        return share.start, share.end
    return None


_LEAVES: Final = late(
    r"(?:留|剩)[^,。;\d]{0,4}$|\b(?:leave|keep|hold)(?: only| just| about| around)? [$¥£€]?$"
)
_FOR_CASH: Final = late(
    rf"[^,。;.!?\n]{{0,12}}?(?:{_LIQUID}|备用|应急|周转|\b(?:bank|reserve|emergenc|buffer|cushion|savings))"
)


def little_kept(reading: Reading, floor: float) -> Span | None:
    """Return the sum of money, out of all of it, that is kept back and is below the floor."""
    norm = reading.analysis.norm
    if not any(map(norm.__contains__, ("留", "剩", "leave", "keep", "hold"))):
        return None
    for part in reading.amounts:
        if (
            not 0 < part.high < floor - _EPSILON
            or _LEAVES.search(norm, max(0, part.start - 16), part.start) is None
        ):
            continue
        if _FOR_CASH.match(norm, part.end) and planned(reading.analysis, part.start, part.end):
            return part.start, part.end
    return None


def cash_spent(reading: Reading, floor: float) -> Span | None:
    """Return the first way in which a plan leaves less cash than the floor, now or later."""
    return (
        reserve_spent(reading.analysis)
        or runs_down(reading, floor)
        or part_taken(reading.analysis, floor)
        or little_left(reading, floor)
        or little_kept(reading, floor)
        or cash_share_short(reading.analysis, floor)
    )
