"""``memfin validate`` and question files of benchmarks."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memfin.errors import UsageError
from memfin.validation import validate_benchmark, validate_path
from memfin.validation.files import holds_questions
from memfin.validation.rag import FACTS, line_ranges, question_files
from tests.commands import run_command
from tests.support import each_case

FACT: dict[str, Any] = {
    "id": "fact_001",
    "type": "fact_exact",
    "question": "第一笔款是多少？",
    "expected": {"amount_total": 42000},
    "required_evidence": [
        {"page": 2, "must_include": "42000元", "section": "qa_pair", "speaker": "answer", "is_critical": True}
    ],
    "scoring": {"numeric_exact": True, "citation_required": True},
    "metadata": {"difficulty": "easy", "category": "monetary", "tags": ["金额"], "notes": "x"},
}
EVIDENCE: dict[str, Any] = {
    "id": "evidence_001",
    "type": "evidence_set",
    "question": "有哪些证据？",
    "expected": {"evidence_count_min": 1, "key_points": ["承诺"]},
    "required_evidence": [{"page": 3, "must_include": "承诺"}],
    "scoring": {"evidence_recall_min": 0.8, "evidence_precision_min": 0.7, "citation_required": True},
}
GAP: dict[str, Any] = {
    "id": "conflict_gap_001",
    "type": "conflict_gap",
    "question": "具体用到哪里了？",
    "should_abstain": True,
    "hallucination_penalty": "high",
    "required_quote": "都忘记了",
    "additional_quotes": ["不记得"],
    "evidence_location": {"page": 4, "lines": "105-107"},
    "expected_behavior": "应当拒答",
    "scoring": {"abstention_required": True, "hallucination_check": "x", "quote_required": True},
}


NO_DATE = "is no date; write 2020-08-30, or less: 2020-08, 2020"


def file_of(*questions: dict[str, Any], **root: Any) -> dict[str, Any]:
    return {"description": "d", "document": "d.md", "questions": list(questions), **root}


def written(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2), "utf-8")
    return path


def changed(question: dict[str, Any], *steps: str | int, to: Any = ...) -> dict[str, Any]:
    """Return a copy with one value put in another's place, or taken away."""
    whole = copy.deepcopy(question)
    target: Any = whole
    for step in steps[:-1]:
        target = target[step]
    if to is ...:
        del target[steps[-1]]
    else:
        target[steps[-1]] = to
    return whole


def findings(path: Path, kind: str | None = None) -> list[str]:
    return [str(finding).removeprefix(f"{path}:") for finding in validate_path(path, kind)]


def test_the_forms_of_the_schema_are_sound(tmp_path: Path) -> None:
    path = written(tmp_path / "questions" / "all.json", file_of(FACT, EVIDENCE, GAP))
    assert findings(path) == findings(tmp_path) == findings(path.parent) == []


def test_unknown_fields_are_no_findings_at_any_depth(tmp_path: Path) -> None:
    fact: dict[str, Any] = copy.deepcopy(FACT) | {"extra": {"a": [1]}}
    for part in ("expected", "scoring", "metadata"):
        fact[part]["extra"] = None
    fact["required_evidence"][0]["extra"] = 1
    content = file_of(fact, extra=1, evaluation_criteria={"overall": "strict", "levels": [1, 2]})
    assert findings(written(tmp_path / "questions.json", content)) == []


