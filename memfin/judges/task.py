"""What a suite wants judged: how one vote is asked for, how its answer is read, what several votes say.

A judge that is a model knows endpoints, limits, retries and caches; what it is asked about it learns from the
task of its suite, and from nowhere else.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from memfin.contracts import Record
from memfin.judges.templates import Prompt

R = TypeVar("R", bound=Record)
"""What a judge of the suite is asked."""

V = TypeVar("V", bound=Record)
"""Its verdict."""


class GradingPrompt(NamedTuple, Generic[V]):
    """One vote as it is asked for.

    ``schema`` is the JSON schema of the answer. ``read`` returns the verdict that an answer holds, and raises
    `memfin.client.structured.InvalidAnswer` for any other text. ``tokens`` is about what the vote costs.
    """

    prompt: Prompt
    schema: dict[str, Any]
    read: Callable[[str], V]
    tokens: int


class JudgeTask(ABC, Generic[R, V]):
    """What the judges of one suite are for.

    Attributes:
        version: that of the prompts.
        verdict: the type of the verdicts.
    """

    version: str
    verdict: type[V]

    @abstractmethod
    def prompt_hashes(self) -> Mapping[str, str]:
        """Return the SHA-256 of every file that prompts are made of, by its name."""

    @abstractmethod
    def grading_prompt(self, request: R, vote: int) -> GradingPrompt[V]:
        """Return how a vote is asked for; votes count from 0, and each puts the question in another way.

        Raises:
            TooLong: the texts are longer than a prompt may hold.
        """

    @abstractmethod
    def combined(self, request: R, votes: Sequence[V]) -> V:
        """Return the verdict of a panel; a single vote is the verdict as it is."""

    @abstractmethod
    def scrubbed(self, verdict: V, scrub: Callable[[str], str]) -> V:
        """Return a verdict with its own words scrubbed of secrets."""

    def lacking(self, request: R, verdict: V) -> str | None:
        """Say what the verdict of a user's own judge lacks that the request asks for, if anything."""
        del request, verdict
        return None


def token_estimate(texts: Iterable[str], frame: int) -> int:
    """Return about how many tokens a call costs: one for a Chinese character, one for four others.

    ``frame`` stands for the fixed part of the prompt and the answer; the gate puts the real number in
    afterwards.
    """
    text = "".join(texts)
    narrow = len(text.encode("ascii", "ignore"))
    return frame + len(text) - narrow + math.ceil(narrow / 4)
