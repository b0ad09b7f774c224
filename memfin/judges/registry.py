"""Judges by reference, as ``--judge`` names them (spec section 7)."""

import hashlib
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol

import msgspec

from memfin.agents.calls import FIRST_BACKOFF, TransportError, with_retries
from memfin.contracts import HEURISTIC_JUDGE, NO_JUDGE
from memfin.errors import UsageError
from memfin.judges.cache import CachedAnswer, cache_key
from memfin.judges.probe_grading import ReplyAndProbeGrading
from memfin.judges.protocol import DialogJudge, Judge, JudgeError, JudgeSetup, JudgeTask, R, V
from memfin.judges.reply_grading import HeuristicJudge, ReplyGrading
from memfin.sandbox.calls import CallFailed, UserCalls
from memfin.sandbox.plugins import plugin_reference
from memfin.sandbox.references import (
    check_signature,
    describe,
    import_object,
    kind_of,
    package_version,
    positional_parameters,
    reference_of,
)
from memfin.secrets import scrubber_of_environment

if TYPE_CHECKING:
    from memfin.judges.openai import OpenAIJudge

CLOSE_LIMIT: Final = 10.0
"""Seconds that a judge's ``close`` may take."""

FORMS: Final = "none, openai:MODEL or pkg.module:factory"

EXPECTED: Final = (
    "a class, or a factory function without arguments, that gives an object with a method judge(request); "
    "a function (request) that judges; or an object with judge; docs/python-api.md shows each"
)

OPENAI: Final = "openai:"

_PASSING: Final = (TransportError, ConnectionError)


class SupportsJudge(Protocol):
    """An instance of a user's judge."""

    def judge(self, request: Any) -> Any:
        """Return a verdict, a mapping of its fields or a score, or an awaitable of one."""


JudgeLike = str | Callable[..., Any] | SupportsJudge | None
"""A reference, a factory, a function that judges, or an instance; None for no judge."""


