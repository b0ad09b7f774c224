"""The judge interface: a judge reads one reply and gives a verdict on it (spec section 7)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from memfin.contracts import JudgeFailure, JudgeRequest, ParameterChange, Record, Verdict, Vote

R_contra = TypeVar("R_contra", bound=Record, contravariant=True)
V_co = TypeVar("V_co", bound=Record, covariant=True)
R = TypeVar("R", bound=Record)
V = TypeVar("V", bound=Record)


class JudgeError(Exception):
    """A judgement did not come about; the turn gets no score and the failure is counted."""


class EndpointDown(Exception):  # noqa: N818 - names the state that was found
    """The judge cannot be reached, for longer than it may be: no judgement has failed, all have to wait."""


class Judge(Protocol[R_contra, V_co]):
    """Judges one reply at a time; one instance serves all workers of a run.

    What it is asked and what it answers depends on the suite: `DialogJudge` judges the replies of dialogues.
    """

    name: str
    version: str | None
    """Version of what judges, for the fingerprint; None where it has none."""

    per_turn: ClassVar[bool]
    """Whether turns are worth spreading over the workers (a judge that waits for a network)."""

    async def judge(self, request: R_contra) -> V_co:
        """Return the verdict on one reply.

        Raises:
            JudgeError: there is none.
            EndpointDown: nothing can be judged now.
        """
        ...

    async def close(self) -> None:
        """Release what the judge holds."""


DialogJudge = Judge[JudgeRequest, Verdict]


class JudgeResult(NamedTuple, Generic[V]):
    """A judgement with the votes that led to it, in order; judges that keep no record have none."""

    outcome: V | JudgeFailure
    votes: Sequence[Vote[V]] = ()


class CacheCounts(NamedTuple):
    """Look-ups in a judge's cache; damaged entries count as misses, too."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0


@runtime_checkable
class RecordingJudge(Judge[R_contra, V], Protocol[R_contra, V]):
    """A judge that tells what it was answered and what that cost: a language model.

    Everything it tells is a method: a check for the protocol would evaluate properties.
    """

    async def deliberate(self, request: R_contra) -> JudgeResult[V]:
        """Return the result on one reply; a judgement that fails is a `JudgeFailure`, never raised.

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


async def judge_result(judge: Judge[R, V], request: R) -> JudgeResult[V]:
    """Return the result of any judge on one reply.

    Raises:
        EndpointDown: nothing can be judged now.
    """
    # To ask whether it is a `RecordingJudge` takes longer than an offline judgement.
    if (deliberate := getattr(judge, "deliberate", None)) is not None:
        return cast("JudgeResult[V]", await deliberate(request))
    try:
        return JudgeResult(await judge.judge(request))
    except JudgeError as problem:
        return JudgeResult(JudgeFailure(reason=str(problem)))
