"""What a user sees of a benchmark while it is asked: questions answered, passed, failed."""

from memfin.cli.progress import Bar, Standing
from memfin.contracts import ProgressEvent, QuestionDone, RunResumed


class QuestionStanding(Standing):
    """How far a benchmark run is, counted from its events; ``dialogs`` is the number of questions done.

    ``passed`` of the ``asked`` questions are what this process has seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0
        self.asked = 0

    def count(self, event: ProgressEvent) -> None:
        """Take one event in."""
        super().count(event)
        if isinstance(event, QuestionDone):
            self.dialogs += 1
            self.asked += 1
            self.passed += event.passed
            self.errors += event.error is not None

    def line(self) -> str:
        """Return all of it as a plain line."""
        total = self.total if self.total is not None else "?"
        return f"memfin: questions {self.dialogs}/{total}  {self._note()}"

    def goes_on(self, event: RunResumed) -> str:
        """Return the line that begins a run that goes on."""
        answered = event.dialogs_done + event.replays_done
        unjudged = f", {event.replays_done} of them not judged" if event.replays_done else ""
        return f"memfin: run {event.run_id} goes on: {answered} questions are answered{unjudged}"

    def bars(self) -> tuple[Bar, ...]:
        """Return the one bar."""
        return (Bar("questions", self.dialogs, self.total, self._note()),)

    def _note(self) -> str:
        return f"passed {self.passed}/{self.asked}  errors {self.errors}  eta {self.eta()}"
