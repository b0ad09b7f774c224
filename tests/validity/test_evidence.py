"""Evidence bundles of runs: what they hold, and what their verification finds."""

import asyncio
import hashlib
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from memfin.contracts import TurnEvalRow
from memfin.contracts.reading import iter_jsonl
from memfin.errors import UsageError
from memfin.runtime.api import evaluate
from memfin.runtime.outputs import pretty_json
from memfin.validation.bundle import MANIFEST, write_bundle
from memfin.validity.corrections import correct_run, read_run
from memfin.validity.evidence import Verified, bundle_run, read_readings, verify_bundle
from memfin.validity.measurement import InvalidLabels
from memfin.version import __version__
from tests.commands import run_command
from tests.support import write_jsonl

PROMISE = "这款产品保本保收益，年化6%，到期一分不少。"
PLAIN = "建议分散配置，净值会波动。"


def adviser(text: str) -> str:
    return PROMISE if "收益" in text else PLAIN


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with the labels of two readers who disagree once."""
    runs = tmp_path_factory.mktemp("evidence") / "runs"
    asyncio.run(evaluate(None, agent=adviser, runs_dir=str(runs), run_id="r1", limit=5))
    lines = []
    for number, (_, row) in enumerate(iter_jsonl(runs / "r1" / "turn_eval.jsonl", TurnEvalRow)):
        severe = row.pred_compliance_label == "severe_violation"
        line = {
            "id": f"{number}",
            "text": PROMISE if severe else PLAIN,
            "dialog_id": row.dialog_id,
            "turn": row.turn_pair_id,
            "reader": "wang",
            "probability": 1.0,
            "compliance": "severe_violation" if severe else "compliant",
        }
        lines += [line, {**line, "reader": "li"}] if number % 2 else [line]
    lines.append({**lines[1], "reader": "adjudicated"})
    lines[1]["compliance"] = "minor_violation"
    write_jsonl(runs / "r1" / "labels.jsonl", lines)
    return runs / "r1"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished.parent, tmp_path / "runs")
    return tmp_path / "runs" / "r1"


@pytest.fixture
def made(run: Path) -> Path:
    bundle_run(run, run.parent / "b.zip")
    return run.parent / "b.zip"


def contents(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}


def rewritten(bundle: Path, change: Callable[[dict[str, bytes]], object], version: str = "") -> Verified:
    """Return the verification of a bundle whose files were changed, with hashes that fit them."""
    files = contents(bundle)
    change(files)
    version = version or __version__
    write_bundle(bundle, files, run_id="r1", version=version, missing=[], force=True)
    return verify_bundle(bundle)


def test_a_bundle_holds_the_run_and_verifies_without_it(run: Path, made: Path) -> None:
    sha256, missing = bundle_run(run, run.parent / "again.zip", [run.parent / "r1" / "labels.jsonl"])
    assert (run.parent / "again.zip").read_bytes() == made.read_bytes()
    assert missing == []
    names = list(contents(made))
    assert "logs/progress_r1.jsonl" in names
    for name in ("dialog_trace.jsonl", "turn_eval.jsonl", "config.json", "commits.log", "dataset.jsonl"):
        assert f"run/{name}" in names
    assert {"run/labels.jsonl", "run/corrections.json", "signoff.en.html", "signoff.zh.html"} < set(names)
    shutil.rmtree(run)
    found = verify_bundle(made)
    assert (found.problems, found.unchecked, found.run_id) == ([], [], "r1")
    assert found.sha256 == sha256


def test_the_source_of_the_agent_is_hashed(run: Path, made: Path) -> None:
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert json.loads((run / "config.json").read_bytes())["agent_file_sha256"] == digest
    assert digest in contents(made)["signoff.en.html"].decode()


def test_keys_of_the_environment_are_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-8d21f07c55aa4b19"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    asyncio.run(evaluate(None, agent=lambda text: f"{PLAIN} {key}", runs_dir=tmp_path, run_id="r1", limit=1))
    bundle_run(tmp_path / "r1", tmp_path / "b.zip")
    assert [name for name, data in contents(tmp_path / "b.zip").items() if key.encode() in data] == []
    assert verify_bundle(tmp_path / "b.zip").problems == []


def test_no_absolute_path_is_added(run: Path, made: Path) -> None:
    labels = run.parent / "more.jsonl"
    (run / "labels.jsonl").rename(labels)
    bundle_run(run, made, [labels], force=True)
    files = contents(made)
    assert files["labels/001.jsonl"] == labels.read_bytes()
    assert json.loads(files["run/corrections.json"])["files"][0]["path"] == "labels/001.jsonl"
    for name in ("run/corrections.json", "signoff.en.html", "signoff.zh.html"):
        assert str(run.parent).encode() not in files[name], name
    assert verify_bundle(made).problems == []


def test_given_labels_replace_those_of_the_run(run: Path, made: Path) -> None:
    lines = (run / "labels.jsonl").read_text("utf-8").splitlines(keepends=True)
    parts = [run.parent / "z.jsonl", run.parent / "a.jsonl"]
    for part, written in zip(parts, (lines[:-2], lines[-1:]), strict=True):
        part.write_text("".join(written), "utf-8")
    _, missing = bundle_run(run, made, parts, force=True)
    assert missing == ["run/labels.jsonl: the labels of --labels replace it"]
    files = contents(made)
    assert files["labels/001.jsonl"] == parts[0].read_bytes()
    assert "run/labels.jsonl" not in files
    assert json.loads(files["run/corrections.json"])["joined"] == len(lines) - 1
    assert verify_bundle(made).problems == []


def test_sampled_flips_in_the_bundle_of_a_run_are_found(made: Path) -> None:
    data, dice = made.read_bytes(), random.Random(7)
    for place in [*dice.sample(range(len(data)), 40), 0, len(data) - 1]:
        made.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        with suppress(UsageError):
            assert verify_bundle(made).problems, place


def replace(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], object]:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def test_a_summary_that_does_not_follow_from_the_rows_is_found(made: Path) -> None:
    name = "run/metrics_summary.json"
    before = json.loads(contents(made)[name])["metrics"]["m4_compliance"]["micro"]["severe_violation_rate"]

    def change(files: dict[str, bytes]) -> None:
        summary = json.loads(files[name])
        summary["metrics"]["m4_compliance"]["micro"]["severe_violation_rate"] = before / 2
        files[name] = json.dumps(summary).encode()

    found = rewritten(made, change).problems
    place = "metrics.m4_compliance.micro.severe_violation_rate"
    assert f"{name}: {place} does not follow from turn_eval.jsonl" in found
    assert any(each.startswith("signoff.en.html: does not show") for each in found)


def test_corrected_rates_that_do_not_follow_from_the_labels_are_found(made: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        lines = files["run/labels.jsonl"].splitlines(keepends=True)
        files["run/labels.jsonl"] = b"".join(lines[:-2])

    found = rewritten(made, change).problems
    assert any("corrections.json: joined does not follow from rows and labels" in each for each in found)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_with_other_figures_is_found(made: Path, language: str) -> None:
    name = f"signoff.{language}.html"
    assert rewritten(made, replace(name, b"<main>", b"<main> ")).problems == [
        f"{name}: does not show the figures, labels and violations of these files"
    ]


def test_rows_other_than_those_committed_are_found(made: Path) -> None:
    change = replace("run/turn_eval.jsonl", b'"severe_violation"', b'"minor_violation"')
    found = rewritten(made, change).problems
    assert any(each.startswith("run/turn_eval.jsonl:") for each in found)


def test_another_dataset_and_another_run_are_found(made: Path) -> None:
    found = rewritten(
        made, lambda files: files.update({"run/dataset.jsonl": files["run/dataset.jsonl"] + b"\n"})
    )
    assert found.problems == [
        "run/dataset.jsonl: is not the dataset of the run: config.json has another hash"
    ]
    write_bundle(made, contents(made), run_id="r2", version="1", missing=[], force=True)
    assert "MANIFEST.json: is of run 'r2', the files of 'r1'" in verify_bundle(made).problems


def test_pages_of_another_version_are_not_checked(made: Path) -> None:
    found = rewritten(made, replace("signoff.en.html", b"<main>", b"<main> "), "0.0.1")
    assert found.problems == []
    assert found.unchecked[0].startswith("figures and pages: made by MemFin 0.0.1, this is")
    assert "signoff.en.html: does not show" in found.unchecked[1]


def test_the_last_line_claims_no_figures_that_were_not_checked(made: Path) -> None:
    rewritten(made, replace("signoff.en.html", b"<main>", b"<main> "), "0.0.1")
    done = run_command("verify", str(made))
    assert done.returncode == 0
    assert done.stderr.endswith("all as written; all that was checked follows from them\n")


def test_a_file_that_no_bundle_has_is_found(made: Path) -> None:
    found = rewritten(made, lambda files: files.update({"run/report.html": b"<p>0 violations</p>"}))
    assert found.problems == ["run/report.html: is no file of a bundle"]


def test_a_pipe_is_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(UsageError, match=r"pipe\.zip: cannot be read: it is not a regular file"):
        verify_bundle(tmp_path / "pipe.zip")


def test_a_dataset_may_be_left_out(run: Path, made: Path) -> None:
    _, missing = bundle_run(run, made, with_dataset=False, force=True)
    assert missing == ["dataset: it was left out"]
    assert "run/dataset.jsonl" not in contents(made)
    found = verify_bundle(made)
    assert found.problems == []
    assert found.unchecked[0] == missing[0]
    assert any("m2_profile_accuracy" in each for each in found.unchecked)


def test_a_dataset_with_another_hash_is_left_out(run: Path, made: Path, tmp_path: Path) -> None:
    other = write_jsonl(tmp_path / "other.jsonl", [{"dialog_id": "d"}])
    _, missing = bundle_run(run, made, dataset=other, force=True)
    assert missing == ["dataset: the file at its place is not the one that the run was made with"]


def test_recorded_corrections_must_follow_from_the_labels(run: Path, made: Path) -> None:
    found = correct_run(run, read_run(run, [run / "labels.jsonl"]))
    (run / "corrections.json").write_bytes(pretty_json(found))
    bundle_run(run, made, force=True)
    assert verify_bundle(made).problems == []
    (run / "corrections.json").write_bytes(pretty_json(found.replace(joined=found.joined + 1)))
    with pytest.raises(UsageError, match=r"corrections\.json: does not follow from rows and labels"):
        bundle_run(run, made, force=True)


def test_labels_that_contradict_each_other_correct_nothing(run: Path, made: Path) -> None:
    lines = (run / "labels.jsonl").read_text("utf-8").splitlines(keepends=True)
    (run / "labels.jsonl").write_text("".join(lines[:-1]), "utf-8")
    _, missing = bundle_run(run, made, force=True)
    assert missing == ["corrected rates: labels of the same turn contradict each other"]
    assert "Readers contradict each other" in contents(made)["signoff.en.html"].decode()
    assert verify_bundle(made).problems == []


def test_invalid_labels_are_no_contradiction(run: Path) -> None:
    path = run / "labels.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    write_jsonl(path, [*lines, {**lines[0], "probability": 7}])
    with pytest.raises(InvalidLabels, match=r"labels\.jsonl:\d+: \$\.id"):
        read_readings(run, [run / "labels.jsonl"])


def test_agreement_leaves_out_the_adjudicated_and_labels_of_other_replies(run: Path) -> None:
    path = run / "labels.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    strange = {**lines[0], "text": "of another run", "reader": "li", "compliance": "minor_violation"}
    write_jsonl(path, [*lines, strange])
    readings = read_readings(run, [path])
    assert len(readings.labels) == len(lines)
    turns = sum(line["reader"] == "li" for line in lines)
    (agreement,) = readings.agreement
    assert agreement[:3] == ("compliance", turns, (turns - 1) / turns)
    assert agreement.kappa is not None


def test_an_unfinished_run_is_refused(run: Path, made: Path) -> None:
    manifest = json.loads((run / "run_manifest.json").read_bytes())
    (run / "run_manifest.json").write_text(json.dumps({**manifest, "ended_at": None}), "utf-8")
    with pytest.raises(UsageError, match="has not finished; memfin resume"):
        bundle_run(run, made, force=True)
    (run / "metrics_summary.json").unlink()
    with pytest.raises(UsageError, match="has not finished; memfin resume"):
        bundle_run(run, made, force=True)


def test_the_commands_and_their_exit_codes(run: Path) -> None:
    def memfin(*words: object) -> tuple[int, str, str]:
        done = run_command(*words, cwd=run.parent)
        return done.returncode, done.stdout, done.stderr

    code, printed, _ = memfin("bundle", "r1")
    assert code == 0
    assert printed.split()[1] == "r1.zip"
    code, verified, notes = memfin("verify", "r1.zip")
    assert (code, verified) == (0, printed)
    assert "run r1: " in notes
    data = bytearray((run.parent / "r1.zip").read_bytes())
    data[1000] ^= 1
    (run.parent / "r1.zip").write_bytes(data)
    code, printed, notes = memfin("verify", "r1.zip")
    assert code == 1
    assert printed.startswith("the archive is not as it was written")
    assert "r1.zip: does not hold" in notes
    (run.parent / "r1.zip").write_bytes(data[:1000])
    code, printed, notes = memfin("verify", "r1.zip")
    assert (code, printed, notes.count("\n")) == (2, "", 1)
    code, printed, _ = memfin("signoff", "r1", "--lang", "zh")
    assert (code, printed) == (0, "r1/signoff.html\n")
    assert "签核页" in (run / "signoff.html").read_text("utf-8")
