"""Grades of a judge for the answers to probes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from memfin.contracts import (
    Dialog,
    DialogTrace,
    JudgeFailure,
    ProbeReading,
    ProbeRequest,
    TurnEvalRow,
    Verdict,
)
from memfin.contracts.judgement import PROBE_GRADES
from memfin.dataset import detect_language
from memfin.judges.probe_grading import is_right
from memfin.ledger.facts import Ledger
from memfin.ledger.scoring import right_answer

Graded = Iterable[tuple[ProbeRequest, Verdict | JudgeFailure]]


def probe_requests(dialog: Dialog, trace: DialogTrace) -> Iterator[ProbeRequest]:
    """Yield the requests for the grades of each answered probe, in the order of the trace."""
    ledger, probes = Ledger.of(dialog), {probe.id: probe for probe in dialog.probes}
    for asked in () if trace.probes is msgspec.UNSET else trace.probes:
        probe = probes.get(asked.probe_id)
        if probe is None or asked.status != "ok" or asked.answer is None:
            continue
        right = right_answer(ledger, probe)
        for grade in PROBE_GRADES:
            yield ProbeRequest(
                dialog_id=trace.dialog_id,
                turn_pair_id=probe.after,
                language=dialog.language or detect_language(probe.question),
                user_text=probe.question,
                reply=asked.answer,
                rubric_required=[] if right is None else [right.value, *right.aliases],
                probe=probe.id,
                grade=grade,
            )


def with_grades(rows: Sequence[TurnEvalRow], graded: Graded) -> list[TurnEvalRow]:
    """Return the rows with the grades of their probes; what the agent did not answer is wrong."""
    outcomes = {(request.probe, request.grade): outcome for request, outcome in graded}

    def of(reading: ProbeReading) -> ProbeReading:
        if reading.outcome == "failed":
            return reading.replace(**dict.fromkeys(PROBE_GRADES, False))
        found = {grade: outcomes[reading.probe, grade] for grade in PROBE_GRADES}
        grades: Mapping[str, bool | None] = {
            grade: is_right(outcome) if isinstance(outcome, Verdict) else None
            for grade, outcome in found.items()
        }
        errors = [outcome.reason for outcome in found.values() if isinstance(outcome, JudgeFailure)]
        return reading.replace(**grades, judge_error=errors[0] if errors else msgspec.UNSET)

    return [row.replace(probes=[*map(of, row.probes)]) if row.probes else row for row in rows]
