"""Warnings about a run or a data set that cannot carry the conclusions its figures suggest.

The counts are bounded and fed turn by turn, so that a report of 100,000 dialogues needs no more memory
than one of ten.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from memfin.contracts import JudgeScope, TurnEvalRow, was_asked
from memfin.report.common import FailureCounter
from memfin.report.glossary import METRICS, format_value, is_measured
from memfin.report.model import Pairs, ReportWarning, grouped, percent
from memfin.report.reader import Figures
from memfin.text.lines import one_line

_WARN_SHARE: Final = 0.2
_NOTE_SHARE: Final = 0.02
_MIN_REPLIES: Final = 5
_MIN_DIALOGS_FOR_INTERVALS: Final = 10
_CONSTANT_TAGS: Final = 3
_MAX_TAGS: Final = 1000
_SAME_SCORE_SHARE: Final = 0.95
_GUARDED_GAP: Final = 0.1
_CONTRADICTION_DETECTORS: Final = frozenset({"proposals", "predicates"})
"""The offline detectors of contradictions as rows name them; ``predicates`` is that of earlier versions."""

_CHANGED: Final = {"compliance": "compliance", "contradiction": "contradictions", "risk": "risk tags"}
_KEY_WARNINGS: Final = {
    "unrevealed_key_total": "required keys ask for facts that nothing in the dialogue had told the agent by "
    "then. They count as misses in key coverage; compare recoverable key coverage, which leaves them out",
    "self_reference_key_total": "required keys ask for the current user turn, which needs no memory",
}
_KEY_TITLES: Final = {
    "unrevealed_key_total": "Keys the agent could not know",
    "self_reference_key_total": "Keys that point at the turn itself",
}


class FrequentTexts:
    """The most frequent texts of a stream, in bounded memory (the Misra-Gries summary).

    A text that makes up more than ``1 / (capacity + 1)`` of the stream is certain to be kept, and
    its count is never too high. As long as at most ``capacity`` texts differ, counts are exact.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._counts: dict[bytes, int] = {}
        self._examples: dict[bytes, str] = {}

    def add(self, text: str) -> None:
        """Count one text; white space does not make texts differ."""
        folded = " ".join(text.split()).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(folded, digest_size=16).digest()
        if digest in self._counts:
            self._counts[digest] += 1
        elif len(self._counts) < self._capacity:
            self._counts[digest] = 1
            self._examples[digest] = one_line(text, 80)
        else:
            for key in [*self._counts]:
                self._counts[key] -= 1
                if not self._counts[key]:
                    del self._counts[key], self._examples[key]

    def top(self) -> tuple[str, int]:
        """Return the most frequent text, as an excerpt, and its count; ("", 0) of an empty stream."""
        if not self._counts:
            return "", 0
        digest, count = max(self._counts.items(), key=lambda item: (item[1], item[0]))
        return self._examples[digest], count


