"""Durations against advice: bonds that are too long, holdings that are too short.

Years are read off the tenor of a bond (10年国债), a duration (久期5年) or a holding period.
"""

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.attribution.told import described
from memfin.scoring.limits.brief_holdings import brief
from memfin.scoring.limits.caps import EPSILON, Span
from memfin.scoring.limits.durations import short_in_equal_parts
from memfin.scoring.numbers.quantities import Quantity, bound, quantities
from memfin.scoring.patterns.expressions import Quick, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few
from memfin.scoring.weights.reading import Reading
from memfin.scoring.weights.weight import Weight

_BOND_WORD: Final = late(r"债|国开|农发|久期|票据|存单|bond|treasur|duration|note|gilts?")
_LONG_BOND: Final = late(
    r"长期债|超长|超长债|超长期|长久期|长债|长端|长期国债|长期限|long[- ](?:duration|dated|term) (?:bonds?|"
    r"gilts?|"
    r"treasur\w+|governments?)|long gilts?|long[- ]bonds?|long treasur\w+"
)
_BLEND: Final = Quick(
    r"加权|平均(?:下来|算)|合起来|综合下来|组合久期(?:就?是|约|降|为)|\b(?:blend\w*|weighted|on average|"
    r"averag\w*|"
    r"together)\b"
)
_NEAR_BLEND: Final = 16
_BARE_YEARS: Final = late(r"[^\d\n]{0,14}(\d+(?:\.\d+)?)(?!\d|%)")
_DURATION_NAMED: Final = late(r"久期|duration|lengthen|maturit|extend (?:the |your )?(?:bond|ladder)")
_DURATION_BEHIND: Final = late(
    r" (?:for|of|in) (?:the |your )?(?:average |portfolio |overall |combined |bond )*duration\b|"
    r"(?:左右|上下)?的(?:平均|组合|整体|加权)?久期"
)
_RAISED_TO: Final = late(
    r"(?:抬|拉|提|加|延|升|放)(?:高|长|升)?到[^,。;]{0,3}$|\b(?:up to|out to|to about|to around|to) $"
)
_BOND_BEFORE: Final = late(
    r"(?:国债|国开|政金债?|利率债|债券?)(?:部分|仓位|持仓|份额)?[里中]?(?:就|我)?(?:选|买|用|配|换成?|以|放|"
    r"投)?(?:到|在)?$"
)
_LONG_YEARS: Final = 7.0
_SHORT_BOND: Final = late(r"短债|中短债|存单|货币|活期|现金|存款|short|cash|bills")
_HOLD: Final = late(
    r"持有|拿(?=着|\d|[一二两三四五六七八九十几半]|不超过|个)|持仓|封闭|来回|就卖|就走|卖出|了结|离场|"
    r"出来|换下|换股|轮动|hold|sell|offload|unload|exit|flip|out (?:within|in|after)|rotate"
)
_SALE: Final = late(
    r"\s*(?:then |(?:i|we) would |you (?:should|could|can) )?(?:sell|offload|unload|exit|get out|"
    r"take profits?|hold)\b|[^,。]{0,6}(?:就卖|就走|卖掉|了结)"
)
_NEXT_SALE: Final = late(r",[^,。;]{0,12}(?:落袋|就卖|就走|就换|就出|换下|再换|再找|卖掉)")
_IN_AND_OUT: Final = late(
    r"\b(?:buy|purchase|get in|go in|enter|own|pick)\b[^.;!?\n]{0,80}?\b(?:and|then) (?:sell|offload|exit|"
    r"get out|take profits?|be out|"
    r"be gone|unload|dump)\b[^.;!?\n]{0,20}$"
)
_SWINGS: Final = late(r"不奇怪|很正常|很平常|常见|波动|起伏|涨跌|上下|回撤|回落|跌|走低|下滑")
_A_MONTH: Final = 1 / 12
_HOLD_LONG: Final = late(r"至少|以上|起码|不少于|不低于|at least|or more|minimum|or longer")
_OTHER_SPAN: Final = late(
    r"[^,。;]{0,12}(?:免(?:收|除)?赎回|赎回费|赎回[^,。;]{0,3}[收扣罚付]|免费|惩罚性)|[^,。;]{0,2}:|"
    r"[^,。;]{0,3}(?:后|免|可赎|起|"
    r"者|的人|开支|生活|备用|支出)|"
    r"[ -](?:expenses|of expenses)"
)
_NOT_HOLDING: Final = late(
    r"平均持有|回测|设[成为]|记录|检视|复盘|核对|调整|再平衡|回看|开支|支出|近|过去|成立|定投|每|封闭|"
    r"分[一二两三四五六七八九十\d]|历史|期限|cannot|can not|unable to|review|rebalanc|every|per|past|last|"
    r"(?:hold|keep) (?:the|a|your) (?:[a-z]+ )?deposit"
)