class PythonJudge(Generic[R, V]):
    """A judge made by a user's factory; its ``judge`` may be a plain function or a coroutine function.

    It gets a request of its task and returns a verdict, a mapping of its fields or a score, within ``limit``
    seconds. Plain functions run in threads, as many at a time as there are workers. Verdicts are kept in the
    cache by request and by ``code``, the digest of the judge's module; None turns the cache off.
    """

    per_turn: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        implementation: Any,
        task: JudgeTask[R, V],
        limit: float,
        setup: JudgeSetup,
        code: str | None,
    ) -> None:
        self.name = name
        self.version = package_version(name.partition(":")[0])
        self._implementation = implementation
        self._task = task
        self._limit = limit
        self._starts = setup.starts
        self._retries = setup.retries
        self._warn = setup.warn
        self._warned = False
        self._cache = setup.answer_cache() if setup.cache != "off" and code is not None else None
        self._identity = {"judge": name, "version": self.version, "code": code}
        self._idle: list[UserCalls] = []

    async def judge(self, request: R) -> V:
        """Return the user's verdict; every failure is a `JudgeError`."""
        cache = self._cache
        if cache is None:
            return await self._judged(request)
        key = cache_key({**self._identity, "request": request})

        def read(answer: CachedAnswer) -> V:
            return self._verdict(request, msgspec.json.decode(answer.raw_answer))

        if (kept := await cache.claim(key, read)) is not None:
            return kept
        try:
            verdict = await self._judged(request)
            scrubbed = self._task.scrubbed(verdict, scrubber_of_environment().scrub)
            cache.keep(key, CachedAnswer(raw_answer=msgspec.json.encode(scrubbed).decode()))
        finally:
            cache.release(key)
        return verdict

    async def _judged(self, request: R) -> V:
        """Return the verdict of the user's judge, with retries after transport errors."""
        await self._admit()
        calls = self._idle.pop() if self._idle else UserCalls("judge", self.name, _PASSING)
        asked = False

        async def ask() -> V:
            return self._verdict(request, await calls.invoke(self._implementation.judge, request))

        async def attempt(left: float) -> V:
            nonlocal asked
            if asked:
                await self._admit()
            asked = True
            return await calls.bounded(ask, left)

        try:
            return await with_retries(
                attempt,
                *_PASSING,
                limit=self._limit,
                retries=self._retries,
                first_pause=FIRST_BACKOFF,
                on_retry=lambda: None,
            )
        except CallFailed as problem:
            raise JudgeError(str(problem)) from problem
        except _PASSING as problem:
            raise JudgeError(describe(problem)) from problem
        finally:
            if calls.stuck:
                calls.stop()
            else:
                self._idle.append(calls)

    async def _admit(self) -> None:
        if self._starts is not None:
            await self._starts.admit()

    def _verdict(self, request: R, answer: Any) -> V:
        try:  # msgspec would not check a struct that a judge built
            plain = msgspec.to_builtins(answer) if isinstance(answer, msgspec.Struct) else answer
            if isinstance(plain, int | float) and not isinstance(plain, bool):
                plain = self._task.scored(request, plain)
            verdict = msgspec.convert(plain, self._task.verdict)
            msgspec.json.encode(verdict)  # refuses text that cannot be written
        except (msgspec.ValidationError, TypeError, ValueError) as problem:
            raise CallFailed(f"invalid verdict: {problem}") from problem
        if (missing := self._task.lacking(request, verdict)) is not None:
            raise CallFailed(f"the verdict lacks {missing}")
        if not self._warned and (surplus := self._task.surplus(request, verdict)) is not None:
            self._warned = True
            self._warn(f"judge {self.name}: {surplus} was not asked for and does not count")
        return verdict

    async def close(self) -> None:
        """Close the user's judge if it has ``close``; a failure is ignored, as judging is finished."""
        try:
            if self._starts is not None:
                await self._starts.close()
            if self._cache is not None:
                await self._cache.close()
        finally:
            calls = UserCalls("judge", self.name)
            close = getattr(self._implementation, "close", None)
            if callable(close):
                with suppress(CallFailed):
                    await calls.bounded(lambda: calls.invoke(close), min(self._limit, CLOSE_LIMIT))
            for each in (calls, *self._idle):
                each.stop()


def resolve_judge(
    judge: JudgeLike, limit: float = 120.0, setup: JudgeSetup | None = None
) -> DialogJudge | None:
    """Return the judge of dialogues for a reference, a factory, a function or an instance; ``none`` is None.

    ``limit`` is the time of a user's judge for one judgement, and of a model for one attempt, in seconds.

    Raises:
        UsageError: the reference has no known form, does not import, its factory fails, the endpoint
            of a model is not named in the environment, or the settings ask for what the judge cannot.
    """
    setup = setup or JudgeSetup()
    offline = judge is None or judge in (NO_JUDGE, HEURISTIC_JUDGE)
    if setup.scope != "m5" and offline:
        name = HEURISTIC_JUDGE if judge == HEURISTIC_JUDGE else NO_JUDGE
        turns = "all" if setup.scope == "all" else "uncertain turns"
        raise UsageError(
            f"judge {name!r}: does not read replies, so it cannot decide {turns}; "
            "use --judge-scope m5, or a judge openai:MODEL or pkg.module:factory"
        )
    if setup.probes and not (isinstance(judge, str) and judge.startswith(OPENAI)):
        raise UsageError("--grade-probes: only a judge openai:MODEL grades answers to probes")
    if judge == HEURISTIC_JUDGE and setup.votes == 1:
        return HeuristicJudge()
    task = ReplyAndProbeGrading() if setup.probes else ReplyGrading()
    return resolve_judge_of(task, judge, limit, setup, f"{HEURISTIC_JUDGE}, {FORMS}")


