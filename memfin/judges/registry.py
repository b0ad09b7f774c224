"""Judge references: from ``--judge`` to a judge (spec section 7)."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Final

import anyio.to_thread
import msgspec

from memfin.contracts import JudgeRequest, Verdict
from memfin.errors import UsageError
from memfin.judges.heuristic import HeuristicJudge
from memfin.judges.protocol import Judge, JudgeError
from memfin.references import describe, import_reference

FORMS: Final = "heuristic, none or pkg.module:factory"


class PythonJudge:
    """A judge made by a user's factory; its ``judge`` may be a plain function or a coroutine function.

    It gets a `JudgeRequest` and returns a `Verdict` or a mapping of its fields.
    """

    per_turn: ClassVar[bool] = True

    def __init__(self, name: str, implementation: Any) -> None:
        self.name = name
        self._implementation = implementation

    async def judge(self, request: JudgeRequest) -> Verdict:
        """Return the user's verdict; whatever goes wrong there is a `JudgeError`."""
        try:
            call = self._implementation.judge
            if inspect.iscoroutinefunction(call):
                answer = await call(request)
            else:
                answer = await anyio.to_thread.run_sync(call, request)
                if inspect.isawaitable(answer):
                    answer = await answer
            return _checked(answer)
        except msgspec.ValidationError as problem:
            raise JudgeError(f"invalid verdict: {problem}") from problem
        except asyncio.CancelledError as problem:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise JudgeError("the judge cancelled its own call") from problem
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as problem:  # a judge that exits fails its judgement, not the run
            raise JudgeError(describe(problem)) from problem

    async def close(self) -> None:
        """Close the user's judge where it can be closed; all is judged, so its failure spoils nothing."""
        with suppress(Exception):
            close = getattr(self._implementation, "close", None)
            if callable(close):
                result = close()
                if inspect.isawaitable(result):
                    await result


def _checked(answer: Any) -> Verdict:
    """Hold an answer against the contract; msgspec takes a struct that a judge built as it is."""
    plain = msgspec.to_builtins(answer) if isinstance(answer, msgspec.Struct) else answer
    verdict = msgspec.convert(plain, Verdict)
    msgspec.json.encode(verdict)  # refuses text that cannot be written
    return verdict


def resolve_judge(judge: str | Callable[..., Any] | None) -> Judge | None:
    """Return the judge that a reference or a factory object stands for; ``none`` is None.

    Raises:
        UsageError: the reference has no known form, does not import, or its factory fails.
    """
    if judge is None or judge == "none":
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
        name, factory = getattr(judge, "__qualname__", type(judge).__name__), judge
    try:
        implementation = factory()
    except (Exception, SystemExit) as problem:
        raise UsageError(f"judge {name!r}: the factory failed: {describe(problem)}") from problem
    if inspect.iscoroutine(implementation):
        implementation.close()
        raise UsageError(f"judge {name!r}: the factory is asynchronous; name a plain function or a class")
    if not callable(getattr(implementation, "judge", None)):
        raise UsageError(f"judge {name!r}: the factory's object has no judge method")
    return PythonJudge(name, implementation)
