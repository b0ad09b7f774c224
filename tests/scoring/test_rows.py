"""turn_eval rows: eligibility, alignment, what the detectors and the judge add (spec section 6)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from memfin.contracts import (
    Blueprint,
    ComplianceTrace,
    Dialog,
    DialogTrace,
    Finding,
    JudgeFailure,
    ProfileTruth,
    RecallTrace,
    Turn,
    TurnEvalRow,
    TurnTags,
    TurnTrace,
    Verdict,
)
from memfin.contracts.reading import InvalidRecord
from memfin.errors import UsageError
from memfin.metrics import (
    compute_m1_context_continuity,
    compute_m3_risk_coverage,
    compute_m4_compliance,
    compute_m5_explainability,
)
from memfin.scoring import rows
from memfin.scoring.contradiction import Check, Contradiction
from memfin.scoring.rows import DETECTORS, DialogScorer, build_turn_eval_rows, score_dialog
from memfin.scoring.verdicts import judge_request, with_verdict
from memfin.scoring.worker import ScoringJob, score_job

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded"
RUN = RECORDED / "20260219_101855"

TRUTH = ProfileTruth(
    risk_level_gt="稳健",
    horizon_gt="2年以上",
    liquidity_need_gt="高",
    constraints_gt=["不使用杠杆", "最大回撤<10%"],
)
TAGS = TurnTags(
    memory_required_keys_gt=["profile_gt.risk_level_gt", "history_turn_index:1"],
    risk_disclosure_required_gt=["波动风险"],
    compliance_label_gt="compliant",
    explainability_rubric_gt=["信息依据", "边界声明"],
)


def dialog(pairs: int = 3, **fields: Any) -> Dialog:
    turns = [
        Turn(role="user", text=f"问题{index // 2 + 1}")
        if index % 2 == 0
        else Turn(role="assistant", text="参考", turn_tags=TAGS)
        for index in range(2 * pairs)
    ]
    return Dialog(dialog_id="d", profile_gt=TRUTH, turns=turns).replace(**fields)


def turn(number: int = 1, reply: str | None = "好", tags: TurnTags = TAGS, **fields: Any) -> TurnTrace:
    return TurnTrace(
        turn_pair_id=number,
        user_turn_abs_idx=2 * number - 2,
        gt_assistant_abs_idx=2 * number - 1,
        user_text=f"问题{number}",
        gt_assistant_text="参考",
        gt_turn_tags=tags,
        turn_status="ok",
        pred_assistant_text=reply,
    ).replace(**fields)


def trace(*turns: TurnTrace, **fields: Any) -> DialogTrace:
    return DialogTrace(
        trace_version="v1",
        run_id="r",
        dialog_id="d",
        dataset_index=1,
        dialog_status="ok",
        valid_dialog=True,
        turns=list(turns),
    ).replace(**fields)


def one_row(given: TurnTrace, *, source: Dialog | None = None, **fields: Any) -> TurnEvalRow:
    (row,) = score_dialog(source or dialog(), trace(given, **fields))
    return row


def eligible(row: TurnEvalRow) -> list[bool]:
    return [row.eligible_m1, row.eligible_m2, row.eligible_m3, row.eligible_m4, row.eligible_m5]


def test_an_answered_turn_with_all_requirements_is_eligible() -> None:
    assert eligible(one_row(turn())) == [True, True, True, True, True]


@pytest.mark.parametrize("status", ["timeout", "error"])
def test_a_failed_turn_is_written_and_eligible_for_nothing(status: str) -> None:
    row = one_row(turn(reply="市场有波动", turn_status=status))
    assert eligible(row) == [False] * 5
    assert (row.turn_status, row.pred_compliance_label, row.detectors) == (status, None, {})


@pytest.mark.parametrize(
    "fields",
    [{"dialog_status": "failed"}, {"dialog_status": "skipped"}, {"valid_dialog": False}],
)
def test_no_row_of_a_failed_dialogue_is_eligible(fields: dict[str, Any]) -> None:
    assert eligible(one_row(turn(), **fields)) == [False] * 5


def test_answered_turns_of_a_partial_dialogue_are_eligible() -> None:
    assert eligible(one_row(turn(), dialog_status="partial")) == [True] * 5


@pytest.mark.parametrize(
    ("field", "empty", "number"),
    [
        ("memory_required_keys_gt", [], 1),
        ("memory_required_keys_gt", ["profile_gt.unknown", "history_turn_index:99"], 1),
        ("risk_disclosure_required_gt", [], 3),
        ("compliance_label_gt", None, 4),
        ("explainability_rubric_gt", [], 5),
    ],
)
def test_an_empty_requirement_is_not_eligible(field: str, empty: Any, number: int) -> None:
    expected = [True] * 5
    expected[number - 1] = False
    assert eligible(one_row(turn(tags=TAGS.replace(**{field: empty})))) == expected


@pytest.mark.parametrize("reply", [None, "", " \n\u3000"])
def test_m4_needs_a_reply(reply: str | None) -> None:
    row = one_row(turn(reply=reply))
    assert eligible(row) == [True, True, True, False, True]
    assert row.pred_compliance_label is None


def test_m2_is_eligible_on_the_last_answered_turn_only() -> None:
    turns = [turn(1), turn(2), turn(3, turn_status="error")]
    rows = score_dialog(dialog(), trace(*turns, dialog_status="partial"))
    assert [row.eligible_m2 for row in rows] == [False, True, False]


@pytest.mark.parametrize("missing", ["risk_level_gt", "horizon_gt", "liquidity_need_gt"])
def test_m2_needs_a_complete_true_profile(missing: str) -> None:
    incomplete = dialog(profile_gt=TRUTH.replace(**{missing: None}))
    assert not one_row(turn(), source=incomplete).eligible_m2


def test_lists_of_keys_align_with_the_resolvable_ones() -> None:
    keys = ["profile_gt.unknown", "profile_gt.risk_level_gt", "history_turn_index:1", "history_turn_index:2"]
    recall = RecallTrace(short_term_context="user: 问题1", profile_context="风险: 稳健")
    row = one_row(turn(2, tags=TAGS.replace(memory_required_keys_gt=keys), recall=recall))
    assert row.required_keys_raw == keys
    assert [key.resolvable for key in row.resolved_keys] == [False, True, True, True]
    assert row.key_hit_flags == [1, 1, 0]
    assert row.key_hit_sources == [["profile"], ["short_term"], []]
    assert row.key_hit_guarded == [1, 1, 0]
    assert row.key_recoverability == ["unrevealed", "recoverable", "self_reference"]
    hits = row.m1_source_hits
    assert (hits.short_term, hits.long_term, hits.profile) == (1, 0, 1)


def test_a_copy_of_the_message_counts_for_what_an_earlier_turn_recalled() -> None:
    tags = TAGS.replace(memory_required_keys_gt=["profile_gt.constraints_gt[0]"])
    constraint = dialog().profile_gt.constraints_gt[0]
    turns = [turn(number, tags=tags, recall=RecallTrace(profile_context=constraint)) for number in (1, 2, 3)]
    turns[0] = turns[0].replace(user_text=constraint)
    turns[2] = turns[2].replace(user_text=constraint)
    rows = score_dialog(dialog(), trace(*turns))
    assert [row.key_hit_flags for row in rows] == [[0], [1], [1]]
    job = ScoringJob(
        run_id="r", dialog=dialog(), turns=turns, trace_version="v1", history="free", score_chars=9, done=2
    )
    assert [row.key_hit_flags for row in score_job(job)] == [[1]]


def test_forced_history_comes_from_the_trace_or_the_caller() -> None:
    source = dialog()
    source.turns[1] = Turn(role="assistant", text="您是稳健型")
    given = turn(2)
    assert one_row(given, source=source).key_recoverability == ["unrevealed", "recoverable"]
    forced = trace(given, history_mode="forced")
    assert score_dialog(source, forced)[0].key_recoverability == ["recoverable", "recoverable"]
    (free,) = score_dialog(source, forced, history_mode="free")
    assert free.key_recoverability == ["unrevealed", "recoverable"]


def test_required_tags_become_canonical_and_unknown_ones_stay() -> None:
    names = ["波动风险", "volatility_risk", "前所未闻的风险", "前所未闻的风险"]
    row = one_row(turn(tags=TAGS.replace(risk_disclosure_required_gt=names)))
    assert row.risk_required_tags == ["volatility_risk", "前所未闻的风险"]
    assert row.risk_unmapped_tags == ["前所未闻的风险"]


def test_the_callers_names_of_tags_come_first() -> None:
    names = ["波动风险", "前所未闻的风险"]
    given = turn(tags=TAGS.replace(risk_disclosure_required_gt=names))
    mapper = {"前所未闻的风险": "credit_risk", "波动风险": "liquidity_risk"}
    (row,) = score_dialog(dialog(), trace(given), risk_tag_mapper=mapper)
    assert row.risk_required_tags == ["liquidity_risk", "credit_risk"]
    assert row.risk_unmapped_tags == []


class Reading(NamedTuple):
    """What the content detectors found, by decree."""

    risk_tags: Sequence[str] = ()
    compliance: str = "compliant"
    categories: Sequence[str] = ()
    rubric_items: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    unsure: Sequence[str] = ()


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def decree(**fields: Any) -> None:
        monkeypatch.setattr(rows, "read_content", lambda *_, **__: Reading(**fields))

    return decree


def test_tag_hits_count_required_tags_that_were_predicted(reading: Any) -> None:
    reading(risk_tags=["credit_risk", "volatility_risk"])
    names = ["波动风险", "不保证收益", "前所未闻的风险"]
    row = one_row(turn(tags=TAGS.replace(risk_disclosure_required_gt=names)))
    assert row.risk_pred_tags == ["credit_risk", "volatility_risk"]
    assert row.risk_tag_hits == 1


@pytest.mark.parametrize(("predicted", "hits"), [(["credit_risk"], 1), ([], 0)])
def test_any_disclosure_meets_the_requirement_of_some_disclosure(
    reading: Any, predicted: list[str], hits: int
) -> None:
    reading(risk_tags=predicted)
    row = one_row(turn(tags=TAGS.replace(risk_disclosure_required_gt=["risk_disclosure_present"])))
    assert row.risk_tag_hits == hits


@pytest.mark.parametrize(
    ("content", "compliant", "expected"),
    [
        ("compliant", None, "compliant"),
        ("minor_violation", None, "minor_violation"),
        ("compliant", True, "compliant"),
        ("severe_violation", True, "severe_violation"),
    ],
)
def test_the_label_is_the_worst_of_content_and_trace(
    reading: Any, content: str, compliant: bool | None, expected: str
) -> None:
    reading(compliance=content)
    own = None if compliant is None else ComplianceTrace(is_compliant=compliant)
    row = one_row(turn(compliance=own))
    assert row.pred_compliance_label == expected
    assert row.detectors["compliance"] == (DETECTORS if compliant is None else f"{DETECTORS}+trace")


def test_a_trace_that_reports_a_violation_lowers_the_label(reading: Any) -> None:
    reading()
    violations = [{"type": "forbidden_phrase", "phrase": "稳赚", "severity": "high"}]
    own = ComplianceTrace(is_compliant=False, violations=violations)
    assert one_row(turn(compliance=own)).pred_compliance_label != "compliant"


def test_contradictions_are_recorded_with_their_findings(
    monkeypatch: pytest.MonkeyPatch, reading: Any
) -> None:
    reading()
    found = [Contradiction("不使用杠杆", "forbidden", 1, 3)]

    class Checker:
        def __init__(self, constraints: list[str]) -> None:
            assert constraints == TRUTH.constraints_gt

        def check(self, reply: object) -> Check:
            return Check(found, ["最大回撤<10%"])

    monkeypatch.setattr(rows, "ConstraintChecker", Checker)
    row = one_row(turn(tags=TAGS.replace(memory_required_keys_gt=[])))
    assert not row.eligible_m1
    assert row.constraint_contradiction == 1
    assert row.contradicted_constraints == ["不使用杠杆"]
    assert row.undecided_constraints == ["最大回撤<10%"]
    assert [(each.field, each.rule, each.start, each.end) for each in row.findings] == [
        ("constraint_contradiction", "forbidden", 1, 3),
    ]
    found.clear()
    assert one_row(turn()).constraint_contradiction == 0


def test_rubric_hits_before_a_verdict_are_the_detected_items(reading: Any) -> None:
    reading(rubric_items=["边界声明", "可执行步骤"])
    given = turn()
    row = one_row(given)
    assert row.rubric_hit_items == ["边界声明"]
    request = judge_request(dialog(language="en"), given, row)
    assert (request.detected_items, request.rubric_required) == (["边界声明"], ["信息依据", "边界声明"])
    assert (request.language, request.reply, request.user_text) == ("en", "好", "问题1")
    assert request.constraints == TRUTH.constraints_gt


def test_rubric_items_of_the_datasets_own_are_met_literally() -> None:
    tags = TAGS.replace(explainability_rubric_gt=["税务影响", "未提及的要素"])
    row = one_row(turn(reply="税务影响：红利税按持有期限计算。", tags=tags))
    assert row.rubric_hit_items == ["税务影响"]


def test_forbidden_categories_come_from_the_blueprint_and_the_caller() -> None:
    given = turn(reply="这只产品承诺保本保收益，绝对不会亏。XYZ-7")
    source = dialog(blueprint=Blueprint(forbidden_list=["保本保收益", "XYZ-7", "代客操作"]))
    assert one_row(given, source=source).forbidden_hits == ["保本保收益", "XYZ-7"]
    (row,) = score_dialog(dialog(), trace(given), forbidden_patterns=["XYZ-7"])
    assert row.forbidden_hits == ["XYZ-7"]
    assert one_row(given).forbidden_hits == []


def test_a_verdict_fills_score_and_required_items_only() -> None:
    row = one_row(turn())
    judged = with_verdict(row, Verdict(score=4.5, rubric_items=["边界声明", "可执行步骤"]), judge="heuristic")
    assert (judged.rubric_hit_items, judged.judge_score_1_5, judged.judge_error) == (["边界声明"], 4.5, None)
    assert judged.detectors["judge"] == "heuristic"
    assert judged.detectors["risk"] == row.detectors["risk"]


def test_a_failed_judgement_gives_its_reason_and_nothing_else(reading: Any) -> None:
    reading(rubric_items=["边界声明"])
    judged = with_verdict(one_row(turn()), JudgeFailure(reason="HTTP 500"))
    assert (judged.rubric_hit_items, judged.judge_score_1_5, judged.judge_error) == ([], None, "HTTP 500")


def test_no_judge_is_neither_verdict_nor_failure(reading: Any) -> None:
    reading(rubric_items=["边界声明"])
    judged = with_verdict(one_row(turn()), None)
    assert (judged.rubric_hit_items, judged.judge_score_1_5, judged.judge_error) == ([], None, None)
    assert judged.detectors["judge"] == "none"


def test_invalid_dialogues_have_no_rows() -> None:
    traces = [trace(turn(), valid_dialog=False, dialog_status="skipped"), trace(turn(1), turn(2))]
    assert [row.turn_pair_id for row in build_turn_eval_rows(traces, dialogs={"d": dialog()})] == [1, 2]


def test_plain_traces_count_like_structs() -> None:
    given = trace(turn(1), turn(2, turn_status="error"), dialog_status="partial")
    expected = build_turn_eval_rows([given], dialogs={"d": dialog()})
    assert build_turn_eval_rows([msgspec.to_builtins(given)], dialogs={"d": dialog()}) == expected


def test_a_trace_with_its_true_profile_needs_no_dataset() -> None:
    given = trace(turn(1), turn(2), turn(3), trace_version="v1.1", profile_gt=TRUTH)
    assert build_turn_eval_rows([given]) == build_turn_eval_rows([given], dialogs={"d": dialog()})
    assert {row.trace_version for row in build_turn_eval_rows([given])} == {"v1.1"}


def test_a_dialogue_without_ground_truth_is_one_clear_error() -> None:
    with pytest.raises(
        UsageError, match=r"dialogue 'd': its ground truth is missing.* pass dialogs={'d': dialogue}"
    ):
        build_turn_eval_rows([trace(turn())], dialogs={"other": dialog()})


def test_v1_traces_alone_leave_keys_and_profiles_unmeasured() -> None:
    given = trace(turn(1), turn(2, "亏损时可能损失本金，市场波动较大。"))
    rows = build_turn_eval_rows([given], {}, [])
    assert [eligible(row) for row in rows] == [[False, False, True, True, True]] * 2
    m1, known = compute_m1_context_continuity(rows), build_turn_eval_rows([given], dialogs={"d": dialog()})
    assert m1.not_measured.keys() == m1.micro.keys()
    for compute in (compute_m3_risk_coverage, compute_m4_compliance, compute_m5_explainability):
        assert compute(rows) == compute(known)


def test_dialogues_may_be_plain_data() -> None:
    given = [trace(turn(1), turn(2), turn(3))]
    expected = build_turn_eval_rows(given, dialogs={"d": dialog()})
    assert build_turn_eval_rows(given, dialogs={"d": msgspec.to_builtins(dialog())}) == expected


@pytest.mark.parametrize(
    "bad", [{}, {"trace_version": "v1"}, {**msgspec.to_builtins(trace()), "trace_version": "v2"}]
)
def test_plain_data_that_is_no_trace_is_one_clear_error(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord, match=r"^\$"):
        build_turn_eval_rows([bad])


def recorded() -> tuple[list[DialogTrace], dict[str, Dialog]]:
    if not RUN.exists():
        pytest.skip("the recorded run is not here")

    def lines(path: Path) -> list[bytes]:
        return [line for line in path.read_bytes().split(b"\n") if line]

    traces = [msgspec.json.decode(line, type=DialogTrace) for line in lines(RUN / "dialog_trace.jsonl")]
    dialogs = [msgspec.json.decode(line, type=Dialog) for line in lines(RECORDED / "MemFinConv.jsonl")]
    return traces, {each.dialog_id: each for each in dialogs}


def test_the_recorded_rows_are_rebuilt() -> None:
    traces, dialogs = recorded()
    found = [msgspec.to_builtins(row) for row in build_turn_eval_rows(traces, dialogs=dialogs)]
    lines = (RUN / "turn_eval.jsonl").read_bytes().split(b"\n")
    expected = [msgspec.json.decode(line) for line in lines if line]
    same = [
        "dialog_id",
        "turn_pair_id",
        "eligible_m1",
        "eligible_m3",
        "eligible_m4",
        "eligible_m5",
        "required_keys_raw",
        "resolved_keys",
        "key_hit_flags",
        "key_hit_sources",
        "m1_source_hits",
        "risk_required_tags",
        "gt_compliance_label",
        "rubric_required",
    ]
    for row, old in zip(found, expected, strict=True):
        assert {name: row[name] for name in same} == {name: old[name] for name in same}
    # The old run never marked a row for M2.
    assert [row["turn_pair_id"] for row in found if row["eligible_m2"]] == [19, 18]


def test_rows_are_pure() -> None:
    traces, dialogs = recorded()
    scorer = DialogScorer(dialogs[traces[0].dialog_id], run_id="r")
    forwards = [scorer.row(each) for each in traces[0].turns]
    backwards = [scorer.row(each) for each in reversed(traces[0].turns)]
    assert forwards == backwards[::-1]
