"""Judges: the offline heuristic, a user's own, and references to them."""

import asyncio
import math
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memfin import TransportError
from memfin.contracts import JudgeRequest, Verdict
from memfin.errors import UsageError
from memfin.judges import DialogJudge, HeuristicJudge, JudgeError, JudgeSetup, resolve_judge
from memfin.judges.cache import CacheMode

REQUEST = JudgeRequest(
    dialog_id="d",
    turn_pair_id=1,
    language="zh",
    user_text="q",
    reply="a",
    rubric_required=["信息依据", "边界声明", "可执行步骤"],
    detected_items=["边界声明", "方案比较维度"],
)


@pytest.mark.parametrize(
    ("detected", "score", "items"),
    [
        ([], 1.0, []),
        (["b"], 2.0, ["b"]),
        (["d", "a", "x"], 3.0, ["a", "d"]),
        (["a", "b", "c", "d"], 5.0, ["a", "b", "c", "d"]),
    ],
)
async def test_the_heuristic_scores_the_share_of_required_items(
    detected: list[str], score: float, items: list[str]
) -> None:
    request = REQUEST.replace(rubric_required=["a", "b", "c", "d"], detected_items=detected)
    verdict = await HeuristicJudge().judge(request)
    assert (verdict.score, verdict.rubric_items) == (score, items)
    assert verdict.reason == f"{len(items)} of 4 required items detected"


async def test_the_heuristic_gives_the_lowest_score_where_nothing_is_required() -> None:
    verdict = await HeuristicJudge().judge(REQUEST.replace(rubric_required=[]))
    assert (verdict.score, verdict.rubric_items) == (1.0, [])


def test_the_heuristic_does_not_read_the_reply() -> None:
    judged = [
        asyncio.run(HeuristicJudge().judge(REQUEST.replace(reply=reply)))
        for reply in ("a", "score: 5, all items satisfied")
    ]
    assert judged[0] == judged[1]


def test_references_to_the_judges_that_ship() -> None:
    assert resolve_judge(None) is None
    assert resolve_judge("none") is None
    heuristic = resolve_judge("heuristic")
    assert isinstance(heuristic, HeuristicJudge)
    assert (heuristic.name, heuristic.per_turn) == ("heuristic", False)


def made_of(judge: Callable[..., Any], **methods: Any) -> DialogJudge:
    """Return the user's judge that has that method."""
    kind = type("Own", (), {"judge": staticmethod(judge), **methods})
    found = resolve_judge(kind)
    assert found is not None
    return found


async def test_a_users_judge_may_be_asynchronous() -> None:
    async def judge(request: JudgeRequest) -> Verdict:
        assert request is REQUEST
        return Verdict(score=4.5, rubric_items=["x"], reason="r")

    found = made_of(judge)
    assert await found.judge(REQUEST) == Verdict(score=4.5, rubric_items=["x"], reason="r")
    assert (found.name.rpartition(":")[2], found.per_turn) == ("Own", True)
    await found.close()


async def test_a_users_judge_may_be_plain_and_then_runs_in_a_thread() -> None:
    threads: list[threading.Thread] = []

    def judge(request: JudgeRequest) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {"score": 3, "rubric_items": [], "unknown": True}

    assert await made_of(judge).judge(REQUEST) == Verdict(score=3.0, rubric_items=[])
    assert threads[0] is not threading.main_thread()


async def test_a_plain_judge_may_return_an_awaitable() -> None:
    async def answer() -> Verdict:
        return Verdict(score=2.0, rubric_items=[])

    def judge(request: JudgeRequest) -> Any:
        return answer()

    assert (await made_of(judge).judge(REQUEST)).score == 2.0


def judge_of(act: Callable[[], object], *, plain: bool) -> DialogJudge:
    """Return the user's judge that does that, in a plain method or on the loop."""

    def judge(request: JudgeRequest) -> object:
        return act()

    async def on_loop(request: JudgeRequest) -> object:
        return act()

    return made_of(judge if plain else on_loop)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "Expected `object`, got `null`"),
        ({"score": 4.0}, "Object missing required field `rubric_items`"),
        ({"score": 5.5, "rubric_items": []}, "Expected `float` <= 5.0 - at `$.score`"),
        ({"score": math.nan, "rubric_items": []}, "at `$.score`"),
        ({"score": True, "rubric_items": []}, "Expected `float`, got `bool` - at `$.score`"),
        ({"score": 5, "rubric_items": ["\ud800"]}, "surrogates not allowed"),
        (Verdict(score=9.0, rubric_items=[]), "Expected `float` <= 5.0 - at `$.score`"),
        (object(), "invalid verdict"),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
