"""Failures of other projects' clients, by what they have in common."""

from typing import Any

import pytest

from memfin.agents.adapters.transport import translated
from memfin.agents.calls import TransportError
from memfin.sandbox.calls import CallFailed
from tests.support import each_case


class StatusError(Exception):
    """An error as clients of HTTP raise it."""

    def __init__(self, status_code: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code
        self.response = type("Response", (), {"headers": headers or {}})()


class MarkedError(Exception):
    """An error as LangChain raises it, a time-out for example."""

    is_retryable = True


def caused(by: BaseException, *, hidden: bool = False) -> Exception:
    """Return an error that was raised for another one, which it may hide as clients do."""
    problem = RuntimeError("it failed")
    problem.__context__ = by
    problem.__cause__ = None if hidden else by
    return problem


@each_case(
    "problem",
    [
        ConnectionRefusedError("refused"),
        MarkedError("timed out"),
        StatusError(429),
        StatusError(503),
        caused(ConnectionResetError("reset")),
        caused(ConnectionResetError("reset"), hidden=True),
        caused(MarkedError("timed out")),
    ],
    ids=repr,
)
def test_failures_of_the_network_have_the_turn_retried(problem: Exception) -> None:
    error = translated(problem)
    assert isinstance(error, TransportError)
    assert str(problem) in str(error)


@pytest.mark.parametrize("problem", [ValueError("wrong"), StatusError(400), StatusError(401)], ids=repr)
def test_other_failures_stay_what_they_are(problem: Exception) -> None:
    assert translated(problem) is problem


def test_a_transport_error_below_is_handed_on() -> None:
    below = TransportError("busy", retry_after=2.0)
    assert translated(caused(below)) is below


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "3"}, 3.0), ({"retry-after": "-3"}, None), ({"retry-after": "soon"}, None), ({}, None)],
)
def test_the_server_says_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    error: Any = translated(caused(StatusError(429, headers)))
    assert error.retry_after == seconds


def test_causes_that_go_round_in_a_circle_come_to_an_end() -> None:
    problem = ValueError("round")
    problem.__cause__ = problem
    assert translated(problem) is problem


def test_a_key_in_an_error_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    error = translated(ValueError("wrong key sk-canary-0123456789"))
    assert isinstance(error, CallFailed)
    assert str(error) == "ValueError: wrong key ***"