def duration(analysis: Analysis, reading: Reading, years: float) -> Span | None:
    """Return the advised bond or duration that is longer than the limit; known weights are averaged."""
    norm = analysis.norm
    if _BOND_WORD.search(norm) is None:
        return None
    spans = [
        (quantity.start, quantity.end, value)
        for quantity in quantities(norm)
        if quantity.kind == "duration"
        and quantity.high > years + EPSILON
        and (value := _is_tenor(analysis, quantity)) > years + EPSILON
    ]
    spans.extend((*match.span(), _LONG_YEARS) for match in _LONG_BOND.finditer(norm) if years < _LONG_YEARS)
    if spans and (_blended(norm, years) or short_in_equal_parts(analysis, years)):
        return None
    found = reading.weights if spans else []
    for start, end, value in few(analysis, sorted(spans), itemgetter(0)):
        _, high = analysis.clause_span(start, end)
        if (
            _TURNED_AWAY.match(norm, end)
            or _YIELD_OF_IT.match(norm, end, high)
            or (norm[start - 1] == "比" and _LESS.match(norm, end, high))
        ):
            continue
        bond_end = _tail(norm, end, high)
        listed = _weight_at(found, start, bond_end)
        if listed is None and not (
            advised(analysis, start, bond_end, asset=True)
            or _as_core(analysis, start, bond_end)
            or _of_own_mix(analysis, start, end)
        ):
            continue
        if listed is not None and disowned(analysis, start, end):
            continue
        if listed is not None and _average(found, listed, value) <= years + EPSILON:
            continue
        return start, bond_end
    return None


_TURNED_AWAY: Final = late(
    r"[^,。;]{0,2}(?:降|缩短|缩|压)(?:到|至|了)|[^,。;]{0,10}(?:不[要选买碰配放]|排除|剔除|换掉|"
    r"卖掉|减掉|舍弃|[筛划]掉)|"
    r"[^。;!?\n]{0,40}(?:对你(?:来说)?(?:太|偏|过)长|(?:所以|"
    r"故)[^,。;]{0,6}没(?:有)?(?:给你)?[选买配放]|"
    r"你(?:不必|不用|无需|别)跟)|"
    r"\s(?:down )?to (?:about |around )?[0-3](?:\.\d+)?\b(?! to)|"
    r"[^.;!?\n]{0,30}\b(?:too long|longer than (?:you|your)|beyond your|above your)\b"
)
_YIELD_OF_IT: Final = late(
    r"(?:期|期限)?的?[^,;。!?\n|]{0,4}(?:国债|国开债?|地方债|政金债)(?:到期)?(?:收益率|利率)"
)
"""A tenor that only says which yield is meant."""
_LESS: Final = late(r"[^,。;]{0,8}(?:小|低|少|短|弱|轻|稳|大|高|长|强)")
"""Behind what the advised thing is compared with: 比30年国债ETF小得多."""
_CORE: Final = late(
    r"为主|打底|做底|主仓|底仓|主力|最(?:合适|划算|优|舒服)|性价比最|"
    r"主要用|来实现|来构建|(?:全部|所有|大部分|一半)的?(?:资金|钱|仓位|积蓄|"
    r"债券)[^,。;不没]{0,4}[买换投配放]|"
    r"\b(?:best|ideal|sweet spot|makes (?:the most )?sense|core)\b|"
    r"\b(?:could|can|would|may|might) (?:go|run|stretch|drift) (?:slightly |a (?:bit|little|"
    r"touch) )?(?:over|above|"
    r"past|beyond) (?:your|the) (?:limit|cap|ceiling|rule)"
)


_LENGTHENS: Final = late(
    r"(?:拉|延|加|放|抬|提)[长高升]?[^,。;]{0,6}久期|久期[^,。;]{0,8}(?:拉|延|加|放|抬|提|升|增|打|"
    r"做)[长高升至到]|"
    r"(?:^\s*|[.;,] ?)(?:target|aim for|set) (?:a |an |the )?(?:average |portfolio |"
    r"bond )?(?:duration|maturit)|"
    r"\blet (?:the |your )?[^.;]{0,20}duration (?:drift|rise|run|go|creep|climb)|"
    r"(?:^\s*|[.;,] ?|\b(?:(?:i|we)(?:'d| would)|would|could|may|might|should|can|let's) )(?:extend|lengthen|"
    r"push|"
    r"stretch|raise|"
    r"take)\b"
    r"[^.;]{0,20}\b(?:duration|maturit\w+|portfolio|bond (?:book|sleeve|part|side|money|portfolio)|bonds)\b"
)


