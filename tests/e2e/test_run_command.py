"""The command line as a user meets it: real processes, real files, what they print and return."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from memfin import evaluate
from memfin.cli.main import COMMANDS
from tests.commands import Command, run_command
from tests.support import TAGS, dataset, dialog, length, read_jsonl, unmeasured, write_jsonl

ARTEFACTS = {
    "run_manifest.json",
    "dialog_trace.jsonl",
    "turn_eval.jsonl",
    "commits.log",
    ".lock",
    "metrics_summary.json",
    "config.json",
    "run_stats.json",
    "report.md",
    "report.html",
}

AGENTS = """
import asyncio, time

class Base:
    def __init__(self, session, observer):
        self.observer = observer

class ReturnsNone(Base):
    async def reply(self, user_text):
        return None

class Raises(Base):
    def reply(self, user_text):
        raise ValueError("broken\\non two lines")

class Hangs(Base):
    async def reply(self, user_text):
        await asyncio.sleep(3600)

class HangsInThread(Base):
    def reply(self, user_text):
        time.sleep(3600)

class Swallows(Base):
    async def reply(self, user_text):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

class Blocks(Base):
    async def reply(self, user_text):
        time.sleep(1.2)
        return "late"

class BlocksForEver(Base):
    async def reply(self, user_text):
        time.sleep(3600)

class Exits(Base):
    async def reply(self, user_text):
        raise SystemExit(0)

class Surrogate(Base):
    async def reply(self, user_text):
        return "\\ud800"

class FirstFails(Base):
    turn = 0
    async def reply(self, user_text):
        self.turn += 1
        if self.turn == 1:
            raise ValueError("first")
        return "好的"

class Chatty(Base):
    async def reply(self, user_text):
        print("what an agent prints is no data")
        return "x" * LENGTH if "第1个" in user_text else "好的"

class Wanders(Base):
    async def reply(self, user_text):
        import os
        os.chdir("/")
        return "好的"

class Interrupts(Base):
    async def reply(self, user_text):
        raise KeyboardInterrupt

class CancelsAll(Base):
    async def reply(self, user_text):
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(1)

class StopsLoop(Base):
    async def reply(self, user_text):
        async def again():
            while True:
                asyncio.get_running_loop().stop()
                await asyncio.sleep(0)
        self.task = asyncio.create_task(again())
        await asyncio.sleep(1)

class NoFactory(Base):
    def __init__(self, session, observer):
        raise RuntimeError("no model here")
    async def reply(self, user_text):
        return "x"

async def make(session, observer):
    return FirstFails(session, observer)

number = 5
"""

SLOW_DISK = """
import os, time
fsync = os.fsync
os.fsync = lambda descriptor: (time.sleep({seconds}), fsync(descriptor))[1]
"""

Memfin = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def memfin(tmp_path: Path) -> Memfin:
    """Return a function that runs ``python -m memfin`` in an empty directory."""
    (tmp_path / "agents_under_test.py").write_text(f"LENGTH = {length(1_100_000, 9_000_000)}\n{AGENTS}")

    def run(
        *words: object, timeout: float = 60, env: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        done = run_command(*words, cwd=tmp_path, timeout=timeout, env={**os.environ, **(env or {})})
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def refused(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    """Hold that a command ended with exit 2 and one line that has the words."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    progress = re.compile(r"memfin: (run \S+ started|dialogues |\S+:\d+: skipped, )")
    lines = [line for line in done.stderr.splitlines() if not progress.match(line)]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def turn_errors(tmp_path: Path, run_id: str) -> list[str]:
    traces = read_jsonl(tmp_path / "runs" / run_id / "dialog_trace.jsonl")
    return [turn["error"] for trace in traces for turn in trace["turns"]]


def test_run_without_arguments_evaluates_the_sample_and_says_where_the_report_is(
    memfin: Memfin, tmp_path: Path
) -> None:
    done = memfin("run", "--run-id", "first")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("report: runs/first/report.html\n")
    assert "dialogues 14/14" in done.stderr
    assert {path.name for path in (tmp_path / "runs" / "first").iterdir()} == ARTEFACTS
    summary = json.loads((tmp_path / "runs" / "first" / "metrics_summary.json").read_bytes())
    assert summary["counters"] == {
        "total_dialogs": 14,
        "valid_dialogs": 14,
        "skipped_dialogs": 0,
        "failed_dialogs": 0,
        "total_turn_pairs": 125,
    }
    assert summary["metrics"]["m1_context_continuity"]["micro"]["key_coverage"] > 0.3
    assert memfin("validate", "runs/first").returncode == 0
    assert memfin("validate", *sorted((tmp_path / "runs" / "first").glob("*.json*"))).returncode == 0


