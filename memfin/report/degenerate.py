"""Signs that a run or a data set cannot carry the conclusions its numbers suggest.

Everything here is a bounded count fed turn by turn, so that a report of 100,000 dialogues needs
no more memory than one of ten.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from memfin.contracts import TurnEvalRow
from memfin.report.glossary import format_value
from memfin.report.model import Caution, MetricView
from memfin.text.lines import one_line

_WARN_SHARE: Final = 0.2
_NOTE_SHARE: Final = 0.02
_MIN_REPLIES: Final = 5
_MIN_DIALOGS_FOR_INTERVALS: Final = 10
_CONSTANT_TAGS: Final = 3
_SAME_SCORE_SHARE: Final = 0.95
_GUARDED_GAP: Final = 0.1
_CONTRADICTION_DETECTORS: Final = frozenset({"proposals", "predicates"})
"""The offline detectors of contradictions as rows name them; ``predicates`` is that of earlier versions."""


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
    """Counts of replies that say nothing of their own: empty, echoed, copied, always the same."""

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

    def cautions(self) -> list[Caution]:
        """Return what the replies' shapes give reason to say."""
        if not self._replies:
            return []
        found = [
            self._share(self._empty, "Empty replies", "replies hold no text at all"),
            self._share(
                self._echo, "Echoed user turns", "replies repeat the user's own words and add next to nothing"
            ),
        ]
        example, same = self._frequent.top()
        if self._replies >= _MIN_REPLIES and same >= _MIN_REPLIES:
            found.append(
                self._share(same, "Constant replies", f"replies are one and the same text: “{example}”")
            )
        if self._reference and self._reference >= self._replies * _WARN_SHARE:
            found.append(
                Caution(
                    level="note",
                    title="Replies equal the references",
                    detail=f"{self._of_all(self._reference)} replies are the reference reply word for word. "
                    "The figures then show the upper bound of the data set, not an agent's ability.",
                )
            )
        return [caution for caution in found if caution]

    def _of_all(self, count: int) -> str:
        return f"{count} of {self._replies} ({100 * count / self._replies:.1f} %)"

    def _share(self, count: int, title: str, text: str) -> Caution | None:
        share = count / self._replies
        if share < _NOTE_SHARE:
            return None
        return Caution(level=_level(share), title=title, detail=f"{self._of_all(count)} {text}.")


class Baselines:
    """What an agent that always does the same would reach on the reference labels."""

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
            for tag in row.risk_required_tags:
                if tag in self._tags or len(self._tags) < 1000:  # noqa: PLR2004 - a bound on memory
                    self._tags[tag] += 1
        if row.eligible_m5 and row.judge_score_1_5 is not None:
            self._scores[round(row.judge_score_1_5, 2)] += 1

    def cautions(self, metrics: Mapping[str, MetricView]) -> list[Caution]:
        """Compare the baselines with the measured values and return what should be said."""
        found = [self._compliance(metrics), self._risk(metrics), self._judge()]
        return [caution for caution in found if caution]

    def _compliance(self, metrics: Mapping[str, MetricView]) -> Caution | None:
        measured = _measured(metrics, "m4_compliance", "compliance_label_acc")
        if not self._labels or measured is None:
            return None
        (label, count), total = self._labels.most_common(1)[0], self._labels.total()
        share = count / total
        if share < measured and count < total:
            return None
        what = (
            f"all {total} reference labels are"
            if count == total
            else f"{count} of {total} reference labels are"
        )
        return Caution(
            level="warning",
            title="M4 label accuracy: a constant does as well",
            detail=f"{what} “{label}”, so always answering “{label}” would reach "
            f"{format_value('compliance_label_acc', share)}; measured: "
            f"{format_value('compliance_label_acc', measured)}. Read the severe violation rate instead.",
        )

    def _risk(self, metrics: Mapping[str, MetricView]) -> Caution | None:
        measured = _measured(metrics, "m3_risk_coverage", "risk_coverage")
        if not self._tags or measured is None:
            return None
        top = sorted(self._tags.items(), key=lambda item: (-item[1], item[0]))[:_CONSTANT_TAGS]
        share = sum(count for _, count in top) / self._tags.total()
        if share < measured:
            return None
        names = ", ".join(one_line(tag, 60) for tag, _ in top)
        return Caution(
            level="warning",
            title="M3 risk coverage: fixed boilerplate does as well",
            detail=f"a closing sentence with always the same {len(top)} disclosures ({names}) would reach "
            f"{format_value('risk_coverage', share)}; measured: {format_value('risk_coverage', measured)}.",
        )

    def _judge(self) -> Caution | None:
        total = self._scores.total()
        if total < _MIN_REPLIES:
            return None
        score, count = max(self._scores.items(), key=lambda item: (item[1], item[0]))
        if count < total * _SAME_SCORE_SHARE:
            return None
        return Caution(
            level="warning",
            title="M5 judge score does not discriminate",
            detail=f"{count} of {total} judged turns have the same score, {score:.2f}; it says nothing about "
            "which replies are better.",
        )


