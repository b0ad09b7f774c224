"""The worst turns of a run: their selection while rows stream by, and the evidence shown for each."""

import bisect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from memfin.contracts import (
    DETECTOR_PREFIX,
    HEURISTIC_JUDGE,
    NO_JUDGE,
    RecallTrace,
    TurnEvalRow,
    met_risk_tags,
)
from memfin.language import marked, tr, tr_counted
from memfin.metrics.custom import CustomState, custom_states
from memfin.report import reader
from memfin.report.dialogs import UNKNOWN, Facts, script_language
from memfin.report.glossary import format_value, labels, missing, value_label, word
from memfin.report.model import Case, Cases, Evidence, Item, Segment, segments
from memfin.text.lines import flat, one_line

NO_RULE: Final = marked("no rule fired")
_KEY: Final = re.compile(r"(?P<name>[a-z_.]+)(\[(?P<item>\d+)\]|:(?P<turn>\d+))?")
_LOW_SCORE: Final = 4.0
_USER_LIMIT: Final = 400
_REPLY_LIMIT: Final = 700
_TEXT_LIMIT: Final = 300
_WORDS_LIMIT: Final = 120
_MAX_ITEMS: Final = 20
_MAX_FINDINGS: Final = 12
_MAX_VOTES: Final = 3
_DETECTORS: Final = frozenset({"", "lexicon", "lexicon+classifier"})
"""The offline detectors of compliance as rows name them, those of earlier versions included."""

_OWN_CHECK: Final = "+trace"
_FIELD: Final = "compliance"
_SEVERE: Final = frozenset({"保本保收益", "明确买入指令", "确定性预测涨跌", "代客操作", "内幕信息"})
"""The categories that make a reply a severe violation, as `memfin.scoring.compliance` has them."""

Rank = tuple[float, float, str, int]
"""Severity (smaller is worse), a tie-breaker, and the turn, so that the file's order has no influence."""


@dataclass(slots=True)
class Ranking:
    """The worst turns by one criterion, at most ``size`` of them, worst first."""

    title: str
    size: int
    total: int = 0
    entries: list[tuple[Rank, str, TurnEvalRow]] = field(default_factory=list)

    def offer(self, rank: float, tie: float, words: str, row: TurnEvalRow) -> None:
        """Count a turn that meets the criterion and keep it if it is among the worst so far."""
        self.total += 1
        entry = ((rank, tie, row.dialog_id, row.turn_pair_id), words, row)
        bisect.insort(self.entries, entry, key=lambda entry: entry[0])
        del self.entries[self.size :]


