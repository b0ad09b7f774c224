"""Models as agents: conversation, memory, tools, usage, failures; the model is a loopback server."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.agents.memory_context import MemoryContext
from memfin.agents.openai import OpenAIAgents, Tool
from memfin.agents.openai.agent import MAX_ROUNDS
from memfin.agents.openai.prompts import shipped_prompt
from memfin.contracts import ConfigFile, RunManifest, RunStats
from memfin.contracts.reading import decode
from memfin.errors import UsageError
from memfin.memory.tokens import estimate_tokens
from memfin.runtime import run_eval_parallel
from memfin.runtime.plan import make_plan
from tests.client.faulty_server import FaultyServer
from tests.support import dataset, dialog, read_jsonl, write_jsonl

REPLY = "市场存在不确定性，本金可能亏损。"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMFIN_AGENT_BASE_URL", "MEMFIN_AGENT_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("memfin.agents.replay.FIRST_BACKOFF", 0.001)


async def evaluated(
    server: FaultyServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    agent: Any = "openai:small",
    run_id: str = "r",
    dialogs: int = 1,
    turns: int = 3,
    **config: Any,
) -> list[dict[str, Any]]:
    """Run against the server and return the turns of the first dialogue."""
    monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", server.base_url)
    data = dataset(tmp_path / "data.jsonl", dialogs, turns)
    made: Any = agent() if callable(agent) else agent
    settings: dict[str, Any] = {"trace_version": "v1.1", "judge": "none"} | config
    await memfin.evaluate(data, agent=made, runs_dir=tmp_path, run_id=run_id, **settings)
    traces = read_jsonl(tmp_path / run_id / "dialog_trace.jsonl")
    found: list[dict[str, Any]] = next(each for each in traces if each["dialog_id"] == "d0000")["turns"]
    return found


def asked(server: FaultyServer) -> list[list[tuple[str, str]]]:
    """Return role and content of the messages of each request."""
    return [
        [(message["role"], message["content"]) for message in arrival.body["messages"]]
        for arrival in server.arrivals
    ]


def user(number: int) -> str:
    return str(dialog("d0000", number)["turns"][2 * number - 2]["text"])


def statuses(turns: list[dict[str, Any]]) -> list[str]:
    return [turn["turn_status"] for turn in turns]


async def test_a_model_hears_the_dialogue_and_its_own_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(responder=lambda body: f"reply {len(body['messages']) // 2}") as server:
        turns = await evaluated(server, tmp_path, monkeypatch, seed=7, agent_max_tokens=50)
        system = shipped_prompt().text("zh")
        assert asked(server)[2] == [
            ("system", system),
            ("user", user(1)),
            ("assistant", "reply 1"),
            ("user", user(2)),
            ("assistant", "reply 2"),
            ("user", user(3)),
        ]
        body = server.arrivals[0].body
        assert {
            name: body.get(name) for name in ("model", "temperature", "seed", "max_tokens", "stream")
        } == {
            "model": "small",
            "temperature": 0.0,
            "seed": 7,
            "max_tokens": 50,
            "stream": True,
        }
        assert "tools" not in body
    assert [turn["pred_assistant_text"] for turn in turns] == ["reply 1", "reply 2", "reply 3"]
    assert [turn["tools"] for turn in turns] == [[]] * 3


async def test_in_forced_history_the_model_hears_the_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(responder=lambda body: "own") as server:
        await evaluated(server, tmp_path, monkeypatch, history="forced")
        replies = [content for role, content in asked(server)[2] if role == "assistant"]
    assert replies == [dialog("d", 2)["turns"][number]["text"] for number in (1, 3)]


@pytest.mark.parametrize("streams", [True, False])
async def test_tokens_and_latency_are_recorded(
    streams: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(usage=(100, 20), streams=streams) as server:
        turns = await evaluated(server, tmp_path, monkeypatch, dialogs=3)
        usage = turns[0]["usage"]
        assert {name: usage[name] for name in ("model", "calls", "prompt_tokens", "completion_tokens")} == {
            "model": "small",
            "calls": 1,
            "prompt_tokens": 100,
            "completion_tokens": 20,
        }
        assert usage["latency_ms"] > 0
        assert (usage["first_token_ms"] is not None) is streams
        if streams:
            assert 0 < usage["first_token_ms"] <= usage["latency_ms"]
        await evaluated(server, tmp_path, monkeypatch, run_id="v1", trace_version="v1")
    stats = decode((tmp_path / "r" / "run_stats.json").read_bytes(), RunStats)
    assert stats.usage is not None
    assert (stats.usage.calls, stats.usage.prompt_tokens, stats.usage.completion_tokens) == (9, 900, 180)
    assert (stats.usage.model, stats.usage.unmetered_calls) == ("small", 0)
    (trace,) = read_jsonl(tmp_path / "v1" / "dialog_trace.jsonl")
    assert all("usage" not in turn for turn in trace["turns"])
    plain = decode((tmp_path / "v1" / "run_stats.json").read_bytes(), RunStats)
    assert plain.usage is not None
    assert plain.usage.calls == 3


async def test_agents_count_anew_with_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultyServer() as server:
        monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", server.base_url)
        agents = OpenAIAgents("small")
        for run_id in ("first", "second"):
            await evaluated(server, tmp_path, monkeypatch, agent=lambda: agents, run_id=run_id)
            stats = decode((tmp_path / run_id / "run_stats.json").read_bytes(), RunStats)
            assert stats.usage is not None
            assert stats.usage.calls == 3


async def test_a_server_that_counts_no_tokens_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(usage=None) as server:
        turns = await evaluated(server, tmp_path, monkeypatch)
    assert [(turn["usage"]["unmetered_calls"], turn["usage"]["prompt_tokens"]) for turn in turns] == [
        (1, 0)
    ] * 3


async def test_a_refusal_in_the_models_words_is_its_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(script=["refusal"]) as server:
        turns = await evaluated(server, tmp_path, monkeypatch)
    assert (turns[0]["turn_status"], turns[0]["pred_assistant_text"]) == ("ok", "I cannot help with that.")


# --- memory


async def test_the_builtin_memory_stands_before_the_model_and_is_recorded_as_recall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(responder=lambda body: REPLY) as server:
        turns = await evaluated(server, tmp_path, monkeypatch, agent_memory="builtin", turns=6)
        last = server.arrivals[-1].body["messages"]
        reference = await evaluated(
            server, tmp_path, monkeypatch, agent="builtin", run_id="reference", turns=6, history="forced"
        )
        del server.arrivals[:]
        forced = await evaluated(
            server, tmp_path, monkeypatch, agent_memory="builtin", run_id="forced", turns=6, history="forced"
        )
    recall = turns[5]["recall"]
    for line in recall["profile_context"].splitlines():
        assert line in last[0]["content"]
    for item in recall["items"]:
        assert item["content"] in last[0]["content"]
    said = [(message["role"], message["content"]) for message in last[1:]]
    assert said == [
        *((each["role"], each["content"]) for each in recall["short_term_turns"]),
        ("user", user(6)),
    ]
    assert (len(said), len(recall["items"])) == (7, 2)  # three exchanges word for word, two recalled
    assert "不使用杠杆" in recall["profile_context"]
    assert turns[5]["profile_snapshot"]["constraints"] == ["不使用杠杆"]
    for ours, theirs in zip(forced, reference, strict=True):  # the same memory as the built-in agent's
        assert (ours["recall"], ours["profile_snapshot"]) == (
            json.loads(json.dumps(theirs["recall"]).replace("session_reference", "session_forced")),
            theirs["profile_snapshot"],
        )


async def test_what_a_model_was_sent_counts_as_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(responder=lambda body: REPLY) as server:
        turns = await evaluated(server, tmp_path, monkeypatch)
    recall = turns[1]["recall"]
    assert recall["short_term_context"] == f"user: {user(1)}\nassistant: {REPLY}" == recall["packed_context"]
    rows = read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
    assert [row["key_hit_flags"] for row in rows] == [[0, 0], [1, 1], [1, 1]]
    assert [row["m1_source_hits"]["short_term"] for row in rows] == [0, 2, 2]


async def test_memory_is_asked_once_however_often_a_turn_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(responder=lambda body: REPLY) as server:
        sound = await evaluated(server, tmp_path, monkeypatch, agent_memory="builtin", run_id="r")
    async with FaultyServer(
        script=["503", "reset", None, "429", None, "502"], responder=lambda body: REPLY
    ) as server:
        (tmp_path / "x").mkdir()
        faulty = await evaluated(server, tmp_path / "x", monkeypatch, agent_memory="builtin", run_id="r")
        assert len(server.arrivals) == 7
    for turn in [*sound, *faulty]:
        turn.pop("latency_ms")
        turn.pop("usage")
    assert faulty == sound


class OwnMemory:
    """A memory of plain functions that leaves the history to the agent."""

    def __init__(self, session: memfin.Session) -> None:
        self.told: list[tuple[str, str]] = []
        self.closed = False
        MEMORIES.append(self)

    def recall(self, user_text: str) -> MemoryContext:
        return MemoryContext(
            context=f"facts: {len(self.told)}",
            recall={"query": user_text, "items": [{"content": "fact"}]},
            profile={"risk_level": "low"},
        )

    def record(self, user_text: str, assistant_text: str) -> None:
        self.told.append((user_text, assistant_text))

    def close(self) -> None:
        self.closed = True


MEMORIES: list[OwnMemory] = []


async def test_a_memory_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del MEMORIES[:]
    async with FaultyServer(responder=lambda body: "a") as server:
        turns = await evaluated(server, tmp_path, monkeypatch, agent_memory=f"{__name__}:OwnMemory")
        assert [messages[0][1].endswith(f"facts: {number}") for number, messages in enumerate(asked(server))]
        assert [len(messages) for messages in asked(server)] == [2, 4, 6]
    assert turns[2]["recall"]["items"][0]["content"] == "fact"
    sent = [turn["content"] for turn in turns[2]["recall"]["short_term_turns"]]
    assert sent == [user(1), "a", user(2), "a"]
    assert turns[2]["profile_snapshot"] == {"risk_level": "low"}
    assert [(memory.told, memory.closed) for memory in MEMORIES] == [
        ([(user(1), "a"), (user(2), "a"), (user(3), "a")], True)
    ]


def unreported(session: Any) -> Any:
    class Memory(OwnMemory):
        def recall(self, user_text: str) -> MemoryContext:
            return MemoryContext(context="fact", turns=[])

    return Memory(session)


async def test_a_context_that_the_memory_does_not_report_is_a_recalled_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer() as server:
        turns = await evaluated(server, tmp_path, monkeypatch, agent_memory=f"{__name__}:unreported")
    recalls = [turn["recall"] for turn in turns]
    assert [(each["items"][0]["content"], each["short_term_turns"]) for each in recalls] == [("fact", [])] * 3


def no_context(session: Any) -> Any:
    class Memory:
        async def recall(self, user_text: str) -> str:
            return "text"

    return Memory()


def broken(session: Any) -> Any:
    raise OSError("no database")


@pytest.mark.parametrize(
    ("memory", "error"),
    [
        (no_context, "memory: returned str; expected MemoryContext"),
        (broken, "memory: OSError: no database"),
    ],
)
async def test_what_a_memory_does_wrong_is_the_turns_error(
    memory: Callable[..., Any], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer() as server:
        turns = await evaluated(
            server, tmp_path, monkeypatch, agent=lambda: OpenAIAgents("small", memory=memory)
        )
    assert [(turn["turn_status"], turn["error"]) for turn in turns] == [("error", error)] * 3


# --- tools


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*rounds: list[dict[str, Any]]) -> Callable[[dict[str, Any]], Any]:
    """Answer the requests of a turn with rounds of tool calls, then with what the tools said."""

    def respond(body: dict[str, Any]) -> Any:
        results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        done = sum(message["role"] == "assistant" and "tool_calls" in message for message in body["messages"])
        if done < len(rounds):
            return {"role": "assistant", "content": "let me see", "tool_calls": rounds[done]}
        return " | ".join(results) or "no tools"

    return respond


def quote(symbol: str, days: int = 1) -> dict[str, Any]:
    """Return the price of a fund."""
    return {"symbol": symbol, "price": 1.5 * days}


async def slow_quote(symbol: str) -> str:
    return f"{symbol}: 2"


def failing() -> None:
    raise KeyError("no such fund")


def exiting() -> None:
    raise SystemExit(3)


async def test_tools_are_offered_executed_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = [
        [call(1, "quote", '{"symbol": "A"}'), call(2, "slow_quote", '{"symbol": "B"}')],
        [call(3, "quote", '{"symbol": "C", "days": 2}')],
    ]
    async with FaultyServer(responder=calling(*rounds), usage=(10, 1)) as server:
        turns = await evaluated(
            server,
            tmp_path,
            monkeypatch,
            turns=1,
            agent=lambda: OpenAIAgents("small", tools={"quote": quote, "slow_quote": slow_quote}),
        )
        offers = server.arrivals[0].body["tools"]
        second = server.arrivals[1].body["messages"]
    assert offers[0] == {
        "type": "function",
        "function": {
            "name": "quote",
            "description": "Return the price of a fund.",
            "parameters": {
                "type": "object",
                "properties": {"symbol": {"type": "string"}, "days": {"type": "integer", "default": 1}},
                "required": ["symbol"],
                "additionalProperties": False,
            },
        },
    }
    assert [message["role"] for message in second] == ["system", "user", "assistant", "tool", "tool"]
    assert [made["id"] for made in second[2]["tool_calls"]] == ["c1", "c2"]
    assert (second[3]["tool_call_id"], second[4]["content"]) == ("c2", "B: 2") or second[4][
        "tool_call_id"
    ] == "c2"
    assert turns[0]["pred_assistant_text"] == '{"symbol":"A","price":1.5} | B: 2 | {"symbol":"C","price":3.0}'
    assert [(tool["tool_name"], tool["args"], tool["error"]) for tool in turns[0]["tools"]] == [
        ("quote", {"symbol": "A"}, None),
        ("slow_quote", {"symbol": "B"}, None),
        ("quote", {"symbol": "C", "days": 2}, None),
    ]
    assert turns[0]["tools"][1]["result_excerpt"] == "B: 2"
    assert all(tool["latency_ms"] >= 0 for tool in turns[0]["tools"])
    assert (turns[0]["usage"]["calls"], turns[0]["usage"]["prompt_tokens"]) == (3, 30)


@pytest.mark.parametrize(
    ("made", "args", "error"),
    [
        (call(1, "elsewhere", '{"a": 1}'), {"a": 1}, "this tool is not available"),
        (
            call(1, "quote", '{"symbol": 5}'),
            {"symbol": 5},
            "the arguments do not fit: Expected `str`, got `int`",
        ),
        (call(1, "quote", '{"x": 5}'), {"x": 5}, "the arguments do not fit: Object contains unknown field"),
        (call(1, "quote", "{nonsense"), "{nonsense", "the arguments are no JSON object"),
        (call(1, "quote", "[1]"), "[1]", "the arguments are no JSON object"),
        (call(1, "failing", ""), {}, "KeyError: 'no such fund'"),
        (call(1, "exiting", "{}"), {}, "the tool called sys.exit(3)"),
        (
            call(1, "odd", "{}"),
            {},
            "the result has no JSON form: Encoding objects of type object is unsupported",
        ),
        (call(1, "hidden", '{"anything": [1]}'), {"anything": [1]}, None),
    ],
)
async def test_a_call_that_fails_is_recorded_and_told_to_the_model(
    made: dict[str, Any], args: Any, error: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools: dict[str, Any] = {
        "quote": quote,
        "failing": failing,
        "exiting": exiting,
        "odd": Tool(function=object, parameters={"type": "object"}),
        "hidden": Tool(function=lambda **given: given, description="d", parameters={"type": "object"}),
    }
    async with FaultyServer(responder=calling([made])) as server:
        turns = await evaluated(
            server, tmp_path, monkeypatch, turns=1, agent=lambda: OpenAIAgents("small", tools=tools)
        )
        again = server.arrivals[1].body["messages"][2]["tool_calls"][0]["function"]["arguments"]
    (tool,) = turns[0]["tools"]
    assert isinstance(json.loads(again), dict)
    assert tool["args"] == args
    if error is None:
        assert tool["error"] is None
        assert turns[0]["pred_assistant_text"] == '{"anything":[1]}'
    else:
        assert tool["error"].startswith(error)
        assert turns[0]["pred_assistant_text"].startswith(f"error: {error}")


async def test_a_model_without_tools_that_calls_one_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(responder=calling([call(1, "search", '{"q": "x"}')])) as server:
        turns = await evaluated(server, tmp_path, monkeypatch, turns=1)
    assert [(tool["tool_name"], tool["error"]) for tool in turns[0]["tools"]] == [
        ("search", "this tool is not available")
    ]
    assert turns[0]["turn_status"] == "ok"


async def test_a_model_that_only_calls_tools_comes_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond(body: dict[str, Any]) -> Any:
        return {"role": "assistant", "content": "", "tool_calls": [call(1, "quote", '{"symbol": "A"}')] * 40}

    async with FaultyServer(responder=respond) as server:
        turns = await evaluated(
            server,
            tmp_path,
            monkeypatch,
            turns=1,
            agent=lambda: OpenAIAgents("small", tools={"quote": quote}),
        )
        assert len(server.arrivals) == MAX_ROUNDS + 1
        assert [arrival.body.get("tool_choice") for arrival in server.arrivals] == [None] * MAX_ROUNDS + [
            "none"
        ]
    assert turns[0]["error"] == f"the model went on calling tools after {MAX_ROUNDS} rounds"
    assert len(turns[0]["tools"]) == MAX_ROUNDS * 16


async def test_no_tool_is_called_twice_when_a_request_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def buy(symbol: str) -> str:
        calls.append(symbol)
        return "done"

    rounds = [[call(1, "buy", '{"symbol": "A"}')], [call(2, "buy", '{"symbol": "B"}')]]
    script = [None, "503", "reset", None, "502", None]
    async with FaultyServer(script=script, responder=calling(*rounds)) as server:
        turns = await evaluated(
            server,
            tmp_path,
            monkeypatch,
            turns=1,
            turn_retries=5,
            agent=lambda: OpenAIAgents("small", tools={"buy": buy}),
        )
    assert calls == ["A", "B"]
    assert turns[0]["pred_assistant_text"] == "done | done"
    assert (len(turns[0]["tools"]), turns[0]["usage"]["calls"]) == (2, 3)


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ({"a": 5}, "tool 'a': expected a function, got int"),
        ({"a": lambda *rest: 1}, "tool 'a': no schema can be made of its signature (parameter 'rest'"),
        ({"a": lambda x, /: 1}, "tool 'a': no schema can be made"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_refused(
    tools: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(UsageError) as refused:
        OpenAIAgents("m", tools=tools)
    assert str(refused.value).startswith(message)


# --- the budget of the prompt


async def test_the_oldest_turns_are_left_out_whole_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = tmp_path / "prompt.md"
    prompt.write_text("be brief", "utf-8")
    one = estimate_tokens(user(1)) + estimate_tokens("answer 1") + 8
    budget = estimate_tokens("be brief") + 4 + estimate_tokens(user(9)) + 4 + 2 * one
    async with FaultyServer(responder=lambda body: "answer 1") as server:
        turns = await evaluated(
            server,
            tmp_path,
            monkeypatch,
            turns=5,
            agent_system=str(prompt),
            agent_context_tokens=budget,
        )
        assert [len(messages) for messages in asked(server)] == [2, 4, 6, 6, 6]
        assert asked(server)[4][1] == ("user", user(3))
        assert all(messages[0] == ("system", "be brief") for messages in asked(server))
        sent = [messages[1:-1] for messages in asked(server)]
    recalled = [turn["recall"]["short_term_turns"] for turn in turns]
    assert [[(each["role"], each["content"]) for each in utterances] for utterances in recalled] == sent
    assert [turn["usage"]["trimmed_turns"] for turn in turns] == [0, 0, 0, 1, 2]
    stats = decode((tmp_path / "r" / "run_stats.json").read_bytes(), RunStats)
    assert stats.usage is not None
    assert stats.usage.trimmed_turns == 3


async def test_recall_tells_what_was_left_of_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(responder=lambda body: "长" * 400) as server:
        turns = await evaluated(
            server, tmp_path, monkeypatch, turns=4, agent_memory="builtin", agent_context_tokens=1200
        )
        last = server.arrivals[-1].body["messages"]
    recall = turns[3]["recall"]
    assert turns[3]["usage"]["trimmed_turns"] > 0
    told = [(each["role"], each["content"]) for each in recall["short_term_turns"]]
    assert told == [(message["role"], message["content"]) for message in last[1:-1]]
    assert recall["short_term_context"] == "\n".join(f"{role}: {content}" for role, content in told)


async def test_turns_without_a_reply_stay_in_the_history_as_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(script=[None, "400"], responder=lambda body: "a") as server:
        turns = await evaluated(server, tmp_path, monkeypatch)
        assert asked(server)[2][1:] == [
            ("user", user(1)),
            ("assistant", "a"),
            ("user", f"{user(2)}\n\n{user(3)}"),
        ]
    assert statuses(turns) == ["ok", "error", "ok"]


# --- failures


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("400", "HTTP 400: this is fault 400"),
        ("401", "HTTP 401: this is fault 401; look at MEMFIN_AGENT_API_KEY (not set)"),
        ("quota", "HTTP 429: You exceeded your quota"),
        ("redirect", "HTTP 307"),
    ],
)
async def test_a_lasting_failure_is_the_turns_error_in_one_line(
    fault: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer(script=[None, fault]) as server:
        turns = await evaluated(server, tmp_path, monkeypatch)
        assert len(server.arrivals) == 3
        assert turns[1]["error"].startswith(f"{server.base_url}: {said}")
    assert statuses(turns) == ["ok", "error", "ok"]


@pytest.mark.parametrize(
    "fault",
    ["429", "429_garbage", "429_zero", "500", "503", "reset", "truncated_chunked", "invalid_json", "html"],
)
async def test_a_passing_failure_is_retried_within_bounds(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [fault, None, fault, fault, None, fault, fault, fault]
    async with FaultyServer(script=script, streams=False) as server:
        turns = await evaluated(server, tmp_path, monkeypatch)
        assert len(server.arrivals) == 8
    assert statuses(turns) == ["ok", "ok", "error"]
    assert turns[2]["error"].startswith("TransportError: http://127.0.0.1:")


async def test_every_reply_of_a_faulty_run_is_that_of_a_sound_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond(body: dict[str, Any]) -> str:
        return hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()

    replies: list[list[str]] = []
    for share in (0.0, 0.3):
        faults = [
            "429_zero",
            "500",
            "503",
            "reset",
            "closed",
            "truncated_chunked",
            "invalid_json",
            "wrong_schema",
        ]
        runs = tmp_path / str(share)
        runs.mkdir()
        async with FaultyServer(share=share, faults=faults, responder=respond) as server:
            await evaluated(server, runs, monkeypatch, dialogs=20, agent_memory="builtin", turn_retries=20)
            assert (len(server.arrivals) > 60) is (share > 0)
        traces = sorted(read_jsonl(runs / "r" / "dialog_trace.jsonl"), key=lambda trace: trace["dialog_id"])
        replies.append([turn["pred_assistant_text"] for trace in traces for turn in trace["turns"]])
    assert replies[0] == replies[1]
    assert len(set(replies[0])) == 60


async def test_a_turn_over_its_time_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultyServer(script=[None, "hang"]) as server:
        turns = await evaluated(server, tmp_path, monkeypatch, turn_timeout=4.0)
    assert statuses(turns) == ["ok", "timeout", "ok"]


async def test_connections_are_shared_by_dialogues_and_closed_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[int] = []

    def respond(body: dict[str, Any]) -> str:
        most.append(server.open_connections)
        return "a"

    async with FaultyServer(responder=respond) as server:
        await evaluated(server, tmp_path, monkeypatch, dialogs=12, workers_dialog=3)
        assert max(most) <= 3
        while server.open_connections:  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.001)


# --- settings


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://canary:geheim@127.0.0.1:1/v1")
    return "http://127.0.0.1:1/v1"


def inputs(tmp_path: Path, **settings: Any) -> dict[str, Any]:
    plan = make_plan(dataset(tmp_path / "d.jsonl", 1), **{"agent": "openai:m", **settings})
    text = str(plan.fingerprint_inputs)
    assert "geheim" not in text
    assert "canary" not in text
    return plan.fingerprint_inputs


def test_what_changes_the_answers_changes_the_fingerprint(tmp_path: Path, endpoint: str) -> None:
    prompt = tmp_path / "p.md"
    prompt.write_text("one", "utf-8")
    variants: list[dict[str, Any]] = [
        {},
        {"agent": "openai:other"},
        {"agent_memory": "builtin"},
        {"agent_temperature": 0.5},
        {"agent_max_tokens": 9},
        {"agent_context_tokens": 9},
        {"seed": 1},
        {"agent_system": str(prompt)},
        {"agent": OpenAIAgents("m", tools={"quote": quote})},
    ]
    seen = [json.dumps(inputs(tmp_path, **each), sort_keys=True) for each in variants]
    prompt.write_text("two", "utf-8")
    seen.append(json.dumps(inputs(tmp_path, agent_system=str(prompt)), sort_keys=True))
    assert len(set(seen)) == len(seen) == 10
    told = inputs(tmp_path)["agent_settings"]
    assert told["base_url"] == endpoint
    text = shipped_prompt().text("zh")
    assert told["system_prompt_sha256"]["zh"] == hashlib.sha256(text.encode()).hexdigest()


async def test_keys_are_written_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFIN_AGENT_API_KEY", "canary-key-77")
    seen: list[str] = []

    def leak(body: dict[str, Any]) -> str:
        seen.append(server.arrivals[-1].headers["Authorization"])
        return f"the key is {seen[-1]}"

    async with FaultyServer(responder=leak, script=[None, "400"]) as server:
        await evaluated(server, tmp_path, monkeypatch)
    assert seen == ["Bearer canary-key-77"] * 2
    assert b"canary" not in everything_in(tmp_path)


def everything_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def refused(tmp_path: Path, agent: str = "openai:m", **settings: Any) -> str:
    with pytest.raises(UsageError) as refusal:
        run_eval_parallel(
            dataset(tmp_path / "d.jsonl", 1), agent_factory=agent, runs_dir=tmp_path / "runs", **settings
        )
    assert not (tmp_path / "runs").exists()
    message = str(refusal.value)
    assert len(message.splitlines()) == 1
    return message


def test_a_missing_endpoint_is_told_before_anything_is_written(tmp_path: Path) -> None:
    assert refused(tmp_path).startswith(
        "no agent endpoint: set MEMFIN_AGENT_BASE_URL (or OPENAI_BASE_URL) to the base URL"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent": "openai:"}, "agent 'openai:': name the model"),
        (
            {"agent_memory": "nonsense"},
            "agent memory 'nonsense': unknown reference; known forms: none, builtin or",
        ),
        ({"agent_memory": "json:nothing"}, "agent memory 'json:nothing': module 'json' has no 'nothing'"),
        ({"agent_system": "/nowhere/p.md"}, "agent system prompt /nowhere/p.md: No such file or directory"),
        ({"agent_temperature": -1.0}, "setting agent_temperature: must be at least 0"),
        ({"agent_max_tokens": 0}, "setting agent_max_tokens: must be at least 1"),
    ],
)
def test_unusable_settings_are_told_before_anything_is_written(
    settings: dict[str, Any], message: str, tmp_path: Path, endpoint: str
) -> None:
    assert refused(tmp_path, **settings).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff", "is not UTF-8"),
        (b"x" * 1_048_577, "is larger than"),
    ],
)
def test_an_unusable_system_prompt_is_refused(
    content: bytes, message: str, tmp_path: Path, endpoint: str
) -> None:
    (tmp_path / "p.md").write_bytes(content)
    assert message in refused(tmp_path, agent_system=str(tmp_path / "p.md"))


async def test_the_system_prompt_speaks_the_clients_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultyServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        data = write_jsonl(tmp_path / "en.jsonl", [dialog("d0000", 1, language="en")])
        await memfin.evaluate(data, agent="openai:m", runs_dir=tmp_path, run_id="r", judge="none")
        assert asked(server)[0][0] == ("system", shipped_prompt().text("en"))
    manifest = decode((tmp_path / "r" / "run_manifest.json").read_bytes(), RunManifest)
    config = decode((tmp_path / "r" / "config.json").read_bytes(), ConfigFile)
    assert (manifest.model_name, config.settings.agent) == ("m", "openai:m")
