"""A benchmark held against its document."""

import json
from pathlib import Path
from typing import Any

import pytest

from memfin.errors import UsageError
from memfin.rag.benchmark import check_benchmark
from memfin.validation import Finding

TEXT = """# 笔录
<!-- page 1 -->
编号：2023-1
问：一共多少钱？
答：四万二千元，也就是42,000元。
<!-- page 2 -->
还有12000元现金。
问：花在哪里？
答：具体请了谁吃饭，
花了多少，都忘记了。
"""


def evidence(**item: Any) -> dict[str, Any]:
    return {
        "id": "e",
        "type": "evidence_set",
        "question": "?",
        "required_evidence": [{"page": 1, "must_include": "42000元", **item}],
    }


def gap(**fields: Any) -> dict[str, Any]:
    return {"id": "g", "type": "conflict_gap", "question": "?", **fields}


def found(directory: Path, *questions: dict[str, Any], text: str = TEXT) -> list[Finding]:
    (directory / "questions").mkdir(exist_ok=True)
    content = {"document": "d.md", "questions": list(questions)}
    data = json.dumps(content, ensure_ascii=False, indent=1).encode()
    (directory / "questions" / "q.json").write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    (directory / "d.md").write_text(text, "utf-8")
    return list(check_benchmark(directory))


@pytest.mark.parametrize(
    "question",
    [
        evidence(),
        evidence(must_include="４２，０００ 元"),
        evidence(section="qa_pair", speaker="answer"),
        evidence(must_include="编号", section="header"),
        evidence(must_include="一共多少钱？\n答：四万二千元", section="qa_pair"),
        evidence(page=2, must_include="12000元", speaker="answer"),
        gap(required_quote="具体请了谁吃饭，花了多少", evidence_location={"page": 2, "lines": "9-10"}),
        gap(required_quote="具体请了谁吃饭...都忘记了", evidence_location={"page": 2, "lines": "9, 10"}),
        gap(required_quote="都忘记了", additional_quotes=["四万二千元"], evidence_location={"page": 2}),
        gap(required_quote="都忘记了"),
        gap(),
    ],
    ids=str,
)
def test_what_stands_where_it_is_said_to_stand_is_fine(tmp_path: Path, question: dict[str, Any]) -> None:
    assert found(tmp_path, question) == []


@pytest.mark.parametrize(
    ("question", "path", "told"),
    [
        (evidence(page=3), "required_evidence[0].page", "d.md has no page 3"),
        (evidence(page=2), "required_evidence[0].must_include", "'42000元' is not on page 2"),
        (
            evidence(page=2, must_include="2000元"),
            "required_evidence[0].must_include",
            "'2000元' is not on page 2",
        ),
        (
            evidence(speaker="question"),
            "required_evidence[0].speaker",
            "'42000元' is not in the question on page 1",
        ),
        (
            evidence(section="header", speaker="answer"),
            "required_evidence[0].section",
            "'42000元' is not in header on page 1",
        ),
        (gap(required_quote="都记得"), "required_quote", "'都记得' is not in d.md"),
        (
            gap(required_quote="都忘记了", evidence_location={"page": 1}),
            "required_quote",
            "'都忘记了' is not on page 1",
        ),
        (gap(additional_quotes=["都忘记了", "x"]), "additional_quotes[1]", "'x' is not in d.md"),
        (
            gap(required_quote="都忘记了", evidence_location={"page": 7}),
            "evidence_location.page",
            "d.md has no page 7",
        ),
        (
            gap(required_quote="都忘记了", evidence_location={"page": 2, "lines": "6-9"}),
            "evidence_location.lines",
            "the required_quote is not on these lines",
        ),
        (
            gap(evidence_location={"page": 2, "lines": "5"}),
            "evidence_location.lines",
            "page 2 is lines 6 to 11",
        ),
        (
            gap(evidence_location={"page": 2, "lines": "7-12"}),
            "evidence_location.lines",
            "page 2 is lines 6 to 11",
        ),
    ],
    ids=str,
)
def test_what_does_not_stand_there_is_told(
    tmp_path: Path, question: dict[str, Any], path: str, told: str
) -> None:
    (finding,) = found(tmp_path, question)
    assert (finding.path, finding.message) == (f"$.questions[0].{path}", told)
    assert finding.line > 4


def test_speakers_of_a_document_that_is_no_record_are_not_checked(tmp_path: Path) -> None:
    assert found(tmp_path, evidence(speaker="question"), text="一共42000元。") == []


def test_files_that_are_unsound_are_not_held_against_the_document(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, {**evidence(page=9), "id": ""})
    assert finding.message == "the id is blank"


def test_without_a_document_nothing_is_missed(tmp_path: Path) -> None:
    found(tmp_path, evidence(page=9))
    (tmp_path / "d.md").unlink()
    assert list(check_benchmark(tmp_path)) == []


def test_another_document_can_be_named(tmp_path: Path) -> None:
    assert found(tmp_path, evidence()) == []
    other = tmp_path / "other.txt"
    other.write_text("空白", "utf-8")
    (finding,) = check_benchmark(tmp_path / "questions" / "q.json", other)
    assert finding.message == "'42000元' is not on page 1"
    other.unlink()
    with pytest.raises(UsageError, match="cannot read"):
        list(check_benchmark(tmp_path, other))


def test_words_do_not_grow_together_over_what_stands_between(tmp_path: Path) -> None:
    text = "答：甲\n第1页\n乙\n问：甲乙"
    (finding,) = found(tmp_path, evidence(must_include="甲乙", speaker="answer"), text=text)
    assert finding.message == "'甲乙' is not in the answer on page 1"