class WorstTurns:
    """A ranking per criterion and custom metric, fed row by row; ``without`` names those left out."""

    def __init__(self, size: int = 5, *, without: Collection[str] = ()) -> None:
        rankings = {name: Ranking(title, size) for name, title in labels("rankings").items()}
        self._severe, self._contradicted, self._keys, self._risks, self._scores, self._own = rankings.values()
        self._shown = [ranking for name, ranking in rankings.items() if name not in without]
        self._size = size
        self._states: dict[str, CustomState] = {}
        self._custom: dict[str, Ranking] = {}

    def rankings(self) -> tuple[Ranking, ...]:
        """Return the rankings that have any turn, the gravest kind first."""
        custom = (self._custom[name] for name in sorted(self._custom))
        return tuple(ranking for ranking in (*self._shown, *custom) if ranking.total)

    def add(self, row: TurnEvalRow) -> None:
        """Offer a row to every criterion it is eligible for; violations need nothing from the reference."""
        if row.pred_compliance_label == "severe_violation" and row.turn_status in (None, "ok"):
            reference = row.gt_compliance_label
            agreed = reference == row.pred_compliance_label
            words = tr("severe violation")
            words += tr(" by the agent's own check") if by_own_check(row) else ""
            if reference is not None and not agreed:
                words += tr(", reference: {label}", label=word(reference))
            self._severe.offer(-len(row.forbidden_hits), agreed, words, row)
        if row.constraint_contradiction:
            broken = len(row.contradicted_constraints)
            self._contradicted.offer(-broken, 0, tr("contradicts a constraint"), row)
        if row.eligible_m1:
            asked, hit = len(row.key_hit_flags), sum(row.key_hit_flags)
            if hit < asked:
                words = tr("{hit} of {asked} required keys recalled", hit=hit, asked=asked)
                self._keys.offer(hit / asked, -(asked - hit), words, row)
        if row.eligible_m3 and (missed := len(missed_tags(row))):
            asked = len(set(row.risk_required_tags))
            words = tr("{missed} of {asked} risk disclosures missing", missed=missed, asked=asked)
            self._risks.offer(-missed, -missed / asked, words, row)
        score = row.judge_score_1_5
        if row.eligible_m5 and score is not None and score < _LOW_SCORE:
            words = tr("judge score {score}", score=format_value("judge_score_mean", score))
            self._scores.offer(score, 0, words, row)
        own = [each.field for each in row.findings if each.field.startswith(DETECTOR_PREFIX)]
        if own:
            self._own.offer(-len(own), 0, tr(", ").join(dict.fromkeys(own)), row)
        self._add_custom(row)

    def _add_custom(self, row: TurnEvalRow) -> None:
        """Offer a row to its custom metrics per turn, unless its value is the best in the range."""
        for state in custom_states(row, self._states):
            for share, hits, of in () if state.of_dialog else state.units(row):
                less, value = share.lower_is_better, hits / of
                if value == (share.low if less else share.high):
                    continue
                name = one_line(f"{state.name} {value_label(share.name)}", _WORDS_LIMIT)
                title = (
                    tr("{value}, highest first", value=name)
                    if less
                    else tr("{value}, lowest first", value=name)
                )
                words = f"{name}: {format_value(share.name, value)}"
                ranking = self._custom.setdefault(state.name, Ranking(title, self._size))
                ranking.offer(-value if less else value, -of, words, row)

    def blocks(self, run_dir: Path, facts: Mapping[str, Facts]) -> Iterator[Cases]:
        """Yield the rankings with the texts of their turns, which are read from the trace."""
        rankings = self.rankings()
        wanted: dict[str, set[int]] = {}
        for ranking in rankings:
            for _, _, row in ranking.entries:
                wanted.setdefault(row.dialog_id, set()).add(row.turn_pair_id)
        texts, reasons = reader.fetch_turns(run_dir, wanted), reader.fetch_reasons(run_dir, wanted)
        seen: dict[tuple[str, int], Case] = {}
        for ranking in rankings:
            cases: list[Case] = []
            for _, words, row in ranking.entries:
                key = (row.dialog_id, row.turn_pair_id)
                if key in seen:
                    cases.append(msgspec.structs.replace(seen[key], why=words, repeated=True))
                    continue
                anchor = f"turn-{len(seen) + 1}"
                text, why = texts.get(key), reasons.get(key, ())
                seen[key] = turn_case(anchor, words, row, text, facts.get(row.dialog_id), why)
                cases.append(seen[key])
            total = tr_counted(ranking.total, marked("1 turn"), marked("{count:,} turns"))
            if ranking.total > len(cases):
                total += tr(", the worst {count}", count=len(cases))
            yield Cases(title=ranking.title, total=total, answered=tr("Reply"), cases=tuple(cases))


def empty_rankings(metrics: Mapping[str, reader.Figures], judge: str | None) -> set[str]:
    """Return the rankings that say nothing about a run without recall, or without a model as the judge."""
    memory = metrics.get("m1_context_continuity")
    without = {"keys"} if memory is not None and missing("key_coverage", memory) else set()
    return without | ({"scores"} if judge in (NO_JUDGE, HEURISTIC_JUDGE) else set())


def missed_tags(row: TurnEvalRow) -> tuple[str, ...]:
    """Return the required risk tags that the reply does not disclose, in the reference's order."""
    met = met_risk_tags(row.risk_required_tags, row.risk_pred_tags)
    return tuple(tag for tag in dict.fromkeys(row.risk_required_tags) if tag not in met)


def turn_case(
    anchor: str,
    why: str,
    row: TurnEvalRow,
    text: reader.TurnText | None,
    facts: Facts | None,
    reasons: Iterable[reader.Reason] = (),
) -> Case:
    """Return the case of one turn; ``text`` is None when the trace lacks the turn."""
    user_text = text.user_text if text else ""
    reply = (text.pred_assistant_text if text else None) or ""
    scenario, difficulty, _ = facts or (tr(UNKNOWN),) * 3
    return Case(
        anchor=anchor,
        why=why,
        id=one_line(row.dialog_id, 80),
        where=tr(", turn {turn}", turn=row.turn_pair_id),
        context=f"{scenario} · {labels('difficulty').get(difficulty, difficulty)}",
        language=script_language(user_text + reply[:200]) or "en",
        question=one_line(user_text, _USER_LIMIT) if text else tr("(the trace lacks this turn)"),
        reply=segments(reply, ((finding.start, finding.end) for finding in row.findings), _REPLY_LIMIT),
        reply_length=len(reply),
        evidence=tuple(_evidence(row, reply, text, reasons)),
    )


