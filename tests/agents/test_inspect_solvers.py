"""Solvers and agents of inspect_ai as agents under test, with a model of their own, where it is installed."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from memfin import read_run
from memfin.agents.registry import resolve_agent
from memfin.contracts import DialogTrace
from memfin.errors import UsageError
from memfin.runtime.api import evaluate
from tests.support import dataset

inspect_ai = pytest.importorskip("inspect_ai", reason="the extra memfin[inspect] is not installed")
agents, models, solvers, tools, util = (
    pytest.importorskip(f"inspect_ai.{name}") for name in ("agent", "model", "solver", "tool", "util")
)

Evaluations = pytest.importorskip("memfin.agents.adapters.inspect_ai").Evaluations
pytestmark = [  # the library's own
    pytest.mark.filterwarnings(f"ignore::{name}")
    for name in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
]


@tools.tool  # type: ignore[untyped-decorator, unused-ignore]
def price() -> Any:
    async def execute(fund: str) -> str:
        """Return the price of a fund.

        Args:
            fund: Name of the fund.
        """
        if fund == "none":
            raise tools.ToolError("no such fund")
        return f"{fund} costs 12.5"

    return execute


def answer(messages: Any) -> Any:
    """Return a call of a tool for a user's words, the last text and the number of messages after a tool."""
    if messages[-1].role == "user":
        fund = "none" if "q2" in messages[-1].text else "A"
        output = models.ModelOutput.for_tool_call("funds/model", "price", {"fund": fund})
    else:
        users = sum(each.role == "user" for each in messages)
        output = models.ModelOutput.from_content("funds/model", f"{messages[-1].text} ({users})")
    output.usage = models.ModelUsage(input_tokens=10, output_tokens=2, total_tokens=12)
    return output


@models.modelapi(name="funds")  # type: ignore[untyped-decorator, unused-ignore]
class Funds(models.ModelAPI):  # type: ignore[misc, name-defined, unused-ignore]
    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> Any:  # noqa: A002
        return answer(input)


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("INSPECT_EVAL_MODEL", "funds/model")
    yield
    gc.collect()  # the library's streams, which are never closed, while their warnings are ignored


@solvers.solver  # type: ignore[untyped-decorator, unused-ignore]
def counting() -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        util.store().set("turns", util.store().get("turns", 0) + 1)
        state = await generate(state)
        state.output.completion += f" turn {state.store.get('turns')}"
        return state

    return solve


@agents.agent  # type: ignore[untyped-decorator, unused-ignore]
def adviser() -> Any:
    async def execute(state: Any) -> Any:
        messages, state.output = await models.get_model().generate_loop(state.messages, tools=[price()])
        state.messages.extend(messages)
        return state

    return execute


def chained() -> Any:
    return solvers.chain(solvers.system_message("Be brief."), solvers.use_tools(price()), counting())


async def traces(agent: Any, path: Path, **settings: Any) -> list[DialogTrace]:
    data = dataset(path / "data.jsonl", 2)
    await evaluate(data, agent=agent, run_id="r", runs_dir=str(path), workers_score=0, **settings)
    return list(read_run(path / "r").traces())


async def test_a_solver_answers_every_turn_with_tools_history_and_a_store(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = await traces(chained(), tmp_path, trace_version="v1.1")
    assert capfd.readouterr().out == ""
    for trace in found:
        assert {turn.turn_status for turn in trace.turns} == {"ok"}, trace.turns[0].error
        for number, turn in enumerate(trace.turns, 1):
            assert turn.pred_assistant_text == f"A costs 12.5 ({number}) turn {number}"
            (call,) = turn.tools
            assert (call.tool_name, call.args, call.result_excerpt) == (
                "price",
                {"fund": "A"},
                "A costs 12.5",
            )
            assert call.latency_ms is not None
            assert turn.recall is not None
            assert [each.role for each in turn.recall.short_term_turns] == ["user", "assistant"] * (
                number - 1
            )
            assert turn.recall.packed_context.startswith("system: Be brief.\nuser: ")
            assert turn.usage
            assert (turn.usage.model, turn.usage.calls, turn.usage.prompt_tokens) == ("funds/model", 2, 20)


@pytest.mark.parametrize("agent", [adviser, adviser()])
async def test_an_agent_answers_and_remembers_the_reference_in_forced_history(
    agent: Any, tmp_path: Path
) -> None:
    for trace in await traces(agent, tmp_path, history="forced"):
        for number, turn in enumerate(trace.turns, 1):
            assert turn.pred_assistant_text == f"A costs 12.5 ({number})"
            assert turn.recall is not None
            said = [each.content for each in turn.recall.short_term_turns if each.role == "assistant"]
            assert said == [each.gt_assistant_text for each in trace.turns[: number - 1]]


@agents.agent  # type: ignore[untyped-decorator, unused-ignore]
def researcher() -> Any:
    return agents.react(tools=[price()], submit=False)


async def test_an_agent_that_runs_in_samples_only_answers(tmp_path: Path) -> None:
    for trace in await traces(researcher, tmp_path):
        assert [turn.turn_status for turn in trace.turns] == ["ok"] * len(trace.turns), trace.turns[0].error
        assert {call.tool_name for turn in trace.turns for call in turn.tools} == {"price"}


async def test_a_turn_is_evaluated_again_when_another_of_its_evaluation_is_cancelled() -> None:
    started = anyio.Event()

    @solvers.solver  # type: ignore[untyped-decorator, unused-ignore]
    def slow() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if not started.is_set():
                started.set()
                await anyio.sleep_forever()
            state.output = models.ModelOutput.from_content("m", f"re: {state.input_text}")
            return state

        return solve

    evaluations, replies = Evaluations(slow()), []

    async def ask(text: str, scope: anyio.CancelScope) -> None:
        with scope:
            sample = await evaluations.sample_of([models.ChatMessageUser(content=text)], {})
            replies.append(sample.output.completion)

    async with anyio.create_task_group() as group:
        first, second = anyio.CancelScope(), anyio.CancelScope()
        group.start_soon(ask, "a", first)
        group.start_soon(ask, "b", second)
        await started.wait()
        first.cancel()
    assert replies == ["re: b"]


async def test_an_error_of_a_solver_is_that_of_the_turn(tmp_path: Path) -> None:
    @solvers.solver  # type: ignore[untyped-decorator, unused-ignore]
    def broken() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            raise RuntimeError("no answer")

        return solve

    (turn, *_), _ = [trace.turns for trace in await traces(broken(), tmp_path)]
    assert turn.turn_status == "error"
    assert "no answer" in (turn.error or "")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (price(), "is a tool of inspect_ai; give a solver or an agent"),
        (solvers.prompt_template, "cannot be run: TypeError: .*template.*; give an object that needs no"),
        (models.ModelOutput(), "is no solver or agent of inspect_ai; give one that @solver or @agent has"),
    ],
)
def test_other_objects_of_the_library_are_one_line(value: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        resolve_agent(value)
    assert "\n" not in str(refused.value)


def test_a_missing_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INSPECT_EVAL_MODEL", raising=False)
    with pytest.raises(UsageError, match=r"No model specified .*name its model in INSPECT_EVAL_MODEL"):
        resolve_agent(chained())