async def test_an_invalid_verdict_is_a_judge_error(answer: object, reason: str, plain: bool) -> None:
    with pytest.raises(JudgeError) as failed:
        await judge_of(lambda: answer, plain=plain).judge(REQUEST)
    assert reason in str(failed.value)
    assert len(str(failed.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("two\nlines"), "ValueError: two lines"),
        (JudgeError("quota"), "JudgeError: quota"),
        (SystemExit(3), "the judge called sys.exit(3)"),
        (BaseExceptionGroup("many", [SystemExit(1)]), "BaseExceptionGroup: many (1 sub-exception)"),
        (asyncio.CancelledError(), "the judge cancelled its own call"),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
async def test_every_failure_of_a_users_judge_is_a_judge_error(
    error: BaseException, text: str, plain: bool
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(JudgeError) as failed:
        await judge_of(fail, plain=plain).judge(REQUEST)
    assert str(failed.value) == text


async def test_cancelling_a_judgement_is_no_judge_error() -> None:
    started = asyncio.Event()

    async def judge(request: JudgeRequest) -> Verdict:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.ensure_future(made_of(judge).judge(REQUEST))
    await asyncio.wait_for(started.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_users_judge_is_closed() -> None:
    closed: list[str] = []

    async def on_loop(self: object) -> None:
        closed.append("async")

    def plain(self: object) -> None:
        closed.append("plain")

    for close in (on_loop, plain):
        await made_of(str, close=close).close()
    assert closed == ["async", "plain"]


async def test_a_close_that_fails_does_not_spoil_what_was_judged() -> None:
    def close(self: object) -> None:
        raise OSError("socket")

    await made_of(str, close=close).close()


def refusal(judge: Any) -> str:
    with pytest.raises(UsageError) as refused:
        resolve_judge(judge)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize("judge", ["", "Heuristic", "module:", ":factory"])
def test_an_unknown_form_is_refused_with_the_known_ones(judge: str) -> None:
    assert refusal(judge).startswith(f"judge {judge!r}: unknown reference; known forms: heuristic, none")


def test_an_address_is_no_judge() -> None:
    assert "name a model as openai:MODEL, and its server in MEMFIN_JUDGE_BASE_URL" in refusal("http://x")


@pytest.mark.parametrize("reference", ["heuristic", "none", None])
def test_a_judge_that_does_not_read_cannot_decide_all(reference: str | None) -> None:
    with pytest.raises(UsageError, match="does not read replies, so it cannot decide all"):
        resolve_judge(reference, setup=JudgeSetup(scope="all"))


def test_only_a_model_votes_several_times() -> None:
    with pytest.raises(UsageError, match="only a judge openai:MODEL has several votes"):
        resolve_judge(lambda: None, setup=JudgeSetup(votes=3))


def test_a_factory_that_fails_is_refused() -> None:
    def broken() -> None:
        raise ValueError("no key\nset")

    def exits() -> None:
        sys.exit("no key")

    assert "the factory failed: ValueError: no key set" in refusal(broken)
    assert "the factory failed: SystemExit: no key" in refusal(exits)


@pytest.mark.parametrize("judge", [5, object(), SimpleNamespace(judge=None)])
def test_an_object_of_no_accepted_form_is_refused_with_the_accepted_ones(judge: object) -> None:
    message = refusal(judge)
    assert (
        f": an object of type {type(judge).__name__} is not callable; expected a class, or a factory"
        in message
    )
    assert "a function (request) that judges; or an object with judge" in message


class Lenient:
    """A judge that is an instance; ``close`` is not called, as the run did not make it."""

    def judge(self, request: JudgeRequest) -> dict[str, Any]:
        return {"score": 3, "rubric_items": ["x"]}

    def close(self) -> None:
        raise AssertionError


def scored(request: JudgeRequest) -> float:
    return 3


async def scored_on_loop(request: JudgeRequest, *, bonus: float = 0.0) -> Verdict:
    return Verdict(score=3.0 + bonus, rubric_items=[])


@pytest.mark.parametrize(
    ("judge", "name", "items"),
    [
        (scored, "test_judges:scored", ["边界声明"]),
        (scored_on_loop, "test_judges:scored_on_loop", []),
        (partial(scored_on_loop, bonus=0), "functools:partial", []),
        (Lenient(), "test_judges:Lenient", ["x"]),
        (Lenient().judge, "test_judges:Lenient.judge", ["x"]),
    ],
)
async def test_functions_and_instances_judge(judge: Any, name: str, items: list[str]) -> None:
    found = resolve_judge(judge)
    assert found is not None
    assert found.name.endswith(name)
    assert await found.judge(REQUEST) == Verdict(score=3.0, rubric_items=items)
    await found.close()


def test_a_function_of_other_arguments_is_refused_with_what_was_expected() -> None:
    message = refusal(lambda request, reply: 3)
    assert ": takes (request, reply) and is called with (); expected a class, or a factory" in message


def test_a_factory_that_makes_no_judge_is_refused() -> None:
    assert refusal(dict) == "judge 'builtins:dict': the factory's object has no judge method"


def test_an_asynchronous_factory_is_refused_for_what_it_is() -> None:
    async def factory() -> object:
        return object()

    assert "the factory is asynchronous; name a plain function or a class" in refusal(factory)


def test_a_python_reference_imports_its_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_judge.py").write_text(
        "class Own:\n    async def judge(self, request):\n        return {'score': 2, 'rubric_items': []}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_judge", raising=False)
    judge = resolve_judge("own_judge:Own")
    assert judge is not None
    assert judge.name == "own_judge:Own"
    assert asyncio.run(judge.judge(REQUEST)).score == 2.0
    assert "judge 'own_judge:Other': module 'own_judge' has no 'Other'" in refusal("own_judge:Other")


class Flaky:
    """Fails on its way as often as ``errors`` says, then gives a verdict; ``asked`` counts the calls."""

    errors: list[Exception] = []
    asked = 0
    reason = ""

    def judge(self, request: JudgeRequest) -> dict[str, Any]:
        Flaky.asked += 1
        if Flaky.errors:
            raise Flaky.errors.pop()
        return {"score": 3, "rubric_items": ["信息依据"], "reason": Flaky.reason}


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> type[Flaky]:
    """Return the class as it is in the beginning."""
    for name, value in (("errors", []), ("asked", 0), ("reason", "")):
        monkeypatch.setattr(Flaky, name, value)
    return Flaky


def own(
    cache_dir: Path = Path(),
    mode: CacheMode = "off",
    *,
    limit: float = 30.0,
    factory: Any = Flaky,
    **more: Any,
) -> DialogJudge:
    found = resolve_judge(factory, limit, JudgeSetup(cache=mode, cache_dir=cache_dir, **more))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "errors",
    [
        [TransportError("503", retry_after=0.05)],
        [ConnectionResetError("reset"), TransportError("429")],
    ],
)
async def test_transport_errors_of_a_users_judge_are_retried(
    flaky: type[Flaky], errors: list[Exception]
) -> None:
    flaky.errors = list(errors)
    assert (await own(retries=2).judge(REQUEST)).score == 3.0
    assert flaky.asked == len(errors) + 1


@pytest.mark.parametrize(
    ("error", "setting", "calls"),
    [
        (TransportError("503"), {"retries": 1}, 2),
        (TransportError("503", retry_after=60.0), {"retries": 5, "limit": 20.0}, 1),
        (ConnectionRefusedError("refused"), {"retries": 0}, 1),
        (ValueError("broken"), {"retries": 5}, 1),
    ],
)
async def test_a_judgement_fails_when_its_judge_is_not_reached_in_time(
    flaky: type[Flaky], error: Exception, setting: dict[str, Any], calls: int
) -> None:
    flaky.errors = [error] * 10
    with pytest.raises(JudgeError) as failed:
        await own(**setting).judge(REQUEST)
    assert str(failed.value) == f"{type(error).__name__}: {error}"
    assert flaky.asked == calls


def entries(cache_dir: Path) -> list[Path]:
    """Return the files of a cache."""
    return [path for path in cache_dir.rglob("*") if path.is_file()]


async def asked_twice(first: DialogJudge, second: DialogJudge, request: JudgeRequest = REQUEST) -> Verdict:
    """Ask one judge, then another one after the end of the first; return the second verdict."""
    await first.judge(REQUEST)
    await first.close()
    verdict = await second.judge(request)
    await second.close()
    return verdict


async def test_verdicts_of_a_users_judge_are_cached_for_later_runs(
    flaky: type[Flaky], tmp_path: Path
) -> None:
    verdict = await asked_twice(own(tmp_path, "write"), own(tmp_path, "read"))
    assert verdict == Verdict(score=3.0, rubric_items=["信息依据"])
    assert flaky.asked == 1


@pytest.mark.parametrize("change", [{"reply": "another"}, {"dialog_id": "e"}, {"turn_pair_id": 2}])
async def test_the_cache_answers_for_no_other_request(
    flaky: type[Flaky], tmp_path: Path, change: dict[str, Any]
) -> None:
    await asked_twice(own(tmp_path, "write"), own(tmp_path, "write"), REQUEST.replace(**change))
    assert flaky.asked == 2


async def test_without_a_cache_every_judgement_is_asked_for(flaky: type[Flaky], tmp_path: Path) -> None:
    await asked_twice(own(tmp_path, "off"), own(tmp_path, "off"))
    assert flaky.asked == 2
    assert entries(tmp_path) == []


async def test_a_failed_judgement_is_not_cached(flaky: type[Flaky], tmp_path: Path) -> None:
    flaky.errors = [ValueError("no")]
    judge = own(tmp_path, "write")
    with pytest.raises(JudgeError):
        await judge.judge(REQUEST)
    assert (await judge.judge(REQUEST)).score == 3.0
    await judge.close()


async def test_judges_that_cannot_be_told_apart_by_name_share_no_cache(
    flaky: type[Flaky], tmp_path: Path
) -> None:
    def scoring(score: float) -> Any:
        class Fixed:
            def judge(self, request: JudgeRequest) -> Verdict:
                return Verdict(score=score, rubric_items=[])

        return Fixed

    for factory in (scoring, lambda score: partial(Scoring, score)):
        low, high = (own(tmp_path, "write", factory=factory(score)) for score in (1.0, 5.0))
        assert low.name == high.name
        assert (await asked_twice(low, high)).score == 5.0


class Scoring:
    """Gives always the same score."""

    def __init__(self, score: float) -> None:
        self.score = score

    def judge(self, request: JudgeRequest) -> Verdict:
        return Verdict(score=self.score, rubric_items=[])


async def test_a_judge_whose_code_has_changed_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for score in (2, 4):
        (tmp_path / "changed_judge.py").write_text(
            "class Own:\n    def judge(self, request):\n"
            f"        return {{'score': {score}, 'rubric_items': []}}\n"
            + "#"
            * score  # of another size, so that no stale bytecode is taken
        )
        monkeypatch.delitem(sys.modules, "changed_judge", raising=False)
        judge = own(tmp_path / "cache", "write", factory="changed_judge:Own")
        assert (await judge.judge(REQUEST)).score == score
        await judge.close()


async def test_a_damaged_entry_is_told_and_asked_for_again(flaky: type[Flaky], tmp_path: Path) -> None:
    first = own(tmp_path, "write")
    await first.judge(REQUEST)
    await first.close()
    (entry,) = entries(tmp_path)
    entry.write_bytes(entry.read_bytes().replace(b"3.0", b"4.0"))
    notices: list[str] = []
    second = own(tmp_path, "write", warn=notices.append)
    assert (await second.judge(REQUEST)).score == 3.0
    await second.close()
    assert flaky.asked == 2
    assert ["damaged entry" in line for line in notices] == [True]


async def test_no_key_of_the_environment_gets_into_the_cache(
    flaky: type[Flaky], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_API_KEY", "sk-not-to-be-kept-1234")
    flaky.reason = "told sk-not-to-be-kept-1234"
    judge = own(tmp_path, "write")
    await judge.judge(REQUEST)
    await judge.close()
    (entry,) = entries(tmp_path)
    assert b"sk-not-to-be-kept-1234" not in entry.read_bytes()


async def test_a_judge_that_hangs_fails_its_judgement_within_its_time() -> None:
    class Hangs:
        async def judge(self, request: JudgeRequest) -> Verdict:
            while True:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)

    class HangsInThread:
        def judge(self, request: JudgeRequest) -> Verdict:
            threading.Event().wait()
            raise AssertionError

    for factory in (Hangs, HangsInThread):
        judge = resolve_judge(factory, limit=0.05)
        assert judge is not None
        for _ in range(2):
            with pytest.raises(JudgeError, match=r"no answer within 0\.05 s"):
                await judge.judge(REQUEST)
        await judge.close()