class ReplyShapes:
    """Counts of replies without content of their own: empty, echoed, copied, always the same."""

    def __init__(self) -> None:
        self._replies = 0
        self._empty = 0
        self._echo = 0
        self._reference = 0
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
        self._frequent.add(stripped)

    def warnings(self) -> Iterator[ReportWarning]:
        """Yield warnings about empty, echoed, copied and constant replies."""
        example, same = self._frequent.top()
        constant = same if same >= _MIN_REPLIES else 0
        for count, title, text in (
            (self._empty, "Empty replies", "replies hold no text at all"),
            (self._echo, "Echoed user turns", "replies repeat the user's own words and add next to nothing"),
            (constant, "Constant replies", f"replies are one and the same text: “{example}”"),
        ):
            if self._replies and count >= self._replies * _NOTE_SHARE and count:
                yield _share_warning(title, count, self._replies, text)
        if self._reference and self._reference >= self._replies * _WARN_SHARE:
            yield ReportWarning(
                "Replies equal the references",
                f"{_of(self._reference, self._replies)} replies are the reference reply word for word. "
                "The figures then show the upper bound of the data set, not an agent's ability.",
                "note",
            )


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
            # tags of the data set's own making are unbounded in number; rare ones cannot win
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
            if count == total or count / total >= accuracy:
                which = f"all {total}" if count == total else f"{count} of {total}"
                yield ReportWarning(
                    "M4 label accuracy: a constant does as well",
                    f"{which} reference labels are “{label}”, so always answering “{label}” would reach "
                    f"{percent(count / total)}; measured: {percent(accuracy)}. Read the "
                    "severe violation rate instead.",
                )
        coverage = _measured(metrics, "m3_risk_coverage", "risk_coverage")
        if self._tags and coverage is not None:
            top = sorted(self._tags.items(), key=lambda item: (-item[1], item[0]))[:_CONSTANT_TAGS]
            share = sum(count for _, count in top) / self._tags.total()
            if share >= coverage:
                names = ", ".join(one_line(tag, 60) for tag, _ in top)
                yield ReportWarning(
                    "M3 risk coverage: fixed boilerplate does as well",
                    f"a closing sentence with always the same {len(top)} disclosures ({names}) would reach "
                    f"{percent(share)}; measured: {percent(coverage)}.",
                )
        if (total := self._scores.total()) >= _MIN_REPLIES:
            score, count = max(self._scores.items(), key=lambda item: (item[1], item[0]))
            if count >= total * _SAME_SCORE_SHARE:
                yield ReportWarning(
                    "M5 judge score does not discriminate",
                    f"{count} of {total} judged turns have the same score, {score:.2f}; it does not tell "
                    "good replies from bad ones.",
                )


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
            limits = " or ".join(grouped(limit) for limit in sorted(self._cut))
            yield ReportWarning(
                "Replies scored on their beginning",
                f"{grouped(count)} of {grouped(self._rows)} scored replies are longer than --score-chars: "
                f"the detectors read their first {limits} characters only.",
            )
        if self._blind:
            example, _ = self._unread.top()
            yield _share_warning(
                "Constraints that were not understood",
                self._blind,
                self._checked,
                "answered turns belong to a client with a constraint that the detectors do not understand, "
                f"such as “{example}”. No reply can contradict it; the contradiction rate is too low",
            )


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
            self._reasons.add("judge", row.judge_error, "")

    def facts(self) -> Pairs:
        """Return the turns sent to the judge and its changes; nothing unless the scope is ``uncertain``."""
        if self._scope != "uncertain":
            return ()
        readings = ", ".join(f"{name} in {self._readings[reading]}" for reading, name in _CHANGED.items())
        return (
            ("Sent to the judge", f"{grouped(self._judged)} of {grouped(self._answered)} answered turns"),
            ("Changed by the judge", f"{grouped(self._changed)} turns: {readings}"),
        )

    def warnings(self) -> Iterator[ReportWarning]:
        """Yield warnings about judgements that failed."""
        failed = self._left.total()
        if not failed:
            return
        reason = self._reasons.groups(1)[0]
        yield ReportWarning(
            "Judgements failed",
            f"{failed} of {self._judged} judged turns ({percent(failed / self._judged)}) got no verdict, "
            f"most often ({reason.count}) because: {reason.message}. The judge's figures leave them out, "
            "as failed; if those are the hard ones, the rest looks better than it is.",
        )
        long, refused = self._left["too_long"], self._left["refused"]
        if long or refused:
            detail = f"{long} were too long for it, {refused} were refused by it or its provider."
            if self._read_by_rules:
                detail += " The rules have read them for M1, M3 and M4; the explanation was not read."
            yield ReportWarning("Replies escaped the judge", detail)


def summary_warnings(metrics: Mapping[str, Figures], valid_dialogs: int) -> Iterator[ReportWarning]:
    """Yield warnings about the counts of a summary."""
    for text in METRICS:
        figures = metrics.get(text.name)
        if figures and not any(is_measured(value.key, figures.counts) for value in text.values):
            yield ReportWarning(
                f"{text.code} has nothing to measure",
                "no turn or dialogue entered its denominator; its values print as 0 and mean nothing.",
            )
    if 0 < valid_dialogs < _MIN_DIALOGS_FOR_INTERVALS:
        yield ReportWarning(
            "Few dialogues",
            f"{valid_dialogs} valid dialogues: confidence intervals are clustered by dialogue and too "
            "coarse, or absent, below about ten.",
            "note",
        )
    memory = metrics.get("m1_context_continuity")
    if memory is None or not memory.counts.get("eligible_count"):
        return
    total = memory.counts.get("required_key_total", 0)
    for name, words in _KEY_WARNINGS.items():
        if total and (count := memory.counts.get(name, 0)):
            yield _share_warning(_KEY_TITLES[name], count, total, words)
    plain, guarded = memory.micro.get("key_coverage"), memory.micro.get("key_coverage_guarded")
    if plain is not None and guarded is not None and plain - guarded >= _GUARDED_GAP:
        yield ReportWarning(
            "Key coverage rests on very short targets",
            f"{format_value('key_coverage', plain)} falls to {format_value('key_coverage', guarded)} when a "
            "target of one or two characters counts only beside the name of its field.",
        )


def _of(count: int, total: int) -> str:
    return f"{count} of {total} ({percent(count / total)})"


def _share_warning(title: str, count: int, total: int, words: str) -> ReportWarning:
    level: Literal["warning", "note"] = "warning" if count >= total * _WARN_SHARE else "note"
    return ReportWarning(title, f"{_of(count, total)} {words}.", level)


def _measured(metrics: Mapping[str, Figures], metric: str, value: str) -> float | None:
    figures = metrics.get(metric)
    return figures.micro.get(value) if figures and figures.counts.get("eligible_count") else None


def _echoes(user_text: str, reply: str) -> bool:
    """Return True for a reply that is the user's turn with at most a quarter of its length added."""
    asked = "".join(user_text.split()).casefold()
    answered = "".join(reply.split()).casefold()
    return bool(asked) and asked in answered and len(answered) <= 1.25 * len(asked)
