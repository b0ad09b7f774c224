"""Two runs of dialogues side by side: changes of values by turn, and both replies with their differences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from memfin.contracts import ConfigFile, DialogTrace
from memfin.contracts.reading import read_json
from memfin.contracts.run import Comparison
from memfin.journal import layout
from memfin.language import marked, tr
from memfin.report.comparison import Measured, dialog_values, inputs_changed, paired_values, shared_units
from memfin.report.model import Item
from memfin.report.reader import CONFIG, ROWS, SUMMARY
from memfin.report.tables import VERDICTS, comparison_rows, label
from memfin.text.lines import one_line
from memfin.web.pages import Refusal, not_found
from memfin.web.view.conversation import Piece, head_of, turns_of
from memfin.web.view.difference import Span, differences, layered
from memfin.web.view.filters import TURNS, Filters, Page, Query, list_of, turn_label
from memfin.web.view.index import PAGE, Index, Indexes
from memfin.web.view.runs import Catalog, Recent, state_of

CHANGES: Final = {
    "reply": marked("Reply changed"),
    "worse": marked("Worse"),
    "better": marked("Better"),
    "same": marked("Same"),
    "missing": marked("In one run only"),
}
"""Values of the filter ``changed`` with their names for readers."""

MAX_PAIRS: Final = 4
"""Pairs of runs that are kept in memory, the latest used."""

_WHOLE, _SAME, _REPLY, _MISSING = range(4)
_UNCHANGED, _BETTER, _WORSE = 1, 2, 4
_STATES: Final = {"same": _UNCHANGED, "better": _BETTER, "worse": _WORSE}

_FIELDS: Final = {**TURNS, "changed": marked("Change")}
_FACETS: Final = ("label", "scenario", "difficulty")

Place = tuple[str, int]
"""A dialogue and a turn of it, 0 for a value of the whole dialogue."""


class Pair(NamedTuple):
    """Changes from one run to another; ``replies`` and all states have an entry for each place.

    ``moves`` has the states of all values together.
    """

    comparison: Comparison
    places: list[Place]
    replies: bytes
    states: dict[str, bytes]
    moves: bytes

    def matching(self, filters: Filters, indexes: Sequence[Index]) -> Iterator[int]:
        """Yield the entries that meet the filters, those of single runs in either run."""
        metric, met = filters.values.get("metric"), None
        if filters.without("metric", "changed").any:
            own = filters.without("changed")
            met = set[Place]().union(*(index.places(own, "metric") for index in indexes))
            met |= {(name, 0) for name, _ in met}
        states = self.states.get(metric, b"") if metric else self.moves
        for at, (place, reply, state) in enumerate(zip(self.places, self.replies, states, strict=False)):
            if (state or not metric) and (met is None or place in met) and _is_changed(filters, reply, state):
                yield at

    def turns(self, changed: str) -> int:
        """Return the number of turns that changed in a way."""
        matching = self.matching(Filters({"changed": changed}), ())
        return sum(1 for at in matching if self.places[at][1])

    def by_dialog(self, matching: Iterable[int]) -> dict[str, list[int]]:
        """Return entries by their dialogues."""
        found: dict[str, list[int]] = {}
        for at in matching:
            found.setdefault(self.places[at][0], []).append(at)
        return found

    def first(self, filters: Filters, entries: Sequence[int]) -> int:
        """Return the turn that a dialogue opens at: the first that diverges, or that meets the filters."""
        diverging = () if filters.any else (at for at in entries if self.diverges(at))
        return self.places[next(iter(diverging), entries[0])][1]

    def changes(self, *entries: int) -> Iterator[tuple[str, str]]:
        """Yield the values that changed in some entries, with the direction."""
        for name, state in self.states.items():
            found = {state[at] for at in entries}
            words = label(name, "dialogues")
            yield from ((each, words) for each in ("worse", "better") if _STATES[each] in found)

    def diverges(self, at: int) -> bool:
        """Say if replies differ, or if one run lacks the turn."""
        return self.replies[at] >= _REPLY


def _is_changed(filters: Filters, reply: int, state: int) -> bool:
    match changed := filters.values.get("changed", ""):
        case "reply":
            return reply == _REPLY
        case "missing":
            return reply == _MISSING
        case "better" | "worse":
            return bool(state & _STATES[changed])
        case "same":
            unmoved = not state & (_BETTER | _WORSE)
            return unmoved and ("metric" in filters.values or reply == _SAME)
    return filters.any or reply >= _REPLY or bool(state & (_BETTER | _WORSE))


def _filters_of(query: Query) -> Filters:
    """Read the filters of a query; an unknown change is ignored."""
    fields = _FIELDS if query.get("changed") in CHANGES else TURNS
    return Filters.of(query, fields, ("a", "b"))


def _label(kind: str, value: str) -> str:
    return tr(CHANGES[value]) if kind == "changed" else turn_label(kind, value)


class Beside:
    """The pages that show two runs side by side."""

    def __init__(self, catalog: Catalog, indexes: Indexes) -> None:
        self._catalog = catalog
        self._indexes = indexes
        self._pairs = Recent[Pair](MAX_PAIRS)

    def overview(self, query: Query) -> Page:
        """Return the values of two runs with their differences, and the dialogues that differ."""
        filters = _filters_of(query)
        head = {"filters": filters, "comparable": self._catalog.comparable(), "pair": None}
        if not all(filters.base.values()):
            return "beside", head
        with self._open(filters) as (pair, indexes):
            found = pair.by_dialog(pair.matching(filters, indexes))
            shown = list(found.items())[(filters.page - 1) * PAGE : filters.page * PAGE]
            lines = [_line(pair, filters, indexes, *each) for each in shown]
            counts = [index.counts(Filters()) for index in indexes]
        values = {kind: dict(value for each in counts for value in each[kind]) for kind in _FACETS}
        facets = {kind: list(found.items()) for kind, found in values.items()}
        return "beside", {
            **head,
            **list_of(filters, len(found), PAGE, _FIELDS, _label, facets),
            "pair": pair.comparison,
            "rows": list(_rows(pair)),
            "changes": {kind: tr(words) for kind, words in CHANGES.items()},
            "totals": {kind: pair.turns(kind) for kind in CHANGES},
            "metrics": {name: label(name, "dialogues") for name in pair.states},
            "lines": lines,
            "turns": sum(1 for entries in found.values() for at in entries if pair.places[at][1]),
        }

    def dialog(self, query: Query, dialog: str) -> Page:
        """Return a dialogue with the replies of both runs; the filters decide which dialogues come next."""
        filters = _filters_of(query)
        with self._open(filters) as (pair, indexes):
            sides = [_side(index, dialog) for index in indexes]
            matching = list(pair.matching(filters, indexes))
        own = {number: at for at, (name, number) in enumerate(pair.places) if name == dialog}
        if not own:
            raise not_found()
        low, high = min(own.values()), max(own.values())
        found = pair.by_dialog(matching)
        before = next((pair.places[at][0] for at in reversed(matching) if at < low), None)
        after = next((pair.places[at][0] for at in matching if at > high), None)
        numbers = {pair.places[at][1] for at in found.get(dialog, ())}
        diverging = {number for number, at in own.items() if pair.diverges(at)}
        trace = next(side[0] for side in sides if side is not None)
        return "beside-dialog", {
            **list_of(filters, 0, PAGE, _FIELDS, _label),
            **head_of(trace),
            "lacking": [run for run, side in zip(filters.base.values(), sides, strict=True) if side is None],
            "turns": [
                {
                    **_turn(*(None if side is None else side[1].get(number) for side in sides)),
                    "number": number,
                    "diverges": number in diverging,
                    "matches": filters.any and number in numbers,
                    "moves": list(pair.changes(at)),
                }
                for number, at in own.items()
                if number
            ],
            "moves": list(pair.changes(own[0])) if 0 in own else [],
            "first": min((numbers if filters.any else diverging) or {0}),
            "before": before and (quote(before, safe=""), pair.first(filters, found[before])),
            "after": after and (quote(after, safe=""), pair.first(filters, found[after])),
        }

    @contextmanager
    def _open(self, filters: Filters) -> Iterator[tuple[Pair, tuple[Index, Index]]]:
        """Open the indexes of both runs, and compare them unless that was done of the same files."""
        names = tuple(filters.base.values())
        files = self._files(*names)
        state = state_of(path for each in files for _, path in sorted(each.items()))
        with closing(self._indexes.open(files[0])) as a, closing(self._indexes.open(files[1])) as b:
            pair = self._pairs.get(names, state, lambda: _compared(names, files, (a, b)))
            if not pair.comparison.pairs:
                raise _refusal(marked("{a} and {b} have no dialogue in common."), a=names[0], b=names[1])
            yield pair, (a, b)

    def _files(self, *names: str) -> tuple[Mapping[str, Path], Mapping[str, Path]]:
        """Return the files of both runs; refuse what cannot be compared."""
        found: list[Mapping[str, Path]] = []
        datasets: list[tuple[str, object]] = []
        for name in names:
            run = self._catalog.summary(name)
            if run is None:
                raise not_found()
            files = self._catalog.files(name)
            if run.suite != "dialogues":
                raise _refusal(
                    marked("{run} is no run of dialogues; memfin compare compares others."), run=name
                )
            if run.problem or not {SUMMARY, ROWS, layout.DIALOG_TRACE} <= files.keys():
                raise _refusal(marked("{run} has not finished, or a file of it is missing."), run=name)
            config = read_json(files[CONFIG], ConfigFile).fingerprint_inputs if CONFIG in files else {}
            datasets.append((run.dataset, config.get("dataset_sha256")))
            found.append(files)
        (path_a, sha_a), (path_b, sha_b) = datasets
        if sha_a and sha_b and sha_a != sha_b:
            words = marked(
                "The runs are of different datasets and cannot stand side by side: {a} of {path_a} (SHA-256 "
                "{sha_a}…), {b} of {path_b} ({sha_b}…). memfin compare compares the dialogues in both."
            )
            short = {"sha_a": str(sha_a)[:12], "sha_b": str(sha_b)[:12]}
            raise _refusal(words, a=names[0], b=names[1], path_a=path_a, path_b=path_b, **short)
        return found[0], found[1]


def _refusal(words: str, **names: str) -> Refusal:
    fields = {name: one_line(value, 200) for name, value in names.items()}
    return Refusal(400, "not_comparable", tr(words, **fields))


def _compared(names: Sequence[str], files: Sequence[Mapping[str, Path]], indexes: Sequence[Index]) -> Pair:
    """Compare two runs by value, and their replies turn by turn."""
    directories = [each[ROWS].parent for each in files]
    if any(each[SUMMARY].parent != directory for each, directory in zip(files, directories, strict=True)):
        raise not_found()  # a link to the rows of another run
    a, b = (dialog_values([directory]) for directory in directories)
    values, not_measured = paired_values(a, b, "dialogues")
    order: dict[str, int] = {}
    replies: list[dict[Place, int]] = []
    for index in indexes:
        found: dict[Place, int] = {}
        for name, place, number, status, reply in index.replies():
            order.setdefault(name, place)
            found[name, number] = hash((status == "ok", reply))
        replies.append(found)
    ranks = {name: rank for rank, name in enumerate(sorted(order, key=order.__getitem__))}
    measured = (unit for each in (a, b) for value in each.values.values() for unit in value.units)
    whole = {(name, 0) for name, _, turn in measured if not turn and name in ranks}
    both = replies[0].keys() | replies[1].keys() | whole
    places = sorted(both, key=lambda place: (ranks[place[0]], place[1]))
    entries = {place: at for at, place in enumerate(places)}
    dialogs = [{name for name, _ in each} for each in replies]
    states = {name: _states_of(a.values[name], b.values[name], entries) for name in values}
    comparison = Comparison(
        a=names[0],
        b=names[1],
        suite="dialogues",
        pairs=len(dialogs[0] & dialogs[1]),
        only_a=len(dialogs[0] - dialogs[1]),
        only_b=len(dialogs[1] - dialogs[0]),
        inputs_changed=inputs_changed(*directories) if all(CONFIG in each for each in files) else [],
        values=values,
        changed=[],
        warnings=[],
        not_measured=not_measured,
    )
    moves = bytes(map(partial(reduce, or_), zip(bytes(len(places)), *states.values(), strict=True)))
    return Pair(comparison, places, bytes(_reply_state(place, *replies) for place in places), states, moves)


def _reply_state(place: Place, a: Mapping[Place, int], b: Mapping[Place, int]) -> int:
    if not place[1]:
        return _WHOLE
    if place not in a or place not in b:
        return _MISSING
    return _SAME if a[place] == b[place] else _REPLY


def _states_of(a: Measured, b: Measured, entries: Mapping[Place, int]) -> bytes:
    """Return how a value changed in each place that counts in both runs."""
    found = bytearray(len(entries))
    for unit in shared_units(a, b):
        if (at := entries.get((unit[0], unit[2]))) is not None:
            change = b.units[unit][0] - a.units[unit][0]
            gained = change > 0 if a.higher_is_better else change < 0
            found[at] = (_BETTER if gained else _WORSE) if change else _UNCHANGED
    return bytes(found)


def _line(
    pair: Pair, filters: Filters, indexes: Sequence[Index], name: str, entries: Sequence[int]
) -> dict[str, Any]:
    """Return a dialogue as the list shows it: its turns, and the texts of the one that it opens at."""
    first = pair.first(filters, entries)
    texts = [index.excerpt(name, first) for index in indexes]
    dialog = next(filter(None, (index.dialog(name) for index in indexes)))
    return {
        "name": name,
        "scenario": dialog["scenario"],
        "first": first,
        "numbers": [pair.places[at][1] for at in entries],
        "user": next((text["user"] for text in texts if text), ""),
        "replies": [text and text["reply"] for text in texts],
        "moves": list(pair.changes(*entries)),
    }


def _rows(pair: Pair) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table of values, with the counts of places that changed."""
    by_text = {label(name, "dialogues"): name for name in pair.states}
    for text, a, b, difference, interval, _, verdict in comparison_rows(pair.comparison, all_values=False):
        name = by_text.get(text, "")
        state = pair.states.get(name, b"")
        counts = {kind: state.count(_STATES[kind]) for kind in ("worse", "better", "same")}
        counts["reply"] = [reply for at, reply in zip(state, pair.replies, strict=False) if at].count(_REPLY)
        yield {
            "cells": (a, b, difference, interval),
            "name": name,
            "text": text,
            "verdict": verdict,
            "word": tr(VERDICTS[verdict][0]),
            "counts": counts,
        }


