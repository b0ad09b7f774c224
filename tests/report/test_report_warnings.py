from collections.abc import Iterable

from memfin.report.dialogs import Baselines, FrequentTexts, ReplyShapes, summary_warnings
from memfin.report.model import ReportWarning
from tests.report.report_run_factory import row, summary


def by_title(warnings: Iterable[ReportWarning]) -> dict[str, ReportWarning]:
    return {warning.title: warning for warning in warnings}


def test_frequent_texts_finds_a_majority_that_starts_late() -> None:
    frequent = FrequentTexts(capacity=4)
    for number in range(200):
        frequent.add(f"text {number}")
    for _ in range(300):
        frequent.add("the same  answer")
    example, count = frequent.top()
    assert example == "the same answer"
    assert 200 <= count <= 300


def test_frequent_texts_counts_exactly_while_few_differ_and_ignores_white_space() -> None:
    frequent = FrequentTexts()
    for text in ("a b", "a  b", "a\nb", "c"):
        frequent.add(text)
    assert frequent.top() == ("a b", 3)
    assert FrequentTexts().top() == ("", 0)


def test_replies_that_echo_the_user_are_called_out() -> None:
    shapes = ReplyShapes()
    for number in range(10):
        question = f"How much cash should I keep in case {number}?"
        shapes.add(question, f"So: {question.upper()}" if number < 3 else f"Keep {number} months.", "ref")
    warning = by_title(shapes.warnings())["Echoed user turns"]
    assert warning.level == "warning"
    assert "3 of 10 (30.0 %)" in warning.detail


def test_quoting_the_question_before_a_real_answer_is_no_echo() -> None:
    shapes = ReplyShapes()
    for number in range(10):
        question = f"How much cash should I keep in case {number}?"
        shapes.add(
            question, f"{question} That depends on your monthly costs: {number} months are usual.", "ref"
        )
    assert not list(shapes.warnings())


def test_constant_and_empty_replies_are_called_out() -> None:
    shapes = ReplyShapes()
    for number in range(10):
        shapes.add(f"question {number}", "Please ask a professional.", "ref")
        shapes.add(f"question {number}", " \n", "ref")
    found = by_title(shapes.warnings())
    assert "10 of 20 (50.0 %)" in found["Constant replies"].detail
    assert "Please ask a professional." in found["Constant replies"].detail
    assert "10 of 20 (50.0 %)" in found["Empty replies"].detail


def test_short_refusals_are_called_out_and_a_long_answer_that_declines_one_thing_is_not() -> None:
    shapes, advice = ReplyShapes(), ReplyShapes()
    for number in range(10):
        refusal = "抱歉，我无法提供投资建议" if number % 2 else "I'm sorry, but I can't discuss that"
        shapes.add(f"question {number}", f"{refusal} ({number}).", "ref")
        advice.add(
            f"question {number}", f"我不能替您下单。{number}" + "您可以先看风险等级与期限。" * 20, "ref"
        )
    assert "10 of 10 (100.0 %)" in by_title(shapes.warnings())["Refusing replies"].detail
    assert not list(advice.warnings())


def test_different_replies_give_no_warning() -> None:
    shapes = ReplyShapes()
    for number in range(50):
        shapes.add(f"question {number}", f"answer {number} with words of its own", "reference")
    assert not list(shapes.warnings())


def test_replies_equal_to_the_reference_are_noted() -> None:
    shapes = ReplyShapes()
    for number in range(10):
        shapes.add(f"question {number}", f"reference {number}", f" reference {number}")
    assert "upper bound" in by_title(shapes.warnings())["Replies equal the references"].detail


def test_labels_that_are_all_the_same_make_accuracy_reachable_by_a_constant() -> None:
    baselines = Baselines()
    for pair in range(1, 5):
        baselines.add(row("a", pair))
    warning = by_title(baselines.warnings(summary().metrics))["M4 label accuracy: a constant does as well"]
    assert "all 4 reference labels" in warning.detail
    assert "90.0 %" in warning.detail


def test_a_measured_accuracy_above_the_majority_is_not_called_out() -> None:
    baselines = Baselines()
    for pair in range(1, 11):
        baselines.add(row("a", pair, gt_compliance_label="compliant" if pair < 9 else "minor_violation"))
    assert "M4 label accuracy: a constant does as well" not in by_title(baselines.warnings(summary().metrics))


def test_rows_outside_a_denominator_do_not_shape_its_baseline() -> None:
    baselines = Baselines()
    for pair in range(1, 11):
        baselines.add(row("a", pair, eligible_m4=False, eligible_m3=False, eligible_m5=False))
    assert not list(baselines.warnings(summary().metrics))


def test_few_kinds_of_required_risks_make_coverage_reachable_by_boilerplate() -> None:
    baselines = Baselines()
    for pair in range(1, 6):
        baselines.add(row("a", pair))
    warning = by_title(baselines.warnings(summary().metrics))[
        "M3 risk coverage: fixed boilerplate does as well"
    ]
    assert "volatility risk" in warning.detail
    many = Baselines()
    for pair in range(1, 21):
        many.add(row("a", pair, risk_required_tags=[f"tag{pair}"]))
    assert "M3 risk coverage: fixed boilerplate does as well" not in by_title(
        many.warnings(summary().metrics)
    )


def test_a_judge_that_always_gives_the_same_score_is_called_out() -> None:
    same, varied = Baselines(), Baselines()
    for pair in range(1, 21):
        same.add(row("a", pair, judge_score_1_5=5.0))
        varied.add(row("a", pair, judge_score_1_5=1 + pair / 5))
    title = "M5 judge score does not discriminate"
    assert title in by_title(same.warnings(summary().metrics))
    assert title not in by_title(varied.warnings(summary().metrics))


def test_keys_the_agent_could_not_know_are_counted() -> None:
    result = summary()
    memory = result.metrics["m1_context_continuity"]
    counts = {**memory.counts, "unrevealed_key_total": 4, "self_reference_key_total": 1}
    micro = {"key_coverage": 0.6, "key_coverage_guarded": 0.2}
    result.metrics["m1_context_continuity"] = memory.replace(counts=counts, micro=micro)
    found = by_title(summary_warnings(result.metrics, 100))
    assert found["Keys the agent could not know"].level == "warning"
    assert "4 of 8 (50.0 %)" in found["Keys the agent could not know"].detail
    assert found["Keys that point at the turn itself"].level == "note"
    assert "60.0 %" in found["Key coverage rests on very short targets"].detail


def test_contradictions_on_turns_without_keys_are_counted() -> None:
    result = summary()
    memory = result.metrics["m1_context_continuity"]
    counts = memory.counts | {"contradiction_count": 17, "contradictions_outside": 2}
    result.metrics["m1_context_continuity"] = memory.replace(counts=counts)
    detail = by_title(summary_warnings(result.metrics, 100))["Contradictions outside the rate"].detail
    assert detail.startswith("19 replies contradict a constraint of the client, 17 of them in the")


def test_an_empty_denominator_and_few_dialogues_are_said() -> None:
    result = summary()
    empty = result.metrics["m5_explainability"].replace(counts={"eligible_count": 0})
    result.metrics["m5_explainability"] = empty
    found = by_title(summary_warnings(result.metrics, 2))
    assert "M5 was not measured" in found
    assert "Few dialogues" in found
    assert by_title(summary_warnings(summary().metrics, 50)) == {}
