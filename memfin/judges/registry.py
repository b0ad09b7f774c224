"""Judge references: from ``--judge`` to a judge (spec section 7)."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Final

import msgspec

from memfin.contracts import NO_JUDGE, JudgeRequest, Verdict
from memfin.errors import UsageError
from memfin.foreign.calls import CallFailed, ForeignCalls
from memfin.foreign.references import describe, import_reference, package_version, reference_of
from memfin.judges.heuristic import HeuristicJudge
from memfin.judges.protocol import Judge, JudgeError

LIMIT: Final = 120.0
"""Seconds for one judgement, unless the caller says otherwise."""

CLOSE_LIMIT: Final = 10.0
"""Seconds that a judge's ``close`` may take."""

FORMS: Final = "heuristic, none or pkg.module:factory"


class PythonJudge:
    """A judge made by a user's factory; its ``judge`` may be a plain function or a coroutine function.

    It gets a `JudgeRequest` and returns a `Verdict` or a mapping of its fields, within ``limit``
    seconds. Plain functions run in threads, as many at a time as there are workers.
    """

    per_turn: ClassVar[bool] = True

    def __init__(self, name: str, implementation: Any, limit: float, version: str | None = None) -> None:
        self.name = name
        self.version = version
        self._implementation = implementation
        self._limit = limit
        self._idle: list[ForeignCalls] = []

    async def judge(self, request: JudgeRequest) -> Verdict:
        """Return the user's verdict; whatever goes wrong there is a `JudgeError`."""
        calls = self._idle.pop() if self._idle else ForeignCalls("judge", self.name)
        try:
            return await calls.bounded(lambda: self._ask(calls, request), self._limit)
        except CallFailed as problem:
            raise JudgeError(str(problem)) from problem
        finally:
            if calls.stuck:
                calls.stop()
            else:
                self._idle.append(calls)

    async def _ask(self, calls: ForeignCalls, request: JudgeRequest) -> Verdict:
        answer = await calls.invoke(self._implementation.judge, request)
        try:
            return _checked(answer)
        except (msgspec.ValidationError, TypeError, ValueError) as problem:
            raise CallFailed(f"invalid verdict: {problem}") from problem

    async def close(self) -> None:
        """Close the user's judge where it can be closed; all is judged, so its failure spoils nothing."""
        calls = ForeignCalls("judge", self.name)
        with suppress(CallFailed):
            await calls.bounded(lambda: self._close(calls), min(self._limit, CLOSE_LIMIT))
        for each in (calls, *self._idle):
            each.stop()

    async def _close(self, calls: ForeignCalls) -> None:
        close = getattr(self._implementation, "close", None)
        if callable(close):
            await calls.invoke(close)


def _checked(answer: Any) -> Verdict:
    """Hold an answer against the contract; msgspec takes a struct that a judge built as it is."""
    plain = msgspec.to_builtins(answer) if isinstance(answer, msgspec.Struct) else answer
    verdict = msgspec.convert(plain, Verdict)
    msgspec.json.encode(verdict)  # refuses text that cannot be written
    return verdict


def resolve_judge(judge: str | Callable[..., Any] | None, limit: float = LIMIT) -> Judge | None:
    """Return the judge that a reference or a factory object stands for; ``none`` is None.

    ``limit`` is how many seconds a user's judge has for one judgement.

    Raises:
        UsageError: the reference has no known form, does not import, or its factory fails.
    """
    if judge is None or judge == NO_JUDGE:
        return None
    if judge == "heuristic":
        return HeuristicJudge()
    if isinstance(judge, str):
        if judge.startswith(("openai:", "http://", "https://")):
            raise UsageError(
                f"judge {judge!r}: judges over the wire are not part of this version; known forms: {FORMS}"
            )
        name, factory = judge, import_reference("judge", judge, FORMS)
    else:
        name, factory = reference_of(judge), judge
    try:
        implementation = factory()
    except (Exception, SystemExit) as problem:
        raise UsageError(f"judge {name!r}: the factory failed: {describe(problem)}") from problem
    if inspect.iscoroutine(implementation):
        implementation.close()
        raise UsageError(f"judge {name!r}: the factory is asynchronous; name a plain function or a class")
    if not callable(getattr(implementation, "judge", None)):
        raise UsageError(f"judge {name!r}: the factory's object has no judge method")
    return PythonJudge(name, implementation, limit, package_version(name.partition(":")[0]))
