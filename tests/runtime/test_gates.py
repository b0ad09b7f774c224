from typing import Any

import pytest

from memfin.contracts import Counters, EvalSummary, LatencyStats, MetricResult, RunConfig, RunStats
from memfin.errors import UsageError
from memfin.metrics.m4_compliance import M4State
from memfin.runtime.gates import Gate, failed_gates, gates_of, parse_value, value_directions
from tests.support import each_case

NAME = "m3_risk_coverage.risk_coverage"
SEVERE = "m4_compliance.severe_violation_rate"


def gates(**settings: Any) -> list[Gate]:
    return gates_of(RunConfig(**settings), value_directions())


def failed(value: float, *, reason: str | None = None, **settings: Any) -> list[str]:
    """Return the gates that a run fails whose risk coverage has a value, and the interval around it."""
    return failed_gates(summary(value, reason), stats(1, 0), gates(**settings), None)


def stats(ok: int, error: int) -> RunStats:
    return RunStats(
        run_id="r",
        wall_seconds=1.0,
        turn_latency_ms=LatencyStats(),
        turns_by_status={"ok": ok, "error": error},
        dialogs_by_status={},
        skips_by_reason={},
    )


def summary(value: float, reason: str | None = None) -> EvalSummary:
    result = MetricResult(
        metric_name="m3_risk_coverage",
        micro={"risk_coverage": value},
        macro={"risk_coverage": value / 2},
        counts={},
        by_dialog={},
        ci95={"risk_coverage": (value - 0.1, value + 0.1)},
        not_measured={} if reason is None else {"risk_coverage": reason},
    )
    return EvalSummary(
        run_id="r",
        trace_version="v1",
        dataset_path="d",
        metrics={"m3_risk_coverage": result},
        counters=Counters(),
    )


@each_case(
    ("limit", "ok", "error", "fails"),
    [
        (None, 9, 1, False),
        (0, 10, 0, False),
        (0, 9, 1, True),
        (1, 9, 1, True),
        (2, 9, 1, False),
        (2, 8, 2, True),
        (0.2, 9, 1, False),
        (0.1, 9, 1, True),
        (0.05, 99, 1, False),
        (5, 0, 1, True),
        (None, 0, 3, True),
    ],
)
def test_fail_on_error_counts_turns_or_takes_a_share(
    limit: float | None, ok: int, error: int, *, fails: bool
) -> None:
    assert bool(failed_gates(summary(1.0), stats(ok, error), [], limit)) is fails


def test_a_run_in_which_every_turn_failed_passes_no_gate() -> None:
    assert failed_gates(summary(1.0), stats(0, 4), [], None) == ["every one of the 4 turns failed"]
    assert failed_gates(summary(1.0), stats(0, 1), [], None) == ["the only turn failed"]


def test_gates_compare_and_name_what_was_given() -> None:
    assert failed(0.8, fail_under={NAME: 0.8}, gate=[f"{NAME}>=0.8"]) == []
    assert failed(0.79, fail_under={NAME: 0.8}) == [f"--fail-under {NAME}=0.8: the value is 0.79"]
    assert failed(0.79, gate=[f" {NAME} >= 8e-1 "]) == [f"--gate {NAME}>=8e-1: the value is 0.79"]
    assert failed(0.8, fail_under={"m3_risk_coverage.macro.risk_coverage": 0.5})


def test_a_gate_at_95_holds_the_bound_of_the_interval() -> None:
    assert failed(0.8, gate=[f"{NAME}>=0.7@95"]) == []
    assert failed(0.8, gate=[f"{NAME}>=0.71@95"]) == [
        f"--gate {NAME}>=0.71@95: the value is 0.8 and the bound of its 95 % interval 0.7"
    ]
    few = summary(0.8)
    few.metrics["m3_risk_coverage"] = few.metrics["m3_risk_coverage"].replace(ci95={})
    (line,) = failed_gates(few, stats(1, 0), gates(gate=[f"{NAME}>=0.1@95"]), None)
    assert line.endswith("the value is 0.8, and too few dialogues have it for an interval")


def test_less_is_better_of_violations() -> None:
    severe = M4State().result()
    severe = severe.replace(
        micro={"severe_violation_rate": 0.02}, ci95={"severe_violation_rate": (0.001, 0.05)}, not_measured={}
    )
    bad = summary(1.0)
    bad.metrics["m4_compliance"] = severe
    for settings, fails in (
        ({"fail_over": {SEVERE: 0.01}}, True),
        ({"fail_over": {SEVERE: 0.02}}, False),
        ({"gate": [f"{SEVERE}<=0.05@95"]}, False),
        ({"gate": [f"{SEVERE}<=0.04@95"]}, True),
    ):
        assert bool(failed_gates(bad, stats(1, 0), gates(**settings), None)) is fails, settings


