"""The judge interface: scores how well a reply explains itself (spec section 7)."""

from typing import ClassVar, Protocol

from memfin.contracts import JudgeRequest, Verdict


class JudgeError(Exception):
    """A judgement did not come about; the turn gets no score and the failure is counted."""


class Judge(Protocol):
    """Judges one reply at a time; one instance serves all workers of a run."""

    name: str
    version: str | None
    """Version of what judges, for the fingerprint; None where it has none."""

    per_turn: ClassVar[bool]
    """Whether turns are worth spreading over the workers (a judge that waits for a network)."""

    async def judge(self, request: JudgeRequest) -> Verdict:
        """Return the verdict on one reply; raise `JudgeError` when there is none."""
        ...

    async def close(self) -> None:
        """Release what the judge holds."""
