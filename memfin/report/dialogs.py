"""Statistics over the dialogues and turns of a run in one streaming pass, and the warnings they give.

Counts are bounded and fed turn by turn, so that a report of 100,000 dialogues needs no more memory than one
of ten.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from memfin.contracts import JudgeScope, TurnEvalRow, many_failed, was_asked
from memfin.contracts.reading import canonical_difficulty
from memfin.language import marked, tr, tr_counted
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.detector_stats import findings_by_detector
from memfin.metrics.interval import RatioSums, ratio_interval
from memfin.metrics.percentiles import Percentiles
from memfin.report import glossary
from memfin.report.common import FailureCounter, place, smaller_groups
from memfin.report.glossary import (
    METRICS,
    MetricText,
    format_interval,
    format_value,
    is_score,
    labels,
    missing,
    warning,
)
from memfin.report.model import Cell, Pairs, ReportWarning, Table, Value, grouped, percent, table
from memfin.report.reader import DialogValues, Figures, ScannedDialog, ScannedTurn
from memfin.text.lines import one_line

UNKNOWN: Final = marked("(not given)")
_OTHER: Final = marked("(other)")
_MAX_LABELS: Final = 200
_MAX_ROWS: Final = 30
_PROFILE: Final = "m2_profile_accuracy"
_RATE: Final = "rate"
_DIFFICULTIES: Final = ("easy", "medium", "hard")
_CJK: Final = ((0x3400, 0x9FFF), (0x20000, 0x323AF))
_WARN_SHARE: Final = 0.2
_NOTE_SHARE: Final = 0.02
_REFUSAL_CHARS: Final = 200
"""A longer reply that declines one thing is advice all the same."""

_REFUSAL: Final = re.compile(
    r"(抱歉|对不起|很遗憾)[^。！]{0,30}(无法|不能|没法|没办法)|我(无法|不能|没法)(提供|回答|协助|帮)"
    r"|\b(sorry|unfortunately|regret)\b[^.!]{0,60}\b(can(no|['’])t|can not|unable|not able)\b"
    r"|\bI(['’]m| am) (unable|not able) to\b|\bI can(no|['’])t (help|assist|answer|provide|give|discuss)\b",
    re.IGNORECASE,
)
_MIN_REPLIES: Final = 5
_MIN_DIALOGS_FOR_INTERVALS: Final = 10
_CONSTANT_TAGS: Final = 3
_MAX_TAGS: Final = 1000
_SAME_SCORE_SHARE: Final = 0.95
_GUARDED_GAP: Final = 0.1
_CONTRADICTION_DETECTORS: Final = frozenset({"proposals", "predicates"})
"""The offline detectors of contradictions as rows name them; ``predicates`` is that of earlier versions."""


_MakeSums = Callable[[], RatioSums]


class Facts(NamedTuple):
    """Properties that dialogues are grouped by, fit to be shown."""

    scenario: str
    difficulty: str
    language: str


class DialogStats:
    """Counts over the dialogues of the trace, and the grouping properties of each valid original."""

    def __init__(self) -> None:
        self.facts: dict[str, Facts] = {}
        self.turns: dict[str, int] = {}
        self.failed_turns = 0
        self.shapes = ReplyShapes()
        self.failures = FailureCounter()
        self.lost_observations = FailureCounter()
        self.latency = Percentiles()
        self.skips: Counter[str] = Counter()
        self.history_mode: str | None = None
        self.judge: str | None = None
        self.language_known = True
        self._labels: dict[Facts, Facts] = {}
        self._seen: tuple[set[str], ...] = (set(), set(), set())

    def add(self, dialog: ScannedDialog) -> None:
        """Count one dialogue, valid or skipped."""
        if not dialog.valid_dialog:
            self.skips[one_line(dialog.skip_reason or tr("(no reason given)"), 60)] += 1
            return
        self.history_mode = self.history_mode or dialog.history_mode
        self.judge = self.judge or dialog.judge
        if dialog.perturbation is None:
            self.facts[dialog.dialog_id] = self._facts_of(dialog)
        self.turns[dialog.dialog_id] = len(dialog.turns)
        if dialog.dialog_error:
            self.failures.add(tr("dialogue"), dialog.dialog_error, dialog.dialog_id)
        for turn in dialog.turns:
            self._add_turn(dialog.dialog_id, turn)

    def _add_turn(self, dialog_id: str, turn: ScannedTurn) -> None:
        if turn.latency_ms is not None and turn.outcome == "ok":
            self.latency.add(turn.latency_ms)
        if turn.observation_error:
            self.lost_observations.add("observation", turn.observation_error, "")
        if turn.outcome != "ok":
            self.failed_turns += 1
            kind = tr("turn: {status}", status=labels("turn_status").get(turn.outcome, turn.outcome))
            self.failures.add(kind, turn.error, place(dialog_id, turn.turn_pair_id))
        elif turn.pred_assistant_text is not None:
            self.shapes.add(turn.user_text, turn.pred_assistant_text, turn.gt_assistant_text)

    def warnings(self) -> Iterator[ReportWarning]:
        """Yield warnings about turns that failed, and replies without content of their own."""
        if many_failed(self.failed_turns, total := sum(self.turns.values())):
            yield warning("failed_turns", share=_of(self.failed_turns, total))
        if groups := self.lost_observations.groups(1):
            share = _of(sum(group.count for group in groups), total)
            yield warning("lost_observations", share=share, reason=groups[0].message)
        yield from self.shapes.warnings()

    def _facts_of(self, dialog: ScannedDialog) -> Facts:
        language = dialog.language
        if not language:
            self.language_known = False
            language = script_language(dialog.turns[0].user_text) if dialog.turns else None
        difficulty = canonical_difficulty(dialog.difficulty) or dialog.difficulty
        given = (dialog.scenario_type, difficulty, language)
        facts = Facts(*(self._label(kind, value) for kind, value in enumerate(given)))
        return self._labels.setdefault(facts, facts)  # one object for all dialogues of a kind

    def _label(self, kind: int, value: str | None) -> str:
        label = one_line(value, 60) if value and value.strip() else tr(UNKNOWN)
        seen = self._seen[kind]
        if label not in seen and len(seen) >= _MAX_LABELS:
            return tr(_OTHER)
        seen.add(label)
        return label


def script_language(text: str) -> str | None:
    """Return the language of a text by its script: ``zh``, ``en`` (Latin letters), or None of neither."""
    han = sum(any(low <= ord(char) <= high for low, high in _CJK) for char in text[:400])
    latin = sum(char.isascii() and char.isalpha() for char in text[:400])
    if not han and not latin:
        return None
    # a Chinese character carries about as much as three letters of an English word
    return "zh" if 3 * han >= latin else "en"


class GroupedMetrics:
    """Sums of the metrics per kind of dialogue, in memory that does not grow with the dialogues.

    `MetricsState` keeps sums per dialogue. Micro values do not depend on that, so all rows of a kind
    are added as one dialogue here. Intervals have sums of their own: the rows of a dialogue follow each
    other, and the sums of one are added when the next begins.
    """

    def __init__(self) -> None:
        self._states: defaultdict[Facts, MetricsState] = defaultdict(MetricsState)
        self._rows: Counter[Facts] = Counter()
        self._ratios: defaultdict[Facts, dict[str, tuple[_MakeSums, RatioSums]]] = defaultdict(dict)
        self._dialog = ("", Facts("", "", ""))
        self._of_dialog: dict[str, tuple[_MakeSums, float, float]] = {}
        self._detectors: set[str] = set()

    def add_row(self, row: TurnEvalRow, facts: Facts) -> None:
        """Add a row of a dialogue of that kind."""
        self._rows[facts] += 1
        state = self._states[facts]
        state.add_row(row.replace(dialog_id=""))
        if self._dialog != (row.dialog_id, facts):
            self._end_dialog()
            self._dialog = row.dialog_id, facts
        for metric in state.row_states(row):
            for share, hits, of in metric.units(row):
                self._add_unit(f"{metric.name}.{share.name}", share.sums, hits, of)
        for name, findings in findings_by_detector(row):
            self._detectors.add(name)
            self._add_unit(f"{name}.{_RATE}", RatioSums, findings > 0, 1)

    def _add_unit(self, name: str, sums: _MakeSums, hits: float, of: float) -> None:
        _, all_hits, all_of = self._of_dialog.get(name, (sums, 0.0, 0.0))
        self._of_dialog[name] = sums, all_hits + hits, all_of + of

    def _end_dialog(self) -> None:
        """Add the sums of the dialogue whose rows were added last."""
        ratios = self._ratios[self._dialog[1]]
        for name, (sums, hits, of) in self._of_dialog.items():
            ratios.setdefault(name, (sums, sums()))[1].add(hits, of)
        self._of_dialog = {}

    def tables(
        self, stats: DialogStats, values: DialogValues, texts: Iterable[MetricText] = METRICS
    ) -> Iterator[Table]:
        """Yield the tables of some metrics and users' detectors; one of a single group is left out.

        M2 is a metric of whole dialogues: its group values are means of the summary's ``by_dialog``.
        """
        self._end_dialog()
        named = [(metric, value) for metric in texts for value in metric.values_of(stats.judge)]
        known = [(metric.name, value.key) for metric, value in named]
        known += [(name, _RATE) for name in sorted(self._detectors)]
        measures = [f"{metric.code} {value.label}" for metric, value in named]
        measures += [one_line(name, 80) for name in sorted(self._detectors)]
        headings = (tr("Group"), tr("Dialogues"), tr("Turns"), *measures)
        titles = (tr("By scenario"), tr("By difficulty"), tr("By language"))
        for at, (kind, title) in enumerate(zip(Facts._fields, titles, strict=True)):
            dialogs: Counter[str] = Counter()
            profiles: defaultdict[str, list[float]] = defaultdict(list)
            for dialog_id, facts in stats.facts.items():
                dialogs[facts[at]] += 1
                if (score := values.get(_PROFILE, {}).get(dialog_id)) is not None:
                    profiles[facts[at]].append(score)
            if len(dialogs) < 2:  # noqa: PLR2004 - nothing to compare
                continue
            states: defaultdict[str, MetricsState] = defaultdict(MetricsState)
            ratios: defaultdict[str, dict[str, RatioSums]] = defaultdict(dict)
            turns: Counter[str] = Counter()
            for facts, state in self._states.items():
                states[facts[at]].merge(state)
                turns[facts[at]] += self._rows[facts]
                for name, (make, sums) in self._ratios[facts].items():
                    ratios[facts[at]].setdefault(name, make()).merge(sums)
            shown = sorted(dialogs, key=lambda label: (-dialogs[label], label))[:_MAX_ROWS]
            names = {} if kind == "scenario" else labels(kind)
            rows: Iterator[tuple[Value, ...]] = (
                (
                    names.get(label, label),
                    dialogs[label],
                    turns[label],
                    *_values(known, states[label], ratios[label], profiles[label]),
                )
                for label in sorted(shown, key=_order)
            )
            note = smaller_groups(len(dialogs) - len(shown))
            if kind == "language" and not stats.language_known:
                note += tr("Languages are guessed from the script of the client.")
            yield table(title, headings, "lrr" + "r" * len(measures), rows, note.strip())


def value_cell(key: str, value: float | None, interval: tuple[float, float] | None = None) -> Cell:
    """Return a value of a metric as a cell with its interval; shares have a bar behind the figure."""
    share = None if value is None or is_score(key) else min(max(value, 0.0), 1.0)
    small = "" if value is None or interval is None else format_interval(key, interval)
    return Cell(format_value(key, value), small=small, share=share)


def _values(
    known: Iterable[tuple[str, str]],
    state: MetricsState,
    ratios: Mapping[str, RatioSums],
    profiles: list[float],
) -> Iterator[Cell]:
    results = state.results()
    for metric, key in known:
        if metric == _PROFILE:
            mean = sum(profiles) / len(profiles) if profiles else None
            yield value_cell(key, mean, ratio_interval(((each, 1) for each in profiles), graded=True))
            continue
        sums = ratios.get(f"{metric}.{key}")
        value = None if sums is None else sums.value
        if metric in results:
            value, _, _ = glossary.measured(key, results[metric])
        yield value_cell(key, value, None if sums is None else sums.interval())


def _order(label: str) -> tuple[int, str]:
    """Order known difficulties by their difficulty and everything else by its name."""
    return (_DIFFICULTIES.index(label) if label in _DIFFICULTIES else len(_DIFFICULTIES), label)


# ---- warnings


class FrequentTexts:
    """The most frequent texts of a stream, in bounded memory (the Misra-Gries summary).

    A text that makes up more than ``1 / (capacity + 1)`` of the stream is certain to be kept, and
    its count is never too high. As long as at most ``capacity`` texts differ, counts are exact.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._texts: dict[bytes, tuple[int, str]] = {}

    def add(self, text: str) -> None:
        """Count one text; white space does not make texts differ."""
        folded = " ".join(text.split()).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(folded, digest_size=16).digest()
        if digest in self._texts or len(self._texts) < self._capacity:
            count, example = self._texts.get(digest) or (0, one_line(text, 80))
            self._texts[digest] = count + 1, example
        else:
            counted = self._texts.items()
            self._texts = {key: (count - 1, example) for key, (count, example) in counted if count > 1}

    def top(self) -> tuple[str, int]:
        """Return the most frequent text, as an excerpt, and its count; ("", 0) of an empty stream."""
        digest = max(self._texts, key=lambda key: (self._texts[key][0], key), default=b"")
        count, example = self._texts.get(digest, (0, ""))
        return example, count