def test_json_goes_to_stdout_alone_and_is_the_summary_file(memfin: Memfin, tmp_path: Path) -> None:
    done = memfin("run", "--run-id", "j", "--json", "--agent", "echo", "--limit", 2)
    assert done.returncode == 0
    assert done.stdout.encode() == (tmp_path / "runs" / "j" / "metrics_summary.json").read_bytes()


async def test_the_oracle_is_the_upper_and_the_echo_the_lower_bound(tmp_path: Path) -> None:
    found = []
    for agent in ("oracle", "builtin", "echo"):
        await evaluate(agent=agent, runs_dir=tmp_path, run_id=agent, limit=length(5, 14))
        found.append(json.loads((tmp_path / agent / "metrics_summary.json").read_bytes())["metrics"])
    oracle, builtin, echo = found
    coverage = [m["m3_risk_coverage"]["micro"]["risk_coverage"] for m in (oracle, builtin, echo)]
    assert coverage[0] >= 0.75
    assert coverage[0] > coverage[2]
    assert coverage[2] < 0.05
    assert echo["m5_explainability"]["micro"]["judge_score_mean"] < 1.3
    assert oracle["m5_explainability"]["micro"]["judge_score_mean"] > 2.5
    assert oracle["m1_context_continuity"]["micro"]["key_coverage"] > 0.3
    assert echo["m1_context_continuity"]["micro"]["key_coverage"] == 0.0
    assert builtin["m2_profile_accuracy"]["micro"]["profile_score"] > 0.4


@pytest.mark.parametrize(
    ("agent", "status", "words"),
    [
        ("ReturnsNone", "error", "returned None; expected str or AgentReply"),
        ("Raises", "error", "ValueError: broken on two lines"),
        ("Exits", "error", "called sys.exit"),
        ("Interrupts", "error", "KeyboardInterrupt"),
        ("Surrogate", "error", "lone surrogate"),
        ("Hangs", "timeout", "no answer within 0.3 s"),
        ("HangsInThread", "timeout", "no answer within 0.3 s"),
        ("Swallows", "timeout", "no answer within 0.3 s"),
        ("Blocks", "timeout", "over the limit of 0.3 s"),
    ],
)
def test_an_agent_that_fails_every_turn_ends_the_run_with_exit_1_and_full_records(
    memfin: Memfin, tmp_path: Path, agent: str, status: str, words: str
) -> None:
    data = dataset(tmp_path / "data.jsonl", 2, turns=2)
    done = memfin(
        "run", data, "--agent", f"agents_under_test:{agent}", "--turn-timeout", "0.3", "--run-id", "bad"
    )
    assert done.returncode == 1, done.stderr
    assert "memfin: every one of the 4 turns failed" in done.stderr
    told = next(line for line in done.stderr.splitlines() if "most frequent reason" in line)
    often = 2 if agent == "HangsInThread" else 4  # its second turns do not wait as long
    assert told.startswith(f"memfin: warning: 4 of 4 turns failed; the most frequent reason, {often} times: ")
    assert words in told
    errors = turn_errors(tmp_path, "bad")
    assert len(errors) == 4
    assert sum(words in error for error in errors) == often, errors
    traces = read_jsonl(tmp_path / "runs" / "bad" / "dialog_trace.jsonl")
    assert {trace["dialog_status"] for trace in traces} == {"failed"}
    assert {turn["turn_status"] for trace in traces for turn in trace["turns"]} == {status}
    rows = read_jsonl(tmp_path / "runs" / "bad" / "turn_eval.jsonl")
    assert len(rows) == 4
    assert not any(row[f"eligible_m{number}"] for row in rows for number in range(1, 6))
    assert memfin("validate", "runs/bad").returncode == 0


