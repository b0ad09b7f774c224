"""Loading benchmarks: what questions become, where the document is, and one clear line for what is wrong."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.contracts import RagAnswer, RagExpected, RagQuestion, iso_span
from memfin.contracts.reading import InvalidRecord, convert, decode
from memfin.errors import UsageError
from memfin.rag.benchmark import load_benchmark
from tests.support import each_case

FACT: dict[str, Any] = {"id": "f", "question": "多少？", "expected": {"amount_total": 1}}


def written(path: Path, *questions: dict[str, Any], **root: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"questions": list(questions), **root}, ensure_ascii=False), "utf-8")
    return path


def loaded(path: Path, *questions: dict[str, Any], **root: Any) -> list[RagQuestion]:
    return list(load_benchmark(written(path / "questions" / "q.json", *questions, **root)).questions)


def test_a_question_without_a_type_takes_that_of_its_file(tmp_path: Path) -> None:
    gap = {"id": "g", "type": "conflict_gap", "question": "哪里？"}
    one, two = loaded(tmp_path, FACT, gap, benchmark_type="fact_exact")
    assert (one.type, two.type) == ("fact_exact", "conflict_gap")


@pytest.mark.parametrize(
    ("said", "settled"),
    [
        ({}, True),
        ({"should_abstain": True}, True),
        ({"should_abstain": False}, False),
        ({"scoring": {"abstention_required": False}}, False),
        ({"scoring": {"abstention_required": True}}, True),
    ],
    ids=str,
)
def test_whether_to_abstain_is_settled(tmp_path: Path, said: dict[str, Any], *, settled: bool) -> None:
    (one,) = loaded(tmp_path, {"id": "g", "type": "conflict_gap", "question": "?", **said})
    assert one.should_abstain is settled


def test_other_types_never_ask_for_an_abstention(tmp_path: Path) -> None:
    (one,) = loaded(tmp_path, FACT, benchmark_type="fact_exact")
    assert one.should_abstain is False


def test_weight_and_threshold_have_a_second_name(tmp_path: Path) -> None:
    weighted = FACT | {"type": "fact_exact", "scoring": {"weight": 3}}
    (one,) = loaded(tmp_path, weighted, evaluation_criteria={"passing_threshold": 1.0})
    assert (one.weight, one.pass_threshold) == (3.0, 1.0)
    with pytest.raises(UsageError, match=r"scoring\.weight: contradicts the weight 2 of the question"):
        loaded(tmp_path, weighted | {"weight": 2})
    with pytest.raises(UsageError, match=r"passing_threshold: contradicts pass_threshold 0\.5"):
        loaded(tmp_path, weighted, evaluation_criteria={"passing_threshold": 1.0, "pass_threshold": 0.5})


def test_weights_and_the_threshold_of_a_file_reach_its_questions_alone(tmp_path: Path) -> None:
    criteria = {"type_weights": {"fact_exact": 2, "conflict_gap": 9}, "pass_threshold": 0.5}
    written(
        tmp_path / "questions" / "a.json",
        {**FACT, "weight": 1.5},
        benchmark_type="fact_exact",
        evaluation_criteria=criteria,
    )
    written(tmp_path / "questions" / "b.json", {**FACT, "id": "g"}, benchmark_type="fact_exact")
    one, two = load_benchmark(tmp_path).questions
    assert (one.weight, one.pass_threshold) == (3.0, 0.5)
    assert (two.weight, two.pass_threshold) == (1.0, 0.7)


def test_what_files_leave_out_has_the_defaults_of_the_schema(tmp_path: Path) -> None:
    (one,) = loaded(
        tmp_path,
        {**FACT, "required_evidence": [{"page": 1, "must_include": "x"}]},
        benchmark_type="evidence_set",
    )
    assert one.required_evidence[0].is_critical
    assert (one.scoring.evidence_recall_min, one.scoring.evidence_precision_min) == (0.8, 0.7)
    assert one.scoring.numeric_exact
    assert one.scoring.date_exact
    assert one.scoring.citation_required


def test_questions_stand_in_the_order_of_files_and_of_each_file(tmp_path: Path) -> None:
    for name, ids in (("b", "cd"), ("a", "ab")):
        questions = [{**FACT, "id": one} for one in ids]
        written(tmp_path / "questions" / f"{name}.json", *questions, benchmark_type="fact_exact")
    benchmark = load_benchmark(tmp_path)
    assert [one.id for one in benchmark.questions] == list("abcd")
    assert [path.name for path in benchmark.files if isinstance(path, Path)] == ["a.json", "b.json"]


def test_a_breakdown_has_plain_amounts_or_parts_with_names() -> None:
    expected = decode(b'{"amount_breakdown": [3000, {"amount": 4600, "item": "x"}, 4600.5]}', RagExpected)
    assert expected.breakdown() == (3000, 4600, 4600.5)
    assert RagExpected().breakdown() is None


def test_the_digest_speaks_of_names_and_contents(tmp_path: Path) -> None:
    path = written(tmp_path / "questions" / "q.json", FACT, benchmark_type="fact_exact")
    first = load_benchmark(tmp_path).digest
    assert load_benchmark(path).digest == first
    path.write_bytes(path.read_bytes() + b"\n")
    second = load_benchmark(tmp_path).digest
    path.rename(path.with_name("p.json"))
    assert len({first, second, load_benchmark(tmp_path).digest}) == 3


@pytest.mark.parametrize(
    ("name", "files", "found"),
    [
        ("d.md", ["d.md", "d.pdf"], "d.md"),
        ("d", ["d.txt"], "d.txt"),
        ("d", ["d.pdf", "d.md"], "d.md"),
        ("docs/d.md", ["docs/d.md"], "docs/d.md"),
        ("笔录", ["笔录.md"], "笔录.md"),
        ("v1.2", ["v1.2.md"], "v1.2.md"),
        ("d.md", [], None),
        ("../outside.md", ["../outside.md"], None),
        ("/etc/passwd", [], None),
        ("a\0b", [], None),
        ("x" * 5000, [], None),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_the_document_is_found_by_its_name_inside_the_benchmark(
    tmp_path: Path, name: str, files: list[str], found: str | None
) -> None:
    root = tmp_path / "bench"
    path = written(root / "questions" / "q.json", FACT, benchmark_type="fact_exact", document=name)
    for file in files:
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text("x")
    for start in (root, root / "questions", path):
        benchmark = load_benchmark(start)
        assert benchmark.document_name == name
        assert (benchmark.document and benchmark.document.resolve()) == (found and (root / found).resolve())


def test_a_link_to_a_document_outside_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("x")
    root = tmp_path / "bench"
    written(root / "questions" / "q.json", FACT, benchmark_type="fact_exact", document="d.md")
    (root / "d.md").symlink_to(tmp_path / "secret.md")
    (root / "loop").symlink_to(root / "loop")
    assert load_benchmark(root).document is None


def test_a_directory_can_be_the_document(tmp_path: Path) -> None:
    written(tmp_path / "questions" / "q.json", FACT, benchmark_type="fact_exact", document="pages")
    (tmp_path / "pages").mkdir()
    assert load_benchmark(tmp_path).document == tmp_path / "pages"


def test_no_document_need_be_named(tmp_path: Path) -> None:
    written(tmp_path / "questions" / "q.json", FACT, benchmark_type="fact_exact", document=" ")
    benchmark = load_benchmark(tmp_path)
    assert (benchmark.document, benchmark.document_name) == (None, None)


def test_two_documents_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        question = {**FACT, "id": name}
        written(
            tmp_path / "questions" / f"{name}.json",
            question,
            benchmark_type="fact_exact",
            document=f"{name}.md",
        )
    with pytest.raises(UsageError, match=r"b\.json: the document is 'b\.md', but 'a\.md' in .*a\.json; keep"):
        load_benchmark(tmp_path)


def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path) -> None:
    path = written(tmp_path / "questions" / "q.json", {**FACT, "id": ""}, benchmark_type="fact_exact")
    with pytest.raises(UsageError) as caught:
        load_benchmark(tmp_path)
    assert str(caught.value) == f"{path}:1: $.questions[0].id: the id is blank"
    written(path, FACT, FACT, {**FACT, "id": ""}, benchmark_type="fact_exact")
    with pytest.raises(UsageError, match=r"^\S+: \S+: .* \(and 1 more: memfin validate \S+\)$"):
        load_benchmark(tmp_path)


@pytest.mark.parametrize("first", [{}, {"id": ""}], ids=["sound", "unsound"])
def test_a_type_that_nobody_names_is_one_line_too(tmp_path: Path, first: dict[str, Any]) -> None:
    written(tmp_path / "questions" / "a.json", {**FACT, "id": "a", **first}, benchmark_type="fact_exact")
    written(tmp_path / "questions" / "q.json", FACT)
    with pytest.raises(
        UsageError, match=r"type: missing, and the file has no benchmark_type|the id is blank"
    ):
        load_benchmark(tmp_path)


def test_an_answer_needs_words_and_nothing_more() -> None:
    assert decode(b'{"answer": ""}', RagAnswer) == RagAnswer(answer="")
    with pytest.raises(InvalidRecord, match="answer"):
        convert({}, RagAnswer)
    with pytest.raises(InvalidRecord, match="finite number"):
        convert({"answer": "x", "amount": float("nan")}, RagAnswer)


def test_an_answer_survives_the_wire() -> None:
    data = {
        "answer": "x",
        "date_range": {"start": "2020年", "end": None},
        "evidence": [{"text": "t", "page": 1, "score": 0.5}],
        "citation": [{"quote": "q"}],
        "more": 1,
    }
    answer = convert(data, RagAnswer)
    assert decode(msgspec.json.encode(answer), RagAnswer) == answer
    assert answer.citation[0].page is None


@each_case(
    ("text", "first", "last"),
    [
        ("2020-08-30", date(2020, 8, 30), date(2020, 8, 30)),
        ("2020-02", date(2020, 2, 1), date(2020, 2, 29)),
        ("1999", date(1999, 1, 1), date(1999, 12, 31)),
    ],
)
def test_a_date_covers_days_by_its_precision(text: str, first: date, last: date) -> None:
    assert iso_span(text) == (first, last)


@each_case(
    "text",
    ["", "2020-13", "2020-02-30", "2020-2-3", "20200203", "0000", "２０２０", "2020-08-30T00:00", "2020\n"],
)
def test_what_is_no_date_covers_nothing(text: str) -> None:
    assert iso_span(text) is None


@given(st.dates())
def test_every_day_covers_itself(day: date) -> None:
    assert iso_span(day.isoformat()) == (day, day)
    month = iso_span(day.isoformat()[:7])
    assert month is not None
    assert month[0] <= day <= month[1]