class ReplyShapes:
    """Counts of replies without content of their own: empty, echoed, copied, refusing, always the same."""

    def __init__(self) -> None:
        self._replies = self._empty = self._echo = self._reference = self._refused = 0
        self._frequent = FrequentTexts()

    def add(self, user_text: str, reply: str, reference: str) -> None:
        """Count one answered turn."""
        self._replies += 1
        stripped = reply.strip()
        if not stripped:
            self._empty += 1
            return
        self._echo += _echoes(user_text, stripped)
        self._reference += stripped == reference.strip()
        self._refused += len(stripped) <= _REFUSAL_CHARS and bool(_REFUSAL.search(stripped))
        self._frequent.add(stripped)

    def warnings(self) -> Iterator[ReportWarning]:
        """Yield warnings about empty, echoed, copied, constant and refusing replies."""
        example, same = self._frequent.top()
        constant = same if same >= _MIN_REPLIES else 0
        for name, count in (
            ("empty_replies", self._empty),
            ("echoed_turns", self._echo),
            ("constant_replies", constant),
            ("refusing_replies", self._refused if self._refused >= self._replies * _WARN_SHARE else 0),
        ):
            if count and count >= self._replies * _NOTE_SHARE:
                yield _share_warning(name, count, self._replies, example=example)
        if self._reference and self._reference >= self._replies * _WARN_SHARE:
            yield warning("reference_replies", share=_of(self._reference, self._replies))


