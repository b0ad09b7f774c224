"""Which of two kinds of funds a reply picks, where it tells what each costs: active, not the tracker."""

import re
from collections.abc import Iterator
from typing import Final

from memfin.scoring.advice.refusal import rejected
from memfin.scoring.attribution.disowning import disowned
from memfin.scoring.patterns.expressions import late
from memfin.scoring.text.language import Analysis
from memfin.scoring.text.tries import few

Span = tuple[int, int]
"""Half-open offsets into ``Analysis.norm``."""

_APART: Final = 0.7
"""What costs more than another thing does by this factor is the dearer one."""
_KIND: Final = (
    r"(?:(?P<active>主动|明星|老将|名将|\bactive(?:ly[- ]managed)?\b|\bmanaged\b|\bstar\b|\bmanager\b)|"
    r"(?P<enhanced>增强|指增|\benhanced\b)|"
    r"(?P<index>指数(?!增强)|宽基(?!增强)|etf|联接|被动|\btrackers?\b|\bindex\b|\bpassive\b)|"
    r"(?P<many>fof|\bfund of funds\b|投顾)|(?P<ashare>a类|a份额)|(?P<cshare>c类|c份额))"
)
_FIGURE: Final = late(r"(?<![\d.,])(\d(?:\.\d{1,2})?)\s?%(?!的?(?:仓位|资金|收益|回报|涨|跌))")
_OF_FEES: Final = late(
    r"费|差[^,。;]{0,4}个?点|贵|[一每]年要?(?:只)?[收扣]|\b(?:fees?|charg\w*|costs?|expenses?|a year|dear|"
    r"pricey|cheap\w*)\b"
)
_KIND_BEFORE: Final = late(_KIND)
_KIND_BEHIND: Final = late(
    rf"\s?(?:a year |per year |yearly )?(?:的(?:那[只个款])?|(?:for|on|in|at) (?:the|an?|your) )?(?:plain |"
    rf"broad |low-cost |simple |普通|同类)?{_KIND}"
)
_PICK: Final = late(
    rf"(?:建议|推荐|倾向于?|首选|看好|选(?!哪|择题)|买(?!卖)|用|放进|投进|换成|还是(?=选|建议|买|用|推荐))"
    rf"(?:你|直接|仍|就|都|把钱|把|继续|选择?|买|用|配|放进?|投|到|给|全部|那[只个款]|这[只个款]|在|"
    rf"一只)*{_KIND}|"
    rf"\b(?:take|choose|pick|buy|purchase|go (?:for|with)|stick with|use|keep|prefer|favou?r|recommend|"
    rf"suggest|"
    rf"own|hold) (?:(?:the|an?|that|your) )?(?:[a-z]+ )?{_KIND.replace('?P<', '?P<en_')}"
)
_REACH: Final = 160


def _kind(match: re.Match[str]) -> str:
    return next(name for name, found in match.groupdict().items() if found is not None).removeprefix("en_")


def _costs(analysis: Analysis) -> tuple[dict[str, float], int]:
    """Return what each kind of fund costs, in percent a year, and where the first of them is told."""
    norm = analysis.norm
    costs: dict[str, float] = {}
    first = len(norm)
    for figure in few(analysis, _FIGURE.finditer(norm), re.Match.start):
        if analysis.line_kind(figure.start()) == "row":
            continue
        low, high = analysis.clause_span(*figure.span())
        kind = _KIND_BEHIND.match(norm, figure.end(), high)
        if kind is None:
            kind = next(reversed([*_KIND_BEFORE.finditer(norm, low, figure.start())]), None)
        if kind is None or _OF_FEES.search(norm, *analysis.sentence_span(figure.start())) is None:
            continue
        costs.setdefault(_kind(kind), float(figure[1]))
        first = min(first, figure.start())
    return costs, first


def dearer_kind(analysis: Analysis) -> Iterator[Span]:
    """Yield the choice of a kind of fund though another that is told of costs much less."""
    norm = analysis.norm
    if "%" not in norm:
        return
    costs, first = _costs(analysis)
    if len(costs) < 2:  # noqa: PLR2004 - the dearer of two
        return
    low, _ = analysis.sentence_span(first)
    for match in few(analysis, _PICK.finditer(norm, low, min(len(norm), first + _REACH)), re.Match.start):
        own = costs.get(_kind(match))
        if own is None or not any(other < _APART * own for other in costs.values()):
            continue
        if _NOT_THIS.search(norm, max(low, match.start() - 4), match.start()):
            continue
        if not (disowned(analysis, *match.span()) or rejected(analysis, *match.span())):
            yield match.span()


_NOT_THIS: Final = late(r"[不别没未]|\bnot? $")
_CONCEDED: Final = late(
    r"(?:贵是贵|贵归贵|虽然?贵|贵了?一?[点些]|费[率用]?(?:虽|是)?高|\b(?:is|are) (?:dear|pricey|expensive|"
    r"not cheap)\b|"
    r"\bnot cheap\b)"
    r"(?:[^。.!?\n]|\.\d){0,30}?(?:但|不过|,|\bbut\b|\bstill\b|\byet\b)[^。.!?\n]{0,14}?"
    r"(?:(?:我)?(?:仍|还是|照样)(?:然)?(?:建议|推荐|选|买|看好)|建议(?:你)?(?:还是|仍)?(?:选|买|配|拿|"
    r"用)它|就选它|"
    r"\b(?:i|we) would (?:still )?(?:pay|take|make|keep|use|buy|choose|pick|hold|own) (?:it|them)\b)"
)


def conceded(analysis: Analysis) -> Iterator[Span]:
    """Yield where the reply grants that a fund is dear and takes it all the same."""
    for match in few(analysis, _CONCEDED.finditer(analysis.norm), re.Match.start):
        low, high = analysis.sentence_span(match.start())
        if _OF_FEES.search(analysis.norm, low, high) is None and "%" not in analysis.norm[low:high]:
            continue
        if not (disowned(analysis, *match.span()) or rejected(analysis, *match.span())):
            yield match.span()
