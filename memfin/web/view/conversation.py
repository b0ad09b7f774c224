"""Content of the page of a dialogue: messages with marked findings, and the evidence beside each turn."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from memfin.contracts import DETECTOR_PREFIX, DialogTrace, Finding, Judgement, TurnEvalRow, TurnTrace
from memfin.language import marked, tr
from memfin.report.dialogs import script_language
from memfin.report.glossary import labels, word
from memfin.report.model import Evidence, Item, Pairs, milliseconds
from memfin.report.worst_turns import key_items, readings, recall_words
from memfin.text.lines import flat, one_line
from memfin.web.view.filters import LOW_SCORE

_LEVELS: Final = {
    "compliance": "bad",
    "constraint_contradiction": "bad",
    "risk_tag": "good",
    "rubric": "plain",
    "miss": "bad",
    "hit": "good",
    "quote": "plain",
}
_VALUE_LIMIT: Final = 2000
_MAX_FINDINGS: Final = 200


class Piece(NamedTuple):
    """A piece of a text: the level of the findings that cover it, the numbers of those that end with it.

    ``found`` if it is searched for.
    """

    text: str
    level: str = ""
    title: str = ""
    ends: tuple[int, ...] = ()
    found: bool = False


def turns_of(
    trace: DialogTrace,
    rows: Mapping[int, TurnEvalRow],
    votes: Mapping[int, Sequence[Judgement]],
    search: str = "",
) -> list[dict[str, Any]]:
    """Return the turns of a dialogue with what its rows and the judge say of them, for the template.

    Matches of ``search`` in messages and replies are marked.
    """
    return [
        {
            **_turn(turn, rows.get(turn.turn_pair_id), votes.get(turn.turn_pair_id, ()), search),
            "probes": [*_probes(trace, turn, rows.get(turn.turn_pair_id))],
        }
        for turn in trace.turns
    ]


def profile_of(trace: DialogTrace) -> Pairs:
    """Return the client's true profile in words."""
    return () if trace.profile_gt is UNSET else _pairs(dict(trace.profile_gt))


def head_of(trace: DialogTrace) -> dict[str, Any]:
    """Return id, facts and the client's true profile of a dialogue, for the template."""
    facts = [trace.scenario_type, labels("difficulty").get(trace.difficulty or "")]
    if trace.client_id is not UNSET:
        client, number = one_line(trace.client_id, 60), trace.session_index or 0
        facts += [tr("{client}, session {number}", client=client, number=number), trace.session_time or None]
    return {
        "dialog": trace.dialog_id,
        "facts": [one_line(each, 80) for each in facts if each],
        "profile": profile_of(trace),
    }


def _turn(
    turn: TurnTrace, row: TurnEvalRow | None, votes: Sequence[Judgement], search: str
) -> dict[str, Any]:
    reply = turn.pred_assistant_text
    findings = sorted(row.findings if row else (), key=lambda each: (each.start, each.end))[:_MAX_FINDINGS]
    targets = [key.target_text for key in (row.resolved_keys if row else ()) if key.target_text]
    status = labels("turn_status").get(turn.turn_status, turn.turn_status)
    return {
        "number": turn.turn_pair_id,
        "failed": "" if turn.turn_status == "ok" else status,
        "error": turn.error or (row and row.scoring_error) or "",
        "user": marked_text(turn.user_text, (), search),
        "reply": None if reply is None else marked_text(reply, findings, search),
        "language": script_language(turn.user_text + (reply or "")[:200]) or "en",
        "reference": turn.gt_assistant_text,
        "alarms": list(_alarms(row)) if row else [],
        "notes": [_note(number, each) for number, each in enumerate(findings, start=1)],
        "evidence": list(_evidence(turn, row)) if row else [],
        "recall": recall_words(turn.recall),
        "recalled": list(_recalled(turn, targets)),
        "profile": _pairs(turn.profile_snapshot or {}),
        "tools": list(_tools(turn)),
        "verdicts": list(_verdicts(row, votes)),
        "facts": list(_facts(turn)),
    }


def marked_text(text: str, findings: Sequence[Finding], search: str = "") -> tuple[Piece, ...]:
    """Cut a text where findings and matches of a search begin and end.

    Where several findings overlap, the gravest gives the level.
    """
    matches = [each.span() for each in re.finditer(re.escape(search), text, re.IGNORECASE)] if search else []
    ends = ((max(0, each.start), min(len(text), each.end)) for each in findings)
    spans = [(low, high, number) for number, (low, high) in enumerate(ends, start=1) if low < high]
    cuts = sorted({0, len(text), *(at for span in (*spans, *matches) for at in span[:2])})
    pieces = []
    for start, end in itertools.pairwise(cuts):
        over = [number for low, high, number in spans if low <= start and end <= high]
        covering = [findings[number - 1] for number in over]
        grades = {_level(each) for each in covering}
        level = next((grade for grade in ("bad", "own", "good", "plain") if grade in grades), "")
        title = tr(", ").join(f"{word(each.value)} ({one_line(each.rule, 80)})" for each in covering)
        ending = tuple(number for _, high, number in spans if number in over and high == end)
        found = any(low <= start and end <= high for low, high in matches)
        pieces.append(Piece(text[start:end], level, title, ending, found))
    return tuple(pieces)