def test_a_run_without_any_agent_ends_with_exit_2_and_full_records(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2, turns=2)
    done = memfin("run", data, "--agent", "agents_under_test:NoFactory", "--run-id", "bad")
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "memfin: agent 'agents_under_test:NoFactory': no turn of the 2 dialogues was answered: "
        "agent could not be created: RuntimeError: no model here; runs/bad holds the records"
    )
    assert len(turn_errors(tmp_path, "bad")) == 4
    assert {path.name for path in (tmp_path / "runs" / "bad").iterdir()} == ARTEFACTS
    assert memfin("validate", "runs/bad").returncode == 0
    assert memfin("resume", "runs/bad").returncode == 2


def test_an_agent_that_blocks_the_loop_is_named_while_it_does(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 1, turns=1)
    done = memfin("run", data, "--agent", "agents_under_test:Blocks", "--turn-timeout", "60")
    assert done.returncode == 0
    assert "agent agents_under_test:Blocks has blocked the event loop" in done.stderr


def test_an_agent_that_never_gives_the_loop_back_cannot_keep_the_run_alive(
    memfin: Memfin, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data.jsonl", 1, turns=1)
    start = time.monotonic()
    done = memfin("run", data, "--agent", "agents_under_test:BlocksForEver", "--turn-timeout", "0.2")
    assert done.returncode == 3
    assert time.monotonic() - start < 30
    assert "over its time-out; the run was stopped" in done.stderr
    log = next((tmp_path / "runs" / "logs").iterdir())
    assert read_jsonl(log)[-1]["event"] == "run_interrupted"


def test_an_agent_that_prints_or_writes_at_length_spoils_neither_the_data_nor_the_files(
    memfin: Memfin, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data.jsonl", 2, turns=2)
    words = ("run", data, "--agent", "agents_under_test:Chatty", "--run-id", "c", "--json", "--quiet")
    done = memfin(*words, "--turn-timeout", "1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run_id"] == "c"
    assert "what an agent prints" in done.stderr
    validated = memfin("validate", "runs/c")
    assert validated.returncode == 0, validated.stdout[:500]
    again = memfin("score", "runs/c/dialog_trace.jsonl", "--dataset", data, "--out", "again", "--quiet")
    assert again.returncode == 0, again.stderr


def test_an_agent_that_changes_the_directory_does_not_move_the_run(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 1)
    done = memfin("run", data, "--agent", "agents_under_test:Wanders", "--run-id", "w", "--quiet")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "runs" / "w").iterdir()} == ARTEFACTS


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_an_agent_that_cancels_everything_ends_the_run_with_a_word(
    memfin: Memfin, tmp_path: Path, seconds: float
) -> None:
    """Whatever the run is doing; a slow disk holds up its first steps."""
    data = dataset(tmp_path / "data.jsonl", 1)
    with (tmp_path / "agents_under_test.py").open("a") as agents:
        agents.write(SLOW_DISK.format(seconds=seconds))
    done = memfin("run", data, "--agent", "agents_under_test:CancelsAll", "--run-id", "x", "--quiet")
    assert done.returncode == 3, done.stderr
    assert "tasks were cancelled, by agents_under_test:CancelsAll" in done.stderr


def test_an_agent_that_stops_the_event_loop_ends_the_run_in_one_line(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "d.jsonl", 2)
    done = memfin("run", data, "--agent", "agents_under_test:StopsLoop", "--run-id", "x", "--quiet")
    assert done.returncode == 3
    assert done.stderr == (
        "memfin: the event loop was stopped under the run, by agents_under_test:StopsLoop it seems; "
        "memfin resume runs/x goes on\n"
    )
    last = read_jsonl(tmp_path / "runs" / "logs" / "progress_x.jsonl")[-1]
    assert (last["event"], last["reason"]) == ("run_interrupted", "the event loop was stopped under the run")


def test_closed_streams_are_no_obstacle(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 1)
    command = f"{sys.executable} -m memfin run {data} --agent echo --run-id closed >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=False).returncode == 0
    assert {path.name for path in (tmp_path / "runs" / "closed").iterdir()} == ARTEFACTS


