"""What can go wrong on the wire, as one exception with a closed set of kinds."""

from typing import Final, Literal

from memfin.text.lines import one_line

WireErrorKind = Literal[
    "connect",
    "tls",
    "timeout",
    "closed",
    "status",
    "parameter",
    "rate_limited",
    "redirect",
    "truncated",
    "too_large",
    "encoding",
    "invalid_json",
    "invalid_schema",
    "refusal",
    "empty",
    "unavailable",
]
"""Why an attempt brought no answer.

``connect``: no connection came about. ``tls``: the server does not speak TLS at all. ``closed``: it broke
before the answer began. ``status``: an HTTP status that is no success; ``parameter`` is one that refuses a
parameter by name, which the next request leaves out or names otherwise; ``rate_limited`` is 429 and
``redirect`` is 3xx. ``truncated``: the answer ended early. ``too_large``: it passed the bound on its size.
``encoding``: it is not UTF-8, or compressed in a way nobody asked for. ``refusal`` and ``empty``:
well-formed, but no answer. ``unavailable``: not tried, because the endpoint has been down for too long.
"""

LONGEST: Final = 300
"""Characters of a message."""

_FINAL: Final = frozenset({"redirect", "tls", "unavailable"})
_OF_ENDPOINT: Final = frozenset({"connect", "closed", "timeout"})
_FIRST_SERVER_ERROR: Final = 500


class WireError(Exception):
    """One attempt failed; ``str()`` is one line that holds no secret.

    Attributes:
        kind: what went wrong.
        retryable: whether another attempt may bring an answer.
        retry_after: seconds that the server asks to wait, bounded; None where it does not.
        status: the HTTP status, where there was one.
        tokens: what the attempt cost all the same, where that is known.
        parameter: the parameter that was refused, for the kind ``parameter``.
        attempts: how many attempts were made; the gate counts them.
    """

    def __init__(
        self,
        kind: WireErrorKind,
        message: str,
        *,
        retryable: bool | None = None,
        retry_after: float | None = None,
        status: int | None = None,
        tokens: int | None = None,
        parameter: str | None = None,
    ) -> None:
        super().__init__(one_line(message, LONGEST))
        self.kind: WireErrorKind = kind
        self.retryable = kind not in _FINAL if retryable is None else retryable
        self.retry_after = retry_after
        self.status = status
        self.tokens = tokens
        self.parameter = parameter
        self.attempts = 1

    @property
    def of_endpoint(self) -> bool:
        """Whether it looks as if the endpoint were down; any other error is an answer of a sort."""
        return self.kind in _OF_ENDPOINT or (self.status or 0) >= _FIRST_SERVER_ERROR
