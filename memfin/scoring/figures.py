"""Limits of single figures outside an allocation: durations, lock-ups, holding periods, fees, sums.

Each kind of limit has a `Measure`: the words beside its figures. A figure counts where such words
are near it; `memfin.scoring.contradiction` decides if the reply proposes it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from memfin.scoring.predicates import (
    MaxDuration,
    MaxFee,
    MaxInstalment,
    MaxLockUp,
    MaxPosition,
    MaxVolatility,
    MinHolding,
    Predicate,
)
from memfin.scoring.proposals import count_of
from memfin.text.document import Document
from memfin.text.quantities import Quantity, QuantityKind, bound

_AROUND: Final = 60
"""Characters on both sides of a figure in which an average is looked for."""
_SLACK: Final = 0.001
_BEFORE, _BEHIND, _BEHIND_LATIN = 16, 14, 24
_AVERAGED: Final = re.compile(r"加权|平均|整体|组合久期|weighted|average|overall")


class Measure(NamedTuple):
    """Figures of one kind of limit: their unit, the words beside them, and words that make them others."""

    kind: QuantityKind
    words: re.Pattern[str]
    not_before: re.Pattern[str] = re.compile(r"(?:近|过去|历史|最近|past|last)\D{0,3}$")
    least: bool = False


_HOLDING: Final = (
    r"持有|拿(?!出)|卖|换|来回|轮|落袋|离场|撤|转手|赎回|了结|一个回合|进出|"
    r"sell|sold|hold|out\b|exit|rotat|flip|trade"
)
_MEASURES: Final[dict[type, Measure]] = {
    MaxDuration: Measure(
        "duration",
        re.compile(r"久期|(?<!短)债|国开|政金|duration|treasur|gilt|bond"),
        re.compile(r"(?:近|过去|历史|最近|目前|当前|现在|现有|past|last|current)\D{0,6}$"),
    ),
    MaxLockUp: Measure(
        "duration",
        re.compile(
            r"封闭|锁|定开|定期开放|持有期|期持有|最短持有|取不出|不[能可]赎回|不能取|"
            r"lock|closed|no early|tied up|notice"
        ),
    ),
    MinHolding: Measure(
        "duration", re.compile(_HOLDING), re.compile(r"(?:近|过去|每隔?|历史)\D{0,3}$"), least=True
    ),
    MaxFee: Measure("share", re.compile(r"费|fee|charge|expense ratio|\bter\b|\bcosts?\b")),
    MaxVolatility: Measure("share", re.compile(r"波动率|volatility")),
    MaxInstalment: Measure(
        "money", re.compile(r"每月|每期|每次|定投|扣款|双周|每周|monthly|a month|per month")
    ),
    MaxPosition: Measure("money", re.compile(r"买|申购|认购|投|续|buy|put|invest|into")),
}
_MANAGEMENT: Final = re.compile(r"管理费|management")
_PARTS_OF_FEE: Final = re.compile(r"管理费|托管费|销售服务费|申购费|客户维护费")


class Exceeded(NamedTuple):
    """A figure beyond a limit at half-open offsets of the document's text."""

    start: int
    end: int


def _limit_of(predicate: Predicate) -> float | None:
    """Return the limit that a predicate sets to single figures, None where it sets none."""
    if isinstance(predicate, MaxDuration | MaxLockUp | MinHolding):
        return predicate.years
    if isinstance(predicate, MaxFee | MaxVolatility):
        return predicate.limit
    return predicate.amount if isinstance(predicate, MaxInstalment | MaxPosition) else None


def exceeded(predicate: Predicate, document: Document) -> Iterator[Exceeded]:
    """Yield the figures of a reply that are beyond a predicate's limit, in the order of the text."""
    limit, measure = _limit_of(predicate), _MEASURES.get(type(predicate))
    if limit is None or measure is None:
        return
    if isinstance(predicate, MaxFee) and predicate.scope == "management":
        measure = measure._replace(words=_MANAGEMENT)
    for match in measure.words.finditer(document.text):
        first, last = document.sentence_at(match.start())
        reach = _BEHIND_LATIN if match[0].isascii() else _BEHIND
        span = max(first, match.start() - _BEFORE), min(last, match.end() + reach)
        near = [q for q in document.quantities(*span) if q.kind == measure.kind]
        averaged = None
        if isinstance(predicate, MaxDuration):
            around = max(first, match.start() - _AROUND), min(last, match.end() + _AROUND)
            averaged = _averaged(document, *around, measure.kind)
        for figure in near if averaged is None else averaged:
            if _is_beyond(predicate, measure, document, figure, limit):
                yield Exceeded(min(match.start(), figure.start), max(match.end(), figure.end))
    if isinstance(predicate, MaxFee):
        yield from _sums_of_fees(document, limit)


def _averaged(document: Document, first: int, last: int, kind: str) -> list[Quantity] | None:
    """Return the average that a sentence works out, which alone counts; None without one."""
    found = _AVERAGED.search(document.text, first, last)
    if found is None:
        return None
    return [q for q in document.quantities(found.end(), last) if q.kind == kind][:1] or None


def _is_beyond(
    predicate: Predicate, measure: Measure, document: Document, figure: Quantity, limit: float
) -> bool:
    text = document.text
    before = text[max(0, figure.start - _BEFORE) : figure.start]
    if measure.not_before.search(before):
        return False
    if measure.least:
        return 0 < figure.high < limit - _SLACK and bound(text, figure) != "at_least"
    if bound(text, figure) == "at_most":
        return False
    times = count_of(text[max(0, figure.start - 2 * _BEFORE) : figure.start])
    if isinstance(predicate, MaxInstalment) and predicate.every == "month":
        times *= 4 if "每周" in before else 2 if "双周" in before else 1
    return figure.low * (times if measure.kind == "money" else 1) > limit + _SLACK


def _sums_of_fees(document: Document, limit: float) -> Iterator[Exceeded]:
    """Yield runs of a product's fees that are beyond a limit together."""
    run: list[Quantity] = []
    last = 0
    for match in _PARTS_OF_FEE.finditer(document.text):
        line = document.line_at(match.start())
        near = document.quantities(match.end(), min(line.end, match.end() + _BEHIND))
        fee = next((q for q in near if q.kind == "share"), None)
        if fee is None:
            continue
        if run and match.start() - last > 3 * _BEHIND:
            run = []
        run.append(fee)
        last = fee.end
        if len(run) > 1 and sum(each.low for each in run) > limit + _SLACK / 10:
            yield Exceeded(run[0].start, fee.end)
            run = []
