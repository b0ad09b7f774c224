"""Tables and histograms of a run's page, whose numbers lead to the turns that they count."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from memfin.language import tr
from memfin.report.glossary import format_value, labels
from memfin.text.lines import one_line
from memfin.web.view.filters import Filters, range_words
from memfin.web.view.index import Index
from memfin.web.view.runs import Value

MAX_GROUPS: Final = 30
"""Rows of a table, those of the most turns."""

PROFILE: Final = "m2_profile_accuracy.profile_score"

_SCORE: Final = "m5_explainability.judge_score_mean"
_LEAST: Final = 2
_BINS: Final = 10
_SLOW: Final = 0.95
_STEPS: Final = (1, 2, 5, 10)


class Cell(NamedTuple):
    """A number, the turns that it counts, and the address of their list."""

    text: str
    turns: int
    address: str
    share: float | None = None


class Bar(NamedTuple):
    """A bar of a histogram; ``height`` is of the tallest one, from 0 to 1."""

    label: str
    edge: str
    number: int
    address: str
    height: float


class Histogram(NamedTuple):
    """Turns, or dialogues, by ranges of a value; ``unit`` names what is counted."""

    title: str
    unit: str
    bars: list[Bar]


class _Sums:
    """Turns, numerator and denominator."""

    def __init__(self) -> None:
        self.turns = 0
        self.hits = self.of = 0.0

    def add(self, turns: int, hits: float, of: float) -> None:
        self.turns += turns
        self.hits += hits
        self.of += of


def figures_of(
    index: Index, values: Sequence[Value], missed: dict[str, int], profiles: Mapping[str, float]
) -> dict[str, Any]:
    """Return the tables by group and by kind of key, and the histograms, of the values of a summary.

    ``profiles`` are the profile scores (M2) by dialogue, which rows of turns do not have.
    """
    shown = {value.name: value for value in values if not value.missing}
    groups: dict[str, dict[str, defaultdict[str, _Sums]]] = {"scenario": {}, "difficulty": {}}
    keys: defaultdict[str, _Sums] = defaultdict(_Sums)
    dialogs: defaultdict[str, list[float]] = defaultdict(list)
    measured: set[str] = set()
    for row in index.sums():
        sums = row["turns"], row["hits"], row["of"]
        profile = profiles.get(row["name"]) if row["value"] == PROFILE else None
        if profile is not None:
            sums = row["turns"], profile, 1.0
        if row["kind"] == "key":
            keys[row["value"]].add(*sums)
        elif row["value"] in shown and sums[-1]:
            if profile is None:
                dialogs[row["value"]].append(row["hits"] / row["of"])
            measured.add(row["value"])
            for kind, found in groups.items():
                if row[kind]:
                    found.setdefault(row[kind], defaultdict(_Sums))[row["value"]].add(*sums)
    columns = [value for value in shown.values() if value.name in measured]
    names = {"scenario": tr("By scenario"), "difficulty": tr("By difficulty")}
    turns = index.counts(Filters())
    tables = [
        (names[kind], list(_groups(kind, dict(turns[kind]), found, columns)))
        for kind, found in groups.items()
        if len(found) >= _LEAST
    ]
    return {
        "measured": columns,
        "tables": tables,
        "keys": list(_keys(keys, missed)) if any(name.endswith(".key_coverage") for name in shown) else (),
        "histograms": list(_histograms(index, shown, dialogs)),
    }


def _groups(
    kind: str,
    turns: dict[str, int],
    found: dict[str, defaultdict[str, _Sums]],
    measured: Sequence[Value],
) -> Iterator[tuple[str, Cell, list[Cell | None]]]:
    """Yield name, turns and values of the largest groups, difficulties in their order."""
    words = labels("difficulty") if kind == "difficulty" else {}
    largest = sorted(found, key=lambda group: (-turns.get(group, 0), group))[:MAX_GROUPS]
    order = {name: at for at, name in enumerate(words)}
    for group in sorted(largest, key=lambda group: (order.get(group, len(order)), group)):
        count = turns.get(group, 0)
        cells: list[Cell | None] = []
        for value in measured:
            sums = found[group].get(value.name)
            address = Filters({"metric": value.name, kind: group}).address()
            number = sums.hits / sums.of if sums else 0.0
            text = format_value(value.name, number)
            share = None if value.share is None else min(max(number, 0.0), 1.0)
            cells.append(Cell(text, sums.turns, address, share) if sums else None)
        yield (
            words.get(group, one_line(group, 60)),
            Cell(f"{count:,}", count, Filters({kind: group}).address()),
            cells,
        )


def _keys(keys: dict[str, _Sums], missed: dict[str, int]) -> Iterator[tuple[str, Cell, Cell, Cell | None]]:
    """Yield the kinds of required keys: name, turns, the share that was found, turns that miss one."""
    names = labels("keys")
    for kind, sums in sorted(keys.items(), key=lambda each: (-each[1].of, each[0])):
        address, missing = Filters({"key": kind}).address(), missed.get(kind, 0)
        share = sums.hits / sums.of
        yield (
            names.get(kind, one_line(kind, 80)),
            Cell(f"{sums.turns:,}", sums.turns, address),
            Cell(format_value("key_coverage", share), sums.turns, address, share),
            Cell(f"{missing:,}", missing, Filters({"missed": kind}).address()) if missing else None,
        )


def _histograms(
    index: Index, shown: dict[str, Value], dialogs: dict[str, list[float]]
) -> Iterator[Histogram]:
    judged = {"metric": _SCORE}
    if _SCORE in shown and (scores := index.numbers("score", Filters(judged))):
        edges = [1.0, 2.0, 3.0, 4.0, 5.0]
        yield _histogram(tr("Judge's score"), tr("turns"), scores, edges, {**judged, "score": ""})
    answered = {"status": "ok"}
    if times := index.numbers("latency", Filters(answered)):
        title = tr("Latency in ms")
        yield _histogram(title, tr("turns"), times, _latencies(times), {**answered, "latency": ""})
    leading: dict[str, Value] = {}
    for value in shown.values():
        leading.setdefault(value.code, value)
    for value in leading.values():
        if value.share is not None and len(numbers := dialogs.get(value.name, [])) >= _LEAST:
            edges = [at / _BINS for at in range(_BINS)]
            title = f"{value.code} {value.label}"
            yield _histogram(title, tr("dialogues"), numbers, edges, {"metric": value.name, "value": ""})


def _latencies(times: Sequence[float]) -> list[float]:
    """Return round edges up to the slowest twentieth of sorted times, which is one bin."""
    low, high = times[0], times[int(_SLOW * (len(times) - 1))]
    step = 1.0
    while (high - low) / step > _BINS - 1:
        power = 10 ** (len(str(int(step))) - 1)
        step = power * next(each for each in _STEPS if each * power > step)
    first = low // step
    return [step * (first + at) for at in range(int(high // step - first) + 1)]


def _histogram(
    title: str, unit: str, numbers: Iterable[float], edges: Sequence[float], filters: dict[str, str]
) -> Histogram:
    """Count numbers between edges, the last bin open; the filter without a value gets the range."""
    counts = [0] * len(edges)
    for number in numbers:
        counts[max(0, bisect_right(edges, number) - 1)] += 1
    bars = []
    for at, (edge, count) in enumerate(zip(edges, counts, strict=True)):
        low, high = f"{edge:.9g}" if at else "", f"{edges[at + 1]:.9g}" if at + 1 < len(edges) else ""
        found = f"{low}..{high}"
        address = Filters({name: value or found for name, value in filters.items()}).address()
        bars.append(Bar(range_words(found), f"{edge:.9g}", count, address, count / max(counts)))
    return Histogram(title, unit, bars)
