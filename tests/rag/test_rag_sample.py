"""The shipped benchmark keeps what it promises: everything its questions rest on stands where they say."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema

from memfin.contracts import RagQuestion
from memfin.contracts.catalog import CONTRACTS, json_schema
from memfin.rag.benchmark import SAMPLE, check_benchmark, load_benchmark
from memfin.rag.document import load_document, segments
from tests.support import each_case

BENCHMARK = load_benchmark(SAMPLE)
assert BENCHMARK.document is not None
DOCUMENT = load_document(BENCHMARK.document)
LINES = BENCHMARK.document.read_text("utf-8").split("\n")
PAGES = {page.number: page.text for page in DOCUMENT.pages}
FACTS = [one for one in BENCHMARK.questions if one.type == "fact_exact"]
GAPS = [one for one in BENCHMARK.questions if one.type == "conflict_gap"]

each_question = each_case("question", BENCHMARK.questions)


def test_the_sample_has_what_it_promises() -> None:
    assert len(PAGES) == 8
    kinds = Counter(one.type for one in BENCHMARK.questions)
    assert kinds == {"fact_exact": 22, "evidence_set": 12, "conflict_gap": 18}
    assert len({one.id for one in BENCHMARK.questions}) == len({one.question for one in BENCHMARK.questions})
    hard = sum(one.metadata.difficulty == "hard" for one in BENCHMARK.questions)
    assert hard * 3 >= len(BENCHMARK.questions)
    assert {one.metadata.difficulty for one in BENCHMARK.questions} == {"easy", "medium", "hard"}
    assert sum(not one.should_abstain for one in GAPS) >= 4


def test_facts_are_of_every_type() -> None:
    named = Counter(name for one in FACTS for name, value in _given(one) if value is not None)
    assert set(named) == {
        "amount_total",
        "amount_breakdown",
        "date",
        "date_range",
        "count",
        "text_answer",
        "boolean_answer",
        "entity",
    }
    assert {one.expected.boolean_answer for one in FACTS} == {None, True, False}


def _given(question: RagQuestion) -> list[tuple[str, Any]]:
    return [(name, question.expected[name]) for name in question.expected if name != "key_points"]


def test_the_command_finds_nothing_in_it() -> None:
    assert list(check_benchmark(SAMPLE)) == []


@each_question
def test_evidence_stands_word_for_word_on_its_page(question: RagQuestion) -> None:
    for evidence in question.required_evidence:
        assert evidence.must_include in PAGES[evidence.page], evidence


@each_question
def test_evidence_stands_with_its_speaker(question: RagQuestion) -> None:
    for evidence in question.required_evidence:
        assert any(
            evidence.must_include in PAGES[part.page][part.start : part.end]
            for part in segments(DOCUMENT)
            if part.page == evidence.page
            and evidence.section in (None, part.section)
            and evidence.speaker in (None, part.speaker)
        ), evidence


@each_question
def test_quotes_stand_word_for_word_and_on_their_lines(question: RagQuestion) -> None:
    for quote in question.additional_quotes:
        assert quote in DOCUMENT.text
    if question.required_quote is None:
        assert question.evidence_location is None
        return
    location = question.evidence_location
    assert location is not None
    assert location.lines is not None
    assert question.required_quote in PAGES[location.page]
    first, last = map(int, location.lines.split("-"))
    assert question.required_quote in "\n".join(LINES[first - 1 : last])
    page = DOCUMENT.page(location.page)
    assert page is not None
    assert page.first_line <= first <= last <= page.line(len(page.text))


def test_amounts_that_are_expected_add_up() -> None:
    for one in FACTS:
        parts = one.expected.breakdown()
        if parts is not None:
            assert sum(parts) == one.expected.amount_total, one.id


def test_what_one_page_does_not_hold_is_asked_for_too() -> None:
    spread = [one for one in BENCHMARK.questions if len({each.page for each in one.required_evidence}) > 1]
    assert len(spread) >= 8


def test_the_files_are_of_the_form_of_the_schema() -> None:
    roots = {"benchmark_type", "description", "document", "questions", "evaluation_criteria"}
    for path in sorted((SAMPLE / "questions").iterdir()):
        content = json.loads(path.read_bytes())
        assert set(content) == roots
        assert path.read_text("utf-8") == json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def test_the_files_fit_the_json_schema() -> None:
    schema = json_schema(CONTRACTS["rag-benchmark"])
    jsonschema.Draft202012Validator.check_schema(schema)
    for path in sorted((SAMPLE / "questions").iterdir()):
        jsonschema.Draft202012Validator(schema).validate(json.loads(path.read_bytes()))


def test_nobody_in_it_is_real() -> None:
    text = DOCUMENT.text
    assert "虚构" in text.splitlines()[2]
    assert re.findall(r"1[3-9]\d[- ]?\d{4}[- ]?\d{4}", text) == ["139-0000-2718"]
    assert not re.search(r"\d{17}[\dXx]|\d{16,19}", text)


def test_the_package_carries_it() -> None:
    assert Path(str(BENCHMARK.document)).parent == SAMPLE