_OWN_MIX: Final = late(
    r"(?:(?:债券)?组合|债券部分|债券端|债券仓位|固收部分|配置)的?(?:加权|平均|整体|综合|"
    r"目标)?久期(?:(?:大约?|约|大概|差不多|会|就|在|为|是|定为|定在|到|落在|控制在|保持在|维持在|放在)*)$|"
    r"\b(?:mix|portfolio|bond (?:sleeve|side|part)|ladder)'?s? (?:has a |with a |average |combined |"
    r"overall )*duration "
    r"(?:of|is|comes to|would be|will be|about|around|roughly|at| )*$"
)
_REVISED: Final = late(
    r"[^。;!?\n]{0,30}(?:超|高于|长于|过长|太长|偏长|降|缩|不符|目前|换成|调)|"
    r"[^.;!?\n]{0,60}\b(?:above|over|beyond|exceeds?|too long|shorten|instead)\b"
)


def _of_own_mix(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence gives the duration of the mix that the reply puts together."""
    norm = analysis.norm
    low, _ = analysis.sentence_span(start)
    return (
        _OWN_MIX.search(norm, low, start) is not None
        and _REVISED.match(norm, end) is None
        and not (disowned(analysis, start, end) or described(analysis, start))
        and _HELD_NOW.search(norm, low, start) is None
    )


_HELD_NOW: Final = late(r"目前|现在|现有|原来|你的(?:组合|债券)|手里|\b(?:your|current\w*|now)\b")


def _as_core(analysis: Analysis, start: int, end: int) -> bool:
    """Say whether the sentence makes the bonds of that duration the core, or calls them the best."""
    if disowned(analysis, start, end) or rejected(analysis, start, end):
        return False
    low, high = analysis.sentence_span(start)
    return (
        _CORE.search(analysis.norm, low, high) is not None
        or _LENGTHENS.search(analysis.norm[low:end]) is not None
    )


def _blended(norm: str, years: float) -> bool:
    """Say whether the reply works out that the bonds together are short enough."""
    for match in _BLEND.finditer(norm):
        near = quantities(norm, match.end(), match.end() + _NEAR_BLEND)
        together = next((each for each in near if each.kind == "duration"), None)
        if together is not None:
            return together.high <= years + EPSILON
        bare = _BARE_YEARS.match(norm, match.end())
        if bare is not None:
            return float(bare.group(1)) <= years + EPSILON
    return False


def _tail(norm: str, end: int, high: int) -> int:
    """Take the bond's name after its tenor into the span, so that negations behind it are seen."""
    match = re.match(r"(?:期)?[^,;。!?\n|、\d]{0,6}(?:债|etf|基金|品种|bonds?|treasur\w+)", norm[end:high])
    return end + match.end() if match else end


def _is_tenor(analysis: Analysis, quantity: Quantity) -> float:
    """Return the years of a bond's tenor (the middle of 1-3年国债) or of a duration, 0 for another time."""
    norm = analysis.norm
    low, high = analysis.clause_span(quantity.start, quantity.end)
    if re.match(
        r"(?:期|期限)?[^,;。!?\n|]{0,4}(?:国债|地方债|政金债|利率债|金融债|信用债|企业债|公司债|"
        r"城投债|债|品种|中票|国开|农发|口行|政金|超长|利率|地债|[- ]?(?:treasur|bond|gilt|note|"
        r"government)| (?:left )?to (?:run|maturity))",
        norm[quantity.end : high],
    ):
        named = not re.search(
            r"近|过去|持有|未来|用.*的$", norm[max(low, quantity.start - 4) : quantity.start]
        )
        return (quantity.low + quantity.high) / 2 if named else 0.0
    near = 26 if norm[quantity.start - 2 : quantity.start].isascii() else 12
    head = norm[max(low, quantity.start - near) : quantity.start]
    if norm.startswith("期", quantity.end) and _BOND_BEFORE.search(head):
        return (quantity.low + quantity.high) / 2
    stated = _DURATION_NAMED.search(head) is not None
    stated = stated or _DURATION_BEHIND.match(norm, quantity.end) is not None
    if not stated and _RAISED_TO.search(head):
        sentence, _ = analysis.sentence_span(quantity.start)
        stated = _DURATION_NAMED.search(norm, sentence, quantity.start) is not None
    return quantity.high if stated else 0.0


def _weight_at(found: Sequence[Weight], start: int, end: int) -> Weight | None:
    near = 8
    beside = [
        (min(abs(w.start - end), abs(start - w.end)), number)
        for number, w in enumerate(found)
        if w.role == "target" and (0 <= w.start - end <= near or 0 <= start - w.end <= near)
    ]
    return found[min(beside)[1]] if beside else None


def _average(found: Sequence[Weight], listed: Weight, years: float) -> float:
    """Weigh the long bond against the short holdings beside it; without those it stands for the bonds."""
    group = [
        w
        for w in found
        if w.group == listed.group and w.role == "target" and w.asset_class in ("bond", "cash")
    ]
    others = [w for w in group if w is not listed]
    if not others or not all(_SHORT_BOND.search(w.label) or _told_years(w) for w in others):
        return years
    total = sum(w.low for w in group)
    rest = sum(w.low * (_told_years(w) or 1.0) for w in others if w.asset_class == "bond")
    return (listed.high * years + rest) / total if total else years


def _told_years(weight: Weight) -> float:
    """Return the years that a weight's label gives, 0 where it gives none."""
    found = [each for each in quantities(weight.label) if each.kind == "duration"]
    return (found[0].low + found[0].high) / 2 if len(found) == 1 else 0.0


_THEN_SOLD: Final = late(
    r"[^,。;!?\n不别]{0,12}(?:就|便|马上|立刻)(?:可以)?(?:卖|赎|走(?!势)|撤|换|落袋|了结|清|兑现)"
    r"(?![^,。;!?\n]{0,6}(?:收|扣|罚|付|费))"
)
"""Held so long and no longer: 拿满七天就卖."""


def holding(analysis: Analysis, reading: Reading, years: float) -> Span | None:
    """Return the advised holding period that ends before the given time."""
    norm = analysis.norm
    spans = dict.fromkeys(analysis.sentence_span(start) for start, _ in reading.holding)
    for quantity in (quantity for span in spans for quantity in quantities(norm, *span)):
        if quantity.kind != "duration" or quantity.high >= years - EPSILON:
            continue
        low, high = analysis.clause_span(quantity.start, quantity.end)
        clause = norm[low:high]
        sold = _THEN_SOLD.match(norm, quantity.end) is not None
        if _OTHER_SPAN.match(norm, quantity.end) and not sold:
            continue
        if _SWINGS.search(clause) and "卖" not in clause:
            continue
        if _NOT_HOLDING.search(norm, low, quantity.start) or _HOLD_LONG.search(clause):
            continue
        if (bound(norm, quantity) == "at_least" and not sold) or _HOLD.search(clause) is None:
            continue
        if described(analysis, quantity.start):
            continue
        sentence, _ = analysis.sentence_span(quantity.start)
        traded = _IN_AND_OUT.search(norm[sentence : quantity.start])
        ordered = (
            _SALE.match(clause) or _NEXT_SALE.match(norm, high) or traded
        ) is not None and not disowned(analysis, quantity.start, quantity.end)
        if ordered or advised(analysis, quantity.start, quantity.end, act=True, limit=True):
            return quantity.start, quantity.end
    return next(brief(analysis, years), None) if years > _A_MONTH else None


_LOCKED_BEFORE: Final = late(
    r"(?:封闭(?:运作|管理)?期?|锁定期?|锁仓期?|锁|持有期|(?<!资金)(?<!剩余)(?<!债券)(?<!投资)期限|"
    r"(?:locked?|tied)(?: (?:up|in|"
    r"away))?(?: for)?|(?:ties?|tie|locks?|lock|tying) (?:up |away )?(?:your |the |all )?(?:money|cash|"
    r"capital|funds|stake|it)? ?(?:up |away )?for|lock-?(?:up|in)(?: period)? "
    r"(?:of|is)|term of|matures in|大额存单|存单|定存|定期存款|(?:redeem|"
    r"withdraw)\w*(?: it)? (?:before|for|until))[^,。;!?\n\d]{0,6}$"
)
_LOCKED_AFTER: Final = late(
    r"\s*期?的?(?:封闭|锁定|持有期|滚动持有|持有(?=[混债股稳优灵]|基金|型|期|产品)|定开|定期开放|"
    r"不开放|内?不[能可得]|内?取不|内?赎不|"
    r"锁|期的?(?:养老|净值|稳健|固收|封闭式?|银行|个人|增强){0,2}(?:固收|理财|产品|信托|专户|年金)|"
    r"期?的?(?:大额存单|定期(?!开|检|调|再|复)|定存|储蓄国债|"
    r"结构性|收益凭证)|"
    r" with(?:out)? (?:no|any)? ?(?:way out|exit|"
    r"withdrawals?|redemptions?)|"
    r"[^,.;]{0,12} (?:no way out|no exit)|[- ]?(?:lock|closed|fixed[- ]term|"
    r"(?:structured )?note\b|fixed[- ]index|(?:index(?:ed)? )?contract\b|"
    r"fixed[- ]rate (?:bond|account|deposit|savings)|(?:term )?deposit|term (?:product|note|annuity|"
    r"deposit)|annuity|non-traded|cd\b|notice\b|fix\b|savings bond))"
)
_VEHICLE: Final = late(
    r"[- ](?:[a-z]+ ){0,2}?(?:fund|plan|vehicle|product|bond|paper|notes?|certificate|trust|deal|"
    r"strategy)\b|期?的?[^,。;]{0,6}(?:产品|计划|"
    r"基金)|\s*(?:后)?才?到期"
)
_NO_EXIT: Final = late(
    r"(?:can't|cannot|can not|(?:won't|will not) be able to|unable to) (?:touch|get (?:out|at|it)|redeem|"
    r"sell|offload|"
    r"unload|withdraw|"
    r"exit)|no (?:exit|way out|"
    r"early)|locked|取不[出了]|赎不|(?:赎回|变现|支取|取出)不了|申请不了|(?:到期|期满|中途|"
    r"期间)[^,。;]{0,4}(?:不[能可得让]|无法)|出不来|退不|拿不出"
)
_BARRED: Final = late(r"redeem|withdraw")
_LOCKS: Final = late(
    r"结构性|deposit|fixed|赎|年期|个月期|天期|note\b|封闭|存单|定存|定期存款|储蓄国债|way out|exit|锁|"
    r"持有|定开|定期开放|"
    r"不开放|不能|不可|不得|取不|赎不|lock|tied|redeem|"
    r"withdraw|closed|term|"
    r"annuity|cd\b|notice|fix\b"
)


_TAKEN_UP: Final = late(
    r"[^。;!?\n]{0,30}(?:,|所以|那)(?:就|我|你|还是|建议|可以|不妨|直接)+(?:选它|存(?:它|这)|买它|认购|"
    r"放(?:这|它)|上车)|"
    r"[^.;!?\n]{0,60}(?:,|\b(?:so|therefore|hence|thus|and)\b)[^.;!?\n]{0,20}\b(?:put (?:it|the money|"
    r"your money) (?:there|"
    r"in it)|(?:should|would|(?:i|we)(?:'d| would)) (?:take|open|buy|purchase|choose|"
    r"pick) (?:it|that|this|one)|go (?:for|with) (?:it|that))\b"
)


def lock_up(analysis: Analysis, reading: Reading, years: float) -> Span | None:
    """Return the advised product whose money cannot be taken out for longer than the limit."""
    norm = analysis.norm
    if _LOCKS.search(norm) is None:
        return None
    for quantity in quantities(norm):
        if quantity.kind != "duration" or quantity.high <= years + EPSILON:
            continue
        low, high = analysis.sentence_span(quantity.start)
        after = _LOCKED_AFTER.match(norm, quantity.end, high)
        before = _LOCKED_BEFORE.search(norm[max(low, quantity.start - 40) : quantity.start])
        if after is None and before is None:
            after = _VEHICLE.match(norm, quantity.end, high)
            if after is None or _NO_EXIT.search(norm, after.end(), after.end() + 90) is None:
                continue
        end = after.end() if after else quantity.end
        # What cannot be redeemed is negated by its nature.
        barred = before is not None and _BARRED.search(before.group()) is not None
        if advised(analysis, quantity.start, end, limit=barred, asset=True):
            return quantity.start, end
        listed = _weight_at(reading.weights, quantity.start, end)
        taken = _TAKEN_UP.match(norm, end, high) is not None
        if (listed is not None or taken) and not (
            disowned(analysis, quantity.start, end) or rejected(analysis, quantity.start, end)
        ):
            return quantity.start, end
    return None
