"""Statistics of a run that was resumed: those of the whole run, as far as the journal knows it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from memfin.agents.protocol import AgentReply
from memfin.contracts import DialogDone, ModelUsage, ProgressEvent, RunStats
from memfin.contracts.reading import decode
from memfin.errors import RunFault, RunStopped
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from tests.client.faulty_server import FaultyServer
from tests.judges.scripted_judge import verdict
from tests.support import dataset

DIALOGS = 6
TURNS = 3
CONTROLS = 9
JUDGED = DIALOGS * TURNS - 1


class Metered:
    """Says what its turns took; in d0002 the second turn fails after its model has answered."""

    most: int | None = None
    """Turns that are answered before all agents fall silent."""
    answered = 0

    def __init__(self, session: Any, observer: Any) -> None:
        self._dialog_id = session.dialog_id
        self._turn = 0

    async def reply(self, user_text: str) -> AgentReply:
        self._turn += 1
        Metered.answered += 1
        if self.most is not None and Metered.answered > self.most:
            await anyio.sleep_forever()
        number = int(self._dialog_id.removeprefix("d"))
        usage = {"model": "tiny", "calls": 1, "prompt_tokens": 10 * self._turn, "completion_tokens": number}
        return AgentReply(
            text=f"{number}-{self._turn}：根据数据，注意风险，仅供参考。",
            usage=usage,
        )

    async def commit(self, assistant_text: str) -> None:
        if self._dialog_id == "d0002" and self._turn == 2:
            raise ValueError("the turn is lost")


class Wavering(FaultyServer):
    """A judge whose votes differ with the order of what it is shown, and that may go down."""

    def __init__(self) -> None:
        super().__init__(responder=self._judged, usage=(100, 20))
        self.left: int | None = None

    @staticmethod
    def _judged(body: dict[str, Any]) -> str:
        said = body["messages"][-1]["content"]
        answer = json.loads(verdict(body))
        return json.dumps(answer | {"score": 1 + said.index("<untrusted reply") % 5})

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        if self.left is not None:
            self.left -= 1
            fault = "503" if self.left < 0 else None
        return await super()._answer(request, body, fault)


@asynccontextmanager
async def judging(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Wavering]:
    async with Wavering() as server:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", server.base_url)
        yield server


def plan(tmp_path: Path, run_id: str, **settings: Any) -> RunPlan:
    data = tmp_path / "data.jsonl"
    if not data.exists():
        dataset(data, DIALOGS, TURNS)
    defaults: dict[str, Any] = {"agent": Metered, "judge": "none", "fsync_interval": 0, "judge_cache": "off"}
    return make_plan(data, runs_dir=tmp_path, run_id=run_id, **defaults | settings)


def stats(tmp_path: Path, run_id: str) -> RunStats:
    return decode((tmp_path / run_id / "run_stats.json").read_bytes(), RunStats)


@pytest.mark.parametrize("votes", [1, 3])
async def test_the_judges_statistics_are_those_of_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, votes: int
) -> None:
    settings: dict[str, Any] = {"judge": "openai:m", "judge_votes": votes, "judge_patience": 0.2}
    async with judging(monkeypatch) as server:
        await Run(plan(tmp_path, "whole", **settings)).run()
        server.left = (CONTROLS + 2 * TURNS + 1) * votes
        made = plan(tmp_path, "cut", **settings)
        hurry(made)
        with pytest.raises(RunFault):
            await Run(made).run()
        server.left = None
        await Run(make_resume_plan(tmp_path / "cut", agent=Metered)).run()
        asked = len(server.arrivals)
        whole, cut = stats(tmp_path, "whole").judge, stats(tmp_path, "cut").judge
        assert whole is not None
        assert cut == whole
        assert whole.votes == (JUDGED + CONTROLS) * votes
        assert (whole.prompt_tokens, whole.completion_tokens) == (100 * whole.votes, 20 * whole.votes)
        assert bool(whole.agreement) == (votes > 1)
        if votes > 1:
            assert whole.agreement["score"].units == JUDGED
            assert whole.spread_max
        # Once more: nothing is judged but the controls, and nothing is counted twice.
        await Run(make_resume_plan(tmp_path / "cut", agent=Metered)).run()
        assert len(server.arrivals) == asked + CONTROLS * votes
        assert stats(tmp_path, "cut").judge == whole


def hurry(made: RunPlan) -> None:
    judge: Any = made.judge
    judge._gate._draw = lambda: 0.0


async def test_what_the_cache_gave_is_counted_over_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One dialogue at a time, or the agents could stand still before any of them is complete.
    settings: dict[str, Any] = {"judge": "openai:m", "judge_cache": "write", "workers_dialog": 1}
    async with judging(monkeypatch):
        await Run(plan(tmp_path, "paid", **settings)).run()
        await stopped(plan(tmp_path, "cut", **settings), monkeypatch)
        await Run(make_resume_plan(tmp_path / "cut", agent=Metered)).run()
    paid, cut = stats(tmp_path, "paid").judge, stats(tmp_path, "cut").judge
    assert paid is not None
    assert cut is not None
    everything = JUDGED + CONTROLS
    assert (paid.cache_hits, paid.cache_misses, paid.attempts) == (0, everything, everything)
    assert (cut.cache_misses, cut.attempts) == (0, 0)
    assert JUDGED <= cut.cache_hits <= everything  # votes that end with their process are not recorded


async def stopped(made: RunPlan, monkeypatch: pytest.MonkeyPatch, after: int = 2) -> None:
    """Run the plan and stop it once so many dialogues are done; it cannot come to its end before."""
    left = iter(range(after - 1))

    def show(event: ProgressEvent) -> None:
        if isinstance(event, DialogDone) and next(left, None) is None:
            run.stop("enough", within=0.5)

    run = Run(made, show)
    with monkeypatch.context() as patch:
        patch.setattr(Metered, "answered", 0)
        patch.setattr(Metered, "most", (after + 1) * TURNS)
        with pytest.raises(RunStopped):
            await run.run()


@pytest.mark.parametrize("version", ["v1", "v1.1"])
async def test_what_python_agents_say_of_their_models_is_summed_over_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    settings: dict[str, Any] = {"trace_version": version, "workers_dialog": 1}
    await Run(plan(tmp_path, "whole", **settings)).run()
    await stopped(plan(tmp_path, "cut", **settings), monkeypatch)
    await Run(make_resume_plan(tmp_path / "cut", agent=Metered)).run()
    whole = stats(tmp_path, "whole").usage
    assert whole == ModelUsage(
        model="tiny",
        calls=DIALOGS * TURNS,
        prompt_tokens=10 * DIALOGS * sum(range(TURNS + 1)),
        completion_tokens=TURNS * sum(range(DIALOGS)),
    )
    assert stats(tmp_path, "cut").usage == whole
    await Run(make_resume_plan(tmp_path / "cut", agent=Metered)).run()
    assert stats(tmp_path, "cut").usage == whole


async def test_agents_that_say_nothing_have_no_usage(tmp_path: Path) -> None:
    await Run(plan(tmp_path, "r", agent="echo")).run()
    assert stats(tmp_path, "r").usage is None


async def test_a_model_as_the_agent_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = anyio.Event()

    async def answer(body: dict[str, Any]) -> str:
        if len(server.arrivals) > 3 * TURNS and not silent.is_set():
            await silent.wait()
        return "市场存在不确定性。"

    async with FaultyServer(usage=(7, 3), responder=answer) as server:
        monkeypatch.setenv("MEMFIN_AGENT_BASE_URL", server.base_url)
        await stopped(plan(tmp_path, "cut", agent="openai:small", workers_dialog=1), monkeypatch)
        silent.set()
        await Run(make_resume_plan(tmp_path / "cut")).run()
        usage = stats(tmp_path, "cut").usage
    assert usage is not None
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (
        DIALOGS * TURNS,
        7 * DIALOGS * TURNS,
        3 * DIALOGS * TURNS,
    )
    assert usage.latency_ms > 0
