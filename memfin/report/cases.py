"""Makes a turn fit to be looked at: what was asked, answered, recalled, and what the detectors saw."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from memfin.contracts import RecallTrace, TurnEvalRow
from memfin.report.dialogs import UNKNOWN, Facts, script_language
from memfin.report.excerpt import around, segments
from memfin.report.labels import label_words
from memfin.report.model import FindingCase, KeyCase, TurnCase
from memfin.report.reader import TurnText
from memfin.report.worst import missed_tags
from memfin.text.lines import one_line

_USER_LIMIT: Final = 400
_REPLY_LIMIT: Final = 700
_WORDS_LIMIT: Final = 120
_MAX_KEYS: Final = 20
_MAX_WORDS: Final = 20
_MAX_FINDINGS: Final = 12
_REASONS: Final = {"unrevealed": "not told before this turn", "self_reference": "the current turn itself"}


def turn_case(anchor: str, row: TurnEvalRow, text: TurnText | None, facts: Facts | None) -> TurnCase:
    """Build the case of one turn; ``text`` is None when the trace lacks the turn."""
    user_text = text.user_text if text else ""
    reply = (text.pred_assistant_text if text else None) or ""
    scenario, difficulty, _ = facts or (UNKNOWN, UNKNOWN, UNKNOWN)
    missed = missed_tags(row)
    return TurnCase(
        anchor=anchor,
        dialog_id=one_line(row.dialog_id, 80),
        turn_pair_id=row.turn_pair_id,
        scenario=scenario,
        difficulty=difficulty,
        language=script_language(user_text + reply[:200]) or "en",
        user_text=one_line(user_text, _USER_LIMIT) if text else "(the trace lacks this turn)",
        reply=segments(reply, ((finding.start, finding.end) for finding in row.findings), _REPLY_LIMIT),
        reply_length=len(reply),
        keys=_keys(row),
        risk_missed=_words(missed),
        risk_met=_words(tag for tag in dict.fromkeys(row.risk_required_tags) if tag not in missed),
        predicted_label=label_words(row),
        reference_label=row.gt_compliance_label,
        forbidden=_words(row.forbidden_hits),
        contradicted=bool(row.constraint_contradiction),
        constraints=_words(row.contradicted_constraints),
        rubric_missed=_words(item for item in row.rubric_required if item not in row.rubric_hit_items),
        judge_score=row.judge_score_1_5,
        judge_error=one_line(row.judge_error, 200) if row.judge_error else None,
        findings=tuple(_findings(row, reply)),
        recall=_recall(text.recall if text else None),
    )


def _keys(row: TurnEvalRow) -> tuple[KeyCase, ...]:
    """Pair every required key with its hit; hit lists align with the resolvable keys only."""
    cases: list[KeyCase] = []
    index = 0
    for key in row.resolved_keys[:_MAX_KEYS]:
        name = one_line(key.key, _WORDS_LIMIT)
        target = one_line(key.target_text, _WORDS_LIMIT) if key.target_text is not None else None
        if not key.resolvable:
            cases.append(KeyCase(key=name, target=target, hit=None, sources=(), note="not resolvable"))
            continue
        reasons = row.key_recoverability or []
        cases.append(
            KeyCase(
                key=name,
                target=target,
                hit=bool(row.key_hit_flags[index]) if index < len(row.key_hit_flags) else None,
                sources=tuple(row.key_hit_sources[index]) if index < len(row.key_hit_sources) else (),
                note=_REASONS.get(reasons[index], "") if index < len(reasons) else "",
            )
        )
        index += 1
    return tuple(cases)


def _findings(row: TurnEvalRow, reply: str) -> list[FindingCase]:
    cases: list[FindingCase] = []
    for finding in row.findings[:_MAX_FINDINGS]:
        before, span, after = around(reply, finding.start, finding.end, context=24, limit=_WORDS_LIMIT)
        cases.append(
            FindingCase(
                field=one_line(finding.field, 60),
                value=one_line(finding.value, 60),
                rule=one_line(finding.rule, 80),
                before=before,
                span=span,
                after=after,
            )
        )
    return cases


def _words(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(one_line(value, _WORDS_LIMIT) for value in islice(values, _MAX_WORDS))


def _recall(recall: RecallTrace | None) -> str:
    if recall is None:
        return "no recall observed"
    parts = [
        f"{len(recall.items)} long-term items",
        f"{len(recall.short_term_context)} characters of short-term window",
        f"{len(recall.profile_context)} characters of profile context",
    ]
    if recall.token_count:
        parts.append(f"{recall.token_count} tokens packed")
    return ", ".join(parts)
