"""Systems under test: references, what they may return, and that nothing they do gets out of hand."""

import asyncio
import dataclasses
import math
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import memfin
from memfin.agents.protocol import AgentSettings
from memfin.contracts import ModelUsage
from memfin.contracts.rag import RagAnswer, RagAnswerRange, RagCitation, RagEvidence
from memfin.errors import UsageError
from memfin.rag.systems import Asked, RagReply, SystemUnderTest, load_system
from memfin.rag.systems.protocol import MAX_ANSWER_BYTES
from memfin.rag.systems.under_test import MAX_STUCK
from tests.rag.rag_documents import RECORD
from tests.support import each_case

LONG = 30.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.rag.systems.under_test.FIRST_BACKOFF", 0.001)


def system(query: Callable[..., Any], **members: Any) -> Any:
    """Return a factory of systems with that ``query``."""

    def unbound(self: Any, question: str) -> Any:
        return query(question)

    async def bound(self: Any, question: str) -> Any:
        return await query(question)

    method = bound if asyncio.iscoroutinefunction(query) else unbound
    methods = {"__init__": lambda self, document: None, "query": method}
    return type("System", (), methods | members)


@asynccontextmanager
async def under_test(given: Any, *, limit: float = LONG, **options: Any) -> AsyncIterator[SystemUnderTest]:
    loaded = load_system(given, settings=AgentSettings(turn_timeout=limit), **options)
    try:
        yield loaded
    finally:
        await loaded.close()


async def asked(query: Callable[..., Any], question: str = "q", **options: Any) -> Asked:
    async with under_test(system(query), **options) as loaded:
        return await loaded.ask(question)


def refusal(given: Any, **options: Any) -> str:
    with pytest.raises(UsageError) as refused:
        load_system(given, **options)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


# --- references


@each_case(
    ("given", "said"),
    [
        (
            "nonsense",
            "known forms: builtin, bm25s, oracle, http(s)://..., openai:MODEL or pkg.module:factory",
        ),
        ("no.such.module:x", "cannot be imported"),
        ("memfin:nothing", "has no 'nothing'"),
        ("memfin:__version__", "is not callable"),
        ("127.0.0.1:8000", "an address needs its scheme, as in http://127.0.0.1:8000"),
        ("http://", "not an HTTP URL"),
        ("http://user:geheim@host/", "may have no user"),
        ("builtin", "name it with --document"),
        ("openai:m", "name it with --document"),
        (7, "got int"),
    ],
)
def test_references_that_name_no_system(given: Any, said: str) -> None:
    message = refusal(given)
    assert said in message
    assert "geheim" not in message


def test_a_model_needs_a_name_and_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMFIN_AGENT_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert "MEMFIN_AGENT_BASE_URL" in refusal("openai:m", document=RECORD)
    monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", "http://127.0.0.1:1/v1")
    assert "name the model" in refusal("openai: ", document=RECORD)


@pytest.mark.parametrize(
    "given",
    [
        {"memory": "builtin"},
        {"history": "none"},
        {"user": "{user_id}"},
        {"headers": ["X-User={user_id}"]},
        {"metadata": "{}"},
    ],
)
def test_settings_of_sessions_are_refused_by_a_model(given: dict[str, Any]) -> None:
    message = refusal("openai:m", document=RECORD, settings=AgentSettings(**given))
    assert message == (
        f"setting agent_{next(iter(given))}: is for agents; a RAG system has no memory and no sessions"
    )


@each_case("given", ["builtin", "oracle", "http://127.0.0.1:1", dict])
def test_settings_of_models_are_refused_by_other_systems(given: Any) -> None:
    settings = AgentSettings(temperature=0.5)
    assert "agent_temperature" in refusal(given, document=RECORD, settings=settings)


def test_what_the_papers_of_a_run_call_a_system() -> None:
    builtin = load_system("builtin", document=RECORD)
    assert (builtin.reference, builtin.model_name, builtin.version) == (
        "builtin",
        "builtin",
        memfin.__version__,
    )
    http = load_system("http://127.0.0.1:1/ask")
    assert (http.reference, http.version, http.inputs) == ("http://127.0.0.1:1/ask", None, {})
    own = load_system(Plain)
    assert own.reference == f"{__name__}:Plain"
    assert (own.usage, own.parameter_changes, own.abandoned) == (None, [], 0)


