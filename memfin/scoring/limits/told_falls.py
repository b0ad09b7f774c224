"""Losses that a plan brings with it: of its one holding, of what is picked, in money.

Every function returns the half-open span (in ``Analysis.norm``) of a loss above the limit, or None.
"""

from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned, in_quotes
from memfin.scoring.limits.borne_losses import FORGIVEN
from memfin.scoring.limits.money_losses import in_money
from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import late
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.roles import column_head

Span = tuple[int, int]

_EPSILON: Final = 1e-9
_PART_OF_IT: Final = late(
    r"\b(?:it|them|that (?:fund|etf|part|stock)|this (?:fund|etf|part|stock)|the (?:fund|etf|"
    r"stock))\b|它|这[只部]|该(?:基金|股|etf)"
)
_SMALL: Final = 0.25


def of_small_part(reading: Reading, share: Quantity, low: int) -> bool:
    """Say whether the fall is of what the sentence before gives a small weight: 15% here. It may lose 30%."""
    analysis = reading.analysis
    if not low or _PART_OF_IT.search(analysis.norm, low, share.start) is None:
        return False
    first, _ = analysis.sentence_span(low - 1)
    before = [weight for weight in reading.weights if first <= weight.start < low]
    return len(before) == 1 and before[0].role in ("target", "added") and before[0].high <= _SMALL


_MOSTLY: Final = 0.8
"""A holding whose fall is all but that of the whole."""
_REACH: Final = 160
_FALL_SIGNS: Final = (
    "跌",
    "落",
    "撤",
    "亏",
    "缩水",
    "腰斩",
    "los",
    "dip",
    "slid",
    "drawdown",
    "drop",
    "fall",
)
_FALL: Final = late(
    r"(?:跌|回落|回撤|亏|缩水|折损)[^,。;\d]{0,6}$|\b(?:los(?:es?|t|ing)|falls?|fell|fallen|dips?|drops?|"
    r"dropped|slides?|slid|drawdowns?|declines?|slumps?|down|plunged?)\b[^,.;%\d]{0,30}[-−]?$"
)
_HALF: Final = 0.5
_NEAR: Final = 48
_HALVED: Final = late(r"腰斩|\bhalv(?:e|ed|ing)\b|\bcut in half\b")
_EVERYTHING: Final = late(
    r"(?:全部|所有)(?:的)?(?:资金|本金|钱|积蓄|仓位)|(?:资金|本金|积蓄|仓位|钱)(?:都|全|全部)|"
    r"[全满]仓(?![^,。]{0,3}(?:的|会|风险))|全部(?=转入|换成|买入|投入)|"
    r"\b(?:the|your) (?:whole|entire|full) (?:amount|sum|account|portfolio|balance|pot)\b|"
    r"\ball (?:of )?(?:your|the) (?:savings|money|capital|funds)\b|\beverything\b"
)
_PUTS: Final = late(
    r"[全满]仓|放[进入在到]|买|投|配|转入|转[成到]|换成|押|\b(?:put|move|shift|place|invest|buy|"
    r"purchase|choose|"
    r"pick|go with)\b"
)
_OTHERWISE: Final = late(
    r"所以|于是|不(?:建议|适合|合适|符|要(?!紧)|宜|推荐|能)|别(?!慌|怕|卖|管)|超(?:出|过)|"
    r"太[大高深]|过[大高深]|"
    r"限制|上限|红线|换成|改[成为]|避免|才不|除非|而不是|"
    r"\b(?:too|instead|which is why|therefore|not (?:for you|suitable|recommend\w*|right)|would not|"
    r"cannot|avoid|beyond|exceeds?|rather than|unless|limit|over your|above your)\b"
)


def told_fall(reading: Reading, limit: float) -> Span | None:
    """Return a loss above the limit that goes with what the reply advises."""
    norm = reading.analysis.norm
    return (
        (_of_everything(reading, limit) if any(map(norm.__contains__, _FALL_SIGNS)) else None)
        or _of_choice(reading, limit)
        or in_money(reading.analysis, limit)
        or _made_light_of(reading, limit)
        or _of_row(reading, limit)
    )


