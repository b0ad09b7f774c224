"""Translation of errors of model clients: transient ones may be retried, and none shows a secret."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from memfin.agents.calls import TransportError
from memfin.client.limiter import retry_after_seconds
from memfin.sandbox.calls import CallFailed
from memfin.sandbox.references import describe
from memfin.secrets import scrubber_of_environment

_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses of servers that may answer the next time."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise the error that stands for a failure in the trace, see `translated`."""
    try:
        yield
    except Exception as problem:
        error = translated(problem)
        if error is problem:
            raise
        raise error from None


def translated(problem: Exception) -> Exception:
    """Return the error that stands for a failure in the trace.

    It is a `TransportError`, which has the turn retried, when that may help. Clients of all kinds are
    understood by what they have in common: a builtin ``ConnectionError`` among the causes, a
    ``status_code``, or LangChain's ``is_retryable``. Else it is the problem itself, or a `CallFailed`
    in its place when its text holds a key of the environment.
    """
    causes = list(_causes(problem))
    known = next((each for each in causes if isinstance(each, TransportError)), None)
    text = describe(problem)
    if known is None and any(_transient(each) for each in causes):
        known = TransportError(text, retry_after=next(filter(None, map(_retry_after, causes)), None))
    if known is not None:
        return known
    return CallFailed(text) if scrubber_of_environment().finds(str(problem)) else problem


def _transient(problem: BaseException) -> bool:
    return (
        isinstance(problem, ConnectionError)
        or getattr(problem, "is_retryable", None) is True
        or getattr(problem, "status_code", None) in _TRANSIENT
    )


def _retry_after(problem: BaseException) -> float | None:
    headers = getattr(getattr(problem, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    value = headers.get("retry-after")
    return retry_after_seconds(value, datetime.now(UTC)) if isinstance(value, str) else None


def _causes(problem: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = problem
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__  # HTTP clients suppress the one that says what it was
