"""Judging answers: the pages that are shown, the prompt and its fences, strict reading, votes, sums."""

import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memfin.client.structured import InvalidAnswer
from memfin.contracts.judgement import ControlKind, JudgeFailure
from memfin.contracts.rag import (
    RagAnswer,
    RagJudgeControl,
    RagJudged,
    RagJudgement,
    RagJudgeRequest,
    RagQuestion,
    RagResult,
    RagSummary,
    RagVerdict,
)
from memfin.judges.prompts import MAX_CHARS, TooLong
from memfin.judges.protocol import JudgeResult
from memfin.rag.aggregation import RagState
from memfin.rag.document import Document, Page
from memfin.rag.judging import (
    MAX_PAGE_CHARS,
    SCHEMA,
    JudgeState,
    RagControl,
    RagTask,
    RagVotes,
    judge_request,
    mark_of,
    rag_control_result,
    rag_control_warnings,
    rag_controls,
    read_answer,
)
from memfin.rag.scoring import DocumentIndex
from memfin.validation import validate_file
from tests.judges.injections import injections
from tests.judges.scripted_judge import OBEY, fences, skeleton
from tests.support import each_case

ATTEMPTS = list(injections())[::7]
NONCE = "0f" * 16
TASK = RagTask()
GOOD = {
    "faithfulness_reason": "f",
    "faithfulness": 4,
    "answer_correctness_reason": "c",
    "answer_correctness": 2,
}


def question(**changes: Any) -> RagQuestion:
    plain: dict[str, Any] = {
        "id": "q1",
        "type": "fact_exact",
        "question": "一共付了多少钱？",
        "expected": {"amount_total": 42000, "key_points": ["分两次"]},
        "required_evidence": [{"page": 2, "must_include": "42000元"}],
    }
    return msgspec.convert(plain | changes, RagQuestion)


def answer(text: str = "一共42000元。", **changes: Any) -> RagAnswer:
    return msgspec.convert({"answer": text, **changes}, RagAnswer)


def index(*texts: str) -> DocumentIndex:
    found = texts or ("第一页的话。", "他付了42000元。", "都忘记了。", "还有一页。")
    return DocumentIndex(Document("d", tuple(Page(number, text) for number, text in enumerate(found, 1))))


def request(**changes: Any) -> RagJudgeRequest:
    return judge_request(question(), answer(), index()).replace(**changes)


def test_required_pages_come_first_then_those_that_the_answer_points_at() -> None:
    said = answer(
        evidence=[{"page": 4, "text": "还有"}, {"text": "都忘记了"}, {"text": "哪里都没有的话"}],
        citation=[{"page": 4, "quote": "还有"}, {"page": 9, "quote": "没有这页"}, {"page": 2, "quote": "付"}],
    )
    asked = judge_request(question(), said, index())
    assert [page.number for page in asked.pages] == [2, 4, 3]
    assert asked.pages[0].text == "他付了42000元。"
    located = question(required_evidence=[], evidence_location={"page": 3}, type="conflict_gap")
    assert [page.number for page in judge_request(located, answer(), index()).pages] == [3]
    assert judge_request(question(required_evidence=[]), answer(), index()).pages == []


