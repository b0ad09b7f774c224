"""The report of a benchmark run: what it shows, and that hostile answers stay plain text."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from memfin.contracts import BenchConfig
from memfin.contracts.rag import RagSummary
from memfin.errors import UsageError
from memfin.metrics.interval import ratio_interval
from memfin.report import load_report, render_markdown_report, write_reports
from memfin.report.glossary import format_interval
from memfin.report.tables import rag_table
from memfin.runtime.bench_gates import score_gates
from memfin.runtime.bench_plan import make_bench_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.rag.bench_support import RIGHT, Counting, benchmark, fact, gap, mixed
from tests.report.report_run_factory import table_rows

HOSTILE = "<script>alert(1)</script> | `x` [y](javascript:z) \u202etxt"


class Hostile(Counting):
    async def query(self, question: str) -> dict[str, Any]:
        name = question.partition("：")[0]
        if name == "f02":
            raise ValueError(HOSTILE)
        if name == "f01":
            return {**RIGHT, "answer": HOSTILE, "amount": 7, "citation": [{"page": 2, "quote": HOSTILE}]}
        return dict(RIGHT)


async def run(tmp_path: Path, system: Any, **settings: Any) -> Path:
    plan = make_bench_plan(tmp_path / "b", rag=system, runs_dir=tmp_path, run_id="r", **settings)
    await Run(plan).run()
    return tmp_path / "r"


async def test_the_report_has_scores_cases_and_the_configuration(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    directory = await run(tmp_path, Counting(wrong="f03"), notes="a remark")
    markdown, html = (path.read_text("utf-8") for path in write_reports(directory))
    assert markdown.startswith("# MemFin benchmark report: r\n")
    assert "| Facts | 10 | 9 | 9.30 | 10.00 | 93.0 % |" in markdown
    assert "Exact match (weight 0.7) 90.0 %" in markdown
    assert "- 12 questions; " in markdown
    assert "- Notes: a remark" in markdown
    assert "## By category" in markdown
    assert "**f03** (Facts): 30 % of its score" in markdown
    assert "expected 42,000.0, got 7.0" in markdown
    assert "| workers dialog | 4 |" in markdown
    assert "judge" not in markdown
    assert "| benchmark sha256 | " in markdown
    for words in (
        "MemFin benchmark report",
        "93.0 %",
        "a remark",
        "Questions that did not pass",
        "<bdi>f03</bdi>",
    ):
        assert words in html
    assert write_reports(directory)[0].read_text("utf-8") == markdown


async def test_what_comes_from_outside_stays_plain_text(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f01"), fact("f02"), gap("g1")])
    directory = await run(tmp_path, Hostile())
    markdown, html = (path.read_text("utf-8") for path in write_reports(directory))
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "<script" not in markdown
    assert "\u202e" not in markdown + html
    assert "[y](javascript" not in markdown
    assert "default-src 'none'" in html
    assert "1 of 3 questions have no answer" in markdown
    assert "ValueError: " in markdown


async def test_warnings_say_what_limits_the_figures(tmp_path: Path) -> None:
    class Declines:
        async def query(self, question: str) -> dict[str, Any]:
            del question
            return {"answer": "无法回答。", "abstained": True}

    benchmark(tmp_path / "b", [fact("f01"), gap("g1")], document=None)
    model = load_report(await run(tmp_path, Declines()))
    assert [warning.title for warning in model.warnings] == ["No document", "Every fact was declined"]
    benchmark(tmp_path / "b", [fact("f01"), gap("g1")])
    plan = make_bench_plan(tmp_path / "b", rag=Counting(broken="f01"), runs_dir=tmp_path, run_id="s")
    await Run(plan).run()
    model = load_report(tmp_path / "s")
    assert [(warning.level, warning.title) for warning in model.warnings] == [
        ("warning", "The system failed"),
        ("note", "Nothing was declined"),
    ]
    assert table_rows(model, "Failures")[1:] == [["question", "ValueError: cannot answer f01", "1", "f01"]]


async def test_long_lists_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memfin.report.rag_report._MAX_ROWS", 3)
    monkeypatch.setattr("memfin.report.rag_report._MAX_CASES", 2)
    monkeypatch.setattr("memfin.report.rag_report._MAX_GROUPS", 1)
    metadata = {"tags": ["金额", "日期"]}
    benchmark(tmp_path / "b", [fact(f"f{number:02}", metadata=metadata) for number in range(6)])
    directory = await run(tmp_path, Counting(wrong="f00 f01 f02 f03"))
    markdown = write_reports(directory)[0].read_text("utf-8")
    assert "2 more questions that did not pass are left out" in markdown
    assert "3 more questions are left out" in markdown
    assert "1 smaller group is left out" in markdown


async def test_a_run_that_is_not_finished_has_no_report(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f01")])
    directory = await run(tmp_path, Counting())
    (directory / "rag_summary.json").unlink()
    with pytest.raises(UsageError, match=r"has no rag_summary\.json; memfin resume"):
        write_reports(directory)


async def test_a_report_needs_no_statistics_and_no_settings(tmp_path: Path) -> None:
    benchmark(tmp_path / "b", [fact("f01")])
    directory = await run(tmp_path, Counting())
    for name in ("run_stats.json", "config.json"):
        (directory / name).unlink()
    markdown, html = (path.read_text("utf-8") for path in write_reports(directory))
    assert "## Time" not in markdown
    assert "<h3>Time</h3>" not in html


async def test_the_table_has_a_row_a_type_and_one_for_all(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    directory = await run(tmp_path, Counting(wrong="f03"))
    summary = msgspec.json.decode((directory / "rag_summary.json").read_bytes(), type=RagSummary)
    out = io.StringIO()
    Console(file=out, width=80).print(rag_table(summary))
    rows = [line.split() for line in out.getvalue().splitlines()]
    assert [row[0] for row in rows[3:7]] == ["Facts", "Sets", "Conflicts", "All"]
    assert rows[3][1:6] == ["10", "9", "9.30", "10", "93.0%"]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "rag_summary.json",
            {"overall_score": 3.0},
            "$.overall_score: 3.0, but the listed questions amount to",
        ),
        ("rag_summary.json", {"pass_rate": 0.25}, "$.pass_rate: 0.25, but the sums amount to"),
        ("rag_summary.json", {"by_type": {}}, "$.by_type: fact_exact is missing"),
        (
            "rag_summary.json",
            {"config_fingerprint": "f"},
            "$.config_fingerprint: differs from that of config.json",
        ),
        ("rag_summary.json", {"run_id": "s"}, "$.run_id: 's' differs from 'r'"),
        ("run_manifest.json", {"counters": {"total_dialogs": 9}}, "amounts to 2"),
    ],
    ids=["score", "rate", "type", "fingerprint", "run", "counters"],
)
async def test_papers_that_contradict_each_other_are_found(
    tmp_path: Path, name: str, change: dict[str, Any], words: str
) -> None:
    benchmark(tmp_path / "b", [fact("f01"), fact("f02")])
    path = await run(tmp_path, Counting(wrong="f02")) / name
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    assert any(words in str(finding) for finding in validate_run(tmp_path / "r"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "f02"}, "$.id: 'f02' stands on an earlier line too"),
        ({"question_index": 2}, "$.question_index: 2 is that of an earlier line, too"),
        ({"score": 2.0}, "$.score: 2.0 is not between 0 and max_score 1.0"),
        ({"error": "broken"}, "$.error: a question that failed has no score"),
        ({"answer": None}, "$.answer: missing, and no error says why"),
        ({"status": "timeout"}, "$.status: timeout, while error is None"),
        ({"passed": False}, "passed, score and max_score differ"),
        ({"id": "f09"}, "'f01' is no question of rag_results.jsonl"),
    ],
    ids=["id", "place", "score", "error", "answer", "status", "summary", "stranger"],
)
async def test_results_that_cannot_be_are_found(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    benchmark(tmp_path / "b", [fact("f01"), fact("f02")])
    path = await run(tmp_path, Counting()) / "rag_results.jsonl"
    rows = sorted((json.loads(line) for line in path.read_bytes().splitlines()), key=lambda row: row["id"])
    path.write_text("\n".join(json.dumps(row) for row in (rows[1], rows[0] | change)) + "\n")
    assert any(words in str(finding) for finding in validate_run(tmp_path / "r"))


async def test_scores_and_pass_rates_have_intervals_and_gates_hold_their_bound(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    directory = await run(tmp_path, Counting(wrong="f03"))
    summary = msgspec.json.decode((directory / "rag_summary.json").read_bytes(), type=RagSummary)
    shares = [(one.score, one.max_score) for one in summary.individual_results]
    assert summary.ci95["score"] == pytest.approx(ratio_interval(shares, graded=True))
    assert summary.ci95["pass_rate"] == pytest.approx(
        ratio_interval([(float(one.passed), 1.0) for one in summary.individual_results])
    )
    assert summary.by_type["evidence_set"].ci95 == {}  # a single question has none
    text = render_markdown_report(load_report(directory))
    for key in ("score", "pass_rate"):
        assert format_interval(key, summary.ci95[key]) in text
    for group in (*summary.by_type.values(), *summary.by_difficulty.values()):
        if group.ci95:
            assert f"| {format_interval('score', group.ci95['score'])} |" in text
    low = 100 * summary.ci95["score"][0]
    for limit, fails in ((low - 0.1, False), (low + 0.1, True)):
        config = BenchConfig(gate=[f"overall_percentage>={limit}@95"])
        assert bool(score_gates(summary.overall_percentage, 12, 0, config, summary.ci95)) is fails
