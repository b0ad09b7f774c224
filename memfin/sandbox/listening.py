"""Listeners: plain functions that are told what a run does, and cannot hurt it."""

import inspect
from collections.abc import Callable

from memfin.errors import UsageError
from memfin.sandbox.calls import is_async
from memfin.sandbox.references import describe, reference_of


def check_listener(what: str, call: Callable[..., object]) -> None:
    """Refuse a listener that is asynchronous: nobody would await it.

    Raises:
        UsageError: it is.
    """
    if is_async(call) or inspect.isasyncgenfunction(call):
        raise UsageError(
            f"{what}: {reference_of(call)} is asynchronous and would never be awaited; "
            "give a plain function, which may start a task"
        )


class Listener:
    """A listener that is called until it raises; the first error is told, and it is not called any more."""

    def __init__(self, name: str, on_failure: Callable[[str], None]) -> None:
        """Prepare; ``on_failure`` gets the line that says why the listener called ``name`` was given up."""
        self._name = name
        self._on_failure = on_failure
        self._given_up = False

    def tell(self, call: Callable[..., object], *args: object) -> None:
        """Call a function of the listener, unless it was given up."""
        if self._given_up:
            return
        try:
            result = call(*args)
        except Exception as problem:  # noqa: BLE001 - whatever a listener raises is no concern of the run
            self._give_up(describe(problem))
            return
        if inspect.iscoroutine(result):  # as a lambda around an asynchronous function gives
            result.close()
            self._give_up("it returned a coroutine, which nobody awaits")

    def _give_up(self, why: str) -> None:
        self._given_up = True
        self._on_failure(f"{self._name} failed and is not called any more: {why}")
