"""Leave to make one attempt, and who waits for it."""

import asyncio

from memfin.client.errors import WireError
from memfin.client.window import Start


class Permit:
    """Leave to make one attempt: its places in the windows, the round of concurrency it belongs to.

    ``trying`` says that the breaker is open and this attempt finds out whether the endpoint is back.
    """

    __slots__ = ("request", "round", "tokens", "trying")

    def __init__(self, request: Start | None, tokens: Start | None, number: int, *, trying: bool) -> None:
        self.request = request
        self.tokens = tokens
        self.round = number
        self.trying = trying


class Waiter:
    """A call that waits for a permit, or for the error that it gets none."""

    __slots__ = ("permit", "tokens")

    def __init__(self, tokens: int, permit: asyncio.Future[Permit | WireError]) -> None:
        self.tokens = tokens
        self.permit = permit
