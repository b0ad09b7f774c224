"""Tables and histograms of a run's page, whose numbers lead to the turns that they count."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import Any, Final, NamedTuple

from memfin.language import tr
from memfin.report.glossary import format_value, labels
from memfin.text.lines import one_line
from memfin.web.view.filters import Filters, range_words
from memfin.web.view.index import Index
from memfin.web.view.runs import Value, leading

MAX_GROUPS: Final = 30
"""Rows of a table, those of the most turns."""

PROFILE: Final = "m2_profile_accuracy.profile_score"

_SCORE: Final = "m5_explainability.judge_score_mean"
_LEAST: Final = 2
_BINS: Final = 10
_SLOW: Final = 0.95
_STEPS: Final = (1, 2, 5, 10)


class Cell(NamedTuple):
    """A number, the address of the list of what it counts, the part of a bar from 0 to 1, the turns in it."""

    text: str
    address: str
    share: float | None = None
    turns: int = 0


Table = tuple[str, tuple[str, ...], list[tuple[str, list[Cell | None]]]]
"""A title, headings, and the rows with their names."""


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


def figures_of(
    index: Index, values: Sequence[Value], missed: Mapping[str, int], profiles: Mapping[str, float]
) -> dict[str, Any]:
    """Return the tables by group and by kind of key, and the histograms, of the values of a summary.

    ``missed`` are the turns that miss a key by its kind, ``profiles`` the profile scores (M2) by dialogue,
    which rows of turns do not have.
    """
    shown = {value.name: value for value in values if not value.missing}
    # turns, numerator and denominator by scenario, difficulty or key, by its name, and by value
    groups: dict[str, dict[str, dict[str, list[float]]]] = {"scenario": {}, "difficulty": {}, "key": {}}
    dialogs: defaultdict[str, list[float]] = defaultdict(list)
    for row in index.sums():
        name, sums = row["value"], [row["turns"], row["hits"], row["of"]]
        if row["kind"] == "key":
            places = [("key", name)]
        elif name not in shown:
            continue
        else:
            places = [(kind, row[kind]) for kind in ("scenario", "difficulty") if row[kind]]
            if name == PROFILE and row["name"] in profiles:
                sums[1:] = profiles[row["name"]], 1.0
            elif row["of"]:
                dialogs[name].append(row["hits"] / row["of"])
        for kind, group in places if sums[2] else ():
            found = groups[kind].setdefault(group, {}).setdefault(name, [0, 0.0, 0.0])
            found[:] = map(add, found, sums)
    keys = {kind: sums[kind] for kind, sums in groups.pop("key").items()}
    measured = {name for found in groups.values() for sums in found.values() for name in sums}
    columns = [value for value in shown.values() if value.name in measured]
    counts = index.counts(Filters())
    tables = [
        _groups(kind, dict(counts[kind]), groups[kind], columns)
        for kind in ("scenario", "difficulty")
        if len(groups[kind]) >= _LEAST
    ]
    if keys and any(name.endswith(".key_coverage") for name in shown):
        tables.append(_keys(keys, missed))
    return {
        "tables": tables,
        "histograms": list(_histograms(index, shown, dialogs)),
    }


def _groups(
    kind: str, turns: dict[str, int], found: dict[str, dict[str, list[float]]], columns: Sequence[Value]
) -> Table:
    """Return the values of the largest groups, difficulties in their order."""
    words = labels("difficulty") if kind == "difficulty" else {}
    largest = sorted(found, key=lambda group: (-turns.get(group, 0), group))[:MAX_GROUPS]
    order = {name: at for at, name in enumerate(words)}
    rows = []
    for group in sorted(largest, key=lambda group: (order.get(group, len(order)), group)):
        count = turns.get(group, 0)
        cells: list[Cell | None] = [Cell(f"{count:,}", Filters({kind: group}).address(), None, count)]
        for value in columns:
            number, hits, of = found[group].get(value.name, (0, 0, 0))
            text = format_value(value.name, hits / of) if of else ""
            address = Filters({"metric": value.name, kind: group}).address()
            share = min(max(hits / of, 0.0), 1.0) if of and value.share is not None else None
            cells.append(Cell(text, address, share, int(number)) if of else None)
        rows.append((words.get(group, one_line(group, 60)), cells))
    title = tr("By difficulty") if words else tr("By scenario")
    return title, (tr("Group"), tr("Turns"), *(f"{value.code} {value.label}" for value in columns)), rows


def _keys(keys: dict[str, list[float]], missed: Mapping[str, int]) -> Table:
    """Return the kinds of required keys: turns, the share that was found, turns that miss one."""
    names = labels("keys")
    rows: list[tuple[str, list[Cell | None]]] = []
    for kind, (turns, hits, of) in sorted(keys.items(), key=lambda each: (-each[1][2], each[0])):
        address, count, missing = Filters({"key": kind}).address(), int(turns), missed.get(kind, 0)
        cells = [
            Cell(f"{count:,}", address, None, count),
            Cell(format_value("key_coverage", hits / of), address, hits / of, count),
            Cell(f"{missing:,}", Filters({"missed": kind}).address(), None, missing) if missing else None,
        ]
        rows.append((names.get(kind, one_line(kind, 80)), cells))
    headings = (tr("Key"), tr("Turns"), tr("Keys found"), tr("Turns that miss one"))
    return tr("Required keys by kind"), headings, rows


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
    for value in leading(shown.values()):
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
