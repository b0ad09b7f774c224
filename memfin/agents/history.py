"""History of a dialogue: its exchanges, and the observation of a prompt that holds some of them."""

from collections.abc import Sequence
from typing import Any

from memfin.contracts import Record, ShortTermTurn
from memfin.memory.tokens import estimate_tokens


class Exchange(Record):
    """The client's words at a turn, counted from 1, and the reply; either may be missing.

    ``session_id`` is there for one of an earlier session.
    """

    turn_index: int
    user: str | None = None
    assistant: str | None = None
    session_id: str | None = None

    def turns(self) -> list[ShortTermTurn]:
        """Return the one or two utterances in order."""
        texts = (("user", self.user), ("assistant", self.assistant))
        return [ShortTermTurn(role=role, content=text) for role, text in texts if text is not None]


def as_text(turns: Sequence[ShortTermTurn]) -> str:
    """Return utterances as ``user: ...`` and ``assistant: ...`` lines."""
    return "\n".join(f"{turn.role}: {turn.content}" for turn in turns)


def prompt_fields(context: str, turns: Sequence[ShortTermTurn]) -> dict[str, Any]:
    """Return the fields of a `RecallTrace` that follow from a prompt's context and recent utterances."""
    recent = as_text(turns)
    packed = "\n\n".join(part for part in (context, recent) if part)
    return {
        "short_term_context": recent,
        "short_term_turns": list(turns),
        "packed_context": packed,
        "token_count": estimate_tokens(packed),
    }
