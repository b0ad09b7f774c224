"""Filters of turns: shareable query strings, and their conditions in SQL."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from memfin.language import marked, tr

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
    """Values of the facets and ranges, a text to search for, and the page of the list, from 1.

    The range ``value`` is that of the value ``metric`` of a dialogue, and means nothing without it.
    """

    values: Mapping[str, str] = {}
    q: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Read the filters of a query; unknown fields, malformed ranges and pages are ignored."""
        values = {kind: query[kind][:_MAX_TEXT] for kind in KINDS if query.get(kind)}
        values |= {kind: query[kind] for kind in RANGES if bounds(query.get(kind, ""))}
        if "metric" not in values:
            values.pop("value", None)
        page = query.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < len(str(_MAX_PAGE)) else 1
        return cls(values, query.get("q", "").strip()[:_MAX_TEXT], max(1, number))

    @property
    def any(self) -> bool:
        """True if a filter is set."""
        return bool(self.values or self.q)

    def address(self, **changes: object) -> str:
        """Return the query string with changes, beginning with ``?``; without filters it is empty.

        Every change but that of the page leads to the first page.
        """
        fields: dict[str, object] = dict.fromkeys((*KINDS, *RANGES)) | dict(self.values)
        fields |= {"q": self.q, **changes}
        query = urlencode({name: str(value) for name, value in fields.items() if value})
        return f"?{query}" if query else ""

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
