"""Impersonal paths: prompts and records that never contain memory (memory design §7.2).

They are functions of a `Case`, which has no field for a slice, a context or a user, and their prompts are
an `ImpersonalPrompt`, which `memfin.memory.slices` does not take. This module imports nothing that reads
memory, and a test keeps it so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal, get_args

import msgspec

from memfin.contracts import Record
from memfin.contracts.memory import Identifier, Moment, Text
from memfin.errors import UsageError
from memfin.memory.tables import load_table

OPENING: Final = "<user_context>"  # the tags of the block of memory in a system prompt (§6.2)
CLOSING: Final = "</user_context>"
# Paths on which a model is asked
PromptedPath = Literal["counter_thesis", "invalidators", "data_quality_note", "boundary_guard"]
# All paths that are never personalised; `memfin.memory.sensitive` is the last one.
ImpersonalPath = Literal[PromptedPath, "evidence_order", "forbidden_execution_fields", "sensitive_classifier"]


class _Tables(Record, forbid_unknown_fields=True):
    forbidden_execution_fields: frozenset[str]
    instructions: dict[PromptedPath, str]


_TABLES: Final = load_table("boundaries.toml", _Tables)
# Fields that a pre-execution checkpoint never has, the same for everybody
FORBIDDEN_EXECUTION_FIELDS: Final = _TABLES.forbidden_execution_fields


class Evidence(Record):
    """A piece of evidence as its source states it; ``reliability`` from 0 to 1."""

    evidence_id: Identifier
    statement: Text
    published_at: Moment
    reliability: Annotated[float, msgspec.Meta(ge=0, le=1)]
    critical: bool = False


class Case(Record):
    """The input of an impersonal path: a thesis about something, and the evidence."""

    subject: Text
    thesis: Text
    as_of: Moment
    evidence: tuple[Evidence, ...] = ()

    def __post_init__(self) -> None:
        for name, text in (
            ("subject", self.subject),
            ("thesis", self.thesis),
            *((f"evidence {each.evidence_id}", each.statement) for each in self.evidence),
        ):
            if OPENING in text.casefold() or CLOSING in text.casefold():
                raise UsageError(f"{name}: holds {OPENING}: memory is not allowed on this path, remove it")


class ImpersonalPrompt(Record):
    """A prompt that memory is never added to."""

    text: str


def order_evidence(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Sort evidence independently of the user: critical, more reliable, newer, then by id."""
    by_id = sorted(evidence, key=lambda each: each.evidence_id)
    return tuple(
        sorted(by_id, key=lambda each: (each.critical, each.reliability, each.published_at), reverse=True)
    )


def impersonal_prompt(path: PromptedPath, case: Case) -> ImpersonalPrompt:
    """Return the prompt of a path: its instruction, and the case as JSON with its evidence in order."""
    ordered = case.replace(evidence=order_evidence(case.evidence))
    return ImpersonalPrompt(text=f"{_TABLES.instructions[path]}\n\n{msgspec.json.encode(ordered).decode()}")


def forbidden_execution_fields(names: Iterable[str]) -> tuple[str, ...]:
    """Return the forbidden fields of a checkpoint, sorted; case and hyphens do not matter."""
    return tuple(
        sorted({name for name in names if name.casefold().replace("-", "_") in FORBIDDEN_EXECUTION_FIELDS})
    )


# The function of each path; that of the classifier is `memfin.memory.sensitive`'s.
IMPERSONAL: Final[Mapping[ImpersonalPath, Callable[..., object]]] = {
    **dict.fromkeys(get_args(PromptedPath), impersonal_prompt),
    "evidence_order": order_evidence,
    "forbidden_execution_fields": forbidden_execution_fields,
}
