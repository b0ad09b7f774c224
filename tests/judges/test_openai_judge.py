"""The judge openai:MODEL against a real server that fails as it is told to."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from memfin.client.endpoint import Endpoint
from memfin.client.errors import EndpointDown
from memfin.client.limiter import CallLimiter
from memfin.contracts import JudgeFailure, JudgeRequest, Verdict
from memfin.errors import UsageError
from memfin.judges import JudgeError, JudgeSetup, resolve_judge
from memfin.judges.cache import AnswerCache, CachedAnswer, CacheMode
from memfin.judges.openai import OpenAIJudge
from memfin.judges.reply_grading import ReplyGrading
from tests.client.faulty_server import TRANSIENT, FaultyServer
from tests.judges.scripted_judge import verdict

REQUEST = JudgeRequest(
    dialog_id="d",
    turn_pair_id=1,
    language="zh",
    user_text="怎么配置？",
    reply="根据数据，注意风险，仅供参考。",
    rubric_required=["信息依据", "边界声明"],
    constraints=["不使用杠杆"],
)


@asynccontextmanager
async def judge_of(  # noqa: PLR0913 - each setting stands alone
    server: FaultyServer,
    tmp_path: Path,
    *,
    votes: int = 1,
    cache: CacheMode = "off",
    environ: dict[str, str] | None = None,
    attempts: int = 5,
    limit: float = 20.0,
    max_down: float = 60.0,
    max_tokens: int = 2048,
) -> AsyncIterator[tuple[OpenAIJudge[JudgeRequest, Verdict], list[str]]]:
    notices: list[str] = []
    judge = OpenAIJudge(
        "m",
        Endpoint(server.base_url, "KEY" if environ else None, environ=environ or {}),
        ReplyGrading(),
        JudgeSetup(
            gate=CallLimiter(
                workers=8,
                on_warning=notices.append,
                max_attempts=attempts,
                max_pause=0.01,
                max_down=max_down,
                draw=lambda: 0.0,
            ),
            cache=cache,
            cache_dir=tmp_path / "cache",
            warn=notices.append,
            votes=votes,
            seed=7,
            max_tokens=max_tokens,
        ),
        limit,
    )
    try:
        yield judge, notices
    finally:
        await judge.close()


async def test_a_vote_is_recorded_with_everything_it_took(tmp_path: Path) -> None:
    async with (
        FaultyServer(responder=verdict, script=["500", "invalid_json"]) as server,
        judge_of(server, tmp_path) as (judge, _),
    ):
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, Verdict)
    assert (result.outcome.score, result.outcome.rubric_items) == (4.0, ["信息依据", "边界声明"])
    (vote,) = result.votes
    assert (vote.attempts, vote.vote, vote.cached, vote.response_format) == (3, 1, False, "json_schema")
    assert (vote.prompt_tokens, vote.completion_tokens) == (10, 5)  # what failed told none
    assert json.loads(vote.raw_answer or "")["score"] == 4
    assert vote.latency_ms is not None
    body = server.arrivals[0].body
    assert (body["model"], body["temperature"], body["seed"]) == ("m", 0.0, 7)
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["max_tokens"] > 0


async def test_every_transient_fault_is_got_over_and_moves_no_score(tmp_path: Path) -> None:
    async with FaultyServer(responder=verdict) as server, judge_of(server, tmp_path) as (judge, _):
        sound = await judge.judge(REQUEST)
    for fault in TRANSIENT:
        async with FaultyServer(responder=verdict, script=[fault]) as server:
            async with judge_of(server, tmp_path) as (judge, _):
                assert await judge.judge(REQUEST) == sound, fault
            assert len(server.arrivals) == 2, fault


@pytest.mark.parametrize("fault", ["invalid_json", "refusal", "empty_choices", "empty_text", "too_large"])
async def test_a_fault_that_lasts_is_a_failure_with_its_reason_after_bounded_attempts(
    tmp_path: Path, fault: str
) -> None:
    async with (
        FaultyServer(responder=verdict, share=1.0, faults=[fault]) as server,
        judge_of(server, tmp_path, attempts=3) as (judge, _),
    ):
        result = await judge.deliberate(REQUEST)
        assert isinstance(result.outcome, JudgeFailure)
        assert result.outcome.reason
        (vote,) = result.votes
        assert (vote.verdict, vote.error, vote.attempts) == (None, result.outcome.reason, 3)
        with pytest.raises(JudgeError):
            await judge.judge(REQUEST)
    assert len(server.arrivals) == 6


class FailsOnVerdicts(FaultyServer):
    """Answers the question whether it is there, and fails on everything else."""

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        return await super()._answer(request, body, "503" if "response_format" in body else None)


async def test_an_error_of_a_server_that_is_there_is_a_failure_of_the_one_judgement(tmp_path: Path) -> None:
    async with FailsOnVerdicts() as server, judge_of(server, tmp_path, attempts=3) as (judge, _):
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, JudgeFailure)
    assert "HTTP 503" in result.outcome.reason
    assert ["response_format" in arrival.body for arrival in server.arrivals] == [True, True, True, False]
    assert result.votes[0].attempts == 4
    asked = server.arrivals[-1].body
    assert (asked["max_tokens"], len(asked["messages"])) == (4, 1)
    assert REQUEST.reply not in str(asked)


@pytest.mark.parametrize("fault", ["500", "reset", "closed"])
async def test_a_server_that_stays_down_is_no_failure_of_a_judgement(tmp_path: Path, fault: str) -> None:
    async with (
        FaultyServer(share=1.0, faults=[fault]) as server,
        judge_of(server, tmp_path, max_down=0.2, cache="write") as (judge, notices),
    ):
        for _ in range(2):
            with pytest.raises(EndpointDown, match="the endpoint has been down for") as down:
                await judge.deliberate(REQUEST)
            assert len(str(down.value).splitlines()) == 1
    assert any("is down" in line for line in notices)


@pytest.mark.parametrize(
    "content",
    [
        "score: 5",
        "{}",
        json.dumps({"score": 5}),
        json.dumps({"reason": "", "satisfied": ["R9"], "contradicted": [], "risk_tags": [], "score": 5}),
    ],
)
async def test_an_answer_that_is_no_verdict_gives_no_score(tmp_path: Path, content: str) -> None:
    async with (
        FaultyServer(responder=lambda _: content) as server,
        judge_of(server, tmp_path, attempts=2) as (judge, _),
    ):
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, JudgeFailure)
    assert "not a verdict" in result.outcome.reason or "is not JSON" in result.outcome.reason
    assert result.votes[0].raw_answer == content
    assert len(server.arrivals) == 2


def takes(*forms: str) -> Callable[[dict[str, Any]], str | None]:
    """Say which fault a server has for a request whose response_format it does not take."""

    def fault(body: dict[str, Any]) -> str | None:
        return None if (body.get("response_format") or {"type": "text"})["type"] in forms else "400"

    return fault


class PickyServer(FaultyServer):
    """Takes some forms of response_format only."""

    def __init__(self, *forms: str) -> None:
        super().__init__(responder=self._judged)
        self._picks = takes(*forms)

    def _judged(self, body: dict[str, Any]) -> str:
        schema = {"properties": {"satisfied": {"items": {"enum": ["R1", "R2"]}}}}
        return verdict({**body, "response_format": {"json_schema": {"schema": schema}}})

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        return await super()._answer(request, body, self._picks(body))


@pytest.mark.parametrize(("form", "first"), [("json_object", 2), ("text", 4)])
async def test_a_server_that_refuses_the_schema_is_asked_as_it_likes_and_that_is_recorded(
    tmp_path: Path, form: str, first: int
) -> None:
    async with PickyServer(form) as server, judge_of(server, tmp_path) as (judge, notices):
        result = await judge.deliberate(REQUEST)
        assert isinstance(result.outcome, Verdict)
        asked = "json_object_schema" if form == "json_object" else form
        assert (result.outcome.score, result.votes[0].response_format) == (4.0, asked)
        assert result.votes[0].attempts == first == len(server.arrivals)
        await judge.judge(REQUEST)
        assert len(server.arrivals) == first + 1
        (line,) = notices
        assert f"asked for as {asked}" in line


async def test_a_server_that_refuses_every_form_is_a_failure(tmp_path: Path) -> None:
    async with PickyServer() as server, judge_of(server, tmp_path) as (judge, notices):
        result = await judge.deliberate(REQUEST)
        assert isinstance(result.outcome, JudgeFailure)
        assert "400" in result.outcome.reason
        assert len(server.arrivals) == 4
        assert notices == []


async def test_votes_differ_in_order_and_names_and_the_median_counts(tmp_path: Path) -> None:
    scores = iter([5, 1, 2])

    def answer(body: dict[str, Any]) -> str:
        return json.dumps({**json.loads(verdict(body)), "score": next(scores)})

    async with FaultyServer(responder=answer) as server, judge_of(server, tmp_path, votes=3) as (judge, _):
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, Verdict)
    assert (result.outcome.score, result.outcome.spread) == (2.0, 4.0)
    assert result.outcome.rubric_items == ["信息依据", "边界声明"]
    assert [vote.vote for vote in result.votes] == [1, 2, 3]
    assert len({vote.prompt_hash for vote in result.votes}) == 3


async def test_one_vote_that_fails_fails_the_judgement(tmp_path: Path) -> None:
    async with (
        FaultyServer(responder=verdict, script=[None, "401"]) as server,
        judge_of(server, tmp_path, votes=3) as (judge, _),
    ):
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, JudgeFailure)
    assert [vote.verdict is not None for vote in result.votes] == [True, False]
    assert len(server.arrivals) == 2


async def test_a_second_judge_takes_the_answers_from_the_cache(tmp_path: Path) -> None:
    async with (
        FaultyServer(responder=verdict) as server,
        judge_of(server, tmp_path, votes=2, cache="write") as (judge, _),
    ):
        first = await judge.deliberate(REQUEST)
        await judge.close()
        async with judge_of(server, tmp_path, votes=2, cache="read") as (later, _):
            second = await later.deliberate(REQUEST)
            assert later.cache_counts() == (2, 0, 0)
            await later.deliberate(REQUEST.replace(reply="another"))
            assert later.cache_counts() == (2, 2, 0)
    assert second.outcome == first.outcome
    assert [(vote.cached, vote.attempts) for vote in second.votes] == [(True, 0)] * 2
    assert len(server.arrivals) == 4


async def test_failures_are_not_cached(tmp_path: Path) -> None:
    async with (
        FaultyServer(responder=verdict, script=["401"]) as server,
        judge_of(server, tmp_path, cache="write") as (judge, _),
    ):
        assert isinstance((await judge.deliberate(REQUEST)).outcome, JudgeFailure)
        assert isinstance((await judge.deliberate(REQUEST)).outcome, Verdict)
    assert len(server.arrivals) == 2


async def test_a_cached_answer_that_is_no_verdict_is_asked_again(tmp_path: Path) -> None:
    async with (
        FaultyServer(responder=verdict) as server,
        judge_of(server, tmp_path, cache="write") as (judge, _),
    ):
        await judge.deliberate(REQUEST)
        await judge.close()
        (path,) = (tmp_path / "cache").rglob("*.json")
        key = path.stem
        spoilt = AnswerCache(tmp_path / "cache", "write", lambda line: None)
        spoilt.keep(key, CachedAnswer(raw_answer="5", response_format="text"))
        await spoilt.close()
        result = await judge.deliberate(REQUEST)
        assert isinstance(result.outcome, Verdict)
        assert judge.cache_counts() == (0, 2, 1)
    assert len(server.arrivals) == 2


async def test_a_key_that_comes_back_is_in_no_record_and_no_cache(tmp_path: Path) -> None:
    key = "sk-canary-0123456789"

    def leak(body: dict[str, Any]) -> str:
        return json.dumps({**json.loads(verdict(body)), "reason": f"your key is {key}"})

    async with (
        FaultyServer(responder=leak) as server,
        judge_of(server, tmp_path, cache="write", environ={"KEY": key}) as (judge, _),
    ):
        result = await judge.deliberate(REQUEST)
        again = await judge.deliberate(REQUEST)
    assert server.arrivals[0].headers["Authorization"] == f"Bearer {key}"
    assert key not in repr(result)
    assert "***" in repr(result)
    assert again.votes[0].cached
    assert all(key.encode() not in path.read_bytes() for path in (tmp_path / "cache").rglob("*.json"))


async def test_too_long_a_reply_is_a_failure_without_a_call(tmp_path: Path) -> None:
    async with FaultyServer(responder=verdict) as server, judge_of(server, tmp_path) as (judge, _):
        result = await judge.deliberate(REQUEST.replace(reply="字" * 70_000))
    assert isinstance(result.outcome, JudgeFailure)
    assert "characters" in result.outcome.reason
    assert result.outcome.declined == "too_long"
    assert server.arrivals == []


def test_without_an_endpoint_the_judge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMFIN_JUDGE_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="no judge endpoint: set MEMFIN_JUDGE_BASE_URL") as refused:
        resolve_judge("openai:gpt")
    assert len(str(refused.value).splitlines()) == 1


def test_what_is_no_name_of_a_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    for reference in ("openai:", "openai: ", "openai:a\nb"):
        with pytest.raises(UsageError, match="name the model"):
            resolve_judge(reference)


def test_a_key_that_no_header_can_carry_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("MEMFIN_JUDGE_API_KEY", "schlüssel")
    with pytest.raises(UsageError, match="MEMFIN_JUDGE_API_KEY") as refused:
        resolve_judge("openai:m", setup=JudgeSetup())
    assert "schlüssel" not in str(refused.value)


def completion(content: str | None, finish: str = "stop", **message: str) -> dict[str, Any]:
    """Return the document of a whole answer."""
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}


class Completes(FaultyServer):
    """Answers with whole documents."""

    def __init__(self, document: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__()
        self._document = document

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        return web.json_response(self._document(body))


def sound(body: dict[str, Any], **changes: Any) -> str:
    return json.dumps({**json.loads(verdict(body)), **changes})


async def outcome_of(tmp_path: Path, content: Callable[[dict[str, Any]], str]) -> Any:
    """Return what a judge with two attempts makes of one reply, and how often it asked."""
    async with (
        FaultyServer(responder=content) as server,
        judge_of(server, tmp_path, attempts=2) as (judge, _),
    ):
        result = await judge.deliberate(REQUEST)
    return result.outcome, result.votes[0], len(server.arrivals)


@pytest.mark.parametrize(
    "before",
    ['<think>\nlet me see: {"score": 1}\n</think>\n\n', "  <think></think>", "<think>字</think>```json\n"],
)
async def test_thoughts_before_the_answer_are_taken_off(tmp_path: Path, before: str) -> None:
    after = "\n```" if before.endswith("```json\n") else ""
    outcome, vote, _ = await outcome_of(tmp_path, lambda body: before + sound(body) + after)
    assert isinstance(outcome, Verdict)
    assert outcome.score == 4.0
    assert (vote.raw_answer or "").startswith(before)


@pytest.mark.parametrize(
    ("wrapped", "said"),
    [
        ("So: <think>a</think>{}", "it begins 'So: <think>a</think>{"),
        ("<think>a</think><think>b</think>{}", "is not JSON"),
        ("<thinking>a</thinking>{}", "is not JSON"),
        ("<think>a", "never closed"),
        ("<think>a</think>", "the JSON is missing"),
        ("{}<think>a</think>", "its JSON is followed by '<think>a</think>'"),
        (
            "Here you are: {}",
            "the answer is not JSON: Expecting value at character 0; it begins 'Here you are",
        ),
    ],
)
async def test_only_one_block_of_thoughts_at_the_very_beginning_is(
    tmp_path: Path, wrapped: str, said: str
) -> None:
    outcome, vote, asked = await outcome_of(tmp_path, lambda body: wrapped.replace("{}", sound(body)))
    assert isinstance(outcome, JudgeFailure)
    assert said in outcome.reason
    assert len(outcome.reason.splitlines()) == 1
    assert asked == 2
    assert (vote.prompt_tokens, vote.completion_tokens) == (20, 10)


async def test_a_whole_score_may_be_written_with_a_point(tmp_path: Path) -> None:
    outcome, _, _ = await outcome_of(tmp_path, lambda body: sound(body, score=3.0))
    assert isinstance(outcome, Verdict)
    assert outcome.score == 3.0


@pytest.mark.parametrize("score", ["4.5", "6", "0", "true", '"5"', "1e400", "NaN", "null"])
async def test_any_other_score_is_none(tmp_path: Path, score: str) -> None:
    outcome, _, _ = await outcome_of(tmp_path, lambda body: sound(body, score="@").replace('"@"', score))
    assert isinstance(outcome, JudgeFailure)
    assert "not a verdict" in outcome.reason


async def test_a_number_without_end_is_told_in_plain_words(tmp_path: Path) -> None:
    outcome, _, _ = await outcome_of(tmp_path, lambda body: sound(body, score="@").replace('"@"', "9" * 6000))
    assert isinstance(outcome, JudgeFailure)
    assert outcome.reason.endswith("the answer is not a verdict: it has a number of 6000 digits")


@pytest.mark.parametrize("content", ["{", "", None])
@pytest.mark.parametrize("limit", [64, 4096])
async def test_an_answer_longer_than_its_limit_is_paid_once(
    tmp_path: Path, limit: int, content: str | None
) -> None:
    async with (
        Completes(lambda _: completion(content, "length")) as server,
        judge_of(server, tmp_path, max_tokens=limit) as (judge, _),
    ):
        assert judge.settings["max_tokens"] == limit
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, JudgeFailure)
    said = f"the answer is longer than {limit} tokens; --judge-max-tokens allows more"
    assert said in result.outcome.reason
    assert result.outcome.declined is None
    assert [arrival.body["max_tokens"] for arrival in server.arrivals] == [limit]
    if content:
        assert (result.votes[0].prompt_tokens, result.votes[0].completion_tokens) == (10, 5)


async def test_the_limit_of_an_answer_is_part_of_the_cached_question(tmp_path: Path) -> None:
    async with FaultyServer(responder=verdict) as server:
        for limit in (100, 200, 100):
            async with judge_of(server, tmp_path, cache="write", max_tokens=limit) as (judge, _):
                await judge.judge(REQUEST)
    assert [arrival.body["max_tokens"] for arrival in server.arrivals] == [100, 200]


@pytest.mark.parametrize(
    "answer",
    [
        lambda body: completion(None, refusal="I will not"),
        lambda body: completion("", "content_filter"),
        lambda body: completion(sound(body)[:30], "content_filter"),
    ],
    ids=["refusal", "filter", "filter_cut"],
)
async def test_a_refusal_is_told_apart_from_other_failures(tmp_path: Path, answer: Any) -> None:
    async with Completes(answer) as server, judge_of(server, tmp_path, attempts=2) as (judge, _):
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, JudgeFailure)
    assert (result.outcome.declined, len(server.arrivals)) == ("refused", 2)


class Withholds(FaultyServer):
    """Refuses every prompt as a provider's policy filter does: HTTP 400 with a code."""

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        error = {"message": "the prompt was filtered", "code": "content_filter"}
        return web.json_response({"error": error}, status=400)


async def test_a_filtered_prompt_is_a_refusal_and_no_question_of_format(tmp_path: Path) -> None:
    async with Withholds() as server, judge_of(server, tmp_path) as (judge, _):
        result = await judge.deliberate(REQUEST)
    assert isinstance(result.outcome, JudgeFailure)
    assert result.outcome.declined == "refused"
    assert len(server.arrivals) == 1