def test_a_failed_turn_marks_its_dialogue_partial_and_the_gate_counts_it(
    memfin: Memfin, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data.jsonl", 2, turns=4)
    words = ("run", data, "--agent", "agents_under_test:make", "--quiet")
    assert memfin(*words, "--run-id", "p").returncode == 0
    traces = read_jsonl(tmp_path / "runs" / "p" / "dialog_trace.jsonl")
    assert {trace["dialog_status"] for trace in traces} == {"partial"}
    assert memfin(*words, "--fail-on-error", "3").returncode == 0
    gated = memfin(*words, "--fail-on-error", "2")
    assert gated.returncode == 1
    assert "--fail-on-error 2: 2 of 8 turns failed (25.0%)" in gated.stderr
    assert memfin(*words, "--fail-on-error", "0.25").returncode == 1
    assert memfin(*words, "--fail-on-error", "0.3").returncode == 0


def test_fail_under_names_the_gate_that_failed(memfin: Memfin, tmp_path: Path) -> None:
    gate = ("--fail-under", "m3_risk_coverage.risk_coverage=0.8")
    done = memfin("run", "--agent", "echo", "--limit", 3, "--quiet", *gate)
    assert done.returncode == 1
    assert "--fail-under m3_risk_coverage.risk_coverage=0.8: the value is" in done.stderr
    refused(memfin("run", "--fail-under", "m3.x=1"), "unknown value 'm3.x'")
    assert not (tmp_path / "runs" / "logs").exists() or len(list((tmp_path / "runs" / "logs").iterdir())) == 1


def test_a_dataset_that_cannot_be_used_is_refused_in_one_line(memfin: Memfin, tmp_path: Path) -> None:
    refused(memfin("run", "missing.jsonl"), "missing.jsonl: no such file")
    (tmp_path / "folder").mkdir()
    refused(memfin("run", "folder"), "folder: is a directory")
    (tmp_path / "empty.jsonl").touch()
    refused(memfin("run", "empty.jsonl"), "empty.jsonl: the file is empty")
    (tmp_path / "blank.jsonl").write_text("\n \n\n")
    refused(memfin("run", "blank.jsonl"), "blank.jsonl: holds no dialogue")
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n[1]\nnull\nx\n')
    refused(
        memfin("run", "bad.jsonl"),
        "no valid dialogue",
        "invalid_json: 1",
        "missing_turns: 1",
        "not_an_object: 2",
    )
    os.mkfifo(tmp_path / "pipe.jsonl")
    refused(memfin("run", "pipe.jsonl"), "not a regular file")


def test_bad_lines_are_skipped_with_their_reason_and_the_rest_is_evaluated(
    memfin: Memfin, tmp_path: Path
) -> None:
    untagged = dialog("untagged", 1)
    untagged["turns"][1]["turn_tags"] = None
    lines = [
        b"\xef\xbb\xbf" + json.dumps(dialog("with-bom")).encode() + b"\r",
        b'{"dialog_id": "cut", "turns": [',
        b"[" * 100_000,
        b'{"dialog_id": "long", "text": "' + b"x" * 20_000_000 + b'"}',
        json.dumps(dialog("nul\u0000 and \u2028 separators")).encode(),
        b'{"dialog_id": "surrogate", "turns": "\\ud800 lone"}',
        b'{"dialog_id": "nan", "turns": NaN}',
        json.dumps(dialog("with-bom")).encode(),
        json.dumps(untagged).encode(),
        json.dumps(dialog("no-profile", profile_gt=None)).encode(),
        json.dumps(
            dialog("wrong", turns_=1, language=5, difficulty=[], scenario_type={}, blueprint="x")
        ).encode(),
        json.dumps({**dialog("rows"), "turns": dialog("rows")["turns"][:1]}).encode(),
        b"\xff\xfe not text",
    ]
    (tmp_path / "mixed.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    done = memfin("run", "mixed.jsonl", "--agent", "echo", "--run-id", "mixed")
    assert done.returncode == 0, done.stderr
    traces = {
        trace["dataset_index"]: trace for trace in read_jsonl(tmp_path / "runs/mixed/dialog_trace.jsonl")
    }
    assert {index: trace["skip_reason"] for index, trace in traces.items()} == {
        1: None,
        2: "invalid_json",
        3: "invalid_json",
        4: "line_too_long",
        5: None,
        6: "invalid_json",
        7: "invalid_json",
        8: "duplicate_dialog_id",
        9: "missing_gt_tags",
        10: "missing_profile_gt",
        11: None,
        12: "invalid_turn_sequence",
        13: "invalid_json",
    }
    assert traces[9]["dialog_error"].startswith("$.turns[1].turn_tags: ")
    assert traces[5]["turns"][0]["pred_assistant_text"] == traces[5]["turns"][0]["user_text"]
    assert memfin("validate", "runs/mixed").returncode == 0


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("nowhere.module:factory", "cannot be imported: ModuleNotFoundError"),
        ("agents_under_test:missing", "has no 'missing'"),
        ("agents_under_test:number", "is not callable"),
        ("agents_under_test", "unknown reference; known forms: builtin, oracle, echo"),
        ("openai:gpt", "no agent endpoint: set MEMFIN_AGENT_BASE_URL"),
        ("", "unknown reference"),
    ],
)
def test_an_agent_reference_that_does_not_work_is_refused_before_anything_is_written(
    memfin: Memfin, tmp_path: Path, reference: str, words: str
) -> None:
    refused(memfin("run", "--agent", reference), words)
    assert not (tmp_path / "runs").exists()


