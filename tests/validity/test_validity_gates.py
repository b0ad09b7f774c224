import pytest

from memfin.contracts import LabelledReply
from memfin.contracts.validity import ValidityReport
from memfin.errors import UsageError
from memfin.validity import Found, Place, ValidityStats
from memfin.validity.gates import check_gate, failed_gates, parse_gate
from tests.support import each_case


def report(*, read: bool = True) -> ValidityReport:
    """A report on four labelled replies: one risk tag of two found, everything else right."""
    stats = ValidityStats()
    found = Found(
        risk_tags=["fx_risk"], contradiction=True, compliance="compliant", categories=[], rubric=["a.b"]
    )
    for tag in ("fx_risk", "credit_risk"):
        row = LabelledReply(
            id=tag,
            text="x",
            risk_tags={tag: True},
            contradiction=1,
            compliance="compliant",
            rubric={"a.b": True},
        )
        stats.add(row, found, Place("f", 1))
    return ValidityReport(
        measured="detectors",
        memfin_version="0",
        files=[],
        rows=2,
        risk_tags=stats.risk_tags() if read else None,
        contradiction=stats.contradiction() if read else None,
        compliance=stats.compliance() if read else None,
        forbidden=stats.forbidden() if read else None,
        rubric=stats.rubric(),
    )


@pytest.mark.parametrize(
    ("text", "name", "threshold"),
    [
        ("risk_tags.micro_f1=0.9", "risk_tags.micro_f1", 0.9),
        (" compliance.kappa = -0.5 ", "compliance.kappa", -0.5),
        ("rubric.by_item.a=b.accuracy=1", "rubric.by_item.a=b.accuracy", 1.0),
        ("forbidden.by_category.代客操作.f1=1e-1", "forbidden.by_category.代客操作.f1", 0.1),
    ],
)
def test_gates_are_read(text: str, name: str, threshold: float) -> None:
    assert parse_gate(text) == (name, threshold)


@each_case(
    "text",
    [
        "",
        "risk_tags.micro_f1",
        "=0.5",
        "risk_tags.micro_f1=high",
        "risk_tags.micro_f1=nan",
        "risk_tags.micro_f1=inf",
        "risk_tags.micro_f1=90",
    ],
)
def test_what_is_no_gate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=number"):
        parse_gate(text)


@pytest.mark.parametrize(
    "name",
    [
        "contradiction.precision",
        "compliance.by_label.severe_violation.precision",
        "risk_tags.by_tag.fx_risk.kappa",
        "rubric.by_item.anything at all.f1",
        "forbidden.macro_f1",
    ],
)
def test_every_share_can_be_a_gate(name: str) -> None:
    check_gate(name)


@each_case(
    "name",
    [
        "micro_f1",
        "risk_tags",
        "risk_tags.f1",
        "risk_tags.by_tag.fx_risk",
        "risk_tags.by_tag.fx_risk.support",
        "risk_tags.by_tag.汇率风险.f1",
        "risk_tags.by_tag.moon.f1",
        "compliance.by_label.fine.f1",
        "compliance.severe_false_positives",
        "forbidden.by_category.占星.f1",
        "rubric.by_item.f1",
        "contradiction.by_x.y.f1",
        "metrics.m1",
    ],
)
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown value"):
        check_gate(name)


def test_gates_fail_below_the_threshold_only() -> None:
    assert (
        failed_gates(
            report(), {"risk_tags.micro_recall": 0.5, "contradiction.f1": 1.0, "compliance.accuracy": 1}
        )
        == []
    )
    assert failed_gates(report(), {"risk_tags.micro_recall": 0.51}) == [
        "--fail-under risk_tags.micro_recall=0.51: the value is 0.5"
    ]
    assert failed_gates(report(), {"rubric.by_item.a.b.accuracy": 1.0}) == []
    assert len(failed_gates(report(), {"risk_tags.by_tag.credit_risk.recall": 0.1})) == 1


@pytest.mark.parametrize("name", ["forbidden.f1", "risk_tags.by_tag.policy_risk.f1", "compliance.kappa"])
def test_what_was_not_measured_passes_no_gate(name: str) -> None:
    assert failed_gates(report(), {name: 0.0}) == [f"--fail-under {name}=0: the value was not measured"]


def test_what_a_judge_does_not_read_passes_no_gate() -> None:
    problems = failed_gates(report(read=False), {"compliance.accuracy": 0.0, "rubric.accuracy": 0.0})
    assert problems == ["--fail-under compliance.accuracy=0: the value was not measured"]


def test_a_gate_in_python_may_not_be_unknown_either() -> None:
    with pytest.raises(UsageError, match="unknown value"):
        failed_gates(report(), {"risk_tags.f1": 0.5})