def _evidence(
    row: TurnEvalRow, reply: str, text: reader.TurnText | None, reasons: Iterable[reader.Reason]
) -> Iterator[Evidence]:
    if keys := tuple(_keys(row)):
        yield Evidence(tr("Required keys"), keys)
    recall = text.recall if text else None
    yield Evidence(tr("Recall"), (Item(_recall(recall)), *_recalled(recall)))
    missed = missed_tags(row)
    met = (tag for tag in dict.fromkeys(row.risk_required_tags) if tag not in missed)
    if tags := (*_chips(missed, tr("missing")), *_chips(met, tr("made"), hit=True)):
        yield Evidence(tr("Risk disclosures"), tags, chips=True)
    if (label := label_words(row)) is not None:
        reference = row.gt_compliance_label
        words = label
        if reference is not None:
            words = tr("{label}, reference {reference}", label=label, reference=word(reference))
        hits = _chips(row.forbidden_hits)
        yield Evidence(tr("Compliance"), (Item(words), *hits), chips=True)
    if text and text.compliance and (found := text.compliance.violations[:_MAX_ITEMS]):
        parts = ((word(part) for part in each.values() if isinstance(part, str)) for each in found)
        yield Evidence(tr("Agent's own check"), tuple(Item(tr(", ").join(each)) for each in parts))
    if row.constraint_contradiction:
        constraints = _chips(row.contradicted_constraints)
        unknown = (Item(tr("a constraint (the row does not name it)")),)
        yield Evidence(tr("Contradicts"), constraints or unknown, chips=True)
    score = row.judge_score_1_5
    judged = (Item(tr("score {score:.2f} of 5", score=score)),) if score is not None else ()
    lacking = (item for item in row.rubric_required if item not in row.rubric_hit_items)
    if items := (*judged, *_chips(lacking, tr("missing"))):
        yield Evidence(tr("Explainability"), items, chips=True)
    votes = (
        Item(tr("{mark:g} of 5: {reason}", mark=one.score, reason=one_line(one.reason, _TEXT_LIMIT)))
        for one in islice(reasons, _MAX_VOTES)
    )
    lists: tuple[tuple[str, Iterator[Item]], ...] = (
        (tr("Judge"), votes),
        (tr("Custom metrics"), _custom(row)),
        (tr("Findings"), _findings(row, reply)),
    )
    yield from (Evidence(title, shown) for title, items in lists if (shown := tuple(items)))


def _custom(row: TurnEvalRow) -> Iterator[Item]:
    for name, entry in row.get("custom", {}).items():
        value = format_value(entry.value, entry.hits / entry.of if entry.of else None)
        yield Item(one_line(f"{name}: {entry.error or value}", _TEXT_LIMIT))


def _keys(row: TurnEvalRow) -> Iterator[Item]:
    """Pair every required key with its hit; hit lists align with the resolvable keys only."""
    index = 0
    reasons = row.key_recoverability or []
    for key in row.resolved_keys[:_MAX_ITEMS]:
        name = key_words(key.key)
        if key.target_text is not None:
            name += f" “{one_line(key.target_text, _WORDS_LIMIT)}”"
        if not key.resolvable:
            yield Item(tr("{key}: {result}", key=name, result=tr("not resolvable")), "unknown")
            continue
        hit = row.key_hit_flags[index] if index < len(row.key_hit_flags) else None
        sources = row.key_hit_sources[index] if index < len(row.key_hit_sources) else []
        note = labels("key_reasons").get(reasons[index], "") if index < len(reasons) else ""
        index += 1
        if hit is None:
            yield Item(tr("{key}: {result}", key=name, result=note or tr("unknown")), "unknown")
        elif hit:
            places = tr(", ").join(labels("sources").get(source, source).lower() for source in sources)
            result = tr("recalled from {sources}", sources=places)
            yield Item(tr("{key}: {result}", key=name, result=result), "hit")
        else:
            result = tr("missed ({reason})", reason=note) if note else tr("missed")
            yield Item(tr("{key}: {result}", key=name, result=result), "miss")


