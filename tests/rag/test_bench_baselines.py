"""The system bm25s, and baselines beside the system of a benchmark run."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

import memfin
from memfin.cli.main import memfin as command
from memfin.errors import UsageError
from memfin.rag.document import Document, text_pages
from memfin.rag.systems import load_system
from memfin.rag.systems.bm25s import Bm25sRag
from memfin.runtime.bench_plan import make_bench_plan, make_bench_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.rag.bench_support import DOCUMENT, Counting, benchmark, fact, mixed

ROOT = Path(__file__).resolve().parents[2]

PROSE = """<!-- page 1 -->
The branch in Eastling closed in May after forty years.

Deposits grew by 12% to $9.84 billion.

<!-- page 2 -->
The fine of $6.4 million was paid in January.

Nobody has been named to lead the committee.
"""


def document(text: str) -> Document:
    return Document("record.md", tuple(text_pages(text)))


async def test_bm25s_answers_with_the_best_three_passages_and_quotes_them() -> None:
    answer = await Bm25sRag(document(PROSE)).query("When was the fine of millions paid by the branch?")
    first = "The fine of $6.4 million was paid in January."
    assert answer.answer.startswith(first)
    assert [each.page for each in answer.evidence] == [2, 1, 1]
    assert [(each.page, each.quote) for each in answer.citation] == [
        (each.page, each.text) for each in answer.evidence
    ]
    assert answer.evidence[0].text == first


async def test_bm25s_finds_pairs_of_characters_in_questions_with_their_answers() -> None:
    system = Bm25sRag(document(DOCUMENT))
    first = await system.query("钱用在什么地方？")
    assert (first.citation[0].page, first.citation[0].quote) == (2, "具体用在哪里都忘记了。")
    assert await system.query("钱用在什么地方？") == first


@pytest.mark.parametrize(
    ("text", "question", "words"),
    [
        (DOCUMENT, "保单号码？", "原文没有说明。"),
        (PROSE, "xyzzy?", "The document does not say."),
        ("<!-- page 1 -->\n", "钱用在哪里？", "原文没有说明。"),
        (PROSE, "？", "The document does not say."),
    ],
)
async def test_bm25s_declines_without_a_shared_term(text: str, question: str, words: str) -> None:
    answer = await Bm25sRag(document(text)).query(question)
    assert (answer.answer, answer.abstained, answer.citation) == (words, True, [])


def test_bm25s_without_its_package_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "memfin.rag.systems.bm25s")
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(UsageError, match=r"needs the extra: pip install 'memfin\[bm25s\]'$"):
        load_system("bm25s", document=document(DOCUMENT))


def test_bm25s_needs_a_document() -> None:
    with pytest.raises(UsageError, match="rag 'bm25s': reads the document itself, and there is none"):
        load_system("bm25s")


# --- baselines beside a system


def run(tmp_path: Path, name: str, rag: Any = "oracle", **settings: Any) -> Any:
    runner = memfin.BenchmarkRunner(mixed(tmp_path / "b"), runs_dir=tmp_path, run_id=name, **settings)
    return runner.run_benchmark(rag)


def test_a_baseline_scores_as_in_a_run_of_its_own(tmp_path: Path) -> None:
    summary = run(tmp_path, "r", baselines=["bm25s", "builtin", "bm25s"])
    assert list(summary.baselines) == ["bm25s", "builtin"]
    for name, baseline in summary.baselines.items():
        alone = run(tmp_path, name, name)
        assert baseline.by_type == alone.by_type
        assert (baseline.overall_percentage, baseline.ci95) == (alone.overall_percentage, alone.ci95)
        assert baseline.passed_tests == alone.passed_tests
        assert baseline.difference == summary.overall_percentage - alone.overall_percentage
        assert alone.baselines is msgspec.UNSET
        assert baseline.difference_by_type.keys() == summary.by_type.keys()
    assert run(tmp_path, "same", "builtin", baselines=["builtin"]).baselines["builtin"].difference == 0
    assert "baselines" not in json.loads((tmp_path / "builtin" / "rag_summary.json").read_bytes())
    assert list(validate_run(tmp_path / "r")) == []
    path = tmp_path / "r" / "rag_summary.json"
    path.write_bytes(path.read_bytes().replace(b'"difference": ', b'"difference": 1', 1))
    (finding,) = validate_run(tmp_path / "r")
    assert ".baselines.bm25s.difference" in finding.path


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_command_shows_baselines_in_its_last_lines_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.chdir(tmp_path)
    mixed(tmp_path / "b")
    options = ["--rag", "oracle", "--baseline", "bm25s", "--baseline", "builtin", "--run-id", "r"]
    done = CliRunner().invoke(command, ["bench", "b", *options, "--lang", language])
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "runs" / "r" / "rag_summary.json").read_bytes())["baselines"]
    heading, first = {"en": ("Baselines", "baseline"), "zh": ("基线", "基线")}[language]
    lines = [line for line in done.stdout.splitlines() if line.startswith(first)]
    assert [name for line, name in zip(lines, written, strict=True) if name in line] == ["bm25s", "builtin"]
    report = (tmp_path / "runs" / "r" / "report.md").read_text("utf-8")
    page = (tmp_path / "runs" / "r" / "report.html").read_text("utf-8")
    assert f"## {heading}\n" in report
    for line, baseline in zip(lines, written.values(), strict=True):
        share, difference = f"{baseline['overall_percentage']:.1f}", f"{baseline['difference']:+.1f}"
        assert all(part in text for part in (share, difference) for text in (line, report, page))


async def test_a_resumed_run_has_the_same_baselines(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    settings: dict[str, Any] = {"runs_dir": tmp_path, "run_id": "r", "baselines": ["bm25s"]}
    await Run(make_bench_plan(tmp_path / "b", rag=Counting(), **settings)).run()
    written = (tmp_path / "r" / "rag_summary.json").read_bytes()
    assert b'"baselines"' in written
    (tmp_path / "r" / "rag_summary.json").unlink()
    await Run(make_bench_resume_plan(tmp_path / "r", rag=Counting())).run()
    assert (tmp_path / "r" / "rag_summary.json").read_bytes() == written


def test_unusable_baselines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="baselines: must be one of builtin, bm25s, not 'oracle'"):
        run(tmp_path, "r", baselines=["oracle"])
    path = benchmark(tmp_path / "c", [fact("f1")], document=None)
    with pytest.raises(UsageError, match="--baseline: reads the document, and there is none"):
        make_bench_plan(path, rag="oracle", baselines=["bm25s"])


# --- the table of benchmarks/rag_systems.py


class Printed(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def rag_systems(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Path], Printed]:
    def print_table(path: Path) -> Printed:
        monkeypatch.setattr("sys.argv", ["rag_systems.py", str(path)])
        code = run_path(str(ROOT / "benchmarks" / "rag_systems.py"))["main"]()
        stdout, stderr = capsys.readouterr()
        return Printed(code, str(stdout), str(stderr))

    return print_table


def test_the_table_has_every_benchmark_and_all_together(
    tmp_path: Path, rag_systems: Callable[[Path], Printed]
) -> None:
    mixed(tmp_path / "b", facts=2)
    mixed(tmp_path / "c", facts=1)
    done = rag_systems(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
    assert rows[0][-4:] == ["@1", "@3", "@5", "gaps @1"]
    names = ["builtin", "bm25s", "always abstains"]
    assert [row[:2] for row in rows[2:]] == [[place, name] for place in ("b", "c", "all") for name in names]
    assert rows[3][-4:] == ["1.00", "1.00", "1.00", "1.00"]
    assert rows[4][3:] == ["0.0", "0.0", "80.0", "-", "-", "-", "-"]
    own = run(tmp_path, "r", "bm25s")
    assert own.overall_percentage > 0
    alone = rag_systems(tmp_path / "b").stdout.splitlines()
    assert f"| b | bm25s | {own.overall_percentage:.1f} |" in "\n".join(alone)


def test_a_folder_without_benchmarks_is_refused_in_one_line(
    tmp_path: Path, rag_systems: Callable[[Path], Printed]
) -> None:
    done = rag_systems(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"rag_systems: {tmp_path}: holds no benchmark, a directory with questions/*.json\n"
