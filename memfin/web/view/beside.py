"""Two runs of dialogues side by side: changes of values by turn, and both replies with their differences."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from memfin.contracts import ConfigFile, DialogTrace
from memfin.contracts.reading import read_json
from memfin.contracts.run import Comparison
from memfin.journal import layout
from memfin.language import marked, tr
from memfin.report.comparison import (
    Measured,
    dialog_values,
    inputs_changed,
    paired_values,
    shared_units,
)
from memfin.report.glossary import labels
from memfin.report.model import Item
from memfin.report.reader import CONFIG, ROWS, SUMMARY
from memfin.report.tables import VERDICTS, comparison_rows, label
from memfin.text.lines import one_line
from memfin.web.view.conversation import Piece, profile_of, turns_of
from memfin.web.view.difference import Span, differences, layered
from memfin.web.view.filters import KINDS, Filters
from memfin.web.view.index import PAGE, Index, Indexes
from memfin.web.view.runs import Catalog
from memfin.web.view.views import Page, Query, Refusal, chosen_filters, facet_label, not_found, pager_of

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

Place = tuple[str, int]
"""A dialogue and a turn of it, 0 for a value of the whole dialogue."""


class Choice(NamedTuple):
    """Two runs and the filters of their turns, as an address has them."""

    a: str
    b: str
    changed: str
    filters: Filters

    @classmethod
    def of(cls, query: Query) -> Self:
        """Read the fields of a query; an unknown change is ignored."""
        changed = query.get("changed", "")
        names = query.get("a", ""), query.get("b", "")
        return cls(*names, changed if changed in CHANGES else "", Filters.of(query))

    @property
    def any(self) -> bool:
        """True if a filter is set."""
        return bool(self.changed or self.filters.any)

    @property
    def metric(self) -> str:
        """The value whose changes are asked for."""
        return self.filters.values.get("metric", "")

    def address(self, **changes: object) -> str:
        """Return the query string with changes; every change but that of the page leads to the first page."""
        return self.filters.address(**{"a": self.a, "b": self.b, "changed": self.changed, **changes})

    def chips(self) -> list[tuple[str, str, str]]:
        """Return the filters that are set: name, value in words, and the query string without each."""
        chips = chosen_filters(self.filters, self.address)
        if self.changed:
            chips.append((tr("Change"), tr(CHANGES[self.changed]), self.address(changed=None)))
        return chips


class Pair(NamedTuple):
    """Changes from one run to another; ``replies`` and all states have an entry for each place.

    ``moves`` has the states of all values together.
    """

    comparison: Comparison
    places: list[Place]
    replies: bytes
    states: dict[str, bytes]
    moves: bytes

    def matching(self, choice: Choice, met: set[Place] | None) -> Iterator[int]:
        """Yield the entries that meet the filters; ``met`` are the turns that meet those of single runs."""
        states = self.states.get(choice.metric, b"") if choice.metric else self.moves
        dialogs = set() if met is None else {name for name, _ in met}
        for at, (place, reply, state) in enumerate(zip(self.places, self.replies, states, strict=False)):
            if choice.metric and not state:
                continue
            if met is not None and (place not in met if place[1] else place[0] not in dialogs):
                continue
            if _is_changed(choice, reply, state):
                yield at

    def names(self) -> dict[str, str]:
        """Return the values in words."""
        return {name: label(name, "dialogues") for name in self.states}

    def turns(self, changed: str) -> int:
        """Return the number of turns that changed in a way."""
        matching = self.matching(Choice("", "", changed, Filters()), None)
        return sum(1 for at in matching if self.places[at][1])

    def diverges(self, at: int) -> bool:
        """Say if replies differ, or if one run lacks the turn."""
        return self.replies[at] >= _REPLY


def _is_changed(choice: Choice, reply: int, state: int) -> bool:
    match choice.changed:
        case "reply":
            return reply == _REPLY
        case "missing":
            return reply == _MISSING
        case "better" | "worse":
            return bool(state & _STATES[choice.changed])
        case "same":
            unmoved = not state & (_BETTER | _WORSE)
            return unmoved and (bool(choice.metric) or reply == _SAME)
    return choice.any or reply >= _REPLY or bool(state & (_BETTER | _WORSE))


class Beside:
    """The pages that show two runs side by side."""

    def __init__(self, catalog: Catalog, indexes: Indexes) -> None:
        self._catalog = catalog
        self._indexes = indexes
        self._pairs: dict[tuple[str, str], tuple[object, Pair]] = {}
        self._lock = threading.Lock()

    def overview(self, query: Query) -> Page:
        """Return the values of two runs with their differences, and the dialogues that differ."""
        choice = Choice.of(query)
        head = {"choice": choice, "comparable": self._catalog.comparable(), "changes": CHANGES, "pair": None}
        if not (choice.a and choice.b):
            return "beside", head
        files = self._files(choice)
        pair = self._pair(choice, files)
        names = pair.names()
        with closing(self._indexes.open(files[0])) as a, closing(self._indexes.open(files[1])) as b:
            found = _by_dialog(pair, pair.matching(choice, _met(choice, (a, b))))
            page = choice.filters.page
            shown = list(found.items())[(page - 1) * PAGE : page * PAGE]
            lines = [_line(pair, names, choice, (a, b), *each) for each in shown]
            counts = [index.counts(Filters()) for index in (a, b)]
        return "beside", {
            **head,
            "pair": pair.comparison,
            "rows": list(_rows(pair, names)),
            "totals": [(kind, tr(words), pair.turns(kind)) for kind, words in CHANGES.items()],
            "metrics": names,
            "facets": [
                (
                    kind,
                    tr(KINDS[kind]),
                    {value: facet_label(kind, value) for each in counts for value, _ in each[kind]},
                )
                for kind in ("label", "scenario", "difficulty")
            ],
            "chosen": choice.chips(),
            "lines": lines,
            "turns": sum(1 for entries in found.values() for at in entries if pair.places[at][1]),
            "dialogs": len(found),
            "pager": pager_of(page, len(found), PAGE, choice.address),
        }

    def dialog(self, query: Query, dialog: str) -> Page:
        """Return a dialogue with the replies of both runs; the filters decide which dialogues come next."""
        choice = Choice.of(query)
        files = self._files(choice)
        pair = self._pair(choice, files)
        names = pair.names()
        with closing(self._indexes.open(files[0])) as a, closing(self._indexes.open(files[1])) as b:
            sides = [_side(index, dialog) for index in (a, b)]
            matching = list(pair.matching(choice, _met(choice, (a, b))))
        own = {number: at for at, (name, number) in enumerate(pair.places) if name == dialog}
        if not own:
            raise not_found()
        first, last = min(own.values()), max(own.values())
        opens = {
            name: (name, _first(pair, choice, each)) for name, each in _by_dialog(pair, matching).items()
        }
        before = [pair.places[at][0] for at in matching if at < first]
        after = (pair.places[at][0] for at in matching if at > last)
        numbers = {pair.places[at][1] for at in matching if first <= at <= last}
        diverging = [number for number, at in own.items() if pair.diverges(at)]
        trace = next(side[0] for side in sides if side is not None)
        difficulty = labels("difficulty").get(trace.difficulty or "")
        return "beside-dialog", {
            "choice": choice,
            "dialog": dialog,
            "facts": [one_line(each, 80) for each in (trace.scenario_type, difficulty) if each],
            "profile": profile_of(trace),
            "lacking": [name for name, side in zip(choice[:2], sides, strict=True) if side is None],
            "turns": [
                {
                    **_turn(*(None if side is None else side[1].get(number) for side in sides)),
                    "number": number,
                    "diverges": pair.diverges(at),
                    "matches": choice.any and number in numbers,
                    "moves": list(_moves(pair, names, at)),
                }
                for number, at in own.items()
                if number
            ],
            "moves": list(_moves(pair, names, own[0])) if 0 in own else [],
            "first": min((numbers if choice.any else diverging) or {0}),
            "before": opens[before[-1]] if before else None,
            "after": opens.get(next(after, "")),
            "chosen": choice.chips(),
        }

    def _files(self, choice: Choice) -> tuple[Mapping[str, Path], Mapping[str, Path]]:
        """Return the files of both runs; refuse what cannot be compared."""
        found: list[Mapping[str, Path]] = []
        datasets: list[tuple[str, object]] = []
        for name in choice[:2]:
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
            raise _refusal(words, a=choice.a, b=choice.b, path_a=path_a, path_b=path_b, **short)
        return found[0], found[1]

    def _pair(self, choice: Choice, files: tuple[Mapping[str, Path], Mapping[str, Path]]) -> Pair:
        """Return the comparison of two runs, made again once their files have changed."""
        stats = [(name, path.stat()) for each in files for name, path in sorted(each.items())]
        state = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        with self._lock:
            known = self._pairs.pop(choice[:2], None)
            if known is None or known[0] != state:
                with closing(self._indexes.open(files[0])) as a, closing(self._indexes.open(files[1])) as b:
                    known = (state, _compared(choice, files, (a, b)))
            self._pairs[choice[:2]] = known  # the latest is the last
            if len(self._pairs) > MAX_PAIRS:
                del self._pairs[next(iter(self._pairs))]
        if not known[1].comparison.pairs:
            raise _refusal(marked("{a} and {b} have no dialogue in common."), a=choice.a, b=choice.b)
        return known[1]


def _refusal(words: str, **names: str) -> Refusal:
    fields = {name: one_line(value, 200) for name, value in names.items()}
    return Refusal(400, "not_comparable", tr(words, **fields))


def _compared(choice: Choice, files: Sequence[Mapping[str, Path]], indexes: Sequence[Index]) -> Pair:
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
        a=choice.a,
        b=choice.b,
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


def _met(choice: Choice, indexes: Sequence[Index]) -> set[Place] | None:
    """Return the turns that meet the filters of single runs in either run, None without such filters."""
    filters = choice.filters._replace(
        values={kind: value for kind, value in choice.filters.values.items() if kind != "metric"}
    )
    return set().union(*(index.places(filters) for index in indexes)) if filters.any else None


def _by_dialog(pair: Pair, matching: Iterable[int]) -> dict[str, list[int]]:
    """Return entries by their dialogues."""
    found: dict[str, list[int]] = {}
    for at in matching:
        found.setdefault(pair.places[at][0], []).append(at)
    return found


def _first(pair: Pair, choice: Choice, entries: Sequence[int]) -> int:
    """Return the turn that a dialogue opens at: the first that diverges, with filters the first of all."""
    diverging = () if choice.any else (at for at in entries if pair.diverges(at))
    return pair.places[next(iter(diverging), entries[0])][1]


def _line(
    pair: Pair,
    names: Mapping[str, str],
    choice: Choice,
    indexes: Sequence[Index],
    name: str,
    entries: Sequence[int],
) -> dict[str, Any]:
    """Return a dialogue as the list shows it: its turns, and the texts of the one that it opens at."""
    first = _first(pair, choice, entries)
    texts = [index.excerpt(name, first) for index in indexes]
    dialog = next(filter(None, (index.dialog(name) for index in indexes)))
    return {
        "name": name,
        "scenario": dialog["scenario"],
        "first": first,
        "numbers": [pair.places[at][1] for at in entries],
        "user": next((text["user"] for text in texts if text), ""),
        "replies": [text and text["reply"] for text in texts],
        "moves": list(_moves(pair, names, *entries)),
    }


def _moves(pair: Pair, names: Mapping[str, str], *entries: int) -> Iterator[tuple[str, str]]:
    """Yield the values that changed in some entries, with the direction."""
    for name, state in pair.states.items():
        found = {state[at] for at in entries}
        yield from ((each, names[name]) for each in ("worse", "better") if _STATES[each] in found)


def _rows(pair: Pair, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table of values, with the counts of places that changed."""
    by_text = {text: name for name, text in names.items()}
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
    trace = index.trace(place)
    return trace, {turn["number"]: turn for turn in turns_of(trace, index.rows(place), index.votes(place))}


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
