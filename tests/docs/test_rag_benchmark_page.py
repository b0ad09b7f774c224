"""The page on benchmarks: its example is sound, its tables name what there is."""

import re
from pathlib import Path

import pytest

from memfin.contracts import (
    RagBenchmark,
    RagExpected,
    RagQuestionEntry,
    RagScoring,
    Record,
    RequiredEvidence,
)
from memfin.rag.benchmark import SAMPLE, check_benchmark, load_benchmark
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "rag-benchmark.md"


def test_the_example_is_a_benchmark_without_findings(tmp_path: Path) -> None:
    text = {block.language: block.text for block in blocks(PAGE)}
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "all.json").write_text(text["json"], "utf-8")
    assert list(check_benchmark(tmp_path)) == []
    (tmp_path / "interview.md").write_text(text["markdown"], "utf-8")
    assert list(check_benchmark(tmp_path)) == []
    benchmark = load_benchmark(tmp_path)
    assert {one.type for one in benchmark.questions} == {"fact_exact", "evidence_set", "conflict_gap"}
    assert [one.weight for one in benchmark.questions] == [1, 1, 2]
    (tmp_path / "interview.md").write_text(text["markdown"].replace("12,000", "13,000"), "utf-8")
    assert len(list(check_benchmark(tmp_path))) == 2


@pytest.mark.parametrize(
    ("heading", "struct"),
    [
        ("The root", RagBenchmark),
        ("A question", RagQuestionEntry),
        ("`expected`", RagExpected),
        ("`required_evidence`", RequiredEvidence),
        ("`scoring`", RagScoring),
    ],
)
def test_tables_name_every_field(heading: str, struct: type[Record]) -> None:
    section = PAGE.read_text("utf-8").split(f"### {heading}\n")[1].partition("\n#")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(struct.__struct_fields__)


def test_the_sample_is_as_large_as_its_page_says() -> None:
    questions = load_benchmark(SAMPLE).questions
    counts = [sum(one.type == kind for one in questions) for kind in RAG_TYPES]
    hard = sum(one.metadata.difficulty == "hard" for one in questions)
    said = re.findall(
        r"\b\d+\b", (SAMPLE / "README.md").read_text("utf-8").partition("\n\n")[2].partition("\n\n")[0]
    )
    assert [int(number) for number in said] == [len(questions), *counts, hard]


RAG_TYPES = ("fact_exact", "evidence_set", "conflict_gap")