@each_case(
    ("question", "steps", "to", "finding"),
    [
        (FACT, ["id"], ..., "id: missing"),
        (FACT, ["id"], 1, "id: expected a string, got 1"),
        (FACT, ["id"], " ", "id: the id is blank"),
        (FACT, ["id"], "a\nb", "id: 'a\\nb' holds a control character"),
        (FACT, ["question"], "\u3000", "question: is blank"),
        (FACT, ["type"], "fact", "type: 'fact' is none of 'conflict_gap', 'evidence_set', 'fact_exact'"),
        (FACT, ["type"], ..., "type: missing, and the file has no benchmark_type"),
        (FACT, ["weight"], 0, "weight: 0 is not greater than 0"),
        (FACT, ["weight"], float("nan"), "weight: nan is no finite number"),
        (
            FACT,
            ["expected", "amount_total"],
            "4.2万",
            "expected.amount_total: expected a number, got '4.2万'",
        ),
        (FACT, ["expected"], {}, f"expected: expects nothing; name at least one of {', '.join(FACTS)}"),
        (
            FACT,
            ["expected"],
            {"amount_breakdown": []},
            "expected.amount_breakdown: is empty, so nothing is expected",
        ),
        (
            FACT,
            ["expected"],
            {"amount_breakdown": [1, "2"]},
            "expected.amount_breakdown[1]: expected a number or an object, got '2'",
        ),
        (
            FACT,
            ["expected"],
            {"amount_breakdown": [{"item": "x"}]},
            "expected.amount_breakdown[0].amount: missing",
        ),
        (FACT, ["expected"], {"count": -1}, "expected.count: -1 is less than 0"),
        (FACT, ["expected"], {"entity": ""}, "expected.entity: is blank"),
        (FACT, ["expected"], {"date": "2020-02-30"}, f"expected.date: '2020-02-30' {NO_DATE}"),
        (FACT, ["expected"], {"date": "2020年8月"}, f"expected.date: '2020年8月' {NO_DATE}"),
        (
            FACT,
            ["expected"],
            {"date_range": {"start": "2020-09-01", "end": "2020-08"}},
            "expected.date_range: start 2020-09-01 is after end 2020-08",
        ),
        (FACT, ["required_evidence", 0, "page"], 0, "required_evidence[0].page: 0 is less than 1"),
        (FACT, ["required_evidence", 0, "must_include"], " ", "required_evidence[0].must_include: is blank"),
        (
            FACT,
            ["required_evidence"],
            FACT["required_evidence"] * 2,
            "required_evidence[1]: the same evidence is required twice",
        ),
        (EVIDENCE, ["required_evidence"], [], "required_evidence: is empty, so nothing can be found"),
        (
            EVIDENCE,
            ["expected", "evidence_count_min"],
            2,
            "expected.evidence_count_min: 2, but required_evidence holds 1",
        ),
        (EVIDENCE, ["expected", "key_points", 0], "", "expected.key_points[0]: is blank"),
        (
            EVIDENCE,
            ["scoring", "evidence_recall_min"],
            1.01,
            "scoring.evidence_recall_min: 1.01 is greater than 1",
        ),
        (
            GAP,
            ["should_abstain"],
            False,
            "scoring.abstention_required: true contradicts should_abstain false",
        ),
        (
            GAP | {"additional_quotes": []},
            ["required_quote"],
            ...,
            "required_quote: missing, though scoring.quote_required is true",
        ),
        (GAP, ["required_quote"], "", "required_quote: is blank"),
        (GAP, ["additional_quotes", 0], " ", "additional_quotes[0]: is blank"),
        (
            GAP,
            ["evidence_location", "lines"],
            "line 5",
            "evidence_location.lines: 'line 5' are no lines; write 105-107, 105, or several with commas",
        ),
        (
            GAP,
            ["evidence_location", "lines"],
            "7-5",
            "evidence_location.lines: '7-5' are no lines; they count from 1 and ascend",
        ),
        (GAP, ["scoring"], [], "scoring: expected an object, got an array"),
    ],
)
def test_every_rule_of_a_question_has_a_finding(
    tmp_path: Path, question: dict[str, Any], steps: list[str | int], to: Any, finding: str
) -> None:
    path = written(tmp_path / "questions" / "q.json", file_of(changed(question, *steps, to=to)))
    assert [each.partition(": ")[2] for each in findings(path)] == [f"$.questions[0].{finding}"]


