"""Findings of the offline detectors in one reply, for ``memfin check``."""

from collections.abc import Iterator
from functools import lru_cache

from memfin.cli.replies import Reply
from memfin.contracts import CheckedFinding, CheckedReply, Finding
from memfin.contracts.checked import FindingKind
from memfin.scoring import compliance, risk
from memfin.scoring.constraint_texts import unread_constraints
from memfin.scoring.contradiction import ConstraintChecker, Contradiction
from memfin.scoring.detectors import read_content
from memfin.scoring.statements import Analysis


def check_reply(reply: Reply, file: str, constraints: tuple[str, ...] = ()) -> CheckedReply:
    """Run the detectors over a reply.

    Args:
        reply: the reply.
        file: the name of its file, as the result tells it.
        constraints: of the client, besides those that the reply brings along.
    """
    constraints = tuple(dict.fromkeys((*constraints, *reply.constraints)))
    analysis = Analysis(reply.text)
    reading = read_content(analysis, user_text=reply.user_text)
    checked = _checker(constraints).check(analysis)
    findings = [
        _finding(reply, kind, value, found)
        for found in reading.findings
        for kind, value in _meanings(found, analysis.text, reading.risk_tags)
    ]
    findings += [_finding(reply, "contradiction", each.constraint, each) for each in checked.broken]
    return CheckedReply(
        file=file,
        line=reply.line,
        id=reply.id,
        compliance=reading.compliance if reading.categories else None,
        categories=reading.categories,
        risk_tags=reading.risk_tags,
        contradictions=[each.constraint for each in checked.broken],
        undecided=checked.undecided,
        unread_constraints=unread_constraints(constraints),
        unsure=reading.unsure,
        findings=sorted(findings, key=lambda each: (each.kind == "disclosure", each.start, each.end)),
    )


@lru_cache(maxsize=64)
def _checker(constraints: tuple[str, ...]) -> ConstraintChecker:
    return ConstraintChecker(constraints)


def _meanings(found: Finding, text: str, risk_tags: list[str]) -> Iterator[tuple[FindingKind, str]]:
    """Yield the kind and the name of what a finding shows; nothing for elements of an explanation.

    Some findings are misconduct only where the reply has no word of risk; its normal form is needed for that.
    """
    if found.field == risk.FIELD:
        yield "disclosure", found.value
    elif found.field == compliance.FIELD:
        for category in compliance.shown_categories(text, {found.value}, risk_tags):
            yield "severe" if category in compliance.SEVERE_CATEGORIES else "minor", category


def _finding(reply: Reply, kind: FindingKind, value: str, found: Finding | Contradiction) -> CheckedFinding:
    words = reply.text[found.start : found.end]
    first = found.start + len(words) - len(words.lstrip())
    line = reply.text.count("\n", 0, first) + 1 if reply.is_file else reply.line
    return CheckedFinding(
        kind=kind, value=value, rule=found.rule, line=line, start=found.start, end=found.end, words=words
    )