async def test_a_reference_is_imported_and_called_with_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_rag_module.py").write_text(
        "__version__ = '2.1'\n"
        "class Rag:\n"
        "    def __init__(self, document):\n"
        "        self.document = document\n"
        "    def query(self, question):\n"
        "        return f'{self.document.name}: {question}'\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    async with under_test("my_rag_module:Rag", document=RECORD) as loaded:
        assert loaded.version == "2.1"
        answer = (await loaded.ask("when?")).answer
    assert answer == RagAnswer(answer="record.md: when?")
    sys.modules.pop("my_rag_module")


# --- what a system may return


class Plain:
    def __init__(self, document: Any) -> None:
        self.document = document

    def query(self, question: str) -> str:
        return question


@dataclasses.dataclass
class OwnAnswer:
    answer: str
    count: int | None = None
    score: object = None


FULL = RagAnswer(
    answer="a",
    amount=42000,
    amount_breakdown=[40000, 2000],
    date="2020-08-30",
    date_range=RagAnswerRange(start="2020-01"),
    count=2,
    text="t",
    boolean=False,
    entity="e",
    evidence=[RagEvidence(text="x", page=1)],
    citation=[RagCitation(quote="y")],
    abstained=False,
)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("text", RagAnswer(answer="text")),
        ("", RagAnswer(answer="")),
        ({"answer": "a", "count": 3, "unknown": object}, RagAnswer(answer="a", count=3)),
        (
            {"answer": "a", "evidence": [{"text": "x", "page": 2, "score": 0.7}], "abstained": True},
            RagAnswer(answer="a", evidence=[RagEvidence(text="x", page=2)], abstained=True),
        ),
        ({"answer": "a", "citation": [RagCitation(quote="y", page=1)]}, FULL.replace(
            amount=None, amount_breakdown=None, date=None, date_range=None, count=None, text=None,
            boolean=None, entity=None, evidence=[], citation=[RagCitation(quote="y", page=1)], abstained=None,
        )),
        (FULL, FULL),
        (RagReply(answer=FULL), FULL),
        (OwnAnswer("a", 4), RagAnswer(answer="a", count=4)),
        ({"answer": "a", "citation": None, "evidence": None, "amount": "42,000", "count": "3"},
         RagAnswer(answer="a", amount=42000, count=3)),
        ({"answer": "a", "citation": {"quote": "y", "page": "2"}, "evidence": ["x", {"text": "z"}]},
         RagAnswer(answer="a", citation=[RagCitation(quote="y", page=2)],
                   evidence=[RagEvidence(text="x"), RagEvidence(text="z")])),
    ],
    ids=["text", "empty", "mapping", "nested", "mixed", "struct", "reply", "data-class", "nulls", "lone"],
)  # fmt: skip
async def test_answers_of_many_shapes_are_taken(returned: Any, expected: RagAnswer) -> None:
    async def query(question: str) -> Any:
        return returned

    for each in (query, lambda question: returned):
        outcome = await asked(each)
        assert (outcome.status, outcome.error, outcome.answer) == ("ok", None, expected)
        assert outcome.latency_ms >= 0


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "the system returned None; expected RagAnswer, a mapping of its fields, or str"),
        (7, "an object of type int"),
        (["a"], "an object of type list"),
        (OwnAnswer, "an object of type type"),
        ({}, "an object without answer"),
        ({"answer": None}, "Expected `str`, got `null` - at `$.answer`"),
        ({"answer": "a", "amount": "4.2万"}, "Expected `float | null`, got `str` - at `$.amount`"),
        ({"answer": "a", "amount": math.nan}, "$.amount"),
        ({"answer": "a", "amount_breakdown": [1.0, math.inf]}, "$.amount_breakdown[1]"),
        ({"answer": "a", "count": 1.5}, "$.count"),
        ({"answer": "a", "boolean": 1}, "$.boolean"),
        ({"answer": "a", "evidence": 5}, "$.evidence"),
        ({"answer": "a", "citation": [{"page": 1}]}, "$.citation[0]"),
        ({"answer": "a", "citation": [{"quote": "x", "page": "two"}]}, "$.citation[0].page"),
        ({"answer": "a", "evidence": _nested(2000)}, "an invalid answer"),
        ({"answer": object()}, "an invalid answer"),
        ({"answer": "half a pair \ud83d"}, "lone surrogate"),
        ({"answer": "x" * MAX_ANSWER_BYTES}, f"the limit is {MAX_ANSWER_BYTES}"),
        (RagAnswer(answer=5), "$.answer"),  # type: ignore[arg-type] # as a careless system builds it
        ({"answer": "a", "usage": {"calls": -1}}, "an invalid usage"),
        (RagReply(answer=FULL, usage="much"), "an invalid usage"),  # type: ignore[arg-type] # as above
    ],
    ids=[
        "none", "number", "list", "class", "empty", "null", "text-amount", "nan", "infinite", "part-count",
        "int-boolean", "text-evidence", "no-quote", "text-page", "deep", "object", "surrogate", "huge",
        "struct", "usage", "reply-usage",
    ],
)  # fmt: skip
async def test_what_is_no_answer_is_an_error_with_the_path(returned: Any, said: str) -> None:
    async def query(question: str) -> Any:
        return returned

    outcome = await asked(query)
    assert outcome.status == "error"
    assert outcome.answer is None
    assert outcome.error is not None
    assert said in outcome.error
    assert len(outcome.error.splitlines()) == 1


