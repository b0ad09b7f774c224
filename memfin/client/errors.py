"""Error of a request to a model, one exception with a closed set of kinds."""

from typing import Final, Literal

from memfin.text.lines import one_line

ErrorKind = Literal[
    "connect", "tls", "timeout", "closed", "status", "parameter", "rate_limited", "redirect", "truncated",
    "too_large", "encoding", "invalid_json", "invalid_schema", "refusal", "empty", "unavailable",
]  # fmt: skip
"""The reason of a failed attempt.

``connect``: no connection. ``tls``: the server does not speak TLS. ``closed``: the connection broke before
the answer began. ``status``: an HTTP status that is no success; ``parameter`` is one that refuses a
parameter by name, which the next request leaves out or names otherwise; ``rate_limited`` is 429 and
``redirect`` is 3xx. ``truncated``: the answer ended early. ``too_large``: it passed the bound on its size.
``encoding``: it is not UTF-8, or in an encoding that was not requested. ``refusal`` and ``empty``:
well-formed, but no answer. ``unavailable``: not tried, because the endpoint has been down for too long.
"""

MAX_MESSAGE: Final = 300
"""Maximum characters of a message."""

_FINAL: Final = frozenset({"redirect", "tls", "unavailable"})
_OF_ENDPOINT: Final = frozenset({"connect", "closed", "timeout"})
_FIRST_SERVER_ERROR: Final = 500


class EndpointDown(Exception):  # noqa: N818 - names a state
    """The endpoint of the judge or the agent is given up; what it was asked waits until the run goes on."""


class RequestError(Exception):
    """One attempt failed; ``str()`` is one line that holds no secret.

    Attributes:
        kind: the reason.
        retryable: true if another attempt may succeed.
        retry_after: seconds that the server asks to wait, bounded; None if it does not.
        status: the HTTP status, if there was one.
        tokens: the tokens that the attempt cost nevertheless, if known.
        parameter: the parameter that was refused, for the kind ``parameter``.
        attempts: the number of attempts made; the limiter counts them.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        retryable: bool | None = None,
        retry_after: float | None = None,
        status: int | None = None,
        tokens: int | None = None,
        parameter: str | None = None,
    ) -> None:
        super().__init__(one_line(message, MAX_MESSAGE))
        self.kind: ErrorKind = kind
        self.retryable = kind not in _FINAL if retryable is None else retryable
        self.retry_after = retry_after
        self.status = status
        self.tokens = tokens
        self.parameter = parameter
        self.attempts = 1

    @property
    def of_endpoint(self) -> bool:
        """True if the endpoint seems to be down; any other error shows that it answers."""
        return self.kind in _OF_ENDPOINT or (self.status or 0) >= _FIRST_SERVER_ERROR
