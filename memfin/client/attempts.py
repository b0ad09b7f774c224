"""The attempts of one call: how many there may be, and whether their failures are the call's own."""

from typing import Final

from memfin.client.errors import WireError

REFUSALS: Final = 2
"""How many times more often than it may fail a call may be refused for its rate: that is not its fault."""


class Attempts:
    """Counts what became of one call's attempts; pure state.

    ``probed`` says that the gate can ask whether the endpoint is there at all. A call then fails for an
    error of the endpoint, or for refusals of its rate, only once that question was answered: until then the
    error is in doubt. An endpoint that turns out to have been down gives the call all its attempts once
    more, one time.

    Attributes:
        made: requests that were sent for the call, the questions included.
    """

    def __init__(self, most: int, *, probed: bool) -> None:
        self.made = 0
        self._most = most
        self._probed = probed
        self._failures = 0
        self._refusals = 0
        self._doubted: WireError | None = None
        self._was_down = False
        self._renewed = False

    @property
    def doubtful(self) -> bool:
        """Whether the next request is to ask if the endpoint is there."""
        return self._doubted is not None

    def failed(self, error: WireError) -> None:
        """Count an attempt that failed; raise its error when it was the last one."""
        self.made += 1
        error.attempts = self.made
        if error.kind == "parameter":
            return  # the next request goes without it, so that this happens once for each
        refused = error.kind == "rate_limited"
        self._refusals += refused
        self._failures += not refused
        exhausted = self._failures >= self._most or self._refusals >= REFUSALS * self._most
        if error.retryable and not exhausted:
            return
        of_endpoint = error.of_endpoint and (error.retryable or error.status is None)
        if not (self._probed and (of_endpoint or refused)):
            raise error
        self._doubted = error

    def found(self, *, there: bool) -> None:
        """Count a question whether the endpoint is there; raise the error in doubt when it was all along."""
        self.made += 1
        if not there:
            self._was_down = True
            return
        doubted, self._doubted = self._doubted, None
        was_down, self._was_down = self._was_down, False
        if doubted is None:
            return
        if self._renewed or not was_down:
            doubted.attempts = self.made
            raise doubted
        self._renewed = True
        self._failures = self._refusals = 0