async def test_usage_is_added_up() -> None:
    async def query(question: str) -> Any:
        return {"answer": "a", "usage": {"calls": 1, "prompt_tokens": 10, "model": "m"}}

    async with under_test(system(query)) as loaded:
        outcome = await loaded.ask("a")
        await loaded.ask("b")
        assert outcome.usage == ModelUsage(calls=1, prompt_tokens=10, model="m")
        assert loaded.usage == ModelUsage(calls=2, prompt_tokens=20, model="m")


async def test_keys_of_the_environment_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "canary-7f3a")

    async def query(question: str) -> Any:
        if question == "raise":
            raise ValueError("refused canary-7f3a")
        return {"answer": "key canary-7f3a", "citation": [{"quote": "CANARY-7F3A"}]}

    async with under_test(system(query)) as loaded:
        told, raised = await loaded.ask("tell"), await loaded.ask("raise")
    assert told.answer == RagAnswer(answer="key ***", citation=[RagCitation(quote="***")])
    assert raised.error == "ValueError: refused ***"


# --- faults


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no index"), "ValueError: no index"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "sys.exit(3)"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("two\nlines"), "ValueError: two lines"),
        (asyncio.CancelledError(), "cancelled its own call"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_system_that_raises_fails_its_question_alone(
    error: BaseException, said: str, *, plain: bool
) -> None:
    async def query(question: str) -> str:
        if question == "bad":
            raise error
        return question

    def plain_query(question: str) -> str:
        if question == "bad":
            raise error
        return question

    async with under_test(system(plain_query if plain else query)) as loaded:
        outcome = await loaded.ask("bad")
        assert outcome.status == "error"
        assert outcome.error is not None
        assert said in outcome.error
        assert (await loaded.ask("good")).answer == RagAnswer(answer="good")


async def test_a_question_that_hangs_is_cancelled_at_its_time() -> None:
    ended: list[str] = []

    async def query(question: str) -> str:
        try:
            await asyncio.sleep(LONG if question == "hang" else 0)
        except asyncio.CancelledError:
            ended.append(question)
            raise
        return question

    async with under_test(system(query), limit=0.05) as loaded:
        outcome = await loaded.ask("hang")
        assert (outcome.status, outcome.error, ended) == ("timeout", "no answer within 0.05 s", ["hang"])
        assert (await loaded.ask("next")).status == "ok"
        assert loaded.abandoned == 0


async def test_a_question_that_swallows_its_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memfin.sandbox.calls.CANCEL_GRACE", 0.02)
    over = asyncio.Event()

    async def query(question: str) -> str:
        while question == "stubborn" and not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue
        return question

    async with under_test(system(query), limit=0.05) as loaded:
        assert (await loaded.ask("stubborn")).status == "timeout"
        assert loaded.abandoned == 1
        assert (await loaded.ask("next")).status == "ok"
        over.set()


async def test_a_question_that_blocks_the_loop_is_a_timeout() -> None:
    async def query(question: str) -> str:
        time.sleep(0.06)  # noqa: ASYNC251 - the fault under test
        return question

    outcome = await asked(query, limit=0.02)
    assert outcome.status == "timeout"
    assert outcome.answer is None


async def test_a_plain_question_that_hangs_is_left_in_its_thread_and_the_system_made_anew() -> None:
    release = threading.Event()
    made: list[object] = []

    class Hanging:
        def __init__(self, document: object) -> None:
            made.append(self)

        def query(self, question: str) -> str:
            if question == "hang":
                release.wait(LONG)
            return question

    try:
        async with under_test(Hanging, limit=0.05) as loaded:
            assert (await loaded.ask("hang")).status == "timeout"
            assert (await loaded.ask("next")).answer == RagAnswer(answer="next")
            assert len(made) == 2
            assert loaded.abandoned == 1
    finally:
        release.set()


async def test_no_more_is_asked_when_too_many_questions_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.sandbox.calls.CANCEL_GRACE", 0.001)
    release = threading.Event()

    def query(question: str) -> str:
        release.wait(LONG)
        return question

    try:
        async with under_test(system(query), limit=0.001) as loaded:
            outcomes = [await loaded.ask("hang")]
            while outcomes[-1].status == "timeout" and len(outcomes) < 50 * MAX_STUCK:
                # A thread that has not begun in time hangs nowhere.
                outcomes.append(await loaded.ask("hang"))
        assert len(outcomes) > MAX_STUCK
        assert outcomes[-1].error == (
            f"{MAX_STUCK} earlier questions still hang in their threads; no more are asked"
        )
    finally:
        release.set()


async def test_what_fails_on_its_way_is_asked_again() -> None:
    left = [memfin.TransportError("busy"), ConnectionResetError("gone")]

    async def query(question: str) -> str:
        if left:
            raise left.pop()
        return "found"

    outcome = await asked(query)
    assert (outcome.status, outcome.retries, outcome.answer) == ("ok", 2, RagAnswer(answer="found"))


async def test_retries_end() -> None:
    calls = 0

    async def query(question: str) -> str:
        nonlocal calls
        calls += 1
        raise memfin.TransportError("busy")

    outcome = await asked(query, retries=3)
    assert (outcome.status, outcome.retries, calls) == ("error", 3, 4)
    assert outcome.error == "TransportError: busy"


async def test_a_pause_that_is_longer_than_the_time_left_is_not_taken() -> None:
    async def query(question: str) -> str:
        raise memfin.TransportError("busy", retry_after=2 * LONG)

    outcome = await asked(query)
    assert (outcome.status, outcome.retries) == ("error", 0)


# --- one instance, or several


async def test_an_asynchronous_system_is_made_once_and_its_answers_overlap() -> None:
    made: list[object] = []
    both = asyncio.Event()
    inside = 0

    class Overlapping:
        def __init__(self, document: object) -> None:
            asyncio.get_running_loop()  # a client may want it
            made.append(self)

        async def query(self, question: str) -> str:
            nonlocal inside
            inside += 1
            if inside == 2:
                both.set()
            await both.wait()
            return question

    async with under_test(Overlapping) as loaded, anyio.create_task_group() as group:
        group.start_soon(loaded.ask, "a")
        group.start_soon(loaded.ask, "b")
    assert (inside, len(made)) == (2, 1)


async def test_plain_systems_are_made_for_each_question_at_a_time_and_stay_in_their_threads() -> None:
    barrier = threading.Barrier(2)
    threads: dict[int, set[int]] = {}

    class Bound:
        def __init__(self, document: object) -> None:
            threads[id(self)] = {threading.get_ident()}

        def query(self, question: str) -> str:
            threads[id(self)].add(threading.get_ident())
            if question == "together":
                barrier.wait(LONG)
            return question

    async with under_test(Bound) as loaded:
        await loaded.open()
        async with anyio.create_task_group() as group:
            group.start_soon(loaded.ask, "together")
            group.start_soon(loaded.ask, "together")
        for _ in range(3):
            await loaded.ask("alone")
    assert [len(each) for each in threads.values()] == [1, 1]


async def test_a_system_that_is_given_as_an_object_is_used_as_it_is_and_not_closed() -> None:
    class Given:
        closed = False
        inside = 0
        most = 0

        def query(self, question: str) -> str:
            self.inside += 1
            self.most = max(self.most, self.inside)
            time.sleep(0.001)
            self.inside -= 1
            return question

        def close(self) -> None:
            self.closed = True

    given = Given()
    async with under_test(given) as loaded, anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(loaded.ask, "q")
    assert (given.most, given.closed) == (1, False)


async def test_systems_are_closed_once_each() -> None:
    closed: list[str] = []

    class Closing:
        def __init__(self, document: object) -> None:
            pass

        def query(self, question: str) -> str:
            return question

        async def close(self) -> None:
            closed.append("async")
            raise ValueError("too late to matter")

    one = Closing(None)
    for factory in (Closing, lambda document: one):
        async with under_test(factory) as loaded, anyio.create_task_group() as group:
            group.start_soon(loaded.ask, "a")
            group.start_soon(loaded.ask, "b")
    assert 2 <= len(closed) <= 3


async def test_asynchronous_factories_are_awaited() -> None:
    async def factory(document: Any) -> Any:
        await asyncio.sleep(0)
        return Plain(document)

    async with under_test(factory, document=RECORD) as loaded:
        assert (await loaded.ask("q")).answer == RagAnswer(answer="q")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (lambda document: None, "the factory returned None; expected an object with a query method"),
        (lambda document: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda document: sys.exit(1), "sys.exit(1)"),
        (lambda document: (_ for _ in ()).throw(ConnectionError("no database")), "no database"),
    ],
    ids=["none", "raises", "exits", "transport"],
)
async def test_a_system_that_cannot_be_made_is_told_before_the_run_and_fails_its_questions(
    factory: Any, said: str
) -> None:
    async with under_test(factory) as loaded:
        with pytest.raises(UsageError) as refused:
            await loaded.open()
        assert str(refused.value).startswith(f"rag {loaded.reference}: the system could not be created: ")
        assert said in str(refused.value)
        outcome = await loaded.ask("q")
    assert outcome.status == "error"
    assert outcome.error is not None
    assert said in outcome.error


