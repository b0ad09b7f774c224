"""``memfin bench``: what it prints, what it writes, how it ends."""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from memfin.cli.main import memfin, report_problem
from memfin.cli.options import BENCH_OPTIONS, read_config
from memfin.cli.output import Counts
from memfin.contracts import QuestionDone, RunResumed, RunStarted
from memfin.errors import UsageError
from tests.commands import run_command
from tests.rag.bench_support import mixed
from tests.support import read_jsonl, unmeasured

SYSTEMS = """
class Right:
    wrong = ()
    broken = ()

    def __init__(self, document):
        self.document = document

    async def query(self, question):
        name = question.partition("：")[0]
        if name in self.broken:
            raise ValueError("no idea")
        print("a system that prints")
        amount = 7 if name in self.wrong else 42000
        return {
            "answer": f"一共{amount}元。",
            "amount": amount,
            "citation": [{"page": 1, "quote": "分两次付了42000元"}],
            "evidence": [{"page": 1, "text": "他分两次付了42000元"}],
        }

class Wrong(Right):
    wrong = ("f03", "f08")

class Broken(Right):
    broken = tuple(f"f{number:02}" for number in range(10))
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a directory with a benchmark and systems."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "bench_systems", raising=False)
    mixed(tmp_path / "b")
    (tmp_path / "bench_systems.py").write_text(SYSTEMS, "utf-8")
    return tmp_path


def call(*words: str) -> Said:
    """Run the command in this process, as the command line does."""
    runner = CliRunner()
    found = runner.invoke(memfin, words, standalone_mode=False)
    if isinstance(found.exception, Exception):
        with runner.isolation() as (out, err, _):
            code = report_problem(found.exception)
            line = err.getvalue().decode() + out.getvalue().decode()
        return Said(code, found.stdout, found.stderr + line)
    return Said(found.return_value or 0, found.stdout, found.stderr)


def bench(*words: str, system: str = "Right") -> Said:
    return call("bench", "b", "--rag", f"bench_systems:{system}", "--run-id", "r", *words)


def test_a_run_prints_a_table_and_where_the_report_is(work: Path) -> None:
    said = bench(system="Wrong")
    assert said.code == 0
    table = [line.split()[:6] for line in said.out.splitlines()]
    assert ["Facts", "10", "8", "8.60", "10", "86.0%"] in table
    assert said.out.splitlines()[-1] == f"report: {Path('runs/r/report.html')}"
    assert "a system that prints" not in said.out
    assert "memfin: run r started" in said.err
    assert "memfin: questions 12/12" in said.err
    assert {path.name for path in (work / "runs" / "r").iterdir()} >= {
        "rag_results.jsonl",
        "rag_summary.json",
        "run_manifest.json",
        "run_stats.json",
        "config.json",
        "report.md",
        "report.html",
    }
    assert call("validate", "runs/r").code == 0


def test_json_is_the_summary_and_nothing_else(work: Path) -> None:
    said = bench("--json", "--quiet", "--type", "fact_exact", "--limit", "4", system="Wrong")
    summary = json.loads(said.out)
    assert (summary["total_tests"], summary["passed_tests"]) == (4, 3)
    assert summary["type_filter"] == "fact_exact"
    assert summary == json.loads((work / "runs" / "r" / "rag_summary.json").read_bytes())
    rows = read_jsonl(work / "runs" / "r" / "rag_results.jsonl")
    assert sorted(row["question_index"] for row in rows) == [1, 2, 3, 4]


@pytest.mark.parametrize(("threshold", "code"), [("80", 0), ("90.5", 1)], ids=["reached", "missed"])
def test_fail_under_is_percent_of_the_greatest_score(work: Path, threshold: str, code: int) -> None:
    said = bench("--quiet", "--type", "fact_exact", "--fail-under", threshold, system="Wrong")
    assert said.code == code
    line = "memfin: --fail-under 90.5: the value is 86\n"
    assert said.err.endswith(line) if code else line not in said.err
    assert (work / "runs" / "r" / "report.html").is_file()


@pytest.mark.usefixtures("work")
def test_a_regression_blocks_and_names_the_questions() -> None:
    assert bench("--quiet").code == 0
    said = bench("--quiet", "--run-id", "now", "--fail-on-regression", "runs/r", system="Wrong")
    assert said.code == 1
    assert said.err.splitlines()[-1] == (
        "memfin: --fail-on-regression runs/r: 2 fact questions that were right are wrong now: f03, f08"
    )
    fewer = bench("--quiet", "--run-id", "few", "--limit", "4", "--fail-on-regression", "runs/r")
    assert fewer.code == 0
    assert (
        "6 fact questions that were right before are not asked now: f04, f05, f06, f07, f08, ..." in fewer.err
    )


@pytest.mark.usefixtures("work")
def test_a_system_that_mostly_fails_is_told_about() -> None:
    said = bench("--quiet", "--fail-on-error", "0.5", system="Broken")
    assert said.code == 1
    assert "the system failed on 10 of 12 questions; the first time: ValueError: no idea" in said.err
    assert "--fail-on-error 0.5: the system failed on 10 of 12 questions (83.3%)" in said.err


@pytest.mark.parametrize(
    ("words", "told_of"),
    [
        (("bench", "nowhere"), "nowhere"),
        (("bench", "b", "--type", "facts"), "facts"),
        (("bench", "b", "--rag", "nonsense"), "rag 'nonsense'"),
        (("bench", "b", "--document", "nowhere.md"), "nowhere.md"),
        (("bench", "b", "--fail-on-regression", "b"), "holds no rag_summary.json"),
        (("bench", "b", "--run-id", "logs"), "run id 'logs'"),
        (("bench", "b", "--agent-temperature", "0.5"), "agent_temperature"),
        (("bench", "b", "--agent", "mine:create"), "name it with --rag mine:create"),
        (("bench", "b", "--judge", "heuristic"), "judge 'heuristic'"),
        (("resume", "runs/none"), "no such directory"),
    ],
    ids=["path", "type", "rag", "document", "regression", "run-id", "model", "agent", "judge", "resume"],
)
@pytest.mark.usefixtures("work")
def test_bad_usage_is_one_line_and_leaves_nothing(words: tuple[str, ...], told_of: str) -> None:
    said = call(*words)
    assert said.code == 2
    assert said.err.startswith("memfin: ")
    assert told_of in said.err
    assert said.err.count("\n") == 1
    assert not Path("runs").exists()


def test_a_wrong_question_is_told_with_file_line_and_path(work: Path) -> None:
    path = work / "b" / "questions" / "all.json"
    path.write_text(
        path.read_text("utf-8").replace('"amount_total": 42000', '"amount_total": "many"', 1), "utf-8"
    )
    said = bench()
    assert said.code == 2
    assert "all.json:1: $.questions[0].expected.amount_total: " in said.err


def test_settings_stand_in_a_table_of_their_own(work: Path) -> None:
    (work / "memfin.toml").write_text(
        'agent = "echo"\nruns_dir = "elsewhere"\nseed = 7\nlimit = 1\n'
        '[bench]\npath = "b"\nrag = "bench_systems:Wrong"\ntype = "fact_exact"\n'
        "fail_under = 99\nquiet = true\n",
        "utf-8",
    )
    said = call("bench", "--run-id", "r")
    assert said.code == 1
    assert "--fail-under 99: the value is 86" in said.err
    settings = json.loads((work / "elsewhere" / "r" / "config.json").read_bytes())["settings"]
    assert (settings["seed"], settings["limit"], settings["agent"]) == (7, None, "bench_systems:Wrong")
    assert read_config(work / "memfin.toml")["agent"] == "echo"  # which the table does not disturb


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bench = 3", "bench is a table"),
        ("[bench]\nspeed = 3", "unknown setting 'bench.speed'"),
        ("[bench]\nlimit = true", "bench.limit: "),
        ('[bench]\nfail_under = "much"', "bench.fail_under: "),
        ("[bench]\nquiet = 1", "bench.quiet: must be true or false"),
        ("[bench", "config "),
        ("[bench]\nepochs = true", "bench.epochs: must be an integer, not true or false"),
        ("[bench]\nduration = 8", "bench.duration: must be a string"),
        ('[bench]\nduration = "8x"', "bench.duration: '8x': expected a number with d, h, m or s"),
        ("[bench]\nmetrics_port = 70000", "bench.metrics_port: must be at most 65535"),
    ],
    ids=["table", "name", "type", "gate", "flag", "toml", "epochs", "duration", "unit", "port"],
)
def test_a_wrong_table_is_told(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "memfin.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_config(path, BENCH_OPTIONS, "bench")


def test_a_table_that_says_how_often_soaks_the_benchmark(work: Path) -> None:
    (work / "memfin.toml").write_text(
        '[bench]\npath = "b"\nrag = "bench_systems:Wrong"\nepochs = 2\nkeep_epochs = 1\nquiet = true\n',
        "utf-8",
    )
    assert call("bench", "--run-id", "s").code == 0
    summary = json.loads((work / "runs" / "s" / "soak_summary.json").read_bytes())
    assert (summary["suite"], summary["epochs"]) == ("rag", 2)
    assert not (work / "runs" / "s" / "epochs" / "000001" / "rag_results.jsonl").exists()
    assert call("bench", "--run-id", "t", "--epochs", "1").code == 0
    assert json.loads((work / "runs" / "t" / "soak_summary.json").read_bytes())["epochs"] == 1


@pytest.mark.usefixtures("work")
def test_a_complete_run_is_resumed_and_reported_again() -> None:
    assert bench("--quiet").code == 0
    report = Path("runs/r/report.md")
    written = report.read_bytes()
    report.unlink()
    said = call("report", "runs/r")
    assert said.out.split() == [str(report), str(report.with_name("report.html"))]
    assert report.read_bytes() == written
    said = call("resume", "runs/r")
    assert said.code == 0
    assert "memfin: resuming run r: 12 questions answered" in said.err
    assert call("resume", "runs/r", "--metrics-port", "0").code == 2


def test_the_shipped_benchmark_is_asked_by_a_process_of_its_own(tmp_path: Path) -> None:
    ended = run_command(
        *("bench", "--rag", "oracle", "--json", "--fail-under", "100"), cwd=tmp_path, env=unmeasured()
    )
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["overall_percentage"] == 100
    assert summary["benchmark_path"] == "builtin:rag"
    assert summary["total_tests"] >= 36
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.name != "logs")
    assert (run / "report.html").is_file()


def test_the_standing_counts_questions() -> None:
    standing = Counts("rag")
    common: dict[str, Any] = {"ts": "2026-01-01T00:00:00Z", "run_id": "r"}
    standing.count(RunStarted(**common, dataset_path="b", dialogs=3))
    assert standing.line() == "questions 0/3  passed 0/0  errors 0  eta -:--:--"
    for number, passed, error in ((1, True, None), (2, False, "broken")):
        standing.count(
            QuestionDone(
                **common,
                question_id=f"q{number}",
                question_index=number,
                type="fact_exact",
                passed=passed,
                score=float(passed),
                max_score=1.0,
                error=error,
            )
        )
    assert standing.line().startswith("questions 2/3  passed 1/2  errors 1  eta 0:00:0")
    standing.count(RunResumed(**common, dialogs_done=2, dialogs=5))
    assert (standing.total, standing.dialogs) == (5, 2)