class Baselines:
    """Values that an agent with constant replies would reach on the reference labels."""

    def __init__(self) -> None:
        self._labels: Counter[str] = Counter()
        self._tags: Counter[str] = Counter()
        self._scores: Counter[float] = Counter()

    def add(self, row: TurnEvalRow) -> None:
        """Count the reference labels and the judge's score of one scored turn."""
        if row.eligible_m4 and row.gt_compliance_label is not None:
            self._labels[row.gt_compliance_label] += 1
        if row.eligible_m3:
            # tags of the dataset's own making are unbounded in number; rare ones cannot win
            self._tags.update(
                tag for tag in row.risk_required_tags if tag in self._tags or len(self._tags) < _MAX_TAGS
            )
        if row.eligible_m5 and row.judge_score_1_5 is not None:
            self._scores[round(row.judge_score_1_5, 2)] += 1

    def warnings(self, metrics: Mapping[str, Figures]) -> Iterator[ReportWarning]:
        """Yield warnings about measured values that do not exceed the baselines."""
        accuracy = _measured(metrics, "m4_compliance", "compliance_label_acc")
        if self._labels and accuracy is not None:
            (label, count), total = self._labels.most_common(1)[0], self._labels.total()
            which = tr("{count:,} of {total:,}", count=count, total=total)
            if count == total:
                which = tr("all {count:,}", count=total)
            if count / total >= accuracy or count == total:
                share, measured = percent(count / total), percent(accuracy)
                label = glossary.word(label)
                yield warning("constant_label", which=which, label=label, share=share, measured=measured)
        coverage = _measured(metrics, "m3_risk_coverage", "risk_coverage")
        if self._tags and coverage is not None:
            top = sorted(self._tags.items(), key=lambda item: (-item[1], item[0]))[:_CONSTANT_TAGS]
            reached = sum(count for _, count in top) / self._tags.total()
            if reached >= coverage:
                tags = ", ".join(glossary.word(tag) for tag, _ in top)
                values = {"share": percent(reached), "measured": percent(coverage)}
                yield warning("constant_tags", None, count=len(top), tags=tags, **values)
        if (total := self._scores.total()) >= _MIN_REPLIES:
            score, count = max(self._scores.items(), key=lambda item: (item[1], item[0]))
            if count >= total * _SAME_SCORE_SHARE:
                yield warning("constant_score", count=count, total=total, score=score)


