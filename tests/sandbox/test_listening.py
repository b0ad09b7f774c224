"""Listeners: called until they raise, and never asynchronous."""

import functools
import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memfin.errors import UsageError
from memfin.sandbox.calls import Listener, check_listener


async def asynchronous(event: object) -> None:
    raise NotImplementedError


async def generating(event: object) -> AsyncIterator[object]:
    yield event


class Asynchronous:
    """A callable object, and a method, that are asynchronous."""

    async def __call__(self, event: object) -> None:
        raise NotImplementedError

    async def method(self, event: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    "call",
    [
        asynchronous,
        generating,
        Asynchronous(),
        Asynchronous().method,
        functools.partial(asynchronous),
        functools.partial(functools.partial(Asynchronous(), object())),
    ],
)
def test_an_asynchronous_listener_is_refused(call: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match=r"^on_event: .* is asynchronous and would never be awaited; give"):
        check_listener("on_event", call)


@pytest.mark.parametrize("call", [print, [].append, lambda event: None, functools.partial(print, "x")])
def test_a_plain_listener_is_taken(call: Callable[..., object]) -> None:
    check_listener("on_event", call)


def test_a_listener_that_raises_is_told_of_once_and_not_called_any_more() -> None:
    heard: list[int] = []
    told: list[str] = []

    def hear(number: int) -> None:
        heard.append(number)
        if number == 2:
            raise KeyError("a bug")

    listener = Listener("on_event", told.append)
    for number in range(1, 5):
        listener.tell(hear, number)
    assert heard == [1, 2]
    assert told == ["on_event failed and is not called any more: KeyError: 'a bug'"]


def test_a_listener_that_turns_out_to_be_asynchronous_has_failed() -> None:
    told: list[str] = []
    listener = Listener("on_event", told.append)
    later: Any = lambda event: asynchronous(event)  # noqa: E731, PLW0108 - which cannot be told beforehand
    check_listener("on_event", later)
    listener.tell(later, "e")
    gc.collect()  # a coroutine that nobody awaits would warn now
    assert told == [
        "on_event failed and is not called any more: it returned a coroutine, which is never awaited"
    ]


def test_what_ends_the_process_is_not_held_back() -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Listener("on_event", print).tell(leave)
