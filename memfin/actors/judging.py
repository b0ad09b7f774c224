"""What a suite tells the judge pool: what to ask about its messages, and where the verdicts go."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from memfin.contracts import Controls, Record
from memfin.judges.protocol import JudgeResult

M = TypeVar("M")
"""What the scorer of the suite sends."""

R = TypeVar("R", bound=Record)
V = TypeVar("V", bound=Record)
"""What a judge of the suite is asked, and its verdict."""

W = TypeVar("W")
"""What the trace writer of the suite takes."""


class Case(ABC, Generic[R, V, W]):
    """One message under judgement.

    Attributes:
        name: what the news of its judgement calls it.
        requests: what the judge is asked about it, in order; none where there is nothing to judge.
    """

    name: str
    requests: Sequence[R] = ()

    @abstractmethod
    def enter(self, place: int, ruled: JudgeResult[V]) -> None:
        """Take the result on the request at a place in; they come in any order, each once."""

    @abstractmethod
    def closed(self, failures: int) -> W:
        """Return what goes to the writer once all is ruled; ``failures`` of the judgements failed."""


class Judging(ABC, Generic[M, R, V, W]):
    """Makes cases of messages, and a artifact of what the judge made of the controls.

    Attributes:
        controls: requests whose right verdict is known beforehand, judged beside the cases; none for a
            judge that is no model.
    """

    controls: Sequence[R] = ()

    @abstractmethod
    def case(self, message: M) -> Case[R, V, W]:
        """Return the case that a message is."""

    @abstractmethod
    def name(self, message: M) -> str:
        """Return the id of the dialogue or question of a message."""

    @abstractmethod
    def failed(self, message: M, reason: str) -> W:
        """Return a message as judged with every judgement failed for the same reason."""

    @abstractmethod
    def control_report(self, results: Sequence[tuple[int, JudgeResult[V]]]) -> Controls[Any]:
        """Return what the judge made of the controls; results come with the place of their control."""