def resolve_judge_of(
    task: JudgeTask[R, V],
    judge: JudgeLike,
    limit: float,
    setup: JudgeSetup,
    forms: str = FORMS,
) -> Judge[R, V] | None:
    """Return the judge of a task for a reference or an object of another form; ``none`` is None.

    ``forms`` are those that a reference may have. Otherwise as `resolve_judge`.

    Raises:
        UsageError: as `resolve_judge`.
    """
    if isinstance(judge, str) and judge.startswith(OPENAI):
        return _openai_judge(judge.removeprefix(OPENAI), limit, setup, task)
    if setup.votes > 1:
        raise UsageError("--judge-votes: only a judge openai:MODEL has several votes")
    if judge is None or judge == NO_JUDGE:
        return None
    return _python_judge(judge, limit, setup, task, forms)


def _python_judge(
    judge: str | Callable[..., Any] | SupportsJudge,
    limit: float,
    setup: JudgeSetup,
    task: JudgeTask[R, V],
    forms: str,
) -> PythonJudge[R, V]:
    value: Any = judge
    if isinstance(judge, str):
        if judge.startswith(("http://", "https://")):
            raise UsageError(
                f"judge {judge!r}: name a model as openai:MODEL, and its server in MEMFIN_JUDGE_BASE_URL"
            )
        name = plugin_reference("judge", judge, forms, "memfin.judges")
        value = import_object("judge", name, forms)
    else:
        name = reference_of(judge)
    implementation = _implementation(f"judge {name!r}", value)
    return PythonJudge(name, implementation, task, limit, setup, _code_of(name, value))


def _implementation(label: str, value: Any) -> Any:
    """Return an object with ``judge``; that of an instance given by the user is not closed."""
    if not isinstance(value, type) and callable(method := getattr(value, "judge", None)):
        return SimpleNamespace(judge=method)
    if not callable(value):
        raise UsageError(f"{label}: {kind_of(value)} is not callable; expected {EXPECTED}")
    required = [each for each in positional_parameters(value) if each.default is each.empty]
    if len(required) == 1 and not isinstance(value, type):
        check_signature(label, value, ("request",), EXPECTED)
        return SimpleNamespace(judge=value)
    check_signature(label, value, (), EXPECTED)
    try:
        implementation = value()
    except (Exception, SystemExit) as problem:
        raise UsageError(f"{label}: the factory failed: {describe(problem)}") from problem
    if inspect.iscoroutine(implementation):
        implementation.close()
        raise UsageError(f"{label}: the factory is asynchronous; name a plain function or a class")
    if not callable(getattr(implementation, "judge", None)):
        raise UsageError(f"{label}: the factory's object has no judge method")
    return implementation


def _code_of(name: str, factory: object) -> str | None:
    """Return a digest of the module file of a judge's object; None if the module lacks it under its name.

    Without it two judges could share verdicts: closures, partial objects and notebooks may have equal names.
    """
    module_name, _, attribute = name.partition(":")
    module = sys.modules.get(module_name)
    path = getattr(module, "__file__", None)
    try:
        if path is None or attrgetter(attribute)(module) is not factory:
            return None
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except (AttributeError, OSError):
        return None


def _openai_judge(model: str, limit: float, setup: JudgeSetup, task: JudgeTask[R, V]) -> "OpenAIJudge[R, V]":
    # The client for HTTP loads slowly, and most runs need none.
    from memfin.client.endpoint import Endpoint  # noqa: PLC0415
    from memfin.client.limiter import CallLimiter  # noqa: PLC0415
    from memfin.judges.openai import OpenAIJudge  # noqa: PLC0415

    if not model.strip() or not model.isprintable():
        raise UsageError(f"judge {OPENAI + model!r}: name the model, as in openai:gpt-4o-mini")
    endpoint = Endpoint.from_environment("judge")
    if setup.gate is None:
        gate = CallLimiter(workers=1, on_warning=setup.warn, name="the judge's endpoint")
        setup = setup._replace(gate=gate)
    return OpenAIJudge(model, endpoint, task, setup, limit)