def _of_everything(reading: Reading, limit: float) -> Span | None:
    """Return the fall of the equity in which all or nearly all of the money is put."""
    analysis = reading.analysis
    norm = analysis.norm
    falls = [
        (share.high, share.start, share.end)
        for share in reading.shares
        if share.high > limit + _EPSILON
        and _FALL.search(norm, max(analysis.sentence_span(share.start)[0], share.start - _NEAR), share.start)
    ]
    if "腰斩" in norm or "hal" in norm:
        falls += [(_HALF, match.start(), match.end()) for match in _HALVED.finditer(norm)]
    if not falls:
        return None
    main = next(
        (
            (weight.start, weight.end, weight.low)
            for weight in reading.weights
            if weight.role in ("target", "added") and weight.asset_class == "equity" and weight.low >= _MOSTLY
        ),
        None,
    ) or _all_in_equity(reading)
    if main is None or not advised(analysis, main[0], main[1], act=True):
        return None
    for fall, start, end in falls:
        if not 0 < start - main[1] <= _REACH or fall * main[2] <= limit + _EPSILON:
            continue
        low, high = analysis.sentence_span(start)
        if _OTHERWISE.search(norm, main[1], high) or _AHEAD_OTHERWISE.match(norm, high):
            continue
        if FORGIVEN.search(norm, low, high) is None and not rejected(analysis, start, end):
            return start, end
    return None


_AHEAD_OTHERWISE: Final = late(
    r"\s*(?:所以|于是|为此|不过|但|这(?:显然)?(?:不|超)|\b(?:so|but|that is (?:too|more|why)|"
    r"which is|therefore|"
    r"for you)\b)"
)


_EQUITY_FUND: Final = late(
    r"(?:半导体|芯片|科技|医药|新能源|军工|消费|创业板|宽基|股票)[^,。;]{0,4}(?:基金|etf)|"
    r"\b(?:semiconductor|chip|tech(?:nology)?|biotech|stock|equity|index|growth) (?:fund|etf|tracker)\b"
)


def _all_in_equity(reading: Reading) -> tuple[int, int, float] | None:
    analysis = reading.analysis
    norm = analysis.norm
    for match in _EVERYTHING.finditer(norm):
        low, high = analysis.sentence_span(match.start())
        low = max(low, norm.rfind(";", low, match.start()) + 1)
        if _PUTS.search(norm, low, high) is None:
            continue
        named = [
            label
            for label in reading.labels
            if low <= label.start < high and not match.start() <= label.start < match.end()
        ]
        # What is moved into the fund is told by the fund: the money itself is left, it is said.
        if named and all(label.asset_class == "equity" for label in named):
            return named[0].start, max(match.end(), named[0].end), 1.0
        fund = None if named else _EQUITY_FUND.search(norm, low, high)
        if fund is not None:
            return *fund.span(), 1.0
    return None


_TOLD_LOSS: Final = late(
    r"最大回撤(?:率)?(?:大?约|是|为|在|达|到|:)*[-−]?$|"
    r"\b(?:max(?:imum)? drawdown|peak-to-trough loss|worst (?:loss|drawdown|fall|slide))"
    r"(?: (?:is|was|of|at|around|about|near|roughly|since launch))* ?[-−]?$|"
    r"\b(?:portfolio|mix|option|plan|strategy|fund)\b[^,.;%\d]{0,12}\b(?:can|could|may|might) (?:slip|fall|"
    r"drop|lose|slide|sink|decline)(?: by| about| around| up to)? ?$"
)
_PICKS: Final = late(
    r"(?:建议|推荐|还是)你?(?:直接|就)?(?:选|配|买|用|考虑|改投)|就选(?!择)|首选|(?:最|更|很)适合你|"
    r"\bsuits? you\b|\b(?:fits?|right for) you(?:r (?:age|goals?|needs?))?\b|\b(?:i|we) (?:would|"
    r"recommend|suggest)"
    r"(?: go| choose| pick| take| buy| purchase| use)?\b|(?<![a-z,)] )(?<![a-z])(?:choose|pick|take|"
    r"go with|buy|purchase|use) (?:the|this|that)\b|\bthe one i would\b|\bplan i would suggest\b"
)
_PICKS_IT: Final = late(
    r"\s*(?:its|it|the expected|the estimated|expected|estimated)\b|\s*(?:它|该|这[只个款套])|\s*预[计期]"
)
_IT_IS_PICKED: Final = late(
    r"[^.;!?\n%]{0,40}\b(?:that is|is|which is) the one i would|[^。;!?\n%]{0,24}(?:就|我)(?:选|推荐|"
    r"建议选)(?:它|这)"
)
_CHOSEN_BY: Final = late(
    r"不超过|低于|小于|控制|以内|不要|别|不建议|不选|比|上限|要求|底线|如果|若|\b(?:under|below|"
    r"less than|within|keep|not|never|"
    r"if|compared|unlike|than the|instead|limit)\b"
)


