"""What went wrong in a run: failures with the same message are one line with a count."""

import re
from typing import Final

from memfin.report.model import FailureGroup
from memfin.text.lines import one_line, visible

_MESSAGE_LIMIT: Final = 240
_MAX_GROUPS: Final = 1000
_OTHER: Final = "(further, different messages)"
_VARYING: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}(?:-[0-9a-f]{4,})*|\d+", re.IGNORECASE)


class FailureCounter:
    """Counts failures by kind and message; numbers, addresses and ids do not make messages differ."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], list[int]] = {}
        self._first: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, kind: str, message: str | None, where: str) -> None:
        """Count a failure; ``where`` names the dialogue and turn, kept for the first of its group."""
        text = one_line(message or "(no message)", _MESSAGE_LIMIT)
        key = (kind, _VARYING.sub("#", text))
        if key not in self._groups and len(self._groups) >= _MAX_GROUPS:
            key, text = (kind, _OTHER), _OTHER
        if key in self._groups:
            self._groups[key][0] += 1
        else:
            self._groups[key] = [1]
            self._first[key] = (text, visible(where))

    def groups(self, limit: int) -> tuple[FailureGroup, ...]:
        """Return the groups, most frequent first, at most ``limit`` of them and the rest as one."""
        ranked = sorted(self._groups.items(), key=lambda item: (-item[1][0], item[0]))
        shown = [
            FailureGroup(
                kind=key[0], message=self._first[key][0], count=count[0], example=self._first[key][1]
            )
            for key, count in ranked[:limit]
        ]
        rest = sum(count[0] for _, count in ranked[limit:])
        if rest:
            shown.append(FailureGroup(kind="other", message=_OTHER, count=rest, example=""))
        return tuple(shown)
