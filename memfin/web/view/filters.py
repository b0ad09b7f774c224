"""Filters of turns: shareable query strings, and their conditions in SQL."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from memfin.language import marked, tr
from memfin.report.glossary import ALL_METRICS, labels, value_label, word
from memfin.text.lines import one_line

Query = Mapping[str, str]
Page = tuple[str, dict[str, Any]]
"""The name of a template, and its values."""

KINDS: Final = {
    "failed": marked("Falls short in"),
    "label": marked("Label"),
    "rule": marked("Rule"),
    "metric": marked("Counted in"),
    "scenario": marked("Scenario"),
    "difficulty": marked("Difficulty"),
    "status": marked("Outcome"),
    "unsure": marked("Unsure about"),
    "key": marked("Requires a key"),
    "missed": marked("Misses a key"),
}
"""Facets of turns with their names for readers.

``metric`` has the values of metrics that count a turn, ``failed`` those in which it falls short.
"""

RANGES: Final = {
    "score": marked("Judge's score"),
    "latency": marked("Latency in ms"),
    "value": marked("Value of the dialogue"),
}
"""Ranges ``3..4``, from 3 to below 4, with their names for readers; either end may be left out."""

TURNS: Final = KINDS | RANGES
"""Fields of the filters of turns with their names for readers."""

ANSWER: Final = "answer"
"""Value of ``failed`` for turns without an answer."""

ANY: Final = "any"
CONTRADICTION: Final = "contradiction"
VOTES: Final = "votes"
"""Values of ``unsure``: any doubt, a constraint that nobody could decide, a judge whose scores differ."""

LOW_SCORE: Final = 4.0
"""Scores of a judge below this fall short."""

MIN_TRIGRAM: Final = 3
"""Characters of the shortest search that the trigram index answers."""

_RANGE: Final = re.compile(r"([0-9]{0,9}(?:[.][0-9]{1,6})?)\.\.([0-9]{0,9}(?:[.][0-9]{1,6})?)", re.ASCII)
_OF_DIALOG: Final = (
    "SELECT v.dialog FROM members m JOIN facets f ON f.id = m.facet JOIN turns v ON v.id = m.turn "
    "WHERE f.kind = 'metric' AND f.value = ? GROUP BY v.dialog HAVING sum(m.hits) / sum(m.of) >= ? "
    "AND sum(m.hits) / sum(m.of) < ?"
)
_MEMBERS: Final = "SELECT turn FROM members JOIN facets f ON f.id = facet WHERE kind = ? AND value = ?"
_MAX_TEXT: Final = 500
_MAX_PAGE: Final = 1_000_000


class Filters(NamedTuple):
    """Values of fields, a text to search for, and the page of the list, from 1.

    ``base`` are fields that every address keeps and that filter nothing. The range ``value`` is that of the
    value ``metric`` of a dialogue, and means nothing without it.
    """

    values: Mapping[str, str] = {}
    q: str = ""
    page: int = 1
    base: Mapping[str, str] = {}

    @classmethod
    def of(cls, query: Query, names: Iterable[str] = TURNS, base: Iterable[str] = ()) -> Self:
        """Read the fields of a query; other fields, malformed ranges and pages are ignored."""
        values = {kind: query[kind][:_MAX_TEXT] for kind in names if query.get(kind)}
        for kind in RANGES.keys() & values.keys():
            if not bounds(values[kind]) or (kind == "value" and "metric" not in values):
                del values[kind]
        page = query.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < len(str(_MAX_PAGE)) else 1
        kept = {name: query.get(name, "") for name in base}
        return cls(values, query.get("q", "").strip()[:_MAX_TEXT], max(1, number), kept)

    @property
    def any(self) -> bool:
        """True if a filter is set."""
        return bool(self.values or self.q)

    def address(self, **changes: object) -> str:
        """Return the query string with changes, beginning with ``?``; without fields it is empty.

        Every change but that of the page leads to the first page.
        """
        fields = {**self.base, **self.values, "q": self.q, **changes}
        query = urlencode({name: str(value) for name, value in fields.items() if value})
        return f"?{query}" if query else ""

    def without(self, *kinds: str) -> Self:
        """Return the filters but for those of some fields."""
        return self._replace(values={kind: self.values[kind] for kind in self.values if kind not in kinds})

    def condition(self, without: str = "") -> tuple[str, list[Any]]:
        """Return the condition on ``turns t`` and its parameters; one kind can be left out."""
        parts, parameters = ["1"], list[Any]()
        for kind, value in self.values.items():
            if kind in RANGES:
                low, high = bounds(value) or (-math.inf, math.inf)
                if kind == "value":
                    parts.append(f"t.dialog IN ({_OF_DIALOG})")
                    parameters += (self.values["metric"], low, high)
                else:
                    parts.append(f"t.{kind} >= ? AND t.{kind} < ?")
                    parameters += (low, high)
            elif kind != without:
                parts.append(f"t.id IN ({_MEMBERS})")
                parameters += (kind, value)
        if len(self.q) >= MIN_TRIGRAM:
            parts.append("t.id IN (SELECT rowid FROM texts WHERE texts MATCH ?)")
            parameters.append('"' + self.q.replace('"', '""') + '"')
        elif self.q:
            parts.append(
                r"t.id IN (SELECT rowid FROM texts WHERE user LIKE ? ESCAPE '\' OR reply LIKE ? ESCAPE '\')"
            )
            escaped = self.q.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
            parameters += 2 * [f"%{escaped}%"]
        return " AND ".join(parts), parameters


def bounds(text: str) -> tuple[float, float] | None:
    """Return the ends of a range such as ``3..4``, ``4..`` or ``..3``; None for another text."""
    found = _RANGE.fullmatch(text)
    return None if found is None else (float(found[1] or -math.inf), float(found[2] or math.inf))


def range_words(text: str) -> str:
    """Write a range in words."""
    low, _, high = text.partition("..")
    if low and high:
        return tr("{low} to below {high}", low=low, high=high)
    return tr("{low} and above", low=low) if low else tr("below {high}", high=high or "∞")


def turn_label(kind: str, value: str) -> str:
    """Return the value of a filter of turns in words."""
    if kind in ("failed", "metric"):
        if value == ANSWER:
            return tr("No answer")
        metric, _, key = value.partition(".")
        code = next((text.code for text in ALL_METRICS if text.name == metric), metric)
        return one_line(f"{code} {value_label(key)}", 80)
    if kind in RANGES:
        return range_words(value)
    known = {
        "difficulty": labels("difficulty"),
        "status": labels("turn_status"),
        "unsure": {ANY: tr("anything"), VOTES: tr("the judge"), CONTRADICTION: tr("a constraint")},
        **dict.fromkeys(("key", "missed"), labels("keys")),
    }.get(kind, {})
    return known.get(value) or (word(value) if kind in ("label", "unsure") else one_line(value, 80))


def list_of(
    filters: Filters,
    total: int,
    size: int,
    names: Mapping[str, str] = TURNS,
    label: Callable[[str, str], str] = turn_label,
    counts: Mapping[str, Sequence[tuple[str, int]]] = {},
) -> dict[str, Any]:
    """Return a list with filters for the templates.

    ``chosen`` has the filters that are set (name, value in words, query string without each), ``facets`` the
    values that can be set with their counts, ``pager`` the query strings of the pages before and after.
    """
    chosen = [
        (tr(names[kind]), label(kind, value), filters.address(**{kind: None}))
        for kind, value in filters.values.items()
    ]
    if filters.q:
        chosen.append((tr("Text"), one_line(filters.q, 80), filters.address(q=None)))
    page, pages = filters.page, max(1, -(-total // size))
    return {
        "filters": filters,
        "total": total,
        "chosen": chosen,
        "facets": [
            (kind, tr(name), [(value, label(kind, value), count) for value, count in counts[kind]])
            for kind, name in names.items()
            if kind in counts
        ],
        "pager": {
            "page": page,
            "pages": pages,
            "before": filters.address(page=page - 1) if 1 < page <= pages + 1 else None,
            "after": filters.address(page=page + 1) if page < pages else None,
        },
    }
