"""Repeats of a run: a soak that varies the seed, its pass^k, and how it goes on."""

import json
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import ProcessSample, ProgressEvent, SoakEpoch, SoakLimits, SoakSummary
from memfin.contracts.rag import RagSummary
from memfin.contracts.reading import read_json
from memfin.errors import RunStopped
from memfin.report import write_reports
from memfin.runtime.bench_plan import make_bench_soak_plan
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan, make_soak_resume_plan
from memfin.validation import validate_path
from tests.agents.loopback_model import loopback_model
from tests.judges.scripted_judge import verdict
from tests.rag.bench_support import Counting, mixed
from tests.support import dataset

REPLY = "市场存在不确定性，本金可能亏损，仅供参考。"


class Flaky:
    """Fails a turn of dialogue dN in the first N repeats."""

    def __init__(self, session: Any, observer: Any) -> None:
        del observer
        self.fails = int(session.run_id.rpartition(".")[2]) <= int(session.dialog_id[1:])

    async def reply(self, user_text: str) -> str:
        if self.fails and "第2个" in user_text:
            raise ValueError("fails")
        return REPLY


class Stopping:
    """Listener that stops the soak after its first epoch."""

    soak: Soak

    def on_event(self, event: ProgressEvent) -> None:
        """Not watched."""

    def on_epoch(self, epoch: SoakEpoch, summary: SoakSummary) -> None:
        self.soak.stop("enough")

    def on_sample(self, sample: ProcessSample) -> None:
        """Not watched."""


def limits(repeats: int, **more: Any) -> SoakLimits:
    return SoakLimits(epochs=repeats, vary_seed=True, **more)


async def repeated(tmp_path: Path, agent: Any = Flaky, name: str = "s", **more: Any) -> SoakSummary:
    data = dataset(tmp_path / "data.jsonl", 4)
    plan = make_soak_plan(data, agent=agent, runs_dir=tmp_path, run_id=name, **more)
    return await Soak(plan).run()


async def test_pass_k_is_in_the_summary_and_the_report(tmp_path: Path) -> None:
    found = (await repeated(tmp_path, limits=limits(3))).reliability
    assert found
    assert (found.repeats, found.passes) == (3, {"d0000": 3, "d0001": 2, "d0002": 1, "d0003": 0})
    assert [each.value for each in found.pass_k] == pytest.approx([6 / 12, 4 / 12, 3 / 12])
    assert list(validate_path(tmp_path / "s")) == []
    markdown, html = (path.read_text("utf-8") for path in write_reports(tmp_path / "s"))
    assert "| pass^3 | 25.0 % |" in markdown
    lowest = [markdown.index(f"| {row} |") for row in ("d0003 | 0 of 3", "d0002 | 1 of 3", "d0001 | 2 of 3")]
    assert lowest == sorted(lowest)
    assert "3 of 4 failed at least once." in markdown
    assert "Reliability over 3 repeats" in html
    assert "few epochs" not in markdown.partition("Over the epochs")[0]


async def test_a_soak_that_repeats_nothing_has_no_pass_k(tmp_path: Path) -> None:
    assert not (await repeated(tmp_path, name="pruned", limits=limits(2, keep_epochs=1))).reliability
    assert not (await repeated(tmp_path, name="soak", limits=SoakLimits(epochs=2))).reliability
    markdown = write_reports(tmp_path / "soak")[0].read_text("utf-8")
    assert "Reliability" not in markdown


async def test_a_report_says_so_where_all_dialogues_pass(tmp_path: Path) -> None:
    await repeated(tmp_path, "echo", limits=limits(2))
    markdown = write_reports(tmp_path / "s")[0].read_text("utf-8")
    assert "All dialogues passed in every repeat." in markdown


async def test_every_repeat_sends_a_seed_of_its_own_and_goes_on_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fingerprints of agent and judge hold the seed; a repeat after a resume is no changed input."""
    data = dataset(tmp_path / "data.jsonl", 2, 1)

    def answer(request: dict[str, Any]) -> str:
        return verdict(request) if request["model"] == "j" else REPLY

    async with loopback_model(answer) as model:
        for part in ("AGENT", "JUDGE"):
            monkeypatch.setenv(f"MEMFIN_{part}_BASE_URL", model.base_url)
            monkeypatch.setenv(f"MEMFIN_{part}_API_KEY", "key")
        plan = make_soak_plan(
            data,
            limits=limits(3),
            agent="openai:m",
            judge="openai:j",
            seed=7,
            runs_dir=tmp_path,
            run_id="s",
        )
        listener = Stopping()
        listener.soak = Soak(plan, [listener])
        with pytest.raises(RunStopped, match="memfin resume"):
            await listener.soak.run()
        assert {request["seed"] for request in model.requests} == {7}
        summary = await Soak(make_soak_resume_plan(tmp_path / "s")).run()
    asked = [(request["model"], request["seed"]) for request in model.requests]
    assert set(asked) == {(name, seed) for name in "mj" for seed in (7, 8, 9)}
    assert [seed for name, seed in asked if name == "m"] == [7, 7, 8, 8, 9, 9]
    assert summary.reliability
    assert (summary.reliability.repeats, summary.changed) == (3, [])
    recorded = json.loads((tmp_path / "s" / "config.json").read_bytes())
    assert (recorded["settings"]["seed"], recorded["fingerprint_inputs"]["agent_settings"]["seed"]) == (7, 7)
    third = json.loads((tmp_path / "s" / "epochs" / "000003" / "config.json").read_bytes())
    assert (third["settings"]["seed"], third["fingerprint_inputs"]["agent_settings"]["seed"]) == (9, 9)


async def test_questions_of_a_benchmark_pass_as_their_scores_say(tmp_path: Path) -> None:
    class Fading(Counting):
        """Gets one fact more wrong in every epoch."""

        made = 0

        def __init__(self, document: Any = None) -> None:
            super().__init__()
            type(self).made += 1
            self.wrong = [f"f{number:02}" for number in range(type(self).made)]

    path = mixed(tmp_path / "benchmark")
    plan = make_bench_soak_plan(path, limits=limits(2), rag=Fading, runs_dir=tmp_path, run_id="s")
    found = (await Soak(plan).run()).reliability
    epochs = [tmp_path / "s" / "epochs" / name / "rag_summary.json" for name in ("000001", "000002")]
    passed = [read_json(path, RagSummary).passed_tests for path in epochs]
    assert passed[0] - passed[1] == 1
    assert found
    assert sum(found.passes.values()) == sum(passed)
    assert {name for name, passes in found.passes.items() if passes == 1} == {"f01"}