@each_case(
    ("factory", "taken"), [(lambda: Plain(None), "()"), (lambda document, size: None, "(document, size)")]
)
def test_a_factory_that_takes_other_arguments_is_refused(factory: Any, taken: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_system(factory)
    assert f": takes {taken} and is called with (document); expected a class" in str(refused.value)


async def test_a_factory_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.rag.systems.under_test.OPEN_LIMIT", 0.02)
    release = threading.Event()

    def factory(document: object) -> Plain:
        release.wait(LONG)
        return Plain(document)

    async def slow(document: object) -> Plain:
        await asyncio.sleep(LONG)
        return Plain(document)

    try:
        for each in (factory, slow):
            async with under_test(each) as loaded:
                with pytest.raises(UsageError, match=r"could not be created: no answer within 0\.02 s"):
                    await loaded.open()
                outcome = await loaded.ask("q")
                assert outcome.status == "timeout"
                assert outcome.error is not None
                assert "could not be created" in outcome.error
    finally:
        release.set()


async def test_a_question_that_its_host_cancels_leaves_the_system_usable() -> None:
    started = asyncio.Event()

    async def query(question: str) -> str:
        started.set()
        await asyncio.sleep(LONG if question == "hang" else 0)
        return question

    async with under_test(system(query)) as loaded:
        async with anyio.create_task_group() as group:
            group.start_soon(loaded.ask, "hang")
            await started.wait()
            group.cancel_scope.cancel()
        assert (await loaded.ask("next")).status == "ok"


async def test_a_closed_run_can_be_followed_by_another() -> None:
    loaded = load_system(Plain)
    for _ in range(2):
        assert (await loaded.ask("q")).status == "ok"
        await loaded.close(short_grace=True)
