"""Filters of turns: shareable query strings, and their conditions in SQL."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from memfin.language import marked

KINDS: Final = {
    "failed": marked("Falls short in"),
    "label": marked("Label"),
    "rule": marked("Rule"),
    "metric": marked("Counted in"),
    "scenario": marked("Scenario"),
    "difficulty": marked("Difficulty"),
}
"""Facets of turns with their names for readers.

``metric`` has the values of metrics that count a turn, ``failed`` those in which it falls short.
"""

ANSWER: Final = "answer"
"""Value of ``failed`` for turns without an answer."""

LOW_SCORE: Final = 4.0
"""Scores of a judge below this fall short."""

MIN_TRIGRAM: Final = 3
"""Characters of the shortest search that the trigram index answers."""

_MEMBERS: Final = "SELECT turn FROM members JOIN facets f ON f.id = facet WHERE kind = ? AND value = ?"
_MAX_TEXT: Final = 500
_MAX_PAGE: Final = 1_000_000


class Filters(NamedTuple):
    """Values of the facets, a text to search for, and the page of the list, from 1."""

    values: Mapping[str, str] = {}
    q: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Read the filters of a query; unknown fields and a malformed page are ignored."""
        values = {kind: query[kind][:_MAX_TEXT] for kind in KINDS if query.get(kind)}
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
        fields: dict[str, object] = {kind: self.values.get(kind) for kind in KINDS}
        fields |= {"q": self.q, **changes}
        query = urlencode({name: str(value) for name, value in fields.items() if value})
        return f"?{query}" if query else ""

    def condition(self, without: str = "") -> tuple[str, list[Any]]:
        """Return the condition on ``turns t`` and its parameters; one kind can be left out."""
        parts, parameters = ["1"], list[Any]()
        for kind, value in self.values.items():
            if kind != without:
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
