"""Benchmarks that are no files: kept in the run directory, and all that a resumed run needs."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.contracts import SoakLimits
from memfin.errors import UsageError
from memfin.rag.benchmark import check_benchmark
from memfin.runtime.bench import BenchEvaluation
from memfin.runtime.bench_plan import make_bench_soak_plan, make_bench_soak_resume_plan
from memfin.runtime.soak import Soak
from memfin.validation import validate_path
from tests.commands import run_command
from tests.rag.bench_support import DOCUMENT, Counting, fact, gap
from tests.support import read_jsonl, write_jsonl

ITEMS = [fact("f1"), fact("f2"), gap("g1")]


class Source:
    """A source of questions, alone and as the content of a question file."""

    def read(self) -> Iterator[bytes | dict[str, Any]]:
        yield json.dumps(ITEMS[0]).encode()
        yield {"description": "the others", "questions": ITEMS[1:]}


class PolarsLike:
    """A frame with rows as dictionaries, in which missing fields are None."""

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        fields = {name: None for item in ITEMS for name in item}
        yield from ({**fields, **item} for item in ITEMS)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "interview.md"
    path.write_text(DOCUMENT)
    return path


@pytest.mark.parametrize(
    "questions",
    [ITEMS, iter(ITEMS), Source(), PolarsLike(), {"questions": ITEMS}],
    ids=["list", "iterator", "source", "frame", "content"],
)
def test_questions_from_anywhere_are_kept_in_the_run(questions: Any, document: Path, tmp_path: Path) -> None:
    runner = memfin.BenchmarkRunner(questions, document=document, runs_dir=str(tmp_path / "runs"), run_id="r")
    summary = runner.run_benchmark(Counting())
    run = tmp_path / "runs" / "r"
    assert summary.total_tests == 3
    assert summary.by_type["fact_exact"].passed == 2
    assert summary.benchmark_path == str(run / "dataset.jsonl")
    assert list(validate_path(run)) == []
    assert list(check_benchmark(run / "dataset.jsonl", document)) == []


async def test_an_interrupted_run_of_an_iterator_needs_nothing_else(document: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    async with BenchEvaluation(
        iter(ITEMS), rag=Counting(), document=document, runs_dir=runs, run_id="r"
    ) as started:
        await started.stop()
    moved = tmp_path / "elsewhere"
    shutil.move(runs, moved)
    results = await BenchEvaluation.resume(moved / "r", rag=Counting()).complete()
    assert results.summary.total_tests == 3
    (moved / "r" / "dataset.jsonl").write_text(json.dumps(ITEMS[0]))
    with pytest.raises(UsageError, match="benchmark_sha256"):
        await BenchEvaluation.resume(moved / "r", rag=Counting()).complete()


async def test_a_soak_reads_an_iterator_once_and_goes_on_without_it(document: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "rag": Counting(),
        "document": document,
        "runs_dir": str(tmp_path),
        "run_id": "s",
    }
    limits, root = SoakLimits(epochs=2), tmp_path / "s"
    assert (await Soak(make_bench_soak_plan(iter(ITEMS), limits=limits, **given)).run()).epochs == 2
    assert len(read_jsonl(root / "dataset.jsonl")) == 3
    summary = json.loads((root / "soak_summary.json").read_bytes())
    summary["limits"]["epochs"] = 3
    (root / "soak_summary.json").write_text(json.dumps(summary))
    assert (await Soak(make_bench_soak_resume_plan(root, rag=Counting())).run()).epochs == 3


def broken() -> Iterator[dict[str, Any]]:
    yield ITEMS[0]
    raise RuntimeError("the database is gone")


@pytest.mark.parametrize(
    ("questions", "line"),
    [
        ([ITEMS[0], 3], "dataset item 2: expected a dictionary, got a number"),
        (broken(), "dataset item 2: cannot be read: RuntimeError: the database is gone"),
        ([], "dataset: there are no questions in it"),
        (7, "dataset: int is neither a path nor an iterable of dictionaries"),
        ([ITEMS[0], ITEMS[1] | {"weight": 0}], "benchmark item 2: $.weight: "),
        ([ITEMS[0], ITEMS[0]], "benchmark item 2: $.id: "),
        ([{"id": "a", "question": "?"}], "benchmark item 1: $"),
        ({"questions": []}, "benchmark item 1: $.questions: there are no questions"),
    ],
)
def test_a_wrong_item_is_one_line_and_leaves_nothing(questions: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        memfin.BenchmarkRunner(questions, runs_dir=str(tmp_path / "runs")).run_benchmark(Counting())
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_questions_may_be_lines_of_a_file(document: Path, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", [*ITEMS[:2], {"document": "interview", "questions": ITEMS[2:]}])
    words = ["--rag", "oracle", "--runs-dir", tmp_path / "runs", "--run-id", "r"]
    done = run_command("bench", path, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 questions passed" in done.stdout
    wrong = [ITEMS[0], gap("g2") | {"required_quote": "nowhere"}]
    (found,) = check_benchmark(write_jsonl(path, wrong), document)
    assert (found.line, found.path) == (2, "$.required_quote")
    assert list(validate_path(path)) == []
    path.write_text(json.dumps({"type": "fact_exact", "id": "f"}) + "\n{\n")
    assert [(each.line, each.path) for each in validate_path(path)] == [(1, "$.question"), (2, "$")]
