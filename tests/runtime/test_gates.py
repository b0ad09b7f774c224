import pytest

from memfin.contracts import Counters, EvalSummary, LatencyStats, MetricResult, RunStats
from memfin.errors import UsageError
from memfin.runtime.gates import failed_gates, parse_fail_under, value_names
from tests.support import each_case

NAME = "m3_risk_coverage.risk_coverage"


def stats(ok: int, error: int) -> RunStats:
    return RunStats(
        run_id="r",
        wall_seconds=1.0,
        turn_latency_ms=LatencyStats(),
        turns_by_status={"ok": ok, "error": error},
        dialogs_by_status={},
        skips_by_reason={},
    )


def summary(value: float) -> EvalSummary:
    result = MetricResult(
        metric_name="m3_risk_coverage",
        micro={"risk_coverage": value},
        macro={"risk_coverage": value / 2},
        counts={},
        by_dialog={},
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
    assert bool(failed_gates(summary(1.0), stats(ok, error), {}, limit)) is fails


def test_a_run_in_which_every_turn_failed_passes_no_gate() -> None:
    assert failed_gates(summary(1.0), stats(0, 4), {}, None) == ["every one of the 4 turns failed"]


def test_fail_under_compares_and_names_the_gate() -> None:
    assert failed_gates(summary(0.8), stats(1, 0), {NAME: 0.8}, None) == []
    assert failed_gates(summary(0.79), stats(1, 0), {NAME: 0.8}, None) == [
        f"--fail-under {NAME}=0.8: the value is 0.79"
    ]
    assert failed_gates(summary(0.8), stats(1, 0), {"m3_risk_coverage.macro.risk_coverage": 0.5}, None)


def test_fail_under_reads_name_and_number() -> None:
    assert parse_fail_under(f"{NAME}=0.8") == (NAME, 0.8)
    assert parse_fail_under(f" {NAME} = 1e-1 ") == (NAME, 0.1)
    assert NAME in value_names()


@each_case("text", ["", NAME, f"{NAME}=", f"{NAME}=x", f"{NAME}=nan", f"{NAME}=inf", "=1", "a=b=1"])
def test_fail_under_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-under"):
        parse_fail_under(text)


def test_an_unknown_value_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(UsageError, match=r"m3_risk_coverage\.strict_risk_coverage_rate"):
        parse_fail_under("m3_risk_coverage.coverage=0.5")
    with pytest.raises(UsageError, match="m1_context_continuity, m2_profile_accuracy"):
        parse_fail_under("m9.coverage=0.5")


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
    told = stats(10, 0).replace(judged_turns=judged, judge_failures=failed)
    gates = failed_gates(summary(1.0), told, {}, 0, limit)
    assert bool(gates) is fails
    if limit is None and fails:
        assert gates == ["the judge gave no verdict on any of the 10 turns it was asked about"]
