"""Advised weights: which share of the money a reply puts where.

Weights are read from running text (股票45%、债券35%; 40% in one dividend ETF; 把三分之二放到权益类), lists,
table rows, stock-bond ratios (股六债四) and remainders (其余全放现金); `roles` beside it tells which
shares are weights at all. All offsets count in ``Analysis.norm``.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Final

from memfin.scoring.numbers.quantities import Quantity
from memfin.scoring.patterns.expressions import apart, compile_pattern, late
from memfin.scoring.text.language import Analysis
from memfin.scoring.weights.candidates import may_weigh
from memfin.scoring.weights.nested import nested
from memfin.scoring.weights.parts import breakdowns, of_parents
from memfin.scoring.weights.plans import plan_rows, separate
from memfin.scoring.weights.proportions import proportions
from memfin.scoring.weights.ratios import ratios
from memfin.scoring.weights.rests import remainders
from memfin.scoring.weights.roles import is_raised, moved_to, role_of
from memfin.scoring.weights.sharing import EACH, HALF_EACH, divided_among, holders
from memfin.scoring.weights.weight import Label, Weight

_BREAK: Final = compile_pattern(
    r"[,、;。!?\n|]|(?<!固收)(?<!t)\+|(?<=[%成半]) ?/| ?/ ?(?=\d{1,2}(?:\.\d+)?%)| / |"
    r"(?:和|与|及|搭配|再配|外加|\band\b|\bplus\b)(?=[约大概各\s]*[\d一二两三四五六七八九])|"
    r"\band (?:[a-z]+ )?(?:the (?:rest|remainder|other|"
    r"balance|two|three|four|five)|"
    r"what(?:ever)?(?: is|'s|) (?:left|remains))\b"
)
_BARE_VERB: Final = late(
    r"\s*(?:也就是|也即|相当于|约合|折合)?你?(?:建议|可以|可|我会|不妨)?(?:占比|仓位|比例|权重|持仓|"
    r"份额)?(?:可以|可|能|大概)?(?:约)?(?:占|"
    r"(?:控制|保持|维持|安排|浮动|活动)?在|配|各|配到|"
    r"配置|拿|"
    r"放|买|最多|先配|到|提到|加到|给到|放到|做到|打到|上到|拉到|升到|调到|留个?|留着|留出|剩|压到|降到|"
    r"减到|投|拨|给|安排|分配)?(?:个|"
    r"上|点|了|到)?(?:(?:家庭|总|全部|可投|金融|你(?:自己)?的?)*(?:资产|资金|组合|本金)的?)?\s*"
)
_RESTATED: Final = late(
    r"(?:左右|多一?点?|出头|不到|上下)?,(?:也就是|也即|即|相当于|约合|"
    r"折合)[^,。;\d一二两三四五六七八九十半]{0,8}"
)
"""Between a share and the same one in other words: 一成多一点,也就是12%."""
_CHANGED: Final = late(r"\s*(?:(?:降|减|压|提高?|升|加|调)(?:到|至)|变[成为])\s*| (?:down |up )?to ")
_THIS_PART: Final = late(
    r"\s*(?:左右|上下)?,(?:(?:这|该)(?:部分|笔钱?|块|些钱?)[^,。;]{0,4}?[放存买配]|"
    r"(?:可以|建议|不妨|全部?|都|全部|一次性)*(?:交给|放[进到入在]|投[进到向入]|换成|用来|拿来|拿去|"
    r"集中[到在]))"
)
_GOES_THERE: Final = frozenset(",左上")
_ENOUGH_OF_IT: Final = late(
    r" (?:of (?:it|that) )?(?:is|would be|will be) (?:the right|plenty|enough|ample|sufficient|fine)\b|"
    r"(?:左右|上下|以内)?(?:就|便|也)?(?:够了|足够|合适|正好|够用|差不多|行了)"
)
_PRONOUN: Final = late(r"它|其|\bit\b|\bthat\b")
_FAR_OF: Final = 3
_FAR: Final = 32
_WHOLE: Final = 1.0


def weights(  # noqa: C901, PLR0912, PLR0915 - one step a question
    analysis: Analysis,
    shares: Sequence[Quantity],
    found: Sequence[Label],
    candidates: Collection[Quantity] | None = None,
) -> list[Weight]:
    """Return the weights among the shares of a reply, in order; ``found`` are its class words, in order.

    ``candidates`` are the shares that `roles.may_weigh` lets pass, where that is known.
    """
    norm = analysis.norm
    if candidates is None:
        candidates = {share for share in shares if may_weigh(norm, share)}
    starts = [label.start for label in found]
    result: list[Weight] = []
    group, last_end, rows = 0, 0, plan_rows(analysis, [share for share in shares if share in candidates])
    after_style: dict[int, bool] = {}
    parts = breakdowns(analysis, shares)
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
        clause_low, _ = analysis.clause_span(share.start, share.end)
        if role == "reduced" and _PRONOUN.search(norm, clause_low, share.start):
            label = _class_before(analysis, share, found, starts)
        label = label or _label(norm, share, (low, high), found, starts, after_style, analysis)
        if label is None and role == "target" and _ENOUGH_OF_IT.match(norm, share.end):
            label = _class_before(analysis, share, found, starts)
        if label is None and (role in ("added", "reduced") or is_raised(norm[low : share.start])):
            label = _class_in_front(analysis, share, result, found, starts)
        if label is None and EQUITY_TEXT.search(norm, low, high):
            label = "equity"
        if label is None:
            label = _class_of_parent(norm, share, found, starts)
        if label in ("cash", "bond") and _is_yield(norm, share, low, high):
            continue
        new_row = analysis.sentence_at(share.start) in rows and "\n" in norm[last_end : share.start]
        if result and (new_row or separate(analysis, last_end, share.start)):
            group += 1
        last_before, last_end = last_end, share.end
        told_again = result and _RESTATED.fullmatch(norm, result[-1].end, share.start)
        if told_again or (role == "held" and _newer_column(analysis, result, share)):
            result.pop()
        if role == "target" and share in parts:
            role = "part"
        if role == "total" and label is None and len(found) > bisect_left(starts, last_before):
            # 另外挑几只高股息股票,合计两成: the sum of what has no weights of its own.
            own = found[
                bisect_left(starts, max(last_before, analysis.sentence_span(share.start)[0])) : bisect_left(
                    starts, share.start
                )
            ]
            if len({each.asset_class for each in own}) == 1:
                label, role = own[0].asset_class, "target"
        own_name = bisect_left(starts, share.end) < bisect_left(starts, high)
        topic = _topic(analysis, share, (low, high), own=own_name)
        divisor = divided_among(analysis, share)
        each = divisor > 1 or _has_each(norm, share, topic, high)
        count = divisor
        if each and divisor == 1:
            count, topic = holders(analysis, share, (low, topic, high), found, starts)
        size = share.low / divisor, share.high / divisor
        following = (
            _THIS_PART.match(norm, share.end) if norm[share.end : share.end + 1] in _GOES_THERE else None
        )
        if following is not None:
            high = analysis.clause_span(following.end(), following.end())[1]
        text = norm[topic:high]
        result.append(Weight(label, *size, share.start, share.end, text, role, group, each, count))
    result = nested(analysis, of_parents(analysis, result), found)
    from_ratios = ratios(analysis, shares, found, starts, group + 1)
    from_ratios = proportions(analysis, found, result, from_ratios, group + 1 + len(from_ratios))
    result = [
        weight for weight in result if not any(each.start <= weight.start < each.end for each in from_ratios)
    ]
    result.extend(from_ratios)
    result.extend(remainders(analysis, result, found, starts))
    return sorted(result, key=lambda weight: weight.start)


def _newer_column(analysis: Analysis, result: Sequence[Weight], share: Quantity) -> bool:
    """Say whether a row that tells what is held gives it once more, of a later day."""
    return (
        bool(result)
        and result[-1].role == "held"
        and analysis.line_kind(share.start) == "row"
        and analysis.sentence_at(result[-1].start) == analysis.sentence_at(share.start)
    )


def _has_each(norm: str, share: Quantity, topic: int, high: int) -> bool:
    """Say whether several holdings have the share each; 四成拆成两只各20% says so of the share behind."""
    match = EACH.search(norm, topic, high)
    if match is None or match.start(1) < share.end or match.end(1) < high - 1:
        return match is not None
    return not norm[high : high + 1].isalnum()


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


_SECTOR_NAME: Final = (
    "医药|医疗|创新药|消费|科技|军工|新能源|半导体|芯片|白酒|券商|煤炭|有色|光伏|互联网|人工智能|"
    "食品饮料|家电|机器人|红利低波"
)
_BARE_LINE: Final = late(
    r" *(?:[-*•·▪➤]|\d{1,2}[.)、])? *(?:建议|目标|参考|配置|推荐)?(?:比例|占比|仓位|权重|配比|份额|weight|"
    r"allocation|share|target)"
    r"(?: of (?:the )?portfolio)?[ :约为在]*(?:about |around )?"
)
BARE_LINES: Final = late(
    r"\n *(?:[-*•·▪➤])? *(?:建议|目标|参考|配置|推荐)?(?:比例|占比|仓位|权重|配比|份额|weight|allocation|"
    r"share|target) ?:"
)
"""Lines that give nothing but the share of what a line above names."""
_FACT_LINE: Final = late(r" *(?:[-*•·▪➤])? *[^\n:]{1,10}:")
_PARENTS: Final = 4


def _class_of_parent(norm: str, share: Quantity, found: Sequence[Label], starts: Sequence[int]) -> str | None:
    """Return the class that a line names above the line that gives its share alone: 比例:30%."""
    line = norm.rfind("\n", 0, share.start) + 1
    if _BARE_LINE.fullmatch(norm, line, share.start) is None:
        return None
    for _ in range(_PARENTS):
        if line == 0:
            return None
        end, line = line - 1, norm.rfind("\n", 0, line - 1) + 1
        if not norm[line:end].strip() or _FACT_LINE.match(norm, line, end):
            continue
        own = found[bisect_left(starts, line) : bisect_left(starts, end)]
        if own:
            return own[-1].asset_class
        return "equity" if EQUITY_TEXT.search(norm, line, end) else None
    return None


EQUITY_TEXT: Final = late(
    rf"(?<![\u4e00-\u9fff])(?:{_SECTOR_NAME})(?:板块|行业|主题|类|"
    rf"赛道)?(?=[ :|(约占放配给拿各留到的比例为]*[\d一二两三四五六七八九半])|"
    rf"(?<=[%成半的给放配买到入进])(?:{_SECTOR_NAME})(?:板块|行业|主题|类|赛道)?(?![\u4e00-\u9fff])|"
    rf"(?<=\|)(?:{_SECTOR_NAME})(?=[,|(])|"
    r"(?<![a-z] )\b(?:tech(?:nology)?|health ?care|consumer staples|utilities|energy|financials|"
    r"industrials)(?=[ :|at]*\d)|"
    r"指数(?![债存])|(?<!转)(?<!或)(?<!非)(?:自选股|个股|股票)(?!市场|账户|[质代])|(?:行业|主题|赛道)混合|"
    r"(?<![\u4e00-\u9fff])股(?=[ :]?[\d一二三四五六七八九约占])|"
    r"[长价龙白绩小大权]\S?股(?!息|东|价|权)|蓝筹|进攻(?:资产|仓|端|部分)|\b(?:large|mid|small)[- ]caps?\b|"
    r"\bemerging\b|"
    r"\b(?:japan(?:ese)?|europe(?:an)?|us|uk|asian?|"
    r"global|world|international|domestic) (?:fund|index|tracker|etf|shares)\b|s&p|nasdaq|"
    r"\bin (?:the )?(?:us|u\.s\.|uk|europe|japan|china|india|asia|america)\b(?! (?:bonds|debt|treasur))"
)
"""What names stocks where no word of the vocabulary does."""
_SIZE_WORD: Final = late(r"[占配仓放留]|存(?=[入进放着])|比例|权重|weight|allocat|put|keep|leave")
_HIGHEST_YIELD: Final = 0.06
_HIGHEST_COUPON: Final = 0.085


def _is_yield(norm: str, share: Quantity, low: int, high: int) -> bool:
    """Say whether a bond's or cash's share is its yield: a few percent, not whole, no word of size."""
    if share.high < _HIGHEST_COUPON and norm.endswith(" at ", 0, share.start):
        return True
    whole = all(round(value * 100, 6).is_integer() for value in (share.low, share.high))
    return not whole and share.high < _HIGHEST_YIELD and _SIZE_WORD.search(norm, low, high) is None


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
    left = _before_note(norm, low, left, share.start)
    after = _BREAK.search(norm, share.end, right)
    return left, after.start() if after else right


def _before_note(norm: str, low: int, left: int, start: int) -> int:
    """Return where a label begins that a note in brackets parts from its share: 宽基(年化5%,费率低):30%."""
    closed = norm.find(")", left, start)
    if closed < 0 or "(" in norm[left:closed]:
        return left
    opened = norm.rfind("(", low, left)
    if opened < 0:
        return left
    first = low
    for match in apart(_BREAK, norm, low, opened):
        first = match.end(1)
    return first


def _topic(analysis: Analysis, share: Quantity, segment: tuple[int, int], *, own: bool) -> int:
    """Return where the label begins; a bare verb (配四成) has it in the clause before."""
    norm, (low, high) = analysis.norm, segment
    start, end = share.start, share.end
    sentence_low, _ = analysis.sentence_span(start)
    if _CHANGED.fullmatch(norm, low, start):
        return max(sentence_low, start - _FAR)
    if not norm[low:start].strip():
        own = own or bool(norm[end:high].strip(" 左右的,"))
    if own or low <= sentence_low or norm[low - 1] != "," or not _BARE_VERB.fullmatch(norm, low, start):
        return low
    previous = max(norm.rfind(mark, sentence_low, low - 1) for mark in ",、:")
    return max(previous + 1, sentence_low)


def _label(  # noqa: C901, PLR0911 - one return a position
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
    if after and norm.startswith("的", share.end) and after[0].start - share.end < _FAR_OF:
        return after[0].asset_class
    if before and not after_style.get(sentence):
        after_style.setdefault(sentence, False)
        return before[-1].asset_class
    if after:
        after_style.setdefault(sentence, True)
        return after[0].asset_class
    if before:
        return before[-1].asset_class if _HANDLED.search(norm, low, share.start) else None
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


_ONE_OF: Final = late(
    r"\s*(?:其中|另外?|[和与])?(?:[一每各另]|第[一二三四])(?:外)?[只个支家](?:各|"
    r"都)?[占放配给买投约上]*(?:\d|[一两二三四五六七八九半])?\s*$|"
    r"\s*(?:one|another|the (?:first|second|third|other)|each)(?: one)?(?: at| gets| takes)? $"
)
"""Before a share that one of several holdings has: 偏股的挑两只, 一只三成, 一只两成半."""


_HANDLED: Final = late(
    r"把|将|(?:提|加|升|降|减|压)[高低]?到|\b(?:tak|bring|lift|rais|mov|cut|reduc|trim|lower|"
    r"increas)\w* [a-z -]{2,24}\b(?:from|to)\b"
)


def _class_of_several(
    analysis: Analysis, share: Quantity, found: Sequence[Label], starts: Sequence[int]
) -> str | None:
    """Return the one class that the sentence names before the share, else behind it up to a rest."""
    norm = analysis.norm
    low, high = analysis.sentence_span(share.start)
    before = found[bisect_left(starts, low) : bisect_left(starts, share.start)]
    if before:
        return before[-1].asset_class
    rest = re.search(r"剩|其余|剩下|\brest\b|remain", norm[share.end : high])
    end = share.end + rest.start() if rest else high
    after = found[bisect_left(starts, share.end) : bisect_left(starts, end)]
    return after[0].asset_class if len({label.asset_class for label in after}) == 1 else None
