"""``rag_summary.json`` in pieces: the bytes of the whole, and one question in memory at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.contracts.rag import RagIndividual, RagSummary, iter_individual_results, read_sums, summary_pieces
from memfin.contracts.reading import InvalidRecord
from memfin.rag.aggregation import individual_results
from memfin.runtime.bench_plan import make_bench_plan
from memfin.runtime.outputs import pretty_json
from memfin.runtime.run import Run
from tests.rag.bench_support import Counting, mixed
from tests.support import each_case

AWKWARD = '"\n  ]\n    },\n  "individual_results": [\n'


def listed(number: int, **changes: Any) -> RagIndividual:
    fields: dict[str, Any] = {
        "id": f"q{number:04}",
        "type": "fact_exact",
        "question": AWKWARD,
        "passed": number % 2 == 0,
        "score": 0.5,
        "max_score": 1.0,
        "details": {"a": [], "b": {}, "fields": [{"field": "amount", "got": 1.25}], AWKWARD: None},
    }
    return RagIndividual(**{**fields, **changes})


def summary(results: list[RagIndividual]) -> RagSummary:
    return RagSummary(
        schema_version="1.0.0",
        run_id="r",
        total_tests=len(results),
        passed_tests=0,
        pass_rate=0.0,
        overall_score=0.0,
        max_score=1.0,
        overall_percentage=0.0,
        by_type={},
        system=AWKWARD,
        individual_results=results,
    )


@each_case("number", [0, 1, 2, 400])
def test_the_pieces_are_the_bytes_of_the_whole(number: int) -> None:
    whole = summary([listed(place) for place in range(number)])
    pieces = list(summary_pieces(whole.replace(individual_results=[]), iter(whole.individual_results)))
    assert b"".join(pieces) == pretty_json(whole)
    assert max(map(len, pieces)) < 100_000
    assert len(pieces) > number // 200


@pytest.mark.parametrize("form", ["own", "compact", "deep", "windows", "marked"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_sums_and_questions_are_read_apart_in_any_form(tmp_path: Path, form: str, number: int) -> None:
    whole = summary([listed(place) for place in range(number)])
    own = pretty_json(whole)
    path = tmp_path / "rag_summary.json"
    path.write_bytes(
        {
            "own": own,
            "compact": msgspec.json.encode(whole),
            "deep": msgspec.json.format(own, indent=4),
            "windows": own.replace(b"\n", b"\r\n"),
            "marked": b"\xef\xbb\xbf" + own,
        }[form]
    )
    assert read_sums(path) == whole.replace(individual_results=[])
    assert list(iter_individual_results(path)) == whole.individual_results


def test_a_question_is_there_before_what_follows_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rag_summary.json"
    own = pretty_json(summary([listed(place) for place in range(3)]))
    path.write_bytes(own.replace(b'"q0001"', b"1"))
    results: Iterator[RagIndividual] = iter_individual_results(path)
    assert next(results).id == "q0000"
    with pytest.raises(
        InvalidRecord, match=r"rag_summary.json: \$.individual_results\[1\].id: Expected `str`"
    ):
        next(results)
    assert read_sums(path).total_tests == 3


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (b'    {\n      "id": "q0002"', r"\$.individual_results: the list does not end"),
        (b'      "question"', r"\$.individual_results: the list does not end"),
        (b'  "schema_version"', r"\$: invalid JSON"),
    ],
    ids=["between", "within", "before"],
)
def test_a_file_that_breaks_off_is_one_error(tmp_path: Path, cut: bytes, message: str) -> None:
    path = tmp_path / "rag_summary.json"
    own = pretty_json(summary([listed(place) for place in range(3)]))
    path.write_bytes(own.partition(cut)[0])
    with pytest.raises(InvalidRecord, match=message):
        list(iter_individual_results(path))
    with pytest.raises(InvalidRecord, match=r"rag_summary.json: \$: invalid JSON"):
        read_sums(path)


def test_what_is_too_large_for_one_document_is_refused_unless_it_comes_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = summary([listed(place) for place in range(30)])
    path = tmp_path / "rag_summary.json"
    path.write_bytes(pretty_json(whole))
    monkeypatch.setattr("memfin.contracts.rag.MAX_DOCUMENT_BYTES", 2000)
    assert read_sums(path).total_tests == 30
    assert len(list(iter_individual_results(path))) == 30
    for other in (msgspec.json.encode(whole), msgspec.json.format(pretty_json(whole), indent=4)):
        path.write_bytes(other)
        with pytest.raises(InvalidRecord, match="larger than 2000 bytes"):
            read_sums(path)


async def test_the_summary_lists_what_is_committed_in_the_order_of_ids(tmp_path: Path) -> None:
    mixed(tmp_path / "b")
    plan = make_bench_plan(tmp_path / "b", rag=Counting(broken="f03"), runs_dir=tmp_path, run_id="r")
    returned = await Run(plan).run()
    path = tmp_path / "r" / "rag_summary.json"
    whole = msgspec.json.decode(path.read_bytes(), type=RagSummary)
    assert path.read_bytes() == pretty_json(whole)
    assert returned == whole.replace(individual_results=[])
    results = list(individual_results(tmp_path / "r" / "rag_results.jsonl"))
    assert whole.individual_results == results
    assert [one.id for one in results] == ["e1", *(f"f{number:02}" for number in range(10)), "g1"]
    assert results[4].error is not None


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rag_results.jsonl"
    path.write_bytes(b'{"id": "a", "question_index": 1}\n')
    with pytest.raises(InvalidRecord, match=r"rag_results.jsonl: \$: Object missing required field `type`"):
        list(individual_results(path))