@pytest.mark.parametrize(
    ("start", "end"), [("2020-08-15", "2020-08"), ("2020", "2020-01-01"), ("2020-08-15", "2020-08-15")]
)
def test_a_period_may_begin_within_its_end(tmp_path: Path, start: str, end: str) -> None:
    fact = changed(FACT, "expected", to={"date_range": {"start": start, "end": end}})
    assert findings(written(tmp_path / "questions" / "q.json", file_of(fact))) == []


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (file_of(), "4: $.questions: there are no questions"),
        ({"benchmark_type": "fact_exact"}, "1: $.questions: missing"),
        (file_of(FACT, FACT), "$.questions[1].id: 'fact_001' stands earlier in this file too"),
        (
            file_of(FACT, benchmark_type="facts"),
            "$.benchmark_type: 'facts' is none of 'conflict_gap', 'evidence_set', 'fact_exact'",
        ),
        (
            file_of(FACT, evaluation_criteria={"type_weights": {"facts": 1}}),
            (
                "$.evaluation_criteria.type_weights.facts: is no type of question; there are fact_exact, "
                "evidence_set, conflict_gap"
            ),
        ),
        (
            file_of(FACT, evaluation_criteria={"type_weights": {"fact_exact": 0}}),
            "$.evaluation_criteria.type_weights.fact_exact: 0 is not greater than 0",
        ),
        (
            file_of(FACT, evaluation_criteria={"pass_threshold": 70}),
            "$.evaluation_criteria.pass_threshold: 70 is greater than 1",
        ),
        ([FACT], "1: $: expected an object, got an array"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported(tmp_path: Path, content: object, reported: str) -> None:
    (found,) = findings(written(tmp_path / "questions" / "q.json", content))
    assert found.endswith(reported)


def test_every_violation_is_reported_with_its_line(tmp_path: Path) -> None:
    bad = changed(changed(FACT, "question", to=""), "metadata", "tags", to="x")
    worse = changed(changed(GAP, "evidence_location", "page", to="4"), "additional_quotes", 0, to=7)
    path = written(tmp_path / "questions" / "q.json", file_of(FACT, bad, worse))
    lines = path.read_text("utf-8").splitlines()
    found = [(one.line, one.path) for one in validate_path(path)]
    assert [path for _, path in found] == [
        "$.questions[1].metadata.tags",
        "$.questions[2].additional_quotes[0]",
        "$.questions[2].evidence_location.page",
    ]
    assert [lines[line - 1].strip() for line, _ in found] == ['"tags": "x",', "7", '"page": "4",']


def test_an_id_that_stands_in_two_files_is_reported(tmp_path: Path) -> None:
    first = written(tmp_path / "questions" / "a.json", file_of(FACT))
    second = written(tmp_path / "questions" / "b.json", file_of(EVIDENCE, FACT))
    (found,) = validate_path(tmp_path)
    assert (found.file, found.path) == (str(second), "$.questions[1].id")
    assert found.message == f"'fact_001' stands in {first} too"


def test_what_people_save_is_read_with_a_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = written(tmp_path / "questions" / "q.json", file_of(changed(FACT, "id", to="")))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert findings(path) == ["6: $.questions[0].id: the id is blank"]


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"", "1: $: the file is empty"),
        (b"{", "1: $: invalid JSON"),
        (b'{"questions": [\n{"id": "a",}\n]}', "2: $: invalid JSON"),
        (b'{"questions":\0[]}', "1: $: invalid JSON"),
        (b'{"questions": "\xff"}', "1: $: not UTF-8: byte 0xff at offset 15"),
        (b"\xff\xfe{\0", "1: $: not UTF-8"),
        (b'{"questions": ' + b"[" * 200_000, "1: $: the value is nested too deeply"),
        (b'{"questions": [{"id": "\\ud800", "question": "q"}]}', "$.questions[0].id: "),
        (b'{"questions": [{"id": "a", "id": "b", "question": "q"}]}', "the name is repeated in its object"),
        (b'{"questions": [{"id": "a", "weight": 1e999}]}', "$.questions[0].weight: inf is no finite number"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_is_no_sound_json_is_reported(tmp_path: Path, data: bytes, reported: str) -> None:
    path = tmp_path / "questions" / "q.json"
    path.parent.mkdir()
    path.write_bytes(data)
    found = findings(path)
    assert any(reported in line for line in found)
    assert all("\n" not in line for line in found)


@pytest.mark.parametrize(
    ("name", "content", "is_one"),
    [
        ("anything.json", file_of(FACT), True),
        ("any.JSON", file_of(FACT), True),
        ("questions/any.json", 7, True),
        ("questions/config.json", 7, True),
        ("config.json", file_of(FACT), False),
        ("data.json", {"dialog_id": "d", "questions": []}, False),
        ("questions.jsonl", FACT, True),
        ("data.jsonl", {"dialog_id": "d", "questions": []}, False),
        ("questions.txt", file_of(FACT), False),
    ],
)
def test_question_files_are_known_by_where_they_stand_or_how_they_begin(
    tmp_path: Path, name: str, content: object, *, is_one: bool
) -> None:
    assert holds_questions(written(tmp_path / name, content)) is is_one


def test_a_kind_says_what_nothing_else_tells(tmp_path: Path) -> None:
    path = written(tmp_path / "q", file_of(changed(FACT, "id", to="")))
    assert findings(path, "rag-benchmark") == ["6: $.questions[0].id: the id is blank"]


def test_of_a_directory_without_the_folder_the_json_files_are_taken(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", ".hidden.json", "schema.json", "config.json", "notes.md"):
        written(tmp_path / name, {})
    assert [path.name for path in question_files(tmp_path)] == ["a.json", "b.json"]


@pytest.mark.parametrize("folder", ["", "questions"])
def test_a_directory_without_questions_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "notes.md").write_text("x")
    with pytest.raises(UsageError, match=r"holds no questions; a benchmark has files questions/\*\.json"):
        list(validate_benchmark(tmp_path))


def loop(path: Path) -> None:
    path.symlink_to(path)


def broken(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [loop, broken, folder, pipe], ids=lambda make: make.__name__)
def test_a_question_file_that_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    written(tmp_path / "questions" / "a.json", file_of(FACT))
    make(tmp_path / "questions" / "b.json")
    with pytest.raises(UsageError, match=r"b\.json"):
        list(validate_path(tmp_path))


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000], ids=["nul", "long"])
def test_a_path_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        list(validate_benchmark(name))


def test_ranges_of_lines() -> None:
    assert line_ranges("105-107") == [(105, 107)]
    assert line_ranges("3, 7-9") == [(3, 3), (7, 9)]
    for text in ("", "0", "5-", "9-7", "1;2", "１"):
        with pytest.raises(ValueError, match="are no lines"):
            line_ranges(text)


@pytest.mark.parametrize(
    "words", [["."], ["questions/q.json"], ["--kind", "rag-benchmark", "questions/q.json"]]
)
def test_the_command_tells_findings_in_questions_and_what_the_document_does_not_bear_out(
    tmp_path: Path, words: list[str]
) -> None:
    written(tmp_path / "questions" / "q.json", file_of(FACT))
    (tmp_path / "d.md").write_text("<!-- page 2 -->\n问：多少？\n答：4200元。\n", "utf-8")
    result = run_command("validate", *words, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout == (
        "questions/q.json:15: $.questions[0].required_evidence[0].must_include: '42000元' is not on page 2\n"
    )
    assert result.stderr == "memfin: 1 finding in 1 file\n"


def test_a_huge_file_is_reported_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "questions" / "q.json"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    assert findings(path) == ["1: $: the file is larger than 67108864 bytes"]