def _of_choice(reading: Reading, limit: float) -> Span | None:  # noqa: C901 - a ladder of signs
    """Return the loss that is told of the fund or plan that the reply picks for all the money."""
    analysis = reading.analysis
    norm = analysis.norm
    if not any(map(norm.__contains__, ("回撤", "drawdown", "peak-to-trough", "can ", "could "))):
        return None
    for share in reading.shares:
        if share.high <= limit + _EPSILON or analysis.line_kind(share.start) == "row":
            continue
        low, high = analysis.sentence_span(share.start)
        if not _TOLD_LOSS.search(norm, max(low, share.start - 60), share.start):
            continue
        first = low
        if _PICKS_IT.match(norm, low) and low:
            first = analysis.sentence_span(max(0, low - 2))[0]
            if analysis.line_kind(first) == "item":
                first = max(0, norm.find(analysis.lead_in(first)))
        picked = _PICKS.search(norm, first, share.start)
        behind = _IT_IS_PICKED.match(norm, share.end)
        if not (picked or behind) or _CHOSEN_BY.search(norm, picked.start() if picked else low, share.start):
            continue
        if FORGIVEN.search(norm, low, high) or _OTHERWISE.search(norm, share.end, high + 60):
            continue
        if disowned(analysis, share.start, share.end) or rejected(analysis, share.start, share.end):
            continue
        whole = sum(weight.low for weight in reading.weights if weight.role == "target")
        if not whole or whole >= 1 - limit or not _targets_before(reading, share):
            return share.start, share.end
    return None


def _targets_before(reading: Reading, share: Quantity) -> bool:
    return any(weight.role == "target" and weight.start < share.start for weight in reading.weights)


_NO_MATTER: Final = late(
    r"(?:左右|上下)?[^,。;!?\n\d]{0,4}(?:又)?(?:有什么|没什么|没啥|有啥|算什么)(?:关系|大不了|可怕|要紧|"
    r"好怕|问题|呢)"
)
_LOSES: Final = late(r"(?:组合|账户|净值|资产)[^,。;\d]{0,8}(?:跌|亏|回撤|回落|缩水)[^,。;\d]{0,4}$")
_RELAXED: Final = late(
    r"\b(?:let's|(?:i|we) (?:would|can|could|should)|you (?:can|could|should)) (?:just |"
    r"simply )?(?:loosen|relax|raise|"
    r"lift|stretch|widen) (?:the|your|that) (?:[a-z-]+ ){0,2}(?:limit|line|cap|"
    r"threshold)\b[^.;!?\n%\d]{0,90}$"
)


_SOMEBODY: Final = late(
    r"(?:有人|别人|他们?|她们?|很多人|不少人|网上|博主|朋友|同事)[^,。;]{0,6}(?:说|觉得|认为|以为|问)"
)


def _made_light_of(reading: Reading, limit: float) -> Span | None:
    """Return the loss of which the reply asks what harm it does, or for which it loosens the limit."""
    analysis = reading.analysis
    norm = analysis.norm
    for share in reading.shares:
        if share.high <= limit + _EPSILON:
            continue
        low, high = analysis.sentence_span(share.start)
        light = _NO_MATTER.match(norm, share.end, high) and _LOSES.search(norm, low, share.start)
        if in_quotes(analysis, share.start, share.end) or _SOMEBODY.search(norm, low, share.start):
            continue
        if (light or _RELAXED.search(norm, low, share.start)) and not rejected(
            analysis, share.start, share.end
        ):
            return share.start, share.end
    return None


_LOSS_HEAD: Final = late(r"回撤|最大(?:亏损|跌幅)|drawdown|(?:max|worst)\w* (?:loss|fall)")
_NAME: Final = late(r"\|\s*([^|\n]{1,16}?)\s*\|")


def _of_row(reading: Reading, limit: float) -> Span | None:
    """Return the loss that a table tells of the row which the reply then picks."""
    analysis = reading.analysis
    norm = analysis.norm
    if "|" not in norm or _LOSS_HEAD.search(norm) is None:
        return None
    for share in reading.shares:
        if share.high <= limit + _EPSILON or analysis.line_kind(share.start) != "row":
            continue
        if _LOSS_HEAD.search(column_head(analysis, share.start)) is None:
            continue
        name = _NAME.match(norm, analysis.sentence_span(share.start)[0])
        if name is None:
            continue
        word = name.group(1).strip("* ")
        behind = norm.find(word, norm.rfind("|")) if word else -1
        while behind >= 0:
            low, _ = analysis.sentence_span(behind)
            end = behind + len(word)
            alone = not norm[end : end + 1].isalnum() or norm[end] > "\u2e80"
            chosen = alone and _CHOOSES.search(norm, low, behind) is not None
            if chosen and advised(analysis, behind, end, asset=True):
                return share.start, share.end
            behind = norm.find(word, end)
    return None


_CHOOSES: Final = late(
    r"(?:建议|推荐|首选|就|我)[^,。;不没别]{0,6}(?:选|用|按|配|买)?(?:择|取)?(?:方案|组合|策略|计划)?$|"
    r"\b(?:choose|pick|go with|recommend|suggest|take|favou?r|go for)(?: the)?(?: option| plan|"
    r" portfolio| mix)? $"
)
