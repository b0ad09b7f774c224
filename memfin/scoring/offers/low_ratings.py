"""Low ratings as replies put them: Ba3 by Moody's, 评级A的产业债, a bond that was cut to C and is bought."""

import re
from collections.abc import Container, Iterator
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.advice.dealing import BACKS_OUT, DEALS, ORDER, STRONG
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_JUNK: Final = r"(?:ba[123]|bb[+-]?|b[123+-]?|caa[123]?|ccc[+-]?|cc?|d)"
_END: Final = r"(?![a-z0-9+]|-[a-z0-9])"
_RATED: Final = r"\brated (?:at |only |just |now |a )?"
_CHINESE_RATED: Final = (
    r"(?:主体|债项|信用|外部|国际|国内|隐含)(?:信用)?(?:评级|级别|等级)?(?:为|是|只有|仅|才|只|在)*"
)
_WIDE_RATED: Final = (
    r"(?<!esg)(?<!基金)(?<!晨星)评级(?:为|是|只有|仅|才|只|在)*(?=[^。;!?\n]{0,24}(?:债|票据|中票|短融|城投))"
)
_GRADE: Final = rf"(?:aa[+-]?|a[+-]?|bbb[+-]?|{_JUNK}|junk|垃圾级?|投机级)"
_FALLEN: Final = late(
    rf"(?:下调|调低|调降|降级|降|砍|跌)(?:到|至|为|成)了?(?P<zh>{_GRADE})级?{_END}|"
    r"\b(?:downgraded|cut|lowered|dropped|slashed|fell|fallen|slipped|slid|sank)(?: (?:again|twice|recently|"
    rf"by [a-z&' ]{{2,12}}?))?(?: from [a-z+-]+)? to (?P<en>{_GRADE}){_END}|"
    rf"\bnow rated (?P<now>{_GRADE}){_END}"
)
_JUNK_ONLY: Final = late(rf"(?:{_JUNK}|junk|垃圾级?|投机级)")
_FELL: Final = (
    "调",
    "降",
    "砍",
    "跌到",
    "跌至",
    "跌成",
    "graded",
    "cut to",
    "lowered",
    "dropped",
    "slashed",
    "now rated",
    " to ",
)
_BOUGHT: Final = late(
    r"(?:建议|可以|不妨|我会|值得|果断|趁机|趁势|就|[,。])(?:你|我|先|再|现在|逢低|趁低|趁机|低位|"
    r"分批|少量|小仓位?)*(?:买入?|接(?![近着受])|"
    r"抄底|加仓|补仓|吸纳|建仓|上车|捡)(?![卖方家])|"
    r"\b(?:an exception for|buy|add (?:another|more|to|a|some)|pick (?:it |some |them )?up|scoop (?:it |"
    r"some |them )?up|"
    r"hold on to|average down|purchase|is a bargain|are a bargain)\b"
)
_BEHIND: Final = 24
_OTHERWISE: Final = late(
    r"卖(?!点)|赎回|减持|清仓|换[成回到]|不要|别|不碰|不买|国债|国开|利率债|政金|(?<!a)aa[a+]|高等级|"
    r"\b(?:sell\w*|offload|unload|avoid|exit|redeem|switch\w*|replace|aaa|aa\+|treasur\w+|government|"
    r"high[- ]grade|investment[- ]grade|not|never|do not|other|tempted|many|others)\b"
)


def _start(match: re.Match[str]) -> int:
    return match.start()


def fallen(analysis: Analysis, names: Container[str]) -> Iterator[tuple[str, Span]]:
    """Yield (rule, span) of bonds whose rating fell too low and which the reply buys all the same."""
    low_rated = "low_rated_credit" in names
    norm = analysis.norm
    if not (low_rated or "speculative_grade" in names) or not any(map(norm.__contains__, _FELL)):
        return
    for match in few(analysis, _FALLEN.finditer(norm), _start):
        grade = match["zh"] or match["en"] or match["now"]
        fits = grade != "aa+" if low_rated else _JUNK_ONLY.fullmatch(grade) is not None
        if not (fits or f"rating:{grade}" in names):
            continue
        for low, high in _around(analysis, match.start()):
            if _OTHERWISE.search(norm, match.end() if low <= match.end() <= high else low, high + _BEHIND):
                break
            order = _BOUGHT.search(norm, low, high)
            if order is None:
                continue
            start = order.start() + (norm[order.start()] in ",。")
            if advised(analysis, start, order.end(), act=True):
                yield "advises_downgraded_credit", match.span()
                break


_OF_IT: Final = late(
    r"\s*(?:they (?:are|were)|it is|these are|the (?:bonds?|notes?|issuer|paper) (?:are|is)|"
    r"their rating is|its rating is)\b|"
    r"(?:它|它们|这[只些家]|该|其)?的?(?:债券?|发行人|公司|企业|主体|债项)?"
)
_LOW_EN: Final = late(rf"{_RATED}(?:currently |still |just )?{_JUNK}{_END}|\b(?:rating is) {_JUNK}{_END}")
_LOW_ZH: Final = late(rf"(?:{_CHINESE_RATED})(?:{_JUNK}|a[+-]?|bbb[+-]?)级?{_END}")


def told_behind(analysis: Analysis, names: Container[str]) -> Iterator[tuple[str, Span]]:
    """Yield the low rating that a sentence tells of what the one before it would have the user buy."""
    norm = analysis.norm
    if not ("low_rated_credit" in names or "speculative_grade" in names):
        return
    if " rated " not in norm and "rating is" not in norm and "主体" not in norm and "债项" not in norm:
        return
    patterns = (_LOW_EN, _LOW_ZH) if "low_rated_credit" in names else (_LOW_EN,)
    for pattern in patterns:
        for match in few(analysis, pattern.finditer(norm), _start):
            low, high = analysis.sentence_span(match.start())
            if _OTHERWISE.search(norm, match.end(), high + _BEHIND):
                continue
            clause, _ = analysis.clause_span(*match.span())
            if low < clause and not norm[clause : match.start()].strip():
                if _recommended(analysis, norm[low:clause], low):
                    yield "advises_low_rated_credit", match.span()
                continue
            told = _OF_IT.match(norm, low, match.start())
            if not low or norm[low - 1] == "\n" or told is None or match.start() - told.end() > 1:
                continue
            before, _ = analysis.sentence_span(low - 1)
            if DEALS.search(norm, before, low) and _recommended(analysis, norm[before:low], before):
                yield "advises_low_rated_credit", match.span()


def _recommended(analysis: Analysis, head: str, start: int) -> bool:
    """Say whether words that begin at ``start`` recommend a bond."""
    order = STRONG.search(head)
    span = order.span(1) if order else (plain.span() if (plain := ORDER.match(head)) else None)
    return (
        span is not None
        and BACKS_OUT.search(head) is None
        and _DEBT.search(head) is not None
        and advised(analysis, start + span[0], start + span[1], act=True)
    )


_DEBT: Final = late(r"债|票据|\b(?:bonds?|notes?|paper|debt|issue)\b")


def _around(analysis: Analysis, position: int) -> Iterator[Span]:
    """Yield the sentence at a position, those two behind it, and the one in front of it."""
    low, high = analysis.sentence_span(position)
    yield low, high
    following = high
    for _ in range(2):
        if following >= len(analysis.norm) or analysis.norm[following - 1] == "\n":
            break
        span = analysis.sentence_span(following)
        yield span
        following = span[1]
    if low > 0 and analysis.norm[low - 1] != "\n":
        yield analysis.sentence_span(low - 1)
