"""What a soak's epochs are told in: dialogues of turns, or questions."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from memfin.cli.bench_view import QuestionStanding
from memfin.cli.progress import Standing
from memfin.contracts import RunResumed
from memfin.contracts.run import Suite


class SoakWords(NamedTuple):
    """The words of a suite.

    ``unit`` is what fails or not, ``name`` what is counted while an epoch goes on by ``standing``; ``note``
    says the rest of how that goes, and ``goes_on`` how far an epoch is that is taken up again. ``amount``
    words so many dialogues and turns.
    """

    unit: str
    name: str
    standing: Callable[[], Standing]
    note: Callable[[Standing], str]
    goes_on: Callable[[RunResumed], str]
    amount: Callable[[int, int], str]


DIALOGS: Final = SoakWords(
    unit="turns",
    name="dialogs",
    standing=Standing,
    note=lambda now: f"turns {now.turns}  errors {now.errors}",
    goes_on=lambda event: f"{event.dialogs_done} dialogues are done, {event.replays_done} more are answered",
    amount=lambda dialogs, turns: f"{dialogs} dialogues, {turns} turns",
)

QUESTIONS: Final = SoakWords(
    unit="questions",
    name="questions",
    standing=QuestionStanding,
    note=lambda now: f"errors {now.errors}",
    goes_on=lambda event: f"{event.dialogs_done} questions are answered",
    amount=lambda _, turns: f"{turns} questions",
)

_OF: Final[Mapping[Suite, SoakWords]] = {"dialog": DIALOGS, "rag": QUESTIONS}


def words_of(suite: Suite | msgspec.UnsetType) -> SoakWords:
    """Return the words of what a soak's summary calls its suite."""
    return _OF[suite or "dialog"]