class DetectorLimits:
    """Counts of the replies that the detectors read in part, or against a part of the constraints only."""

    def __init__(self) -> None:
        self._rows = self._checked = self._blind = 0
        self._cut: Counter[int] = Counter()
        self._unread = FrequentTexts()

    def add(self, row: TurnEvalRow) -> None:
        """Count one scored turn."""
        self._rows += 1
        if row.scored_chars:
            self._cut[row.scored_chars] += 1
        if row.detectors.get("contradiction") in _CONTRADICTION_DETECTORS:
            self._checked += 1
            self._blind += bool(row.unread_constraints)
            for text in row.unread_constraints or ():
                self._unread.add(text)

    def warnings(self) -> Iterator[ReportWarning]:
        """Yield warnings about replies scored on their beginning, and constraints not understood."""
        if count := self._cut.total():
            limits = tr(" or ").join(grouped(limit) for limit in sorted(self._cut))
            yield warning("cut_replies", count=count, total=self._rows, limits=limits)
        if self._blind:
            example, _ = self._unread.top()
            yield _share_warning("unread_constraints", self._blind, self._checked, example=example)


class JudgedTurns:
    """Counts of the turns that were sent to the run's judge, those without a verdict, and its changes."""

    def __init__(self, scope: JudgeScope = "m5") -> None:
        self._scope: JudgeScope = scope
        self._answered = self._judged = self._changed = 0
        self._readings: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._read_by_rules = 0
        self._reasons = FailureCounter()

    def add(self, row: TurnEvalRow) -> None:
        """Count one scored turn."""
        self._answered += row.turn_status in (None, "ok")
        self._changed += bool(row.judge_changed)
        self._readings.update(row.judge_changed or ())
        if not was_asked(row, self._scope):
            return
        self._judged += 1
        if row.judge_error is not None:
            declined = row.judge_declined if isinstance(row.judge_declined, str) else "failed"
            self._left[declined] += 1
            self._read_by_rules += declined != "failed" and isinstance(row.unjudged, list)
            self._reasons.add(tr("judge"), row.judge_error, "")

    def facts(self) -> Pairs:
        """Return the turns sent to the judge and its changes; nothing unless the scope is ``uncertain``."""
        if self._scope != "uncertain":
            return ()
        readings = tr(", ").join(
            tr("{what} in {count:,}", what=label, count=self._readings[name])
            for name, label in labels("readings").items()
        )
        sent = tr("{count:,} of {total:,} answered turns", count=self._judged, total=self._answered)
        turns = tr_counted(self._changed, marked("1 turn"), marked("{count:,} turns"))
        changed = tr("{turns}: {readings}", turns=turns, readings=readings)
        return ((tr("Sent to the judge"), sent), (tr("Changed by the judge"), changed))

    def warnings(self) -> Iterator[ReportWarning]:
        """Yield warnings about judgements that failed."""
        if not (failed := self._left.total()):
            return
        first, share = self._reasons.groups(1)[0], percent(failed / self._judged)
        values = {"share": share, "count": first.count, "reason": first.message}
        yield warning("failed_judgements", None, failed=failed, total=self._judged, **values)
        long, refused = self._left["too_long"], self._left["refused"]
        if long or refused:
            read = tr(" The rules have read them for M1, M3 and M4; the explanation was not read.")
            rules = read if self._read_by_rules else ""
            yield warning("escaped_judge", long=long, refused=refused, rules=rules)


