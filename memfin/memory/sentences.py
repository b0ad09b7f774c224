"""Consent sentences: the words of each scope, with the facts of the route matrix and of the store put in."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from memfin.contracts.base import Record
from memfin.contracts.memory import ConsentScope, Route, SliceName
from memfin.memory.contexts import KEPT
from memfin.memory.records import REVIEWABLE
from memfin.memory.slices import CONSENT, DRIFT_DAYS, MATRIX, OF_THREAD, SLICES, THREADS_NAMED, Source

_HOUR: Final = 3600


class _Words(Record, forbid_unknown_fields=True):
    """Words of one language: for the fields and the kinds of task, and between them."""

    used: str
    every_task: str
    if_asked_for: str
    comma: str
    last_comma: str
    semicolon: str
    routes: dict[Route, str]
    fields: dict[str, str]

    def listed(self, names: Sequence[str]) -> str:
        *first, last = names
        return f"{self.comma.join(first)}{self.last_comma}{last}" if first else last


def consent_sentences(scopes: Mapping[ConsentScope, Mapping[str, str]], words: Any) -> dict[str, Any]:
    """Return the texts of the scopes with the placeholders of their hints replaced.

    ``{hours}``, ``{days}`` and ``{threads}`` are numbers, ``{fields}`` the fields of a saved context,
    ``{reads}`` the fields read by kind of task, ``{titles}`` the kinds of task that read titles of threads.
    """
    known = msgspec.convert(words, _Words)
    numbers = {
        "hours": int(KEPT.total_seconds()) // _HOUR,
        "days": DRIFT_DAYS,
        "threads": THREADS_NAMED,
    }
    fields = {name: text.format_map(numbers) for name, text in known.fields.items()}
    known = known.replace(fields=fields)
    facts: dict[str, Any] = {
        **numbers,
        "fields": known.listed([fields[name] for name in REVIEWABLE]),
        "titles": _where(known, routes_reading("S6", {"threads"})),
    }
    return {
        scope: {**texts, "hint": texts["hint"].format_map({**facts, "reads": _reads(known, scope)})}
        for scope, texts in scopes.items()
    }


def routes_reading(name: SliceName, sources: Collection[Source]) -> Iterator[tuple[Route, bool]]:
    """Yield the routes that read a slice from one of the sources, and whether only if they are asked for."""
    if not set(sources).intersection(SLICES[name].sources):
        return
    for route, plan in MATRIX.items():
        condition = plan.optional.get(name)
        of_thread = condition != "of_thread" or OF_THREAD.intersection(sources)
        if (name in plan.required or condition is not None) and of_thread:
            yield route, condition == "asked_for"


def _reads(words: _Words, scope: ConsentScope) -> str:
    """Name what the sources of a scope, titles aside, give to which kinds of task."""
    sources: list[Source] = [
        source for source, needed in CONSENT.items() if needed == scope and source != "threads"
    ]
    by_routes: dict[str, list[str]] = {}
    for name, form in SLICES.items():
        if where := _where(words, routes_reading(name, sources)):
            by_routes.setdefault(where, []).append(words.fields[form.label])
    return words.semicolon.join(
        words.used.format(what=words.listed(what), where=where) for where, what in by_routes.items()
    )


def _where(words: _Words, routes: Iterator[tuple[Route, bool]]) -> str:
    """Name kinds of task; empty without any."""
    names = [
        words.if_asked_for.format(route=words.routes[route]) if asked else words.routes[route]
        for route, asked in routes
    ]
    if len(names) == len(MATRIX):
        return words.every_task
    return words.listed(names) if names else ""
