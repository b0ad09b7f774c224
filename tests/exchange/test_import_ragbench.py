"""``memfin import ragbench``: questions of FinanceBench and RAGAS become benchmarks that run."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from memfin.errors import UsageError
from memfin.exchange.ragbench import import_ragbench, typed_answer
from memfin.rag.benchmark import check_benchmark
from memfin.rag.document import load_document
from tests.commands import run_command

CASH = (
    "Cash flow of Pellworm Pumps (in millions)\nPurchases of plant and machinery (1,577) (1,373)\n"
    "The valves division was sold on March 3, 2021."
)
GROSS = "The gross margin rose on lower freight charges and repeated price increases, less a weaker krona."
MARGIN = f"{GROSS}\nWe sell in 12 countries. Mara Ellingsen is the chief executive."
FREIGHT = "Freight charges fell and price increases held, while the krona took back a part."


def row(
    number: int, question: str, answer: str, words: str = "", page: int = 4, **more: Any
) -> dict[str, Any]:
    """Return a question in the shape of FinanceBench, with evidence on a page that counts from 0."""
    whole = {4: CASH, 8: MARGIN}[page]
    evidence = [{"evidence_text": words, "evidence_page_num": page, "evidence_text_full_page": whole}]
    fields = {"financebench_id": f"fb_{number}", "doc_name": "PELLWORM_2021_10K", "question": question}
    return {**fields, "answer": answer, "evidence": evidence if words else [], **more}


ROWS = [
    row(
        1,
        "What was spent on plant (in USD millions)?",
        "$1577.00",
        "Purchases of plant and machinery (1,577)",
    ),
    row(2, "What moved the gross margin?", FREIGHT, GROSS, 8, question_type="domain-relevant"),
    row(3, "In how many countries does it sell?", "12", "We sell in 12 countries.", 8, company="Pellworm"),
    row(4, "When was the valves division sold?", "March 3, 2021", "sold on March 3, 2021."),
    row(5, "Who leads the company?", "Mara Ellingsen", "Mara Ellingsen is the chief executive.", 8),
    row(6, "Does it sell in more than ten countries?", "Yes.", "We sell in 12 countries.", 8),
    row(7, "What is the bonus of the treasurer?", "The documents do not say."),
]


def jsonl(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows), "utf-8")
    return path


def questions(path: Path) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in json.loads(path.read_text("utf-8"))["questions"]}


def score(path: Path, system: str, runs: Path) -> dict[str, Any]:
    done = run_command("bench", path, "--rag", system, "--runs-dir", runs, "--run-id", system, "--quiet")
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads((runs / system / "rag_summary.json").read_text("utf-8"))
    return summary


def test_financebench_is_imported_validated_and_run(tmp_path: Path) -> None:
    jsonl(tmp_path / "fb.jsonl", *ROWS)
    done = run_command("import", "ragbench", tmp_path / "fb.jsonl", "--out", tmp_path / "benchmarks")
    file = tmp_path / "benchmarks" / "PELLWORM_2021_10K.json"
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"{file}: 1 conflict_gap, 1 evidence_set, 5 fact_exact",
        f"{file.with_suffix('.md')}: pages 5, 9",
    ]
    assert f"{tmp_path / 'fb.jsonl'}:7: 1 question to which the answer is that there is none" in done.stderr
    found = questions(file)
    typed = {
        name: {k: v for k, v in each.get("expected", {}).items() if k != "key_points"}
        for name, each in found.items()
    }
    assert typed == {
        "fb_1": {"amount_total": 1577},
        "fb_2": {},
        "fb_3": {"count": 12},
        "fb_4": {"date": "2021-03-03"},
        "fb_5": {"entity": "Mara Ellingsen"},
        "fb_6": {"boolean_answer": True},
        "fb_7": {},
    }
    assert found["fb_1"]["required_evidence"] == [{"page": 5, "must_include": "1,577"}]
    assert found["fb_1"]["scoring"] == {"numeric_exact": True, "citation_required": True}
    assert found["fb_4"]["scoring"] == {"date_exact": True, "citation_required": True}
    assert found["fb_2"]["type"] == "evidence_set"
    assert found["fb_2"]["metadata"] == {"category": "domain-relevant"}
    assert found["fb_2"]["expected"] == {"key_points": [FREIGHT]}
    assert [each["must_include"].lower() for each in found["fb_2"]["required_evidence"]] == [
        "freight charges",
        "price increases",
        "krona",
    ]
    assert found["fb_3"]["metadata"] == {"tags": ["Pellworm"]}
    assert (found["fb_7"]["type"], found["fb_7"]["should_abstain"]) == ("conflict_gap", True)
    assert [page.number for page in load_document(file.with_suffix(".md")).pages] == [5, 9]
    assert run_command("validate", file).returncode == 0
    assert score(file, "oracle", tmp_path / "runs")["overall_percentage"] == 100
    assert score(file, "builtin", tmp_path / "runs")["total_tests"] == len(ROWS)


RAGAS_1 = {
    "question": "When was the valves division sold?",
    "ground_truth": "March 3, 2021",
    "contexts": [CASH, MARGIN],
}
RAGAS_2 = {
    "user_input": "What moved the gross margin?",
    "reference": FREIGHT,
    "reference_contexts": [MARGIN],
    "response": "The krona.",
    "retrieved_contexts": [CASH],
    "synthesizer_name": "single_hop",
}


def csv_of(path: Path, *rows: dict[str, Any]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)  # lists as Python text, as a data frame writes them
    return path


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("old.jsonl", RAGAS_1, f"{CASH}\n\n{MARGIN}"),
        ("old.csv", RAGAS_1, f"{CASH}\n\n{MARGIN}"),
        (
            "truths.json",
            {**RAGAS_1, "ground_truth": None, "ground_truths": ["March 3, 2021"]},
            f"{CASH}\n\n{MARGIN}",
        ),
        ("new.jsonl", RAGAS_2, MARGIN),
        ("new.csv", RAGAS_2, MARGIN),
    ],
)
def test_ragas_is_imported_validated_and_run(
    tmp_path: Path, name: str, given: dict[str, Any], text: str
) -> None:
    path = (csv_of if name.endswith("csv") else jsonl)(tmp_path / name, given)
    out = tmp_path / "bench.json"
    _, remarks = import_ragbench([path], out)
    (question,) = questions(out).values()
    assert question["question"] == given.get("user_input", given.get("question"))
    if given is RAGAS_2:
        assert (question["type"], question["metadata"]) == ("evidence_set", {"category": "single_hop"})
        assert list(remarks) == ["with a system's answer, which is not read"]
    else:
        assert question["expected"]["date"] == "2021-03-03"
        assert question["required_evidence"] == [{"page": 1, "must_include": "March 3, 2021"}]
        assert not remarks
    assert [page.text.strip() for page in load_document(tmp_path / f"{path.stem}.md").pages] == [text]
    assert not [*check_benchmark(out)]
    assert score(out, "oracle", tmp_path / "runs")["overall_percentage"] == 100


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("$1,577 million", {"amount_total": 1.577e9}),
        ("0.66", {"amount_total": 0.66}),
        ("3.2万元", {"amount_total": 32000}),
        ("24.5%", {"text_answer": "24.5%"}),
        ("-3.7%", {"text_answer": "-3.7%"}),
        ("$(12.3)", {"text_answer": "$(12.3)"}),
        ("1.9 times", {"text_answer": "1.9 times"}),
        ("2019", {"text_answer": "2019"}),
        ("March 3", {"text_answer": "March 3"}),
        ("12 sales offices", {"count": 12}),
        ("四次", {"count": 4}),
        ("March 2021", {"date": "2021-03"}),
        ("2021年3月6日至2021年5月1日", {"date_range": {"start": "2021-03-06", "end": "2021-05-01"}}),
        ("from March 2 to March 5, 2021", {"date_range": {"start": "2021-03-02", "end": "2021-03-05"}}),
        ("否", {"boolean_answer": False}),
        ("Mara Ellingsen", {"entity": "Mara Ellingsen"}),
        ("cash in hand.", {"text_answer": "cash in hand"}),
        ("$8.70bn", {"amount_total": 8.7e9}),
        ("$12 per share", {}),
        ("$5 and $6", {}),
        ("Q2 2023", {}),
        ("Yes, on pricing", {}),
        ("Somebody Else", {}),
    ],
)
def test_only_answers_that_are_wholly_a_value_are_typed(answer: str, expected: dict[str, Any]) -> None:
    assert typed_answer(answer, "", "Mara Ellingsen has cash in hand.")[0] == expected


def test_a_rounded_amount_is_not_compared_exactly() -> None:
    assert typed_answer("about $3.2 million", "")[1] == {"numeric_exact": False}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("$5,300 million were earned in Asia, more than in any of the years before that one.", "5,300"),
        ("Asia grew by 3.9%, which is less than what the other regions reported together.", "3.9"),
        ("Nobody explains it, and no word of this sentence is anywhere on that sheet.", "Why so in Asia"),
    ],
)
def test_evidence_is_recognized_by_what_it_shares(tmp_path: Path, answer: str, words: str) -> None:
    evidence = {"evidence_text": "Why so in Asia: 5,300 5,100 3.9", "evidence_page_num": "0"}
    path = jsonl(
        tmp_path / "fb.jsonl", {"doc_name": "d", "question": "?", "answer": answer, "evidence": [evidence]}
    )
    import_ragbench([path], tmp_path / "out.json")
    (question,) = questions(tmp_path / "out.json").values()
    assert words in question["required_evidence"][0]["must_include"]


def test_documents_are_apart_and_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    other: dict[str, Any] = {
        "doc_name": "Other/10Q",
        "evidence": [{"evidence_text": "It was $8.70bn.", "evidence_page_num": 0}],
    }
    path = jsonl(
        tmp_path / "fb.jsonl",
        ROWS[0],
        row(1, "Once more?", "5"),
        row(2, "Why?", "Nobody has ever had a reason for that which would fill one line alone."),
        row(3, "", "5"),
        row(4, "What?", ""),
        row(5, "Where?", "5", doc_name=""),
        row(
            6,
            "Both?",
            "5",
            evidence=[{"evidence_text": "5", "doc_name": "Other/10Q", "evidence_page_num": 0}],
        ),
        row(7, "How much?", "$8.70bn", **other),
        row(8, "Which one?", "Neither of both", "sold on March 3, 2021."),
        row(9, "What else?", "$77.00", "not in there at all"),
        row(10, "And?", "$77.00", evidence=[{"evidence_text": "77", "evidence_page_num": None}]),
    )
    written, remarks = import_ragbench([path], tmp_path / "out")
    assert {
        remark: [int(place.rpartition(":")[2]) for place in places] for remark, places in remarks.items()
    } == {
        "left out, with the id of an earlier question": [2],
        "left out, with an answer that is no value, and no evidence on a page": [3],
        "left out, without a question": [4],
        "left out, without a reference answer": [5],
        "left out, without doc_name": [6],
        "left out, with evidence of several documents": [7],
        "with a short answer that is no value: evidence is scored": [9],
        "with evidence that shares nothing with the answer: other words of it are required": [9],
        "with evidence that is not on its page, which is not required": [10],
        "with evidence without a page, which is not required": [11],
    }
    assert {path.name: content for path, content in written.items()} == {
        "PELLWORM_2021_10K.json": "1 evidence_set, 3 fact_exact",
        "PELLWORM_2021_10K.md": "pages 5",
        "Other_10Q.json": "1 fact_exact; put the document Other_10Q beside it, of which no page is given",
    }
    for file in (tmp_path / "out").glob("*.json"):
        assert not [*check_benchmark(file)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            '{"question": "q", "answer": "a"}',
            r":1: no question of FinanceBench or RAGAS, .* contexts, doc_name, ",
        ),
        ('{"doc_name": "d", "question": 3}', r":1: question: expected a text"),
        (
            '{"doc_name": "d", "evidence": [{"evidence_page_num": -1}]}',
            r":1: Expected `int` >= 0 - at `\$\[0\]",
        ),
        (
            json.dumps({"contexts": r"['\ud800']", "question": "q", "reference": "a"}),
            r":1: .* surrogates not allowed",
        ),
        ('{"question": "q", "contexts": 3}', r":1: Expected `array`, got `int`"),
        ('{"doc_name": "d"}\nnone', r":2: no JSON"),
        ("[3]", r":1: no JSON object"),
        ('{"doc_name": "d"}', r":1: left out, without a question"),
        ('{"user_input": [{"type": "human"}], "reference": "a"}', r":1: left out, of several turns"),
        ("", r"no question can be used"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "q.jsonl").write_text(content)
    with pytest.raises(UsageError, match=expected) as caught:
        import_ragbench([tmp_path / "q.jsonl"], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["q.jsonl"]


def test_nothing_is_overwritten_and_a_file_holds_one_document(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "fb.jsonl", ROWS[0], {**ROWS[1], "doc_name": "Other"})
    with pytest.raises(
        UsageError, match=r"one\.json: for the questions of several documents; give a directory"
    ):
        import_ragbench([path], tmp_path / "one.json")
    import_ragbench([path], tmp_path / "out")
    with pytest.raises(UsageError, match=r"out exists; remove it"):
        import_ragbench([path], tmp_path / "out")
    jsonl(path, ROWS[0])
    (tmp_path / "PELLWORM_2021_10K.md").write_text("mine")
    with pytest.raises(UsageError, match=r"PELLWORM_2021_10K\.md exists; remove it"):
        import_ragbench([path], tmp_path / "one.json")
    same = jsonl(tmp_path / "same.jsonl", ROWS[0], {**ROWS[1], "doc_name": "PELLWORM 2021 10K"})
    with pytest.raises(UsageError, match=r"several documents; rename 'PELLWORM 2021 10K'"):
        import_ragbench([same], tmp_path / "new")


@pytest.mark.parametrize(
    "answer", ["Not disclosed.", "N/A", "文件没有说明。", "There is no information on that."]
)
def test_an_answer_of_no_answer_is_to_be_declined_whatever_the_evidence_has(
    tmp_path: Path, answer: str
) -> None:
    given = {
        "user_input": "What is the bonus?",
        "reference": answer,
        "reference_contexts": [f"Bonus: {answer}"],
    }
    import_ragbench([jsonl(tmp_path / "q.jsonl", given)], tmp_path / "bench.json")
    (question,) = questions(tmp_path / "bench.json").values()
    assert (question["type"], question["expected_behavior"]) == ("conflict_gap", answer)


def test_shape_is_forced(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "q.jsonl", {**RAGAS_1, "doc_name": "from the index"})
    import_ragbench([path], tmp_path / "bench.json", "ragas")
    assert questions(tmp_path / "bench.json")["q-1"]["expected"]["date"] == "2021-03-03"


def test_an_array_on_one_line_has_as_many_ids_as_questions_and_figures_may_be_numbers(tmp_path: Path) -> None:
    given = [
        {"question": f"Ratio {at}?", "ground_truth": truth, "contexts": ["0.66"]}
        for at, truth in enumerate((0.66, True))
    ]
    (tmp_path / "q.json").write_text(json.dumps(given))
    import_ragbench([tmp_path / "q.json"], tmp_path / "bench.json")
    found = questions(tmp_path / "bench.json")
    assert found["q-1"]["expected"]["amount_total"] == 0.66
    assert found["q-2"]["expected"]["boolean_answer"] is True