def _side(index: Index, name: str) -> tuple[DialogTrace, dict[int, dict[str, Any]]] | None:
    """Return the trace of a dialogue in a run, and the content of its turns by number."""
    place = index.dialog(name)
    if place is None:
        return None
    records = index.records(place)
    return records[0], {turn["number"]: turn for turn in turns_of(*records)}


def _turn(a: dict[str, Any] | None, b: dict[str, Any] | None) -> dict[str, Any]:
    """Return a turn of both runs, with what differs between them marked."""
    gone: list[Span] = []
    new: list[Span] = []
    rewritten = False
    if a and b:
        texts = [_plain(side["reply"] or ()) for side in (a, b)]
        gone, new, _ = differences(*texts)
        rewritten = [gone, new] == [[(0, len(text))] for text in texts]
        if rewritten:  # marks on everything would only hide the findings
            gone, new = [], []
    words = [_plain(side["user"]) for side in (a, b) if side]
    return {
        "rewritten": rewritten,
        "words": dict.fromkeys(words),
        "sides": [a and _beside(a, b, gone), b and _beside(b, a, new)],
        "language": (a or b or {}).get("language", "en"),
    }


def _beside(side: dict[str, Any], other: dict[str, Any] | None, marks: Sequence[Span]) -> dict[str, Any]:
    """Return a side with its reply cut at differences, and marks on evidence that the other lacks."""
    others = (
        set() if other is None else {(name, item) for name, _, items in _evidence(other) for item in items}
    )
    texts = set() if other is None else {_plain(pieces) for _, pieces in other["recalled"]}
    return {
        **side,
        "layers": None if side["reply"] is None else layered(side["reply"], marks),
        "evidence": [
            (name, chips, [(item, other is not None and (name, item) not in others) for item in items])
            for name, chips, items in _evidence(side)
        ],
        "recalled": [
            (about, pieces, other is not None and _plain(pieces) not in texts)
            for about, pieces in side["recalled"]
        ],
    }


def _evidence(side: dict[str, Any]) -> Iterator[tuple[str, bool, Sequence[Item]]]:
    yield from ((each.label, each.chips, each.items) for each in side["evidence"])
    if side["verdicts"]:
        yield tr("Judge"), False, side["verdicts"]


def _plain(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)
