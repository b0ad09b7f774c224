"""Findings in one labelled reply, by the detectors or by a judge."""

from collections.abc import Iterable, Mapping, Sequence

from memfin.contracts import (
    ComplianceLabel,
    Finding,
    JudgeRequest,
    JudgeScope,
    LabelledReply,
    Record,
    Verdict,
)
from memfin.dataset import detect_language
from memfin.scoring import compliance, risk, rubric
from memfin.scoring.contradiction import FIELD as CONTRADICTION
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.detectors import read_content
from memfin.scoring.statements import Analysis


class Found(Record):
    """Findings in one reply to compare with its labels; None for parts that were not read.

    ``findings`` are the evidence of the detectors, ``reason`` that of a judge.
    """

    risk_tags: list[str] | None
    contradiction: bool | None
    compliance: ComplianceLabel | None
    categories: list[str] | None
    rubric: list[str]
    findings: list[Finding] = []
    reason: str | None = None


def given_labels(labels: Mapping[str, bool | None] | None) -> dict[str, bool]:
    """Return the labels that are not None."""
    return {name: label for name, label in (labels or {}).items() if label is not None}


def found_by_detectors(row: LabelledReply) -> Found:
    """Return the findings of the offline detectors in a reply; none for a blank one."""
    if not row.text.strip():
        return Found(risk_tags=[], contradiction=False, compliance="compliant", categories=[], rubric=[])
    analysis = Analysis(row.text)
    reading = read_content(analysis, user_text=row.user_text or "")
    broken = ConstraintChecker(row.constraints or []).check(analysis).broken
    return Found(
        risk_tags=reading.risk_tags,
        contradiction=bool(broken),
        compliance=reading.compliance,
        categories=reading.categories,
        rubric=rubric.rubric_hits(given_labels(row.rubric), reading.rubric_items, analysis.document),
        findings=[
            *reading.findings,
            *(
                Finding(
                    field=CONTRADICTION,
                    value=found.constraint,
                    rule=found.rule,
                    start=found.start,
                    end=found.end,
                )
                for found in broken
            ),
        ],
    )


def judge_request(row: LabelledReply, scope: JudgeScope) -> JudgeRequest | None:
    """Return the request to a judge about a reply, None without a label for a judge.

    Its rubric items are those that are labelled.
    """
    items = list(given_labels(row.rubric))
    others = given_labels(row.risk_tags) or row.contradiction is not None or row.compliance is not None
    if not items and (scope == "m5" or not others):
        return None
    return JudgeRequest(
        dialog_id=row.id,
        turn_pair_id=1,
        language=detect_language(row.text + (row.user_text or "")),
        user_text=row.user_text or "",
        reply=row.text,
        rubric_required=items,
        constraints=row.constraints or [],
        scope=scope,
    )


def found_by_judge(row: LabelledReply, verdict: Verdict, scope: JudgeScope) -> Found:
    """Return the findings of a verdict: in the scope ``m5`` the rubric alone, never forbidden categories."""
    everything = scope == "all"
    return Found(
        risk_tags=verdict.risk_tags if everything else None,
        contradiction=bool(verdict.contradicted_constraints) if everything else None,
        compliance=verdict.compliance if everything else None,
        categories=None,
        rubric=[item for item in given_labels(row.rubric) if item in verdict.rubric_items],
        reason=verdict.reason,
    )


def evidence_of(findings: Sequence[Finding], field: str, value: str) -> list[Finding]:
    """Return the findings that support a result, in the order of the reply.

    Most readings are findings of a rule themselves. Some are implied: a product push without a risk
    disclosure, a statement of limits by disclosed risks, and a compliance label (``value`` is empty) by
    every claim.
    """
    chosen = [each for each in findings if each.field == field and value in ("", each.value)]
    if not chosen and field == compliance.FIELD:
        chosen = [
            each for each in findings if each.field == field and each.value not in compliance.CATEGORIES
        ]
    if not chosen and field == rubric.FIELD:
        chosen = list(_implied(findings, value))
    return sorted(chosen, key=lambda each: (each.start, each.end, each.rule))


def _implied(findings: Iterable[Finding], item: str) -> Iterable[Finding]:
    """Yield the risk disclosures that imply a rubric item."""
    return (
        each
        for each in findings
        if each.field == risk.FIELD and rubric.contained_items((), [each.value]) == [item]
    )