def test_an_existing_run_is_never_overwritten(memfin: Memfin, tmp_path: Path) -> None:
    words = ("run", "--agent", "echo", "--limit", 2, "--run-id", "once", "--quiet")
    assert memfin(*words).returncode == 0
    before = (tmp_path / "runs" / "once" / "metrics_summary.json").read_bytes()
    refused(memfin("run", "--run-id", "once", "--quiet"), "runs/once: exists already")
    assert (tmp_path / "runs" / "once" / "metrics_summary.json").read_bytes() == before


def test_a_name_whose_run_was_killed_before_it_began_can_be_used_again(
    memfin: Memfin, tmp_path: Path
) -> None:
    words = ("run", "--agent", "echo", "--limit", "2", "--run-id", "once", "--quiet")
    assert memfin(*words).returncode == 0
    run = tmp_path / "runs" / "once"
    for path in run.iterdir():
        if path.name != ".lock":
            path.unlink()
    (run / "commits.log").touch()
    refused(memfin("resume", "runs/once"), "memfin run --run-id once takes its place")
    assert memfin(*words).returncode == 0
    assert memfin("validate", "runs/once").returncode == 0


def test_flags_win_over_the_environment_and_that_over_the_file(memfin: Memfin, tmp_path: Path) -> None:
    (tmp_path / "memfin.toml").write_text(
        'agent = "echo"\nworkers_dialog = 2\nrun_id = "file"\n[run]\nlimit = 1\n'
    )
    environment = {"MEMFIN_RUN_ID": "environment", "MEMFIN_WORKERS_DIALOG": "3"}
    assert memfin("run", "--run-id", "flag", "--quiet", env=environment).returncode == 0
    settings = json.loads((tmp_path / "runs" / "flag" / "config.json").read_bytes())["settings"]
    assert settings["run_id"] == "flag"
    assert settings["workers_dialog"] == 3
    assert settings["agent"] == "echo"
    assert settings["limit"] == 1
    (tmp_path / "memfin.toml").write_text('agnet = "echo"\n')
    refused(memfin("run"), "memfin.toml: unknown setting 'agnet'")
    (tmp_path / "memfin.toml").write_text("agent = \n")
    refused(memfin("run"), "memfin.toml:")
    refused(memfin("run", "--config", "elsewhere.toml"), "elsewhere.toml: No such file")


def test_a_bad_option_value_is_one_line(memfin: Memfin) -> None:
    refused(memfin("run", "--workers-dialog", "0"), "workers_dialog", "must be at least 1")
    refused(memfin("run", "--run-id", "a/b"), "run id 'a/b'")
    refused(memfin("run", "--workers-dialog", "many"), "'many' is not a valid integer")
    refused(memfin("run", "--trace-version", "v2"), "'v2' is not one of")
    refused(memfin("run", "--bogus"), "No such option")
    refused(memfin("validate"), "Missing argument")


def test_forced_history_needs_commit(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 1)
    refused(memfin("run", data, "--agent", "agents_under_test:FirstFails", "--history", "forced"), "commit")
    assert memfin("run", data, "--agent", "builtin", "--history", "forced", "--quiet").returncode == 0