def summary_warnings(metrics: Mapping[str, Figures], valid_dialogs: int) -> Iterator[ReportWarning]:
    """Yield warnings about the counts of a summary."""
    for text in METRICS:
        figures = metrics.get(text.name)
        shown = glossary.shown_values(text, figures) if figures else []
        if figures and shown and (reason := missing(shown[0].key, figures)) is not None:
            yield warning("not_measured", code=text.code, reason=reason[0].upper() + reason[1:])
    if 0 < valid_dialogs < _MIN_DIALOGS_FOR_INTERVALS:
        yield warning("few_dialogues", count=valid_dialogs)
    memory = metrics.get("m1_context_continuity")
    if memory and (undecided := memory.counts.get("contradiction_undecided", 0)):
        turns = memory.counts.get("contradiction_turns", 0)
        yield _share_warning("undecided_turns", undecided, max(turns, undecided))
    if memory and (outside := memory.counts.get("contradictions_outside", 0)):
        inside = memory.counts.get("contradiction_count", 0)
        yield warning("contradictions_outside", total=grouped(inside + outside), inside=grouped(inside))
    if memory is None or missing("key_coverage", memory):
        return
    total = memory.counts.get("required_key_total", 0)
    for name in ("unrevealed_key_total", "self_reference_key_total"):
        if total and (count := memory.counts.get(name, 0)):
            yield _share_warning(name, count, total)
    plain, guarded = memory.micro.get("key_coverage"), memory.micro.get("key_coverage_guarded")
    if plain is not None and guarded is not None and plain - guarded >= _GUARDED_GAP:
        yield warning("short_keys", plain=percent(plain), guarded=percent(guarded))


def _of(count: int, total: int) -> str:
    share = percent(count / total)
    return tr("{count:,} of {total:,} ({share})", count=count, total=total, share=share)


def _share_warning(name: str, count: int, total: int, **values: Any) -> ReportWarning:
    level: Literal["warning", "note"] = "warning" if count >= total * _WARN_SHARE else "note"
    return warning(name, level, share=_of(count, total), **values)


def _measured(metrics: Mapping[str, Figures], metric: str, value: str) -> float | None:
    figures = metrics.get(metric)
    return figures.micro.get(value) if figures and figures.counts.get("eligible_count") else None


def _echoes(user_text: str, reply: str) -> bool:
    """Return True for a reply that is the user's turn with at most a quarter of its length added."""
    asked = "".join(user_text.split()).casefold()
    answered = "".join(reply.split()).casefold()
    return bool(asked) and asked in answered and len(answered) <= 1.25 * len(asked)