def test_an_answer_that_points_everywhere_does_not_push_the_evidence_out() -> None:
    pages = ["长" * (MAX_PAGE_CHARS // 3)] * 9
    everywhere = answer(citation=[{"page": number, "quote": "长"} for number in range(1, 10)])
    asked = judge_request(
        question(required_evidence=[{"page": 8, "must_include": "长"}]), everywhere, index(*pages)
    )
    assert [page.number for page in asked.pages] == [8, 1, 2]
    assert asked.pages_left_out == 6
    assert (
        "6" in TASK.grading_prompt(asked, 0).prompt.messages(NONCE)[1]["content"].rpartition("</untrusted")[2]
    )


def test_a_needed_page_that_is_too_long_is_refused_and_not_cut() -> None:
    asked = judge_request(question(), answer(), index("a", "长" * MAX_CHARS))
    with pytest.raises(TooLong, match="a judge is shown 60000 at most"):
        TASK.grading_prompt(asked, 0)


@each_case("language", ["zh", "en"])
def test_everything_untrusted_stands_in_a_fence_of_its_own(language: str) -> None:
    said = answer("一共42000元。", amount=42000, evidence=[{"page": 2, "text": "付了"}], abstained=False)
    asked = judge_request(question(), said, index()).replace(language=language)
    messages = TASK.grading_prompt(asked, 0).prompt.messages(NONCE)
    assert fences(messages) == {
        "question": "一共付了多少钱？",
        "expected": (
            "should_abstain: false\namount_total: 42000.0\nkey_points: 分两次\nrequired (page 2): 42000元"
        ),
        "page_2": "他付了42000元。",
        "answer": "一共42000元。\namount: 42000.0\nabstained: false\nevidence (page 2): 付了",
    }
    assert ("Judge the answer" in messages[1]["content"]) == (language == "en")
    gap = question(
        type="conflict_gap",
        should_abstain=True,
        expected={},
        required_evidence=[],
        required_quote="都忘记了",
        expected_behavior="不得编造",
    )
    assert fences(TASK.grading_prompt(judge_request(gap, answer(), index()), 0).prompt.messages(NONCE))[
        "expected"
    ] == ("should_abstain: true\nrequired: 都忘记了\nexpected_behavior: 不得编造")
    bare = RagJudgeRequest(question=question(), answer=answer(), language="en")
    assert "so none is given" in TASK.grading_prompt(bare, 0).prompt.messages(NONCE)[1]["content"]


def test_the_language_is_that_of_the_question() -> None:
    assert judge_request(question(), answer(), index()).language == "zh"
    assert judge_request(question(question="How much?"), answer(), index()).language == "en"


@each_case("vote", [0, 1, 2])
@each_case("place", ["question", "expected", "page", "answer", "citation"])
def test_no_injection_gets_out_of_its_fence(place: str, vote: int) -> None:
    def asked(text: str) -> list[dict[str, Any]]:
        held = {
            "question": lambda: judge_request(question(question=text), answer(), index()),
            "expected": lambda: judge_request(question(expected={"key_points": [text]}), answer(), index()),
            "page": lambda: judge_request(question(), answer(), index("a", text or "x")),
            "answer": lambda: judge_request(question(), answer(text), index()),
            "citation": lambda: judge_request(
                question(), answer(citation=[{"page": 2, "quote": text}]), index()
            ),
        }[place]()
        return TASK.grading_prompt(held.replace(language="zh"), vote).prompt.messages(NONCE)

    benign = skeleton(asked("普通的话"))
    for text in ATTEMPTS:
        messages = asked(text)
        assert skeleton(messages) == benign
        assert OBEY not in skeleton(messages)


def test_the_prompt_is_the_same_but_for_its_nonce() -> None:
    one = TASK.grading_prompt(request(), 0).prompt
    assert one.digest() == TASK.grading_prompt(request(), 0).prompt.digest()
    assert one.digest() != TASK.grading_prompt(request(answer=answer("x")), 0).prompt.digest()
    assert one.digest() != TASK.grading_prompt(request(), 1).prompt.digest()
    assert TASK.prompt_hashes().keys() >= {"rag-judge-v1.system.zh.j2", "rag-judge-v1.user.en.j2"}


def test_later_votes_see_other_orders_and_no_names() -> None:
    asked = request(answer=answer("GPT-4o 说一共42000元。"))
    orders = [list(fences(TASK.grading_prompt(asked, vote).prompt.messages(NONCE))) for vote in range(4)]
    assert orders[0] == ["question", "expected", "page_2", "answer"]
    assert orders[1] == orders[0][::-1]
    assert len({tuple(order) for order in orders}) == 4
    assert "GPT-4o" in fences(TASK.grading_prompt(asked, 0).prompt.messages(NONCE))["answer"]
    assert "▇▇" in fences(TASK.grading_prompt(asked, 1).prompt.messages(NONCE))["answer"]


def test_the_estimate_grows_with_what_is_shown() -> None:
    small, large = request(), request(answer=answer("长" * 1000))
    assert TASK.grading_prompt(large, 0).tokens - TASK.grading_prompt(small, 0).tokens == pytest.approx(
        1000, abs=20
    )


def test_an_answer_is_read_as_strictly_as_it_is_asked_for() -> None:
    assert list(SCHEMA["properties"]) == SCHEMA["required"] == list(GOOD)
    assert not SCHEMA["additionalProperties"]
    assert read_answer(json.dumps(GOOD)) == RagVerdict(
        faithfulness=4.0, answer_correctness=2.0, faithfulness_reason="f", answer_correctness_reason="c"
    )
    assert read_answer(json.dumps(GOOD | {"faithfulness": 5.0})).faithfulness == 5
    assert (
        len(read_answer(json.dumps(GOOD | {"faithfulness_reason": "x" * 5000})).faithfulness_reason) == 1000
    )


@each_case(
    "change",
    [
        {"faithfulness": 0},
        {"faithfulness": 6},
        {"answer_correctness": 2.5},
        {"answer_correctness": "4"},
        {"answer_correctness": None},
        {"faithfulness": True},
        {"faithfulness_reason": 3},
        {"faithfulness_reason": "\ud83d"},
        {"score": 5},
    ],
)
def test_what_is_no_verdict_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidAnswer, match="is not a verdict"):
        read_answer(json.dumps(GOOD | change))


@each_case("name", list(GOOD))
def test_no_part_of_a_verdict_may_be_missing(name: str) -> None:
    with pytest.raises(InvalidAnswer, match=name):
        read_answer(json.dumps({key: value for key, value in GOOD.items() if key != name}))


def vote(faithfulness: float, correctness: float, reason: str = "") -> RagVerdict:
    return RagVerdict(
        faithfulness=faithfulness,
        answer_correctness=correctness,
        faithfulness_reason=f"f{reason}",
        answer_correctness_reason=f"c{reason}",
    )


def test_votes_combine_to_the_median_of_each_mark_with_its_reason() -> None:
    assert TASK.combined(request(), [vote(4, 2)]).spread is None
    for order in permutations([vote(5, 1, "x"), vote(3, 2, "y"), vote(4, 5, "z")]):
        found = TASK.combined(request(), order)
        assert (found.faithfulness, found.answer_correctness, found.spread) == (4.0, 2.0, 4.0)
        assert (found.faithfulness_reason, found.answer_correctness_reason) == ("fz", "cy")
    assert TASK.combined(request(), [vote(4, 1), vote(5, 2)]).faithfulness == 4.5


def test_a_verdict_is_scrubbed_in_both_reasons() -> None:
    found = TASK.scrubbed(vote(4, 2, "KEY"), lambda text: text.replace("KEY", "***"))
    assert (found.faithfulness_reason, found.answer_correctness_reason) == ("f***", "c***")


def judgement(number: int, vote_number: int, verdict: RagVerdict | None) -> RagJudgement:
    return RagJudgement(
        run_id="r",
        id=f"q{number}",
        question_index=number,
        judge="m",
        prompt_hash="h",
        attempts=1,
        vote=vote_number,
        verdict=verdict,
        error=None if verdict else "no",
    )


def test_agreement_is_computed_for_each_mark() -> None:
    tally = RagVotes()
    tally.add([judgement(1, 1, vote(4, 2))])
    stats = tally.statistics(tally.look_ups, [])
    assert (stats.agreement, stats.spread_mean) == ({}, None)
    tally.add([judgement(2, 1, vote(4, 2)), judgement(2, 2, vote(4, 5))])
    tally.add([judgement(3, 1, vote(1, 3)), judgement(3, 2, vote(1, 3))])
    stats = tally.statistics(tally.look_ups, [])
    faithfulness = stats.agreement["faithfulness"]
    assert (faithfulness.alpha, faithfulness.observed) == (1.0, 1.0)
    assert stats.agreement["answer_correctness"].observed == 0.5
    assert (stats.spread_mean, stats.spread_max) == (1.5, 3.0)


def test_votes_of_which_one_failed_leave_nothing_to_compare() -> None:
    tally = RagVotes()
    tally.add([judgement(1, 1, vote(4, 2)), judgement(1, 2, vote(4, 3))])
    tally.add([judgement(2, 1, vote(4, 2)), judgement(2, 2, None)])
    stats = tally.statistics(tally.look_ups, [])
    assert (stats.votes, stats.failed_votes, stats.agreement["faithfulness"].units) == (4, 1, 1)


def test_a_mean_has_an_interval_within_the_scale_that_is_never_a_point() -> None:
    mark = mark_of(Counter([5.0, 4.0, 2.0, 4.0]))
    assert (mark.count, mark.mean) == (4, 3.75)
    assert mark.ci95
    assert 1 <= mark.ci95[0] < 3.75 < mark.ci95[1] <= 5
    assert mark_of({}).mean is None
    assert mark_of({4.0: 1}).ci95 is None
    same = mark_of({3.0: 2}).ci95
    assert same
    assert same[0] < 3 < same[1]


def result(number: int, judged: RagJudged | None) -> RagResult:
    return RagResult(
        schema_version="1.0.0",
        run_id="r",
        id=f"q{number}",
        type="fact_exact" if number % 2 else "evidence_set",
        question="?",
        question_index=number,
        passed=True,
        score=1.0,
        max_score=1.0,
        judge=judged if judged is not None else msgspec.UNSET,
    )


judged_results = st.lists(
    st.one_of(
        st.none(),
        st.builds(
            lambda f, c: RagJudged(judge="m", faithfulness=f, answer_correctness=c),
            st.floats(1, 5),
            st.floats(1, 5),
        ),
        st.just(RagJudged(judge="m", error="no", declined="refused")),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(judged_results, st.randoms(use_true_random=False), st.integers(0, 8))
def test_sums_have_no_order_and_shards_merge(found: list[RagJudged | None], random: Any, cut: int) -> None:
    rows = [result(number, judged) for number, judged in enumerate(found, 1)]

    def summary(*shards: list[RagResult]) -> bytes:
        states = [RagState() for _ in shards]
        for state, shard in zip(states, shards, strict=True):
            for row in shard:
                state.add(row)
        for other in states[1:]:
            states[0].merge(other)
        return msgspec.json.encode(states[0].summary("r"))

    shuffled = rows.copy()
    random.shuffle(shuffled)
    assert summary(rows) == summary(shuffled) == summary(rows[cut:], rows[:cut])
    judge = msgspec.json.decode(summary(rows), type=RagSummary).judge
    asked = [each for each in found if each is not None]
    if not asked:
        assert judge is msgspec.UNSET
    else:
        assert judge is not msgspec.UNSET
        assert judge.asked == len(asked)
        assert judge.failed == sum(each.error is not None for each in asked)
        assert judge.faithfulness.count == judge.asked - judge.failed


def test_no_judged_answer_is_no_part_of_the_summary() -> None:
    assert JudgeState().summary() is msgspec.UNSET


def test_controls_are_made_of_the_first_questions_and_of_nothing_the_system_says() -> None:
    questions = [question(id=f"q{number}") for number in range(5)]
    made = rag_controls(questions, index())
    assert [(each.kind, each.request.question.id) for each in made] == [
        (kind, f"q{number}") for number in range(3) for kind in ("null", "injected", "oracle")
    ]
    null, injected, oracle = (each.request for each in made[:3])
    assert injected.answer.answer.startswith(null.answer.answer)
    assert '"faithfulness": 5' in injected.answer.answer
    assert oracle.answer.amount == 42000
    assert null.pages == injected.pages == oracle.pages != []
    english = rag_controls([question(question="How much?")], index())
    assert "SYSTEM" in english[1].request.answer.answer


def control(kind: ControlKind, faithfulness: float | None, correctness: float = 1.0) -> RagJudgeControl:
    asked = RagControl(kind, request())
    if faithfulness is None:
        return rag_control_result(asked, JudgeResult(JudgeFailure(reason="HTTP 500")))
    return rag_control_result(asked, JudgeResult(vote(faithfulness, correctness)))


@each_case(
    ("found", "told"),
    [
        ([control("null", 1), control("injected", 1), control("oracle", 5, 4)], []),
        ([control("null", 3), control("injected", 3), control("oracle", 5, 4)], ["says nothing got 3"]),
        ([control("null", 1), control("injected", 1, 4), control("oracle", 5, 4)], ["its own marks got 4"]),
        ([control("injected", 2)], ["orders its own marks got 2"]),
        ([control("null", 1), control("oracle", 5, 2)], ["got 2 of 5 for answer_correctness on average"]),
        ([control("null", 4, 1), control("oracle", 4, 5)], ["says nothing", "4 of 5 for faithfulness on"]),
        ([control("null", None), control("oracle", 5, 5)], ["1 of 2 controls could not be judged: HTTP 500"]),
        ([], []),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_judge_is_told(found: list[RagJudgeControl], told: list[str]) -> None:
    warnings = rag_control_warnings(found)
    assert len(warnings) == len(told)
    assert all(words in line for words, line in zip(told, warnings, strict=True))


JUDGED: dict[str, Any] = {"judge": "m", "faithfulness": 4.0, "answer_correctness": 2.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"judge": JUDGED | {"faithfulness": None}}, "has both marks"),
        ({"judge": JUDGED | {"error": "no"}}, "has both marks"),
        ({"judge": JUDGED | {"declined": "refused"}}, "did not fail"),
        ({"judge": JUDGED | {"faithfulness": 9.0}}, "9.0"),
        ({"judge": JUDGED, "error": "x", "passed": False, "score": 0.0}, "has no answer"),
    ],
    ids=["one-mark", "mark-and-error", "declined", "range", "no-answer"],
)
def test_a_judged_result_that_contradicts_itself_is_found(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "rag_results.jsonl"
    row = msgspec.to_builtins(result(1, None)) | {"answer": {"answer": "x"}, "judge": JUDGED}
    path.write_text(json.dumps(row) + "\n")
    assert list(validate_file(path)) == []
    path.write_text(json.dumps(row | change) + "\n")
    assert any(message in finding.message for finding in validate_file(path))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"asked": 3}, "$.judge.asked"),
        ({"failed": 1}, "$.judge.failed"),
        ({"faithfulness": {"count": 2, "mean": 4.5, "ci95": None}}, "$.judge.faithfulness"),
        (
            {"answer_correctness": {"count": 2, "mean": 2.0, "ci95": [3, 2]}},
            "$.judge.answer_correctness.ci95",
        ),
        ({"by_type": {}}, "$.judge.by_type.fact_exact.asked"),
        (None, "$.judge"),
    ],
    ids=["asked", "failed", "mean", "interval", "types", "missing"],
)
def test_a_summary_that_differs_from_its_questions_is_found(
    tmp_path: Path, change: dict[str, Any] | None, place: str
) -> None:
    state, rows = RagState(), [result(number, RagJudged(**JUDGED)) for number in (1, 3)]
    for row in rows:
        state.add(row)
    summary = msgspec.to_builtins(state.summary("r"))
    listed = ("id", "type", "question", "passed", "score", "max_score", "judge")
    summary["individual_results"] = [
        {name: msgspec.to_builtins(row[name]) for name in listed} for row in rows
    ]
    path = tmp_path / "rag_summary.json"
    path.write_text(json.dumps(summary))
    assert list(validate_file(path)) == []
    if change is None:
        del summary["judge"]
    else:
        summary["judge"] |= change
    path.write_text(json.dumps(summary))
    assert place in [finding.path for finding in validate_file(path)]


def test_a_vote_stands_once_and_has_a_verdict_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rag_judgements.jsonl"
    sound = [judgement(1, 1, vote(4, 2)), judgement(1, 2, None), judgement(2, 1, vote(1, 1))]
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in sound))
    assert list(validate_file(path)) == []
    wrong = [
        sound[0],
        sound[0],
        judgement(0, 0, vote(4, 2)),
        sound[2].replace(error="no"),
        sound[1].replace(error=None),
    ]
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in wrong))
    assert [(finding.line, finding.path) for finding in validate_file(path)] == [
        (2, "$.question_index"),
        (3, "$.question_index"),
        (3, "$.vote"),
        (4, "$.verdict"),
        (5, "$.verdict"),
    ]
