"""Advised weights: which share of the money a reply puts where.

Weights are read from running text (股票45%、债券35%; 40% in one dividend ETF; 把三分之二放到权益类), lists,
table rows, stock-bond ratios (股六债四) and remainders (其余全放现金); `memfin.scoring.roles` tells which
shares are weights at all. All offsets count in ``Analysis.norm``.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Final

from memfin.scoring.language import Analysis
from memfin.scoring.patterns import apart, compile_pattern
from memfin.scoring.quantities import Quantity
from memfin.scoring.ratios import ratios
from memfin.scoring.roles import is_raised, may_weigh, moved_to, role_of
from memfin.scoring.sharing import EACH, HALF_EACH, divided_among, holders
from memfin.scoring.weight import Label, Weight

_BREAK: Final = compile_pattern(
    r"[,、;。!?\n|]|(?<!固收)\+|(?:和|与|及|以及|搭配|再配|外加|\band\b|"
    r"\bplus\b)(?=[约大概各\s]*[\d一二两三四五六七八九])|\band (?:put |invest |keep )?the (?:rest|"
    r"remainder|other)\b"
)
_PART: Final = compile_pattern(
    r"(?:剩余|其余|余下|剩下)的?(?:钱|资金)(?![^,。;]{0,4}[放买配投进留存])|(?:债券|债|权益|股票|固收|"
    r"投资|基金|剩余|其余|余下|这|那|核心|卫星|进攻|防守|这一|这块|"
    r"该)(?:的)?(?:部分|仓|块|桶)(?:这样|里|中|内|的|再|按|分|拿|:|,)|其中|(?<![万元块千])里面|"
    r"(?:在权益|权益|股票|债券|固收)(?:仓位)?[中里内](?=[^,。;]{0,12}$)"
    r"|\bwithin the\b|\bof the (?:bond|equity|stock) (?:part|sleeve|portion)\b"
)
_ALTERNATIVE: Final = compile_pattern(
    r"(?:保守|稳健|平衡|均衡|进取|积极|激进|成长|防御|增强)(?:型|派|版|方案|模型|组合)|"
    r"方案[一二三四abc123]|[一二三四abc123]方案|情形[一二三abc]|模型\(|"
    r"(?:option|plan|scenario|model) [abc123]|\b(?:conservative|balanced|aggressive)\b"
)
_REST: Final = compile_pattern(
    r"(?:剩下|剩余|其余|余下|零头|其[他它](?=的?(?:都|全|统统|部分|资金|钱|放|买|给|配|留|"
    r"存)))(?:的)?(?:资金|部分|钱|一块|那块|这块|份额)?(?:我想|我会|可以|"
    r"就)?(?:全部?|都|统统)?(?:的)?"
    r"(?:放|配|买|投|留|做|换|存|给)?|\b(?:rest|remainder|(?<=the )balance)\b(?: goes)?(?: in| into| on| to)?"
)
_BARE_VERB: Final = re.compile(
    r"\s*(?:[您你])?(?:建议|可以|可|我会|不妨)?(?:占比|仓位|比例)?(?:可以|可|能|大概)?(?:大约|约)?(?:占|"
    r"配|各|配到|"
    r"配置|拿|"
    r"放|买|最多|先配|到|提到|加到|给到|放到|留个?|留着|留出|剩|压到|降到|减到|投|拨|给|安排|分配)?(?:个|"
    r"上|点|了|到)?(?:(?:家庭|总|全部|可投|金融|您的?)*(?:资产|资金|组合|本金)的?)?\s*"
)
_CHANGED: Final = re.compile(r"\s*(?:降|减|压|提高?|升|加|调)(?:到|至)\s*| (?:down |up )?to ")
_THIS_PART: Final = re.compile(r"\s*(?:左右)?,(?:这|该)(?:部分|笔钱?|块|些钱?)[^,。;]{0,4}?[放存买配]")
_PRONOUN: Final = re.compile(r"它|其|\bit\b|\bthat\b")
_GAP: Final = 160
_FAR: Final = 32
_WHOLE: Final = 1.0
_DECIDED: Final = frozenset({"target", "reduced", "total"})
_COMPLETE: Final = 0.95


def weights(  # noqa: C901 - one step a question
    analysis: Analysis,
    shares: Sequence[Quantity],
    found: Sequence[Label],
    candidates: Collection[Quantity] | None = None,
) -> list[Weight]:
    """Return the weights among the shares of a reply, in order; ``found`` are its class words, in order.

    ``candidates`` are the shares that `memfin.scoring.roles.may_weigh` lets pass, where that is known.
    """
    norm = analysis.norm
    if candidates is None:
        candidates = {share for share in shares if may_weigh(norm, share)}
    starts = [label.start for label in found]
    result: list[Weight] = []
    group, last_end, rows = 0, 0, _plan_rows(analysis, shares)
    after_style: dict[int, bool] = {}
    parts = _breakdowns(analysis, shares)
    for index, share in enumerate(shares):
        if not 0 < share.low <= share.high <= _WHOLE or share not in candidates:
            continue
        if index and share.unit == "一半" and HALF_EACH.search(norm, shares[index - 1].end, share.start):
            continue
        low, high = _segment(norm, shares, index, analysis)
        role = role_of(analysis, share, low, high)
        if role is None:
            continue
        label = _class_moved_to(analysis, share, found, starts) if role == "added" else None
        if role == "reduced" and _PRONOUN.search(norm, low, share.start):
            label = _class_before(analysis, share, found, starts)
        label = label or _label(norm, share, (low, high), found, starts, after_style, analysis)
        if label is None and (role in ("added", "reduced") or is_raised(norm[low : share.start])):
            label = _class_in_front(analysis, share, result, found, starts)
        if label is None and _EQUITY_TEXT.search(norm, low, high):
            label = "equity"
        if label in ("cash", "bond") and _is_yield(norm, share, low, high):
            continue
        new_row = analysis.sentence_at(share.start) in rows and "\n" in norm[last_end : share.start]
        if result and (new_row or _separate(norm, last_end, share.start)):
            group += 1
        last_end = share.end
        if role == "target" and share in parts:
            role = "part"
        topic = _topic(norm, low, share.start, analysis)
        divisor = divided_among(analysis, share)
        each = divisor > 1 or EACH.search(norm, topic, high) is not None
        count = divisor
        if each and divisor == 1:
            count, topic = holders(analysis, share, (low, topic, high), found, starts)
        size = share.low / divisor, share.high / divisor
        text = norm[topic:high]
        result.append(Weight(label, *size, share.start, share.end, text, role, group, each, count))
    from_ratios = ratios(analysis, shares, found, starts, group + 1)
    result = [
        weight for weight in result if not any(each.start <= weight.start < each.end for each in from_ratios)
    ]
    result.extend(from_ratios)
    result.extend(_remainders(analysis, result, found, starts))
    return sorted(result, key=lambda weight: weight.start)


def _class_moved_to(
    analysis: Analysis, share: Quantity, found: Sequence[Label], starts: Sequence[int]
) -> str | None:
    """Return the class of what a share is moved to."""
    first = moved_to(analysis, share)
    if first is None:
        return None
    _, high = analysis.clause_span(share.start, share.end)
    named = found[bisect_left(starts, first - 1) : bisect_left(starts, high)]
    return named[0].asset_class if named else None


def _class_before(
    analysis: Analysis, share: Quantity, found: Sequence[Label], starts: Sequence[int]
) -> str | None:
    """Return the class that a pronoun stands for: cash is dead money, take it down to 3%."""
    low, _ = analysis.sentence_span(share.start)
    before, _ = analysis.sentence_span(max(low - 1, 0))
    clause_low, _ = analysis.clause_span(share.start, share.end)
    earlier = found[bisect_left(starts, before) : bisect_left(starts, clause_low)]
    return earlier[-1].asset_class if earlier else None


def _class_in_front(
    analysis: Analysis,
    share: Quantity,
    result: Sequence[Weight],
    found: Sequence[Label],
    starts: Sequence[int],
) -> str | None:
    """Return the class of a change without a name of its own: 股票15%,可以再提高10个百分点."""
    low, _ = analysis.sentence_span(share.start)
    earlier = found[bisect_left(starts, low) : bisect_left(starts, share.start)]
    if earlier:
        return earlier[-1].asset_class
    held = {weight.asset_class for weight in result if weight.role == "held"}
    return held.pop() if len(held) == 1 else None


_EQUITY_TEXT: Final = re.compile(
    r"指数(?![债存])|成长股|价值股|蓝筹|龙头股|\b(?:large|mid|small)[- ]caps?\b|\bemerging\b|"
    r"\b(?:japan(?:ese)?|europe(?:an)?|us|uk|asian?|"
    r"global|world|international|domestic) (?:fund|index|tracker|etf|shares)\b|s&p|nasdaq"
)
"""What names stocks where no word of the vocabulary does."""
_SIZE_WORD: Final = re.compile(r"[占配仓放留]|存(?=[入进放着])|比例|权重|weight|allocat|put|keep|leave")
_HIGHEST_YIELD: Final = 0.06
_HIGHEST_COUPON: Final = 0.085


def _is_yield(norm: str, share: Quantity, low: int, high: int) -> bool:
    """Say whether a bond's or cash's share is its yield: a few percent, not whole, no word of size."""
    if share.high < _HIGHEST_COUPON and norm.endswith(" at ", 0, share.start):
        return True
    whole = all(round(value * 100, 6).is_integer() for value in (share.low, share.high))
    return not whole and share.high < _HIGHEST_YIELD and _SIZE_WORD.search(norm, low, high) is None


def _plan_rows(analysis: Analysis, shares: Sequence[Quantity]) -> frozenset[int]:
    """Return the sentences that are table rows with several shares: each row is a plan of its own."""
    counts: dict[int, int] = {}
    for share in shares:
        sentence = analysis.sentence_at(share.start)
        counts[sentence] = counts.get(sentence, 0) + 1
    return frozenset(
        sentence
        for sentence, count in counts.items()
        if count > 1 and analysis.line_kind(analysis.bounds[sentence]) == "row"
    )


_OPENS: Final = re.compile(r"\||\(|其中|:|——")
_SAME: Final = 0.006


def _breakdowns(analysis: Analysis, shares: Sequence[Quantity]) -> frozenset[Quantity]:
    """Return the shares that only divide the one before them: 权益 | 22% | 沪深300 12%、红利低波 10%."""
    by_sentence: dict[int, list[Quantity]] = {}
    for share in shares:
        by_sentence.setdefault(analysis.sentence_at(share.start), []).append(share)
    return frozenset(
        part
        for first, *rest in by_sentence.values()
        if len(rest) > 1
        and abs(sum(part.low for part in rest) - first.low) < _SAME
        and _OPENS.search(analysis.norm, first.end, rest[0].start)
        for part in rest
    )


def _segment(norm: str, shares: Sequence[Quantity], index: int, analysis: Analysis) -> tuple[int, int]:
    """Return the stretch around a share that can hold its label; a table row is one stretch."""
    share = shares[index]
    low, high = analysis.sentence_span(share.start)
    row = analysis.line_kind(share.start) == "row"
    if row:
        return low, max(share.end, min(high, share.end + 40))
    left, right = low, high
    if index and shares[index - 1].end > low:
        left = shares[index - 1].end
    if index + 1 < len(shares) and shares[index + 1].start < high:
        right = shares[index + 1].start
    for match in apart(_BREAK, norm, left, share.start):
        left = match.end(1)
    after = _BREAK.search(norm, share.end, right)
    return left, after.start() if after else right


def _topic(norm: str, low: int, start: int, analysis: Analysis) -> int:
    """Return where the label begins; a bare verb (配四成) has it in the clause before."""
    sentence_low, _ = analysis.sentence_span(start)
    if _CHANGED.fullmatch(norm, low, start):
        return max(sentence_low, start - _FAR)
    if low <= sentence_low or norm[low - 1] != "," or not _BARE_VERB.fullmatch(norm, low, start):
        return low
    previous = max(norm.rfind(mark, sentence_low, low - 1) for mark in ",、:")
    return max(previous + 1, sentence_low)


def _label(  # noqa: PLR0911 - one return a position
    norm: str,
    share: Quantity,
    segment: tuple[int, int],
    found: Sequence[Label],
    starts: Sequence[int],
    after_style: dict[int, bool],
    analysis: Analysis,
) -> str | None:
    low, high = segment
    sentence = analysis.sentence_at(share.start)
    if _ONE_OF.match(norm, low, share.start):
        return _class_of_several(analysis, share, found, starts)
    inside = found[bisect_left(starts, low) : bisect_left(starts, high)]
    before = [label for label in inside if label.end <= share.start]
    after = [label for label in inside if label.start >= share.end]
    if analysis.line_kind(share.start) == "row":
        return (before or after)[0].asset_class if inside else None
    if before and not after_style.get(sentence):
        after_style.setdefault(sentence, False)
        return before[-1].asset_class
    if after:
        after_style.setdefault(sentence, True)
        return after[0].asset_class
    if before:
        moved = "把" in norm[low : share.start] or "将" in norm[low : share.start]
        return before[-1].asset_class if moved else None
    following = _THIS_PART.match(norm, share.end)
    if following is not None:
        _, next_high = analysis.clause_span(following.end(), following.end())
        later = found[bisect_left(starts, following.end() - 1) : bisect_left(starts, next_high)]
        return later[0].asset_class if later else None
    if _CHANGED.fullmatch(norm, low, share.start):  # 现金可以从20%降到10%
        sentence_low, _ = analysis.sentence_span(share.start)
        if _PRONOUN.search(norm, sentence_low, share.start) and sentence_low:
            sentence_low, _ = analysis.sentence_span(sentence_low - 1)
        earlier = found[bisect_left(starts, sentence_low) : bisect_left(starts, low)]
        return earlier[-1].asset_class if earlier else None
    # 红利基金那部分,占30%: the label stands in the clause before.
    clause_low, _ = analysis.clause_span(share.start, share.end)
    sentence_low, _ = analysis.sentence_span(share.start)
    if low >= clause_low > sentence_low and _BARE_VERB.fullmatch(norm, low, share.start):
        earlier = found[bisect_left(starts, sentence_low) : bisect_left(starts, low)]
        return earlier[-1].asset_class if earlier else None
    return None


_ONE_OF: Final = re.compile(
    r"\s*(?:其中|另外?|[和与])?(?:[一每各另]|第[一二三四])(?:外)?[只个支家](?:各|"
    r"都)?[占放配给买投约上]*(?:\d|[一两二三四五六七八九半])?\s*$|"
    r"\s*(?:one|another|the (?:first|second|third|other)|each)(?: one)?(?: at| gets| takes)? $"
)
"""Before a share that one of several holdings has: 偏股的挑两只, 一只三成, 一只两成半."""


def _class_of_several(
    analysis: Analysis, share: Quantity, found: Sequence[Label], starts: Sequence[int]
) -> str | None:
    """Return the one class that the sentence names before the share, else behind it up to a rest."""
    norm = analysis.norm
    low, high = analysis.sentence_span(share.start)
    before = found[bisect_left(starts, low) : bisect_left(starts, share.start)]
    if before:
        return before[-1].asset_class
    rest = re.search(r"剩|其余|余下|\brest\b|remain", norm[share.end : high])
    end = share.end + rest.start() if rest else high
    after = found[bisect_left(starts, share.end) : bisect_left(starts, end)]
    return after[0].asset_class if len({label.asset_class for label in after}) == 1 else None


def _separate(norm: str, end: int, start: int) -> bool:
    gap = norm[end:start]
    return len(gap) > _GAP or "\n#" in gap or _ALTERNATIVE.search(gap) is not None


def alternatives(analysis: Analysis, found: Sequence[Weight]) -> bool:
    """Say whether the groups of weights are plans to choose from instead of one plan."""
    first: dict[int, int] = {}
    for weight in found:
        first.setdefault(weight.group, weight.start)
    complete = sum(
        sum(weight.low for weight in found if weight.group == group and weight.role == "target") >= _COMPLETE
        for group in first
    )
    if complete > 1:
        return True
    marked, last = 0, 0
    for start in sorted(first.values()):
        marked += _ALTERNATIVE.search(analysis.norm, max(last, start - 200), start) is not None
        last = start
    return len(first) > 1 and marked > 1


def is_part(analysis: Analysis, group: Sequence[Weight]) -> bool:
    """Say whether the weights divide a part of the money (债券部分这样配) and not the whole."""
    low, _ = analysis.sentence_span(group[0].start)
    return _PART.search(analysis.norm, low, group[0].start) is not None


def names_rest(norm: str) -> bool:
    """Say whether the reply may say what becomes of the rest."""
    return any(
        word in norm
        for word in ("剩", "其余", "余下", "零头", "其他", "其它", "rest ", "remain", "the balance")
    )


def _remainders(
    analysis: Analysis, found: Sequence[Weight], words: Sequence[Label], starts: Sequence[int]
) -> list[Weight]:
    norm = analysis.norm
    result: list[Weight] = []
    if not found or not names_rest(norm):
        return result
    for match in apart(_REST, norm):
        start, end = match.span(1)
        _, high = analysis.clause_span(start, end)
        if any(start <= weight.start < high for weight in found):
            continue
        inside = words[bisect_left(starts, end) : bisect_left(starts, high)]
        earlier = [weight for weight in found if weight.end <= start and weight.role in _DECIDED]
        if not inside or not earlier or start - earlier[-1].end > _GAP:
            continue
        group = [weight for weight in earlier if weight.group == earlier[-1].group]
        rest = _WHOLE - sum(weight.low * weight.holdings for weight in group)
        if (
            0 < rest < _WHOLE
            and not is_part(analysis, group)
            and len({label.asset_class for label in inside}) == 1
        ):
            text = norm[start:high]
            result.append(
                Weight(
                    inside[0].asset_class,
                    rest,
                    rest,
                    start,
                    high,
                    text,
                    "target",
                    group[0].group,
                    each=False,
                )
            )
    return result
