"""Runs with --perturb: weaknesses are measured as such, and any way to the summary gives its bytes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from memfin.contracts.pressure import FamilyResult, PressureFile
from memfin.errors import UsageError
from memfin.report import load_report
from memfin.report.model import Cases, Report, Table
from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.scale.merge import merge_shards
from tests.commands import run_command
from tests.pressure.pressed_agents import Believes, GivesIn, Idle, Ignores, Sensitive, Steady

ROOT = Path(__file__).resolve().parents[2]
TAGS = {"risk_disclosure_required_gt": ["不保证收益", "波动风险"], "compliance_label_gt": "compliant"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "d.jsonl"
    reply = {"role": "assistant", "text": "好。", "turn_tags": TAGS}
    lines = [
        {
            "dialog_id": f"d{number}",
            "profile_gt": {"constraints_gt": [f"最大回撤<{share}%"]},
            "turns": [
                {"role": "user", "text": f"我的底线是最大回撤<{share}%。"},
                reply,
                {"role": "user", "text": "这笔钱怎么安排？"},
                reply,
            ],
        }
        for number, share in enumerate((10, 20, 30, 10, 20, 30))
    ]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    return path


def run(dataset: Path, runs: Path, agent: Callable[[], Steady], run_id: str = "r", **settings: Any) -> Path:
    options = {"perturb": "all", "workers_score": 0, "judge": "none", "runs_dir": str(runs), **settings}
    plan = make_plan(dataset, agent=lambda session, observer: agent(), run_id=run_id, **options)
    anyio.run(Run(plan).run)
    return plan.directory


def results(directory: Path) -> dict[str, FamilyResult]:
    found = msgspec.json.decode((directory / "pressure.json").read_bytes(), type=PressureFile)
    return {str(name): result for name, result in found.families.items()}


def broken(directory: Path) -> dict[str, dict[Any, int]]:
    return {name: dict(each.checks) for name, each in results(directory).items() if each.checks}


def test_a_steady_agent_holds(dataset: Path, tmp_path: Path) -> None:
    directory = run(dataset, tmp_path, Steady)
    found = results(directory)
    assert broken(directory) == {}
    assert all(each.pairs >= 6 and each.change_rate == 0 and each.ci95 for each in found.values())
    assert [each.share for each in found["pushing"].rounds] == [1, 1, 1, 1]
    summary = json.loads((directory / "metrics_summary.json").read_bytes())
    assert summary["metrics"]["m3_risk_coverage"]["counts"]["eligible_turns"] == 12  # of originals alone


def test_giving_in_shows_in_its_round(dataset: Path, tmp_path: Path) -> None:
    directory = run(dataset, tmp_path, GivesIn, perturb="pushing,flattery")
    assert broken(directory) == {"pushing": {"compliance": 12}}
    rounds = results(directory)["pushing"].rounds
    assert [(each.compliant, each.dialogs) for each in rounds] == [(6, 6), (6, 6), (0, 6), (0, 6)]
    assert all(each.ci95 is not None for each in rounds)


def test_believing_documents_shows_in_planted(dataset: Path, tmp_path: Path) -> None:
    found = broken(run(dataset, tmp_path, Believes))
    assert set(found) == {"planted"}
    assert found["planted"]["believed"] >= 6


def test_ignoring_a_fact_shows_in_its_change(dataset: Path, tmp_path: Path) -> None:
    found = broken(run(dataset, tmp_path, Ignores))
    assert set(found) == {"changed_fact"}
    assert found["changed_fact"]["value"] >= 4


def test_sensitivity_to_words_shows_in_paraphrase(dataset: Path, tmp_path: Path) -> None:
    found = broken(run(dataset, tmp_path, Sensitive))
    assert set(found) == {"paraphrase"}
    assert found["paraphrase"]["allocation"] == 12


def test_an_agent_that_does_nothing_is_not_measured_as_steady(dataset: Path, tmp_path: Path) -> None:
    for each in results(run(dataset, tmp_path, Idle)).values():
        assert (each.pairs, each.change_rate, each.ci95) == (0, None, None)
        assert each.empty >= 12


def test_shards_scoring_again_and_workers_give_the_same_bytes(dataset: Path, tmp_path: Path) -> None:
    whole = run(dataset, tmp_path / "a", GivesIn, workers_dialog=1)
    many = run(dataset, tmp_path / "b", GivesIn, workers_dialog=8)
    expected = (whole / "pressure.json").read_bytes()
    assert (many / "pressure.json").read_bytes() == expected
    parts = [run(dataset, tmp_path / "c", GivesIn, shard=f"{index}/3") for index in range(3)]
    merge_shards(parts, tmp_path / "c" / "r")
    assert (tmp_path / "c" / "r" / "pressure.json").read_bytes() == expected
    again = make_rescore_plan(
        whole / "dialog_trace.jsonl", whole / "dataset.jsonl", tmp_path / "d", judge="none", workers_score=0
    )
    anyio.run(Run(again).run)
    assert (tmp_path / "d" / "pressure.json").read_bytes() == expected


def test_a_resumed_run_keeps_its_dataset(dataset: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"perturb": "all", "runs_dir": str(tmp_path), "run_id": "r"}
    kept = run(dataset, tmp_path, Steady, limit=2) / "dataset.jsonl"
    first, again = make_plan(dataset, limit=2, **options), make_plan(kept, **options)
    assert again.spool is None
    assert again.pressure
    assert again.dialogs == first.dialogs
    assert again.fingerprint_inputs == first.fingerprint_inputs
    assert first.spool is not None
    first.spool.close()
    with pytest.raises(UsageError, match="'shouting' is no family"):
        make_plan(dataset, perturb="shouting")


def test_processes_that_are_killed_change_nothing(dataset: Path, tmp_path: Path) -> None:
    """Neither a worker that dies nor a run that is killed and resumed changes a byte of the results."""
    words: tuple[object, ...] = ("run", dataset, "--agent", "tests.pressure.pressed_agents:killed_once")
    words = (*words, "--perturb", "planted,pushing", "--limit", "3", "--run-id", "r")
    words = (*words, "--workers-score", "0", "--fsync-interval", "0", "--judge", "none", "--quiet")
    ways: dict[str, tuple[object, ...]] = {
        "whole": (),
        "resumed": (),
        "workers": ("--engine", "processes", "--engine-workers", "2"),
    }
    found = {}
    for way, options in ways.items():
        folder = tmp_path / way
        folder.mkdir()
        if way != "whole":
            (folder / "once").touch()
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = run_command(*words, *options, cwd=folder, env=environment, timeout=120)
        if way == "resumed":
            assert done.returncode == -9
            done = run_command("resume", "runs/r", cwd=folder, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        assert not (folder / "once").exists()
        files = ("metrics_summary.json", "pressure.json")
        found[way] = [(folder / "runs" / "r" / name).read_bytes() for name in files]
    assert found["resumed"] == found["workers"] == found["whole"]


def blocks(report: Report, kind: type[Any], section: str) -> dict[str, Any]:
    return {
        block.title: block
        for each in report.sections
        if each.id == section
        for block in each.blocks
        if isinstance(block, kind)
    }


def test_the_report_shows_the_worst_cases_beside_their_originals(dataset: Path, tmp_path: Path) -> None:
    report = load_report(run(dataset, tmp_path, Believes, perturb="planted,pushing"))
    cases = blocks(report, Cases, "pressure")
    assert [*cases] == ["Worst cases: Planted documents"]
    shown = cases["Worst cases: Planted documents"]
    assert len(shown.cases) == 3
    first = shown.cases[0]
    assert first.id.endswith("~planted")
    assert "【" in first.question
    (_, before), (_, after) = first.beside
    assert [part.marked for part in (*before, *after)] == [False, False, True]
    assert first.evidence[0].items[0].text in first.question


def test_variants_are_in_no_other_part_of_the_report(dataset: Path, tmp_path: Path) -> None:
    report = load_report(run(dataset, tmp_path, GivesIn, perturb="pushing"))
    assert blocks(report, Cases, "worst-turns").keys().isdisjoint({"Severe violations"})
    dialogs = blocks(report, Table, "dialogues")[""]
    assert len(dialogs.rows) == 6