def key_words(key: str) -> str:
    """Write a required key, such as ``profile_gt.constraints_gt[1]``, in words."""
    if (found := _KEY.fullmatch(key)) and (words := labels("keys").get(found["name"])):
        place = found["item"] or found["turn"]
        number = int(found["item"]) + 1 if found["item"] else found["turn"]
        return f"{words} {number}" if place else words
    return one_line(key, _WORDS_LIMIT)


def _findings(row: TurnEvalRow, reply: str) -> Iterator[Item]:
    # Those of users' detectors, which come last, are not to be cut off by the others.
    ordered = sorted(row.findings, key=lambda each: not each.field.startswith(DETECTOR_PREFIX))
    for finding in ordered[:_MAX_FINDINGS]:
        before, span, after = around(reply, finding.start, finding.end, context=24, limit=_WORDS_LIMIT)
        quote = (Segment(before), Segment(span, marked=True), Segment(after)) if span else ()
        kind = labels("findings").get(finding.field) or one_line(finding.field, 60)
        rule = one_line(finding.rule, 80)
        text = tr("{kind}: {value} (rule {rule})", kind=kind, value=word(finding.value), rule=rule)
        yield Item(text, quote=quote)


def around(text: str, start: int, end: int, *, context: int, limit: int) -> tuple[str, str, str]:
    """Return the text before a span, the span, and the text after it, each on one line.

    ``context`` bounds the outer two, ``limit`` the span, in characters. A span that lies outside
    the text gives three empty strings.
    """
    start, end = max(0, start), min(len(text), end)
    if start >= end:
        return "", "", ""
    before = ("…" if start > context else "") + flat(text[max(0, start - context) : start])
    after = flat(text[end : end + context]) + ("…" if end + context < len(text) else "")
    return before, one_line(text[start:end], limit), after


def _chips(values: Iterable[str], state: str = "", *, hit: bool = False) -> tuple[Item, ...]:
    return tuple(
        Item(f"{word(value)} {state}".rstrip(), "hit" if hit else "miss")
        for value in islice(values, _MAX_ITEMS)
    )


def _recall(recall: RecallTrace | None) -> str:
    if recall is None:
        return tr("no recall observed")
    parts = [
        tr("{count:,} long-term items", count=len(recall.items)),
        tr("{count:,} characters of short-term window", count=len(recall.short_term_context)),
        tr("{count:,} characters of profile context", count=len(recall.profile_context)),
    ]
    if recall.token_count:
        parts.append(tr("{count:,} tokens packed", count=recall.token_count))
    return tr(", ").join(parts)


def _recalled(recall: RecallTrace | None) -> Iterator[Item]:
    """Yield the beginning of what each memory source recalled."""
    if recall is not None:
        short, long, profile = labels("sources").values()
        items = " · ".join(item.content for item in recall.items)
        texts = ((short, recall.short_term_context), (long, items), (profile, recall.profile_context))
        yield from (Item(f"{name}: “{one_line(text, _TEXT_LIMIT)}”") for name, text in texts if text.strip())


def label_words(row: TurnEvalRow) -> str | None:
    """Return the label of a reply with its source, None for a reply that nobody read.

    Detectors that find nothing do not show that a reply is compliant. A violation that they did not find
    themselves comes from the agent's own check; a row with a judge does not record which of the two found it.
    """
    label, source = row.pred_compliance_label, row.detectors.get(_FIELD, "")
    by_detectors = source.removesuffix(_OWN_CHECK) in _DETECTORS
    if label is None or (label == "compliant" and not by_detectors):
        return None if label is None else word(label)
    if label == "compliant":
        return tr(NO_RULE)
    if by_own_check(row):
        return tr("{label} (by the agent's own check)", label=word(label))
    if source.endswith(_OWN_CHECK) and not by_detectors:
        return tr("{label} (by the judge or the agent's own check)", label=word(label))
    return word(label)


def by_own_check(row: TurnEvalRow) -> bool:
    """Return True for a violation found by the agent's own check and not by the offline detectors."""
    label, source = row.pred_compliance_label, row.detectors.get(_FIELD, "")
    if label in (None, "compliant") or not source.endswith(_OWN_CHECK):
        return False
    if source.removesuffix(_OWN_CHECK) not in _DETECTORS:
        return False
    found = {finding.value for finding in row.findings if finding.field == _FIELD}
    return not (found & _SEVERE if label == "severe_violation" else found)