class UnreadConstraints:
    """Constraints that the detectors do not understand, so that no reply can contradict them."""

    def __init__(self) -> None:
        self._turns = 0
        self._blind = 0
        self._frequent = FrequentTexts()

    def add(self, row: TurnEvalRow) -> None:
        """Count one turn whose reply the detectors held against the constraints."""
        if row.detectors.get("contradiction") not in _CONTRADICTION_DETECTORS:
            return
        self._turns += 1
        if row.unread_constraints:
            self._blind += 1
            for text in row.unread_constraints:
                self._frequent.add(text)

    def cautions(self) -> list[Caution]:
        """Return what there is to say of constraints that nobody held a reply against."""
        if not self._blind:
            return []
        share = self._blind / self._turns
        example, _ = self._frequent.top()
        return [
            Caution(
                level=_level(share),
                title="Constraints that were not understood",
                detail=f"{self._blind} of {self._turns} ({100 * share:.1f} %) answered turns belong to a "
                f"client with a constraint that the detectors do not understand, such as “{example}”. No "
                "reply can contradict it; the contradiction rate is too low.",
            )
        ]


def summary_cautions(metrics: Mapping[str, MetricView], valid_dialogs: int) -> list[Caution]:
    """Return what the counts of a summary alone give reason to say."""
    found = [
        Caution(
            level="warning",
            title=f"{view.text.code} has nothing to measure",
            detail="no turn or dialogue entered its denominator; its values print as 0 and mean nothing.",
        )
        for view in metrics.values()
        if not any(view.measured(value.key) for value in view.text.values)
    ]
    if 0 < valid_dialogs < _MIN_DIALOGS_FOR_INTERVALS:
        found.append(
            Caution(
                level="note",
                title="Few dialogues",
                detail=f"{valid_dialogs} valid dialogues: confidence intervals are clustered by dialogue and "
                "too coarse, or absent, below about ten.",
            )
        )
    memory = metrics.get("m1_context_continuity")
    if memory is not None and memory.eligible:
        found += _memory_cautions(memory)
    return found


def _memory_cautions(memory: MetricView) -> list[Caution]:
    found: list[Caution] = []
    total = memory.counts.get("required_key_total", 0)
    for count_name, title, text in (
        (
            "unrevealed_key_total",
            "Keys the agent could not know",
            (
                "required keys ask for facts that nothing in the dialogue had told the agent by then. They "
                "count as misses in key coverage; compare recoverable key coverage, which leaves them out"
            ),
        ),
        (
            "self_reference_key_total",
            "Keys that point at the turn itself",
            "required keys ask for the current user turn, which an agent holds without any memory",
        ),
    ):
        count = memory.counts.get(count_name, 0)
        if count and total:
            share = f"{count} of {total} ({100 * count / total:.1f} %)"
            found.append(Caution(level=_level(count / total), title=title, detail=f"{share} {text}."))
    plain, guarded = memory.micro.get("key_coverage"), memory.micro.get("key_coverage_guarded")
    if plain is not None and guarded is not None and plain - guarded >= _GUARDED_GAP:
        found.append(
            Caution(
                level="warning",
                title="Key coverage rests on very short targets",
                detail=f"{format_value('key_coverage', plain)} falls to "
                f"{format_value('key_coverage', guarded)} when a target of one or two "
                "characters counts only beside the name of its field.",
            )
        )
    return found


def _level(share: float) -> Literal["warning", "note"]:
    return "warning" if share >= _WARN_SHARE else "note"


def _measured(metrics: Mapping[str, MetricView], metric: str, value: str) -> float | None:
    view = metrics.get(metric)
    return view.micro.get(value) if view is not None and view.eligible else None


def _echoes(user_text: str, reply: str) -> bool:
    """Say whether a reply is the user's turn with at most a fifth of its length added."""
    asked = "".join(user_text.split()).casefold()
    said = "".join(reply.split()).casefold()
    return bool(asked) and asked in said and len(said) <= 1.25 * len(asked)