def test_a_value_that_was_not_measured_passes_no_gate() -> None:
    for gate in (f"{NAME}>=0", f"{NAME}>=0@95"):
        assert failed(0.0, reason="nobody asked", gate=[gate]) == [
            f"--gate {gate}: the value was not measured: nobody asked"
        ]


@each_case("text", ["", NAME, f"{NAME}=", f"{NAME}=x", f"{NAME}=nan", f"{NAME}=inf", "=1", "a=b=1"])
def test_a_limit_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-over"):
        parse_value(text, "--fail-over")


@each_case(
    "text", ["", NAME, f"{NAME}=0.1", f"{NAME}<0.1", f"{NAME}>=x", f"{NAME}>=nan", f"{NAME}>=1@90", ">=1"]
)
def test_a_gate_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--gate .*expected"):
        gates(gate=[text])


def test_an_unknown_value_is_refused_with_the_names_that_exist() -> None:
    for name, known in (
        ("m3_risk_coverage.coverage", r"did you mean m3_risk_coverage\.risk_coverage or "),
        (
            "m3_risk_coverage.none_of_them",
            r"known: m3_risk_coverage\.risk_coverage, m3_risk_coverage\.strict_",
        ),
        ("risk_coverage", r"did you mean m3_risk_coverage\.risk_coverage or "),
        ("m4_compliance.sever_rate", r"did you mean m4_compliance\.severe_violation_rate\?"),
        ("m9.coverage", r"m1_context_continuity\.key_coverage, "),
    ):
        with pytest.raises(UsageError, match=known):
            gates(gate=[f"{name}>=0.5"])


def test_a_limit_that_no_value_can_have_is_refused() -> None:
    for settings, problem in (
        (
            {"fail_over": {SEVERE: 5}},
            f"--fail-over {SEVERE}=5: the limit is out of range; {SEVERE} is from 0 to 1",
        ),
        ({"fail_under": {"m3_risk_coverage.macro.risk_coverage": -1}}, "risk_coverage is from 0 to 1"),
        ({"gate": ["m5_explainability.judge_score_mean>=80@95"]}, "judge_score_mean is from 1 to 5"),
    ):
        with pytest.raises(UsageError) as refused:
            gates(**settings)
        assert problem in str(refused.value)
    gates(fail_over={SEVERE: 0}, fail_under={"m5_explainability.judge_score_mean": 5})


def test_a_gate_in_the_wrong_direction_is_refused_with_the_right_one() -> None:
    for settings, right in (
        (
            {"fail_under": {SEVERE: 0.1}},
            f"of {SEVERE} less is better; use --fail-over {SEVERE}=0.1",
        ),
        ({"fail_over": {NAME: 0.1}}, f"of {NAME} more is better; use --fail-under {NAME}=0.1"),
        ({"gate": [f"{SEVERE}>=0.1"]}, f"--gate '{SEVERE}<=0.1'"),
        ({"gate": [f"{NAME}<=0.1@95"]}, f"--gate '{NAME}>=0.1'"),
    ):
        with pytest.raises(UsageError) as refused:
            gates(**settings)
        assert right in str(refused.value)
    with pytest.raises(UsageError, match=r"has no interval; leave out @95"):
        gates(gate=["m3_risk_coverage.macro.risk_coverage>=0.5@95"])


@each_case(
    ("limit", "judged", "failed", "fails"),
    [
        (None, 10, 1, False),
        (0, 10, 0, False),
        (0, 10, 1, True),
        (2, 10, 1, False),
        (2, 10, 2, True),
        (0.2, 10, 1, False),
        (0.1, 10, 1, True),
        (None, 10, 9, False),
        (None, 10, 10, True),
        (None, 0, 0, False),
        (0, 0, 0, False),
    ],
)
def test_failed_judgements_have_a_gate_of_their_own(
    limit: float | None, judged: int, failed: int, *, fails: bool
) -> None:
    counted = stats(10, 0).replace(judged_turns=judged, judge_failures=failed)
    lines = failed_gates(summary(1.0), counted, [], 0, limit)
    assert bool(lines) is fails
    if limit is None and fails:
        assert lines == ["the judge gave no verdict on any of the 10 turns it was asked about"]
