"""Detectors, forbidden patterns and functions for risk tags of users, in runs with and without processes."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import EvalSummary, SoakLimits
from memfin.dataset import SAMPLE
from memfin.errors import UsageError
from memfin.report import write_reports
from memfin.runtime.aggregation import aggregate_rows
from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.soak_plan import make_soak_plan
from memfin.validation import validate_run
from tests.commands import run_command
from tests.runtime import detectors_under_test
from tests.runtime.detectors_under_test import (
    OTHER,
    Deadly,
    Failing,
    Fees,
    Severe,
    Slow,
    tag_of,
)
from tests.support import dataset, read_jsonl

HERE = f"{detectors_under_test.__name__}:"
REPLY = "申购费为1.5%，市场存在不确定性，仅供参考。"


class Advisor:
    def __init__(self, session: object, observer: object) -> None:
        self._asked = 0

    async def reply(self, user_text: str) -> str:
        self._asked += 1
        return "第二，" + REPLY if self._asked == 2 else REPLY


async def run(tmp_path: Path, run_id: str, workers: int | None, **settings: Any) -> EvalSummary:
    data = dataset(tmp_path / "data.jsonl", 2)
    settings = {"agent": Advisor, "runs_dir": tmp_path, "score_timeout": 1, **settings}
    summary = await Run(make_plan(data, run_id=run_id, workers_score=workers, **settings)).run()
    assert list(validate_run(tmp_path / run_id)) == []
    return summary


def rows_of(run_dir: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_jsonl(run_dir / "turn_eval.jsonl")
    return sorted(rows, key=lambda row: (row["dialog_id"], row["turn_pair_id"]))


def warnings_of(tmp_path: Path, run_id: str) -> list[str]:
    events = read_jsonl(tmp_path / "logs" / f"progress_{run_id}.jsonl")
    return [event["message"] for event in events if event["event"] == "warning"]


@pytest.mark.parametrize("workers", [0, 1])
async def test_findings_are_added_and_nothing_else_changes(tmp_path: Path, workers: int) -> None:
    await run(tmp_path, "plain", 0)
    summary = await run(tmp_path, "own", workers, detectors=[Fees])
    assert isinstance(summary.detectors, dict)
    result = summary.detectors["x:fees"]
    assert (result.replies, result.fired, result.findings, result.failed, result.rate) == (6, 6, 12, 0, 1.0)
    assert result.ci95
    plain, own = rows_of(tmp_path / "plain"), rows_of(tmp_path / "own")
    for row in own:
        found = [each for each in row["findings"] if each["field"] == "x:fees"]
        place = 3 if row["turn_pair_id"] == 2 else 0
        assert [(each["value"], each["rule"], each["start"], each["end"]) for each in found] == [
            ("subscription", "x:fees", place, place + 3),
            ("any", "fee.word", place, place + 3),
        ]
        row["findings"] = [each for each in row["findings"] if each not in found]
        assert row["detectors"].pop("x:fees") == "1.0"
        row["run_id"] = "plain"
    assert own == plain
    assert aggregate_rows(tmp_path / "own" / "turn_eval.jsonl")[0].detectors == summary.detectors
    assert warnings_of(tmp_path, "own") == []


@pytest.mark.parametrize("workers", [0, 1])
async def test_an_error_costs_the_findings_of_its_detector_alone(tmp_path: Path, workers: int) -> None:
    summary = await run(tmp_path, "r", workers, detectors=[Failing, Fees])
    assert isinstance(summary.detectors, dict)
    assert (summary.detectors["x:failing"].failed, summary.detectors["x:failing"].replies) == (6, 0)
    assert (summary.detectors["x:fees"].failed, summary.detectors["x:fees"].fired) == (0, 6)
    rows = rows_of(tmp_path / "r")
    assert [row["scoring_error"] for row in rows] == [None] * 6
    assert "SystemExit: 3" in rows[1]["detector_errors"]["x:failing"]
    assert "end 10000 are no part of" in rows[0]["detector_errors"]["x:failing"]
    assert sum("x:failing failed" in line for line in warnings_of(tmp_path, "r")) == 1


@pytest.mark.parametrize(
    ("detector", "reason"),
    [(Slow, "took longer than 1 s"), (Deadly, "ended with status 7, 3 times")],
)
async def test_a_detector_that_hangs_or_ends_its_process_costs_its_findings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detector: type[Fees], reason: str
) -> None:
    monkeypatch.setattr("memfin.actors.dialog_scoring.default_workers", lambda: 1)
    summary = await run(tmp_path, "r", None, detectors=[Fees, detector, Severe], limit=1)
    assert isinstance(summary.detectors, dict)
    assert summary.detectors[f"x:{detector.name}"].failed == 1
    assert summary.detectors["x:fees"].failed == 0
    rows = rows_of(tmp_path / "r")
    assert {row["scoring_error"] for row in rows} == {None}
    assert all({"x:fees", "x:severe"} <= row["detectors"].keys() for row in rows)
    (errors,) = [row["detector_errors"] for row in rows if "detector_errors" in row]
    assert reason in errors.pop(f"x:{detector.name}")
    assert errors == {}
    assert len(warnings_of(tmp_path, "r")) == 1


async def test_a_severe_finding_makes_a_severe_violation(tmp_path: Path) -> None:
    summary = await run(tmp_path, "r", 0, detectors=[Severe])
    assert summary.metrics["m4_compliance"].counts["severe_count"] == 6
    for row in rows_of(tmp_path / "r"):
        assert row["pred_compliance_label"] == "severe_violation"
        assert row["detectors"]["compliance"].endswith("+x:severe")
        assert row["forbidden_hits"] == []


@pytest.mark.parametrize("workers", [0, 1])
async def test_forbidden_patterns_and_a_function_for_risk_tags(tmp_path: Path, workers: int) -> None:
    patterns = {"费率": [r"申购费为\d", "不会匹配"], "保本保收益": ["仅供参考"]}
    await run(tmp_path, "r", workers, forbidden_patterns=patterns, risk_tag_mapper=tag_of)
    rows = rows_of(tmp_path / "r")
    for row in rows:
        assert row["forbidden_hits"] == ["费率", "保本保收益"]
        assert row["pred_compliance_label"] == "severe_violation"
        found = [each for each in row["findings"] if each["rule"].startswith("forbidden_patterns: ")]
        assert [each["value"] for each in found] == ["费率", "保本保收益"]
    assert "policy_risk" in {tag for row in rows for tag in row["risk_required_tags"]}
    own = {"费率": [r"申购费为\d"]}
    await run(tmp_path, "own", 0, forbidden_patterns=own)
    assert {row["pred_compliance_label"] for row in rows_of(tmp_path / "own")} == {"compliant"}


async def test_score_and_resume_use_the_detectors_of_the_run(tmp_path: Path) -> None:
    summary = await run(tmp_path, "r", 0, detectors=[HERE + "Fees"], agent=f"{__name__}:Advisor")
    trace, data = tmp_path / "r" / "dialog_trace.jsonl", tmp_path / "data.jsonl"
    again = await Run(make_rescore_plan(trace, data, tmp_path / "again", detectors=[Fees])).run()
    assert again.detectors == summary.detectors
    settings = json.loads((tmp_path / "r" / "config.json").read_text())["settings"]
    assert settings["detectors"] == [HERE + "Fees"]
    resumed = await Run(make_resume_plan(tmp_path / "r")).run()
    assert resumed == summary


async def test_resume_refuses_another_version_of_a_detector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "changing_detector.py"
    monkeypatch.syspath_prepend(tmp_path)
    text = "class Own:\n    name, version = 'own', '1'\n    def detect(self, reply, **_): return ()\n"
    module.write_text(text)
    await run(tmp_path, "r", 0, detectors=["changing_detector:Own"], agent="echo")
    module.write_text(text.replace("'1'", "'2.1'"))
    del sys.modules["changing_detector"]
    with pytest.raises(UsageError, match="not as it was when the run began: detectors;"):
        make_resume_plan(tmp_path / "r")


def test_the_fingerprint_has_names_versions_patterns_and_the_function(tmp_path: Path) -> None:
    plans = [
        make_plan(),
        make_plan(detectors=[Fees]),
        make_plan(detectors=[Fees, Severe]),
        make_plan(forbidden_patterns={"a": ["b"]}),
        make_plan(risk_tag_mapper=tag_of),
    ]
    assert len({plan.fingerprint for plan in plans}) == len(plans)
    assert plans[2].fingerprint_inputs["detectors"] == {"x:fees": "1.0", "x:severe": "1.0"}
    assert make_plan(detectors=[], forbidden_patterns={}).fingerprint == plans[0].fingerprint
    soak = make_soak_plan(limits=SoakLimits(epochs=2), runs_dir=tmp_path, detectors=[Fees], run_id="s")
    assert soak.epoch(2, begun=False).fingerprint_inputs["detectors"] == {"x:fees": "1.0"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"detectors": ["Fees"]}, "detector 'Fees': unknown reference; known forms: pkg.module:Name"),
        ({"detectors": ["no_such_module:Fees"]}, "module 'no_such_module' cannot be imported"),
        ({"detectors": [HERE + "Absent"]}, "has no 'Absent'"),
        ({"detectors": [HERE + "tag_of"]}, "takes (name) and is called with ()"),
        ({"detectors": [HERE + "Nameless"]}, "name must be 1 to 64 of A-Z a-z 0-9 _ . -, not 'a name'"),
        ({"detectors": [HERE + "Unversioned"]}, "version must be a string such as '1.0', not 1"),
        ({"detectors": [HERE + "Asynchronous"]}, "must be a plain method"),
        ({"detectors": [HERE + "Broken"]}, "cannot be created: ValueError: no lexicon"),
        ({"detectors": [Fees, Fees]}, "has the name of"),
        ({"detectors": [OTHER]}, "other processes cannot import it by this name"),
        ({"detectors": [Fees()]}, "expected pkg.module:Name or a class or function"),
        ({"detectors": "rules:Fees"}, "setting detectors: must be a list, not a string"),
        ({"forbidden_patterns": {"费": ["("]}}, "forbidden_patterns: 费: '(' is no regular expression"),
        ({"forbidden_patterns": {"费": ["a*"]}}, "matches the empty text"),
        ({"forbidden_patterns": {"费": "a"}}, "setting forbidden_patterns: must be a list, not a string"),
        ({"risk_tag_mapper": "x"}, "risk_tag_mapper 'x': unknown reference"),
        ({"risk_tag_mapper": f"{__name__}:run"}, "is called with (name)"),
        ({"risk_tag_mapper": lambda name: name}, "other processes cannot import it by this name"),
    ],
)
def test_wrong_references_and_patterns_are_refused_in_one_line(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        make_plan(**settings)
    (line,) = str(refused.value).splitlines()
    assert message in line


async def test_the_report_counts_the_findings_and_marks_their_words(tmp_path: Path) -> None:
    await run(tmp_path, "r", 0, detectors=[Fees])
    _, page = write_reports(tmp_path / "r")
    text = " ".join(page.read_text("utf-8").split())
    assert "Your own detectors" in text
    assert "fired in 6 of 6 replies" in text
    assert "Findings of your own detectors" in text
    assert "<mark>申购费</mark>" in text
    assert "x:fees: subscription (rule x:fees)" in text


def test_the_command_takes_the_rules_of_the_file_in_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "own_rules.py").write_text(
        "class Own:\n    name, version = 'own', '1'\n"
        "    def detect(self, reply, **_): return [{'value': 'all', 'start': 0, 'end': len(reply)}]\n"
        "def tag_of(name): return 'policy_risk'\n",
        "utf-8",
    )
    config = tmp_path / "memfin.toml"
    config.write_text(
        'detector = ["own_rules:Own"]\nrisk_tag_mapper = "own_rules:tag_of"\n'
        '[forbidden_patterns]\n"any" = ["."]\n',
        "utf-8",
    )
    command = ("run", "--agent", "echo", "--limit", "2", "--run-id", "r", "--workers-score", "1", "--json")
    done = run_command(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    turns = json.loads(done.stdout)["detectors"]["x:own"]
    assert turns["fired"] == turns["replies"] > 1
    for row in rows_of(tmp_path / "runs" / "r"):
        assert row["forbidden_hits"] == ["any"]
        assert row["risk_required_tags"] in ([], ["policy_risk"])
    trace = tmp_path / "runs" / "r" / "dialog_trace.jsonl"
    scored = ("score", trace, "--dataset", SAMPLE, "--out", "again", "--detector", "own_rules:Own")
    done = run_command(*scored, "--workers-score", "0", cwd=tmp_path)
    count = turns["replies"]
    assert f"x:own: fired in {count} of {count} replies (95 % interval " in done.stdout
    config.write_text('[forbidden_patterns]\n"any" = ["("]\n', "utf-8")
    done = run_command("run", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "forbidden_patterns: any: '(' is no regular expression" in done.stderr
    config.write_text("detector = 1\n", "utf-8")
    done = run_command("run", cwd=tmp_path)
    assert done.stderr == "memfin: config memfin.toml: detector: must be a list of strings\n"
    config.write_text('[forbidden_patterns]\n"any" = [1]\n', "utf-8")
    done = run_command("soak", "--epochs", "1", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "config memfin.toml: forbidden_patterns: must be a string, not an integer" in done.stderr
