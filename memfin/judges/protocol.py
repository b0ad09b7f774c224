"""The judge interface: scores how well a reply explains itself (spec section 7)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

from memfin.contracts import JudgeFailure, JudgeRequest, ParameterChange, Verdict, Vote


class JudgeError(Exception):
    """A judgement did not come about; the turn gets no score and the failure is counted."""


class EndpointDown(Exception):  # noqa: N818 - names the state that was found
    """The judge cannot be reached, for longer than it may be: no judgement has failed, all have to wait."""


class Judge(Protocol):
    """Judges one reply at a time; one instance serves all workers of a run."""

    name: str
    version: str | None
    """Version of what judges, for the fingerprint; None where it has none."""

    per_turn: ClassVar[bool]
    """Whether turns are worth spreading over the workers (a judge that waits for a network)."""

    async def judge(self, request: JudgeRequest) -> Verdict:
        """Return the verdict on one reply.

        Raises:
            JudgeError: there is none.
            EndpointDown: nothing can be judged now.
        """
        ...

    async def close(self) -> None:
        """Release what the judge holds."""


class Ruling(NamedTuple):
    """A judgement with the votes that led to it, in order; judges that keep no record have none."""

    outcome: Verdict | JudgeFailure
    votes: Sequence[Vote] = ()


class CacheCounts(NamedTuple):
    """Look-ups in a judge's cache; damaged entries count as misses, too."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0


@runtime_checkable
class RecordingJudge(Judge, Protocol):
    """A judge that tells what it was answered and what that cost: a language model.

    Everything it tells is a method: a check for the protocol would evaluate properties.
    """

    async def deliberate(self, request: JudgeRequest) -> Ruling:
        """Return the ruling on one reply; a judgement that fails is a `JudgeFailure`, never raised.

        Raises:
            EndpointDown: nothing can be judged now.
        """
        ...

    def settings(self) -> Mapping[str, Any]:
        """What the verdicts depend on besides model and request, for the fingerprint."""
        ...

    def endpoint_names(self) -> Mapping[str, str | None]:
        """The names of the environment variables that say where the model is, and its key."""
        ...

    def cache_counts(self) -> CacheCounts:
        """Return the look-ups so far."""
        ...

    def has_cache(self) -> bool:
        """Say whether answers are looked up before the model is asked."""
        ...

    def parameter_changes(self) -> Sequence[ParameterChange]:
        """Return which parameters the model has refused so far."""
        ...


async def ruling(judge: Judge, request: JudgeRequest) -> Ruling:
    """Return the ruling of any judge on one reply.

    In the scope ``all`` a verdict that lacks one of the readings it has to carry is a failure.

    Raises:
        EndpointDown: nothing can be judged now.
    """
    # To ask whether it is a `RecordingJudge` takes longer than an offline judgement.
    if (deliberate := getattr(judge, "deliberate", None)) is not None:
        return cast("Ruling", await deliberate(request))
    try:
        verdict = await judge.judge(request)
    except JudgeError as problem:
        return Ruling(JudgeFailure(reason=str(problem)))
    missing = [
        name
        for name in ("compliance", "contradicted_constraints", "risk_tags")
        if request.scope == "all" and verdict[name] is None
    ]
    if missing:
        return Ruling(JudgeFailure(reason=f"the verdict lacks {missing[0]}, which the scope all asks for"))
    return Ruling(verdict)