def excerpt(text: str, search: str, limit: int) -> tuple[Piece, ...]:
    """Return a line of a text, from shortly before the first match of a search, which is marked."""
    found = re.search(re.escape(search), text, re.IGNORECASE) if search else None
    start = max(0, found.start() - limit // 4) if found else 0
    line = one_line(text[start : start + 2 * limit + len(search)], limit + len(search))
    return marked_text("…" * bool(start) + line, (), flat(search))


def _level(finding: Finding) -> str:
    return _LEVELS.get(finding.field, "own")


def _note(number: int, finding: Finding) -> dict[str, Any]:
    kind = labels("findings").get(finding.field) or one_line(finding.field.removeprefix(DETECTOR_PREFIX), 60)
    words = {"kind": kind, "value": word(finding.value), "rule": one_line(finding.rule, 120)}
    return {"number": number, "level": _level(finding), **words}


def _alarms(row: TurnEvalRow) -> Iterator[str]:
    if row.pred_compliance_label not in (None, "compliant"):
        yield word(row.pred_compliance_label)
    if row.constraint_contradiction:
        yield tr("contradicts a constraint")


def _evidence(turn: TurnTrace, row: TurnEvalRow) -> Iterator[Evidence]:
    if keys := tuple(key_items(row)):
        yield Evidence(tr("Required keys"), keys)
    yield from readings(row, turn.compliance)
    if row.detector_errors is not UNSET:
        errors = (
            f"{one_line(name, 60)}: {one_line(text, 300)}" for name, text in row.detector_errors.items()
        )
        yield Evidence(tr("Failed detectors"), tuple(Item(text, "miss") for text in errors))


def _recalled(turn: TurnTrace, targets: Sequence[str]) -> Iterator[tuple[str, tuple[Piece, ...]]]:
    """Yield source and text of what was recalled, with the words of the required keys marked."""
    if turn.recall is None:
        return
    short, long, profile = labels("sources").values()
    for item in turn.recall.items:
        about = [long, one_line(item.source or "", 60)]
        if item.score is not None:
            about.append(tr("score {score:.3g}", score=item.score))
        yield " · ".join(filter(None, about)), with_targets(item.content, targets)
    for name, text in ((short, turn.recall.short_term_context), (profile, turn.recall.profile_context)):
        if text.strip():
            yield name, with_targets(text, targets)


def with_targets(text: str, targets: Iterable[str]) -> tuple[Piece, ...]:
    """Return a text with the first place of each target marked."""
    found = [
        Finding(field="key", value=target, rule="", start=at, end=at + len(target))
        for target in dict.fromkeys(targets)
        if (at := text.find(target)) >= 0
    ]
    return tuple(
        piece._replace(ends=(), title="", level=piece.level and "key") for piece in marked_text(text, found)
    )


def _pairs(values: Mapping[str, Any]) -> Pairs:
    """Return a mapping as names and values in words, without what is empty."""
    return tuple(
        (one_line(name, 60).removesuffix("_gt").replace("_", " "), one_line(_plain(value), _VALUE_LIMIT))
        for name, value in values.items()
        if value not in (None, "", [], {})
    )


def _plain(value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tr(", ").join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _tools(turn: TurnTrace) -> Iterator[Item]:
    for tool in turn.tools:
        call = f"{one_line(tool.tool_name, 80)}({one_line(_plain(tool.args), _VALUE_LIMIT)})"
        result = one_line(tool.error or tool.result_excerpt, _VALUE_LIMIT)
        yield Item(f"{call} → {result}" if result else call, "miss" if tool.error else "hit")


def _verdicts(row: TurnEvalRow | None, votes: Sequence[Judgement]) -> Iterator[Item]:
    for vote in votes:
        if vote.verdict is not None:
            mark, reason = vote.verdict.score, vote.verdict.reason
            words = tr("{mark:g} of 5: {reason}", mark=mark, reason=reason)
            if vote.probe is not UNSET:
                words = f"{vote.probe}, {vote.grade}: {reason}"
            yield Item(words, "miss" if mark < LOW_SCORE else "hit")
        else:
            yield Item(one_line(vote.error or "", _VALUE_LIMIT), "unknown")
    if row is not None and row.judge_error and not votes:
        yield Item(one_line(row.judge_error, _VALUE_LIMIT), "unknown")


def _probes(trace: DialogTrace, turn: TurnTrace, row: TurnEvalRow | None) -> Iterator[dict[str, str]]:
    """Yield the probes after a turn with their scores; those that came too late stand at the last turn."""
    scored = {each.probe: each for each in (row.get("probes", ()) if row else ())}
    for probe in () if trace.probes is UNSET else trace.probes:
        if min(probe.after, trace.turns[-1].turn_pair_id) == turn.turn_pair_id:
            reading = scored.get(probe.probe_id)
            yield {
                "question": probe.question,
                "answer": probe.answer or "",
                "error": one_line(probe.error or "", _VALUE_LIMIT),
                "outcome": labels("outcomes")[reading.outcome] if reading else "",
                "level": "" if reading is None else "hit" if reading.correct else "miss",
            }


def _facts(turn: TurnTrace) -> Iterator[tuple[str, str]]:
    if turn.latency_ms is not None:
        yield tr("Latency"), milliseconds(turn.latency_ms)
    if turn.usage is not UNSET and turn.usage.calls:
        prompt, completion = turn.usage.prompt_tokens, turn.usage.completion_tokens
        words = marked("{prompt:,} in prompts, {completion:,} in answers")
        yield tr("Tokens"), tr(words, prompt=prompt, completion=completion)
    if turn.observation_error is not UNSET:
        yield tr("Observation"), one_line(turn.observation_error, _VALUE_LIMIT)
