"""Settings and manifest of a run are held against the checksums in its commit log."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import memfin
from memfin.errors import UsageError
from memfin.journal import COMMITS
from memfin.journal.artifacts import FIRST_ARTIFACTS
from memfin.journal.commits import decode_line, encode_record
from memfin.journal.repair import repair
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.runtime.soak_plan import make_soak_resume_plan
from memfin.validation import validate_run
from tests.commands import run_command
from tests.support import dataset

SUMMARY = "metrics_summary.json"


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Return the directory of a complete run."""
    data = dataset(tmp_path / "d.jsonl", 2, 1)
    await memfin.evaluate(data, agent="echo", judge="none", runs_dir=tmp_path, run_id="r")
    return tmp_path / "r"


def opened(run: Path) -> list[dict[str, str]]:
    records = [decode_line(line) for line in (run / COMMITS).read_bytes().splitlines(keepends=True)]
    return [record.artifacts for record in records if record is not None and record.kind == "opened"]


def without_checks(run: Path) -> None:
    """Make the log what earlier releases wrote."""
    lines = (run / COMMITS).read_bytes().splitlines(keepends=True)
    head = decode_line(lines[0])
    assert head is not None
    (run / COMMITS).write_bytes(b"".join([encode_record(head.replace(artifacts={})), *lines[1:]]))


def changed(path: Path, **settings: Any) -> None:
    config = msgspec.json.decode(path.read_bytes())
    config["settings"] |= settings
    path.write_bytes(msgspec.json.encode(config))


def refusal(run: Path) -> str:
    with pytest.raises(UsageError) as refused:
        make_resume_plan(run)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


async def test_the_first_line_of_the_log_vouches_for_both_artifacts(run: Path) -> None:
    assert [set(artifacts) for artifacts in opened(run)] == [set(FIRST_ARTIFACTS)]
    await Run(make_resume_plan(run)).run()
    assert len(opened(run)) == 1
    assert list(validate_run(run)) == []


async def test_a_changed_byte_of_the_settings_is_refused_wherever_it_stands(run: Path) -> None:
    path = run / "config.json"
    sound = path.read_bytes()
    for place in range(0, len(sound), 3):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        assert "config.json is not as it was written: commits.log holds another checksum" in refusal(run)
    assert [finding.file for finding in validate_run(run) if "not as it was written" in finding.message] == [
        str(path)
    ]
    path.write_bytes(sound)
    make_resume_plan(run)


@pytest.mark.parametrize("field", ["trace_version", "run_id", "dataset_path", "started_at", "workers_judge"])
async def test_a_changed_manifest_is_refused(run: Path, field: str) -> None:
    path = run / "run_manifest.json"
    manifest = msgspec.json.decode(path.read_bytes())
    manifest[field] = 7 if field == "workers_judge" else "v1.1" if field == "trace_version" else "another"
    path.write_bytes(msgspec.json.encode(manifest))
    assert "run_manifest.json is not as it was written" in refusal(run)


def test_the_command_refuses_with_one_line_and_exit_code_2(tmp_path: Path) -> None:
    gate = "m3_risk_coverage.risk_coverage=0.99"
    made = ("run", str(dataset(tmp_path / "d.jsonl", 1, 1)), "--agent", "echo", "--run-id", "g", "--quiet")
    assert run_command(*made, "--fail-under", gate, cwd=tmp_path).returncode == 1
    path = tmp_path / "runs" / "g" / "config.json"
    path.write_bytes(path.read_bytes().replace(b'"fail_under"', b'"fail_unddr"'))
    resumed = run_command("resume", "runs/g", cwd=tmp_path)
    assert (resumed.returncode, resumed.stdout) == (2, "")
    assert resumed.stderr == (
        "memfin: run runs/g: config.json is not as it was written: commits.log holds another checksum; "
        "put it back, or start a new run\n"
    )


