"""The page "evaluate your agent in ten minutes" works as written, with its servers on loopback."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agents.loopback_model import LoopbackModel
from tests.docs.page_session import PageSession, assert_all_succeeded, page_session
from tests.docs.pages import ROOT, blocks
from tests.support import read_jsonl

PAGE = ROOT / "docs" / "ten-minutes.md"


class Worked(NamedTuple):
    """The page's session; ``judged`` has the requests to the judge up to the end of each command."""

    session: PageSession
    judged: dict[str, int]


@pytest.fixture(scope="module")
async def worked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worked]:
    folder = tmp_path_factory.mktemp("ten-minutes")
    judged: dict[str, int] = {}
    async with page_session(folder) as (session, model):
        session.on_done = lambda line: judged.update({line: questions(model)})
        await session.work_through(PAGE)
        yield Worked(session, judged)


def questions(model: LoopbackModel) -> int:
    return sum("response_format" in request for request in model.requests)


def runs(worked: Worked) -> Path:
    return worked.session.folder / "runs"


async def test_every_command_of_the_page_succeeds(worked: Worked) -> None:
    assert len(worked.session.done) >= 12
    assert_all_succeeded(worked.session.done)


async def test_every_way_to_connect_an_agent_gives_answers(worked: Worked) -> None:
    for name in ("python", "service", "model", "model-with-memory"):
        traces = read_jsonl(runs(worked) / name / "dialog_trace.jsonl")
        assert [trace["dialog_status"] for trace in traces] == ["ok"] * 3, name


async def test_the_service_is_the_agent_of_the_first_step(worked: Worked) -> None:
    rows = [
        sorted(  # dialogues are written as they are done
            (row | {"run_id": ""} for row in read_jsonl(runs(worked) / name / "turn_eval.jsonl")),
            key=lambda row: (row["dialog_id"], row["turn_pair_id"]),
        )
        for name in ("python", "service")
    ]
    assert rows[0] == rows[1]


async def test_memory_is_what_the_second_run_of_the_model_adds(worked: Worked) -> None:
    plain, remembering = (
        json.loads((runs(worked) / name / "metrics_summary.json").read_bytes())["metrics"]
        for name in ("model", "model-with-memory")
    )
    coverage = [each["m1_context_continuity"]["micro"]["key_coverage"] for each in (plain, remembering)]
    assert 0.3 < coverage[0] < coverage[1]
    profiles = [each["m2_profile_accuracy"]["counts"] for each in (plain, remembering)]
    assert [counts["no_snapshot_count"] for counts in profiles] == [3, 0]


async def test_the_judge_is_asked_and_put_to_the_test(worked: Worked) -> None:
    votes = read_jsonl(runs(worked) / "judged" / "judgements.jsonl")
    assert votes
    assert [vote["error"] for vote in votes] == [None] * len(votes)
    controls = json.loads((runs(worked) / "judged" / "judge_controls.json").read_bytes())
    assert {control["kind"] for control in controls["controls"]} == {"null", "injected", "oracle"}
    assert controls["warnings"] == []
    rows = read_jsonl(runs(worked) / "judged" / "turn_eval.jsonl")
    assert {row["judge_score_1_5"] for row in rows if row["eligible_m5"]} == {5.0}


async def test_what_was_judged_is_not_paid_twice(worked: Worked) -> None:
    thrice = read_jsonl(runs(worked) / "judged-thrice" / "judgements.jsonl")
    by_vote = {number: [v["cached"] for v in thrice if v["vote"] == number] for number in (1, 2, 3)}
    assert all(by_vote[1])
    assert not any(by_vote[2] + by_vote[3])
    first, second = (
        next(count for line, count in worked.judged.items() if line.endswith(f"--run-id {name}"))
        for name in ("judged", "judged-thrice")
    )
    assert second == 3 * first  # controls included, the first vote of each not asked again
    assert worked.judged["memfin resume runs/judged"] == second


async def test_a_gate_that_is_not_met_fails_the_build(worked: Worked, tmp_path: Path) -> None:
    text = next(block.text for block in blocks(PAGE) if block.language == "toml")
    other = PageSession(tmp_path, {})
    (tmp_path / "my_agent.py").write_bytes((worked.session.folder / "my_agent.py").read_bytes())
    assert "m4_compliance.compliance_label_acc" in text
    stricter = text.replace("m4_compliance.compliance_label_acc", "m5_explainability.rubric_hit_rate")
    (tmp_path / "memfin.toml").write_text(stricter.replace("= 0.5", "= 1.0"), "utf-8")
    await other._run("memfin run --run-id gate")
    ((_, done),) = other.done
    assert done.returncode == 1
    assert "m5_explainability.rubric_hit_rate=1: the value is " in done.stderr
