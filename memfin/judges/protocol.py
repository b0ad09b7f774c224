"""Interfaces of judges and their tasks; a judge returns the verdict on one request (spec section 7).

A judge that is a model implements endpoints, limits, retries and caches; the task of its suite supplies
the prompts, the reading of answers, and the combination of several votes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from memfin.contracts import JudgeFailure, JudgeRequest, JudgeScope, ParameterChange, Record, Verdict, Vote
from memfin.judges.cache import AnswerCache, CacheMode
from memfin.judges.prompts import Prompt

if TYPE_CHECKING:
    from memfin.client.limiter import CallLimiter, StartLimiter

R_contra = TypeVar("R_contra", bound=Record, contravariant=True)
V_co = TypeVar("V_co", bound=Record, covariant=True)
R = TypeVar("R", bound=Record)
"""The request of a task."""

V = TypeVar("V", bound=Record)
"""The verdict of a task."""


class JudgeError(Exception):
    """A judgement failed; the turn gets no score and the failure is counted."""


class Judge(Protocol[R_contra, V_co]):
    """A judge of one reply at a time; one instance serves all workers of a run.

    Requests and verdicts depend on the suite: `DialogJudge` judges the replies of dialogues.
    """

    name: str
    version: str | None
    """Version of the judge, for the fingerprint; None where it has none."""

    per_turn: ClassVar[bool]
    """True if several workers make the judge faster, as one that waits for a network."""

    async def judge(self, request: R_contra) -> V_co:
        """Return the verdict on one reply.

        Raises:
            JudgeError: there is none.
            EndpointDown: nothing can be judged now.
        """
        ...

    async def close(self) -> None:
        """Release the resources of the judge."""


DialogJudge = Judge[JudgeRequest, Verdict]


class JudgeResult(NamedTuple, Generic[V]):
    """A judgement with its votes, in order; judges without a record have none."""

    outcome: V | JudgeFailure
    votes: Sequence[Vote[V]] = ()


class CacheCounts(NamedTuple):
    """Look-ups in a judge's cache; damaged entries count as misses, too."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0


class RecordingJudge(ABC, Generic[R, V]):
    """A judge with a record of its answers and their costs: a language model."""

    name: str
    version: str | None
    per_turn: ClassVar[bool] = True
    cache: AnswerCache
    settings: Mapping[str, Any]
    """Settings that verdicts depend on besides model and request, for the fingerprint."""
    endpoint_names: Mapping[str, str | None]
    """Names of the environment variables of the model's address and key."""

    @abstractmethod
    async def deliberate(self, request: R) -> JudgeResult[V]:
        """Return the result on one reply; a failed judgement is a `JudgeFailure`, never raised.

        Raises:
            EndpointDown: nothing can be judged now.
        """

    @abstractmethod
    def parameter_changes(self) -> Sequence[ParameterChange]:
        """Return the parameters that the model has refused so far."""

    @abstractmethod
    async def close(self) -> None:
        """Release the resources of the judge."""

    async def judge(self, request: R) -> V:
        """Return the verdict on one reply; raises as `Judge.judge`."""
        outcome = (await self.deliberate(request)).outcome
        if isinstance(outcome, JudgeFailure):
            raise JudgeError(outcome.reason)
        return outcome

    def cache_counts(self) -> CacheCounts:
        """Return the look-ups so far."""
        return CacheCounts(self.cache.hits, self.cache.misses, self.cache.damaged)


async def judge_result(judge: Judge[R, V], request: R) -> JudgeResult[V]:
    """Return the result of a judge of any kind on one reply.

    Raises:
        EndpointDown: nothing can be judged now.
    """
    if isinstance(judge, RecordingJudge):
        return await judge.deliberate(request)
    try:
        return JudgeResult(await judge.judge(request))
    except JudgeError as problem:
        return JudgeResult(JudgeFailure(reason=str(problem)))


class GradingPrompt(NamedTuple, Generic[V]):
    """The request for one vote.

    ``schema`` is the JSON schema of the answer. ``read`` returns the verdict of an answer, and raises
    `memfin.client.structured.InvalidAnswer` for any other text. ``tokens`` is an estimate of the costs.
    """

    prompt: Prompt
    schema: dict[str, Any]
    read: Callable[[str], V]
    tokens: int


class JudgeSetup(NamedTuple):
    """Settings of a judge besides its reference; those without a comment are fields of `RunConfig`."""

    gate: "CallLimiter | None" = None
    """Limits, retries and pauses of the requests to a model, shared by all workers."""
    starts: "StartLimiter | None" = None
    """Limit of the calls of a user's own judge, shared by all workers."""
    retries: int = 2
    """Calls of a user's own judge after a transport error, besides the first."""
    warn: Callable[[str], None] = lambda _: None
    """Receives the judge's warnings for the user."""
    scope: JudgeScope = "m5"
    probes: bool = False
    """True where the answers to probes are graded, too."""
    votes: int = 1
    seed: int = 0
    max_tokens: int = 2048
    cache: CacheMode = "off"
    cache_dir: Path = Path()

    def answer_cache(self) -> AnswerCache:
        """Return the cache of answers."""
        return AnswerCache(self.cache_dir, self.cache, self.warn)


class JudgeTask(ABC, Generic[R, V]):
    """The task of the judges of one suite.

    Attributes:
        version: that of the prompts.
        verdict: the type of the verdicts.
    """

    version: str
    verdict: type[V]

    @abstractmethod
    def prompt_hashes(self) -> Mapping[str, str]:
        """Return the SHA-256 of every template file by name."""

    @abstractmethod
    def grading_prompt(self, request: R, vote: int) -> GradingPrompt[V]:
        """Return the request for a vote, counted from 0; every vote varies the prompt.

        Raises:
            TooLong: the texts are longer than a prompt may hold.
        """

    @abstractmethod
    def combined(self, request: R, votes: Sequence[V]) -> V:
        """Return the verdict of a panel; a single vote is the verdict as it is."""

    @abstractmethod
    def scrubbed(self, verdict: V, scrub: Callable[[str], str]) -> V:
        """Return a verdict with its own words scrubbed of secrets."""

    def scored(self, request: R, score: float) -> Any:
        """Return the fields of the verdict for a user's judge that gave a bare score, if the task has one."""
        del request
        return score

    def lacking(self, request: R, verdict: V) -> str | None:
        """Return the part of a verdict that the request asks for and a user's judge omitted, if any."""
        del request, verdict
        return None

    def surplus(self, request: R, verdict: V) -> str | None:
        """Return the part of a verdict that a user's judge gave and the request does not ask for, if any."""
        del request, verdict
        return None


def token_estimate(texts: Iterable[str], frame: int) -> int:
    """Estimate the tokens of a call: one per Chinese character, one per four others.

    ``frame`` stands for the fixed part of the prompt and the answer; the gate replaces it by the real
    number afterwards.
    """
    text = "".join(texts)
    narrow = len(text.encode("ascii", "ignore"))
    return frame + len(text) - narrow + math.ceil(narrow / 4)