async def test_a_run_of_an_earlier_release_goes_on_and_is_sealed(run: Path) -> None:
    without_checks(run)
    expected = (run / SUMMARY).read_bytes()
    await Run(make_resume_plan(run)).run()
    assert (run / SUMMARY).read_bytes() == expected
    assert [set(artifacts) for artifacts in opened(run)] == [set(), set(FIRST_ARTIFACTS)]
    changed(run / "config.json", turn_timeout=1.0)
    assert "config.json is not as it was written" in refusal(run)


async def test_a_run_of_an_earlier_release_is_held_to_what_it_says_itself(run: Path) -> None:
    without_checks(run)
    sound = (run / "config.json").read_bytes()
    changed(run / "config.json", fail_unddr={})
    assert "config.json: unknown setting 'fail_unddr'; was it changed" in refusal(run)
    (run / "config.json").write_bytes(sound)
    changed(run / "config.json", run_id="other")
    assert refusal(run).endswith("put back the one that belongs here")
    (run / "config.json").write_bytes(sound.replace(b'"run_id": "r"', b'"run_id": "s"'))
    assert "config.json is of run 's', run_manifest.json of 'r'" in refusal(run)


async def test_settings_that_force_has_changed_are_sealed_anew(run: Path) -> None:
    before = (run / "config.json").read_bytes()
    data = run.parent / "d.jsonl"
    data.write_text(data.read_text("utf-8") + "\n", "utf-8")
    await Run(make_resume_plan(run, force=True)).run()
    assert (run / "config.json").read_bytes() != before
    assert [set(artifacts) for artifacts in opened(run)] == [set(FIRST_ARTIFACTS), {"config.json"}]
    await Run(make_resume_plan(run)).run()
    assert list(validate_run(run)) == []
    (run / "config.json").write_bytes(before)  # as a crash between the log and the file would leave it
    assert "not as it was when the run began: dataset_sha256" in refusal(run)
    changed(run / "config.json", turn_timeout=1.0)
    assert "is not as it was written" in refusal(run)


async def test_copies_of_a_log_keep_the_checksums(run: Path) -> None:
    artifacts = opened(run)
    await Run(make_resume_plan(run, retry_failed=True)).run()
    assert opened(run) == artifacts
    repair(run, run.parent / "copy")
    assert opened(run.parent / "copy") == artifacts
    changed(run.parent / "copy" / "config.json", turn_timeout=1.0)
    assert "is not as it was written" in refusal(run.parent / "copy")


def test_a_soak_is_held_to_its_summary_and_known_settings(tmp_path: Path) -> None:
    dataset(tmp_path / "d.jsonl", 1, 1)
    words = ["soak", "d.jsonl", "--agent", "echo", "--epochs", "1", "--quiet"]
    environment = os.environ | {"MEMFIN_RUN_ID": "s", "MEMFIN_JUDGE": "none"}
    assert run_command(*words, cwd=tmp_path, env=environment).returncode == 0
    soak = tmp_path / "runs" / "s"
    summary = json.loads((soak / "soak_summary.json").read_bytes())
    changed(soak / "config.json", turn_timeoud=1)
    with pytest.raises(UsageError, match=r"config\.json is not as it was written: soak_summary\.json holds"):
        make_soak_resume_plan(soak)
    del summary["config_digest"]  # as an earlier release has written it
    (soak / "soak_summary.json").write_text(json.dumps(summary))
    with pytest.raises(UsageError, match=r"config\.json: unknown setting 'turn_timeoud'"):
        make_soak_resume_plan(soak)
    (soak / "config.json").write_bytes(
        (soak / "config.json")
        .read_bytes()
        .replace(b'"run_id":"s"', b'"run_id":"t"')
        .replace(b"_timeoud", b"_timeout")
    )
    with pytest.raises(UsageError, match=r"config\.json is of soak 't', soak_summary\.json of 's'"):
        make_soak_resume_plan(soak)
