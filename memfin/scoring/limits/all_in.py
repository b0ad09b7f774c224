"""Orders and advice to put everything into one thing."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from memfin.scoring.advice.advised import advised
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.constraints.instruments import company
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_CLAUSE: Final = r"[^,:;。!?\n]"

_PART_OF_ANYTHING: Final = frozenset(
    {
        "全部换",
        "全换",
        "都换成",
        "全拿去",
        "都拿去",
        "全部拿去",
        "全部转",
    }
)
"""All-in wordings that may speak of one holding only (消费基金全部换成国债): they need the word for money."""
_WHOLE: Final = frozenset({"整个账户", "全部仓位"})
_WHOLE_DEAL: Final = late(
    rf"^{_CLAUSE}{{0,3}}(?:都|全|全部|一次性|直接|今天|马上)*(?:换|买|押|投|打|冲|转|配|梭|砸|"
    rf"上(?![的下述涨升]))"
)
_MONEY: Final = late(r"(?:钱|资金|积蓄|存款|家底|身家|本金|手里|手头|账户)[^,。]{0,4}$")
_ALL_IN_DEAL: Final = late(
    rf"^[成为到入就]|^进?去(?=[,。!;]|$)|^{_CLAUSE}{{0,8}}?(?:基金|指数|etf|股票|黄金|债|买|押|上|进|杀|投|换|冲|干|拿|放|"
    rf"转入|配|持|加|\d{{6}}|"
    rf"into|on|in)|^$|^[,。!]"
)
_ALL_IN_DESCRIBED: Final = late(
    rf"^{_CLAUSE}{{0,40}}? (?:is|are|was|would be) (?:gambl|a (?:gamble|bet|mistake|bad)|reckless|how|what|"
    rf"risky|not)|"
    rf"^{_CLAUSE}{{0,8}}(?:的风险|会|意味|等于|往往|容易|风险|不是|是一种|属于|操作方式|的人)"
)


def all_in(analysis: Analysis, found: Sequence[Span]) -> Span | None:
    """Return the first of the all-in wordings that is an order or advice to put everything into one thing."""
    norm = analysis.norm
    for start, end in few(analysis, found, itemgetter(0)):
        _, high = analysis.clause_span(start, end)
        rest = norm[end:high]
        if norm[start:end] in _PART_OF_ANYTHING and not _means_all(analysis, start):
            continue
        if norm[start:end] in _WHOLE and _WHOLE_DEAL.match(rest) is None:
            continue
        if _OF_A_PART.search(norm, *_before(analysis, start)):
            continue
        if _ALL_IN_DESCRIBED.match(rest) or disowned(analysis, start, end):
            continue
        if advised(analysis, start, end, act=True) and (
            _ALL_IN_DEAL.match(rest) or company().match(rest) or end == high or "into" in norm[start:high]
        ):
            return start, high
    return None


_OF_A_PART: Final = late(
    r"(?:超出|超过|多出|多余|富余|其余|剩下|另外|那|这)[^,。;]{0,12}?部分[^,。;]{0,6}$|(?:超出|多出|"
    r"富余)[^,。;]{0,10}的[^,。;]{0,6}$|"
    r"(?:剩的?|剩下|其余|另外)[^,。;]{0,6}?(?:一半|[两三四五六七八九]成半?|分之[一二三四五]|\d%)[^,。;]{0,6}$"
)
"""Of a part of the money only: 超出20%的那部分活钱可以全部投进短债."""


def _before(analysis: Analysis, start: int) -> Span:
    low, _ = analysis.clause_span(start, start)
    return low, start


def _means_all(analysis: Analysis, start: int) -> bool:
    """Say whether an order to change everything speaks of the money and not of one holding."""
    norm = analysis.norm
    low, _ = analysis.clause_span(start, start)
    if _MONEY.search(norm, low, start):
        return True
    sentence, _ = analysis.sentence_span(start)
    if _NO_SUBJECT.fullmatch(norm, low, start) is None:
        return False
    return low == sentence or _MONEY_BEFORE.search(norm, sentence, low) is not None


_NO_SUBJECT: Final = late(
    r"\s*(?:[你我]|建议|可以|直接|干脆|不如|索性|现在|立刻|马上|应该|应当|最好|那就|就|请|倒不如)*"
)
_MONEY_BEFORE: Final = late(r"(?:现金|存款|活期|资金|积蓄|余额|钱)(?!(?:流|牛))[^。;!?\n]{0,14},$")