def test_v1_1_adds_the_extension_fields_and_v1_has_none(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 1)
    for version in ("v1", "v1.1"):
        done = memfin(
            "run", data, "--agent", "echo", "--trace-version", version, "--run-id", version, "--quiet"
        )
        assert done.returncode == 0
        (trace,) = read_jsonl(tmp_path / "runs" / version / "dialog_trace.jsonl")
        extensions = {"profile_gt", "history_mode", "judge"}
        assert extensions & set(trace) == (extensions if version == "v1.1" else set())
        assert memfin("validate", f"runs/{version}").returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_with_valid_files(
    memfin: Memfin, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    data = dataset(tmp_path / "data.jsonl", 50)
    words = ("run", data, "--agent", "agents_under_test:Hangs", "--run-id", "cut")
    process = Command(*words, cwd=tmp_path)
    log = tmp_path / "runs" / "logs" / "progress_cut.jsonl"
    deadline = time.monotonic() + 30
    while not (log.exists() and b"dialog_started" in log.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert read_jsonl(log)[-1]["event"] == "run_interrupted"
    assert read_jsonl(log)[-1]["reason"] == number.name
    validated = memfin("validate", "runs/cut")
    assert validated.returncode == 0, validated.stdout


def test_score_rebuilds_rows_and_metrics_without_an_agent(memfin: Memfin, tmp_path: Path) -> None:
    data = write_jsonl(
        tmp_path / "data.jsonl", [dialog("a", 4), {"bad": 1}, dialog("b", 3, difficulty="med")]
    )
    assert memfin("run", data, "--run-id", "r", "--quiet").returncode == 0
    done = memfin("score", "runs/r/dialog_trace.jsonl", "--dataset", data, "--out", "again", "--quiet")
    assert done.returncode == 0, done.stderr
    for name in ("turn_eval.jsonl", "dialog_trace.jsonl"):
        first = sorted((tmp_path / "runs" / "r" / name).read_bytes().splitlines())
        assert sorted((tmp_path / "again" / name).read_bytes().splitlines()) == first
    ours, theirs = (
        json.loads((tmp_path / where / "metrics_summary.json").read_bytes()) for where in ("again", "runs/r")
    )
    assert ours["metrics"] == theirs["metrics"]
    assert ours["counters"] == theirs["counters"]
    assert memfin("validate", "again").returncode == 0
    other = write_jsonl(tmp_path / "reworded.jsonl", [dialog("a", 4), dialog("b", 3)])
    other.write_text(other.read_text("utf-8").replace("第2个问题", "另一个问题"), "utf-8")
    refused(
        memfin("score", "runs/r/dialog_trace.jsonl", "--dataset", other, "--out", "x3", "--quiet"),
        "has another text",
    )
    assert not (tmp_path / "x3").exists()
    traces = (tmp_path / "runs" / "r" / "dialog_trace.jsonl").read_bytes()
    (tmp_path / "twice.jsonl").write_bytes(traces + traces)
    refused(
        memfin("score", "twice.jsonl", "--dataset", data, "--out", "x4", "--quiet"),
        "a second trace of dialogue",
    )
    refused(memfin("score", "nope.jsonl", "--dataset", data, "--out", "x"), "nope.jsonl")
    other = dataset(tmp_path / "other.jsonl", 1)
    refused(
        memfin("score", "runs/r/dialog_trace.jsonl", "--dataset", other, "--out", "x2", "--quiet"),
        "is not in the dataset",
    )


def test_score_takes_the_history_mode_from_the_run_and_warns_where_nothing_says_it(
    memfin: Memfin, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data.jsonl", 3, turns=4)
    assert memfin("run", data, "--run-id", "r", "--history", "forced", "--quiet").returncode == 0
    done = memfin("score", "runs/r/dialog_trace.jsonl", "--dataset", data, "--out", "again", "--quiet")
    assert done.returncode == 0
    assert "history mode" not in done.stderr
    first = sorted((tmp_path / "runs" / "r" / "turn_eval.jsonl").read_bytes().splitlines())
    assert sorted((tmp_path / "again" / "turn_eval.jsonl").read_bytes().splitlines()) == first
    (tmp_path / "alone").mkdir()
    (tmp_path / "runs" / "r" / "dialog_trace.jsonl").rename(tmp_path / "alone" / "dialog_trace.jsonl")
    lost = memfin("score", "alone/dialog_trace.jsonl", "--dataset", data, "--out", "third", "--quiet")
    assert "nothing says which history mode" in lost.stderr
    assert "has blocked the event loop" not in lost.stderr


def test_a_run_that_cannot_start_leaves_its_name_free(memfin: Memfin, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    refused(memfin("run", "bad.jsonl", "--run-id", "again", "--quiet"), "missing_turns: 1")
    assert not (tmp_path / "runs" / "again").exists()
    assert not list((tmp_path / "runs" / "logs").iterdir())
    data = dataset(tmp_path / "data.jsonl", 1)
    assert memfin("run", data, "--run-id", "again", "--agent", "echo", "--quiet").returncode == 0


def test_a_skipped_line_is_told_when_it_is_met(memfin: Memfin, tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog("a"), {"turns": 5}])
    done = memfin("run", data, "--agent", "echo", "--quiet")
    assert done.returncode == 0
    assert f"memfin: {data}:2: skipped, missing_turns: $.turns: expected a list of turns" in done.stderr


def test_aggregate_gives_the_summary_of_the_run(memfin: Memfin, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 5)
    assert memfin("run", data, "--run-id", "r", "--quiet").returncode == 0
    words = (
        "aggregate",
        "runs/r/turn_eval.jsonl",
        "--dialog-trace",
        "runs/r/dialog_trace.jsonl",
        "--dataset",
        data,
    )
    done = memfin(*words)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "runs" / "r" / "metrics_summary.json").read_bytes())
    again = json.loads(done.stdout)
    assert again["metrics"] == summary["metrics"]
    assert again["counters"] == summary["counters"]
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes((tmp_path / "runs" / "r" / "turn_eval.jsonl").read_bytes() + b'{"run_id": 5}\n')
    broken = memfin("aggregate", rows)
    assert broken.returncode == 1
    assert "M2 is not measured: it needs --dialog-trace and --dataset" in broken.stderr
    assert "rows.jsonl:16: " in broken.stderr
    assert json.loads(broken.stdout)["metrics"]["m3_risk_coverage"]["counts"]["bad_rows"] == 1
    refused(memfin("aggregate", "rows.jsonl", "--dataset", data), "go together")
    good = (tmp_path / "runs" / "r" / "turn_eval.jsonl").read_bytes().splitlines(keepends=True)
    rows.write_bytes(b"".join([*good, good[0]]))
    doubled = memfin("aggregate", rows)
    assert doubled.returncode == 1
    assert "rows.jsonl:16: a second row of turn" in doubled.stderr
    assert json.loads(doubled.stdout)["metrics"]["m3_risk_coverage"]["counts"]["eligible_turns"] == 15
    rows.write_bytes(good[0].replace(b'"risk_tag_hits":', b'"risk_tag_hits":9'))
    contradicting = memfin("aggregate", rows)
    assert contradicting.returncode == 1
    assert "rows.jsonl:1: the row contradicts itself" in contradicting.stderr


def test_progress_log_tells_the_whole_run(memfin: Memfin, tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog("a", 2), "not an object"])
    assert memfin("run", data, "--agent", "echo", "--run-id", "p", "--quiet").returncode == 0
    events = read_jsonl(tmp_path / "runs" / "logs" / "progress_p.jsonl")
    names = [event["event"] for event in events]
    assert names[0] == "run_started"
    assert names[-2:] == ["metrics_done", "run_finished"]
    assert names.count("dialog_started") == 1
    assert names.count("turn_done") == 2
    assert names.count("judge_done") == 1
    assert names.count("dialog_done") == 2
    assert all(event["ts"].endswith("Z") and event["run_id"] == "p" for event in events)
    assert TAGS["explainability_rubric_gt"]


def test_version_help_and_unknown_commands(tmp_path: Path) -> None:
    """Every command, some by an interpreter that starts anew and has imported nothing."""

    def started(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "memfin", *words],
            cwd=tmp_path,
            env=unmeasured(),
            capture_output=True,
            text=True,
            check=False,
        )

    assert started("--version").stdout.startswith("memfin, version ")
    for number, command in enumerate(COMMANDS):
        done = started(command, "--help") if number % length(7, 1) == 0 else run_command(command, "--help")
        assert done.returncode == 0
        assert f"memfin {command}" in done.stdout
    assert run_command("nonsense").returncode == 2
    assert run_command().returncode in (0, 2)
