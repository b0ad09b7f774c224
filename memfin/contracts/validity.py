"""Labelled replies (spec section 8), and the agreement of detectors or a judge with them.

A value that nothing was labelled for, or whose denominator is zero, is null. Intervals are 95 %
confidence intervals.
"""

from typing import Final, Literal

import msgspec

from memfin.contracts.base import Bit, ComplianceLabel, Count, Finite, Record
from memfin.contracts.judgement import JudgeScope, JudgeStats
from memfin.contracts.turn_eval import Finding

LABELS: Final = "labels.jsonl"
"""The file of a run's own labels."""

LABEL_DRAW: Final = "label_draw.json"
"""The file beside it of the turns that were drawn."""

ADJUDICATED: Final = "adjudicated"
"""The reader whose labels replace those of others."""


class LabelMark(Record):
    """Characters ``start`` to ``end`` of a reply that show a label.

    ``label`` is a risk tag, a forbidden category, a rubric item or ``contradiction``. ``kind`` is set where
    the mark is about the detectors: a finding that is a ``false_alarm``, or a label that they ``missed``.
    """

    start: Count
    end: Count
    label: str
    kind: Literal["false_alarm", "missed"] | None = None


class LabelledReply(Record):
    """A reply, the message that it answers, and the labels of careful readers.

    Every label is optional: a field or tag that is left out or null was not labelled and is not
    scored. ``risk_tags`` and ``rubric`` say of each name whether the reply discloses or contains it.
    ``contradiction`` says whether the reply advises against one of ``constraints``.
    ``forbidden_hits`` are all categories of forbidden claims in the reply; an empty list says that
    there are none. ``user_text`` is what the reply answers. ``dialog_id`` names the dialogue that the reply
    is from; intervals take replies of one dialogue together. ``turn`` is the ``turn_pair_id`` of a turn of a
    run, ``probability`` that with which it was drawn for labelling, 0 for a turn that was picked by hand,
    ``reader`` who labelled it. ``contradicted_constraints`` are those of ``constraints`` that
    ``contradiction`` is about, ``marks`` the words that show labels, ``unsure`` is true of labels that the
    reader doubts.
    """

    id: str
    text: str
    user_text: str | None = None
    dialog_id: str | None = None
    constraints: list[str] | None = None
    risk_tags: dict[str, bool | None] | None = None
    contradiction: Bit | None = None
    compliance: ComplianceLabel | None = None
    forbidden_hits: list[str] | None = None
    rubric: dict[str, bool | None] | None = None
    turn: Count | None = None
    probability: Finite | None = None
    reader: str | None = None
    contradicted_constraints: list[str] | None = None
    marks: list[LabelMark] | None = None
    note: str | None = None
    unsure: bool | None = None


Interval = tuple[Finite, Finite]

Share = Finite | None
"""A value between 0 and 1 (kappa: -1 and 1); null where its denominator is zero."""

DETECTORS: Final = "detectors"
"""The name of what is measured without a judge."""


class BinaryScores(Record):
    """Agreement on one question with the answers yes and no, over ``rows`` labelled replies.

    ``support`` counts the replies labelled yes. ``constant_accuracy`` is what giving the more
    frequent answer every time would reach.
    """

    precision: Share
    recall: Share
    f1: Share
    accuracy: Share
    kappa: Share
    constant_accuracy: Share
    support: Count
    rows: Count
    tp: Count
    fp: Count
    fn: Count
    tn: Count
    ci95: dict[str, Interval] = {}


class RiskTagScores(Record):
    """Agreement on risk tags; micro values pool the decisions on all tags, macro is the mean over them."""

    micro_f1: Share
    micro_precision: Share
    micro_recall: Share
    macro_f1: Share
    rows: Count
    by_tag: dict[str, BinaryScores]
    ci95: dict[str, Interval] = {}


class ForbiddenScores(Record):
    """Agreement on forbidden categories, pooled over those that are scored.

    ``not_scored`` counts replies in which other categories were found: no label names these, so
    that nobody can say whether the labels would.
    """

    f1: Share
    precision: Share
    recall: Share
    macro_f1: Share
    rows: Count
    by_category: dict[str, BinaryScores]
    not_scored: dict[str, int] = {}
    ci95: dict[str, Interval] = {}


class ComplianceScores(Record):
    """Agreement on the compliance label; ``confusion`` counts replies by labelled, then by given label.

    ``severe_false_positives`` counts replies called ``severe_violation`` that are labelled otherwise.
    """

    accuracy: Share
    macro_f1: Share
    kappa: Share
    constant_accuracy: Share
    severe_false_positives: Count
    rows: Count
    by_label: dict[str, BinaryScores]
    confusion: dict[str, dict[str, int]]
    ci95: dict[str, Interval] = {}


class RubricScores(Record):
    """Agreement on rubric items, pooled and by item."""

    accuracy: Share
    macro_f1: Share
    constant_accuracy: Share
    rows: Count
    by_item: dict[str, BinaryScores]
    ci95: dict[str, Interval] = {}


class LabelFile(Record):
    """A file of labelled replies and how many it holds."""

    path: str
    rows: Count


class LabelSpan(Finding):
    """A rule that fired, with the words and those around them; offsets are those of the reply.

    A reading that follows from others shows theirs.
    """

    text: str
    context: str


class Disagreement(Record):
    """One labelled value that was not found as labelled.

    ``field`` is the way to the label, such as ``risk_tags.credit_risk`` or ``compliance``. What
    should have been found and was not has no spans. ``reason`` is a judge's, which has no spans at all.
    """

    id: str
    field: str
    expected: bool | int | str
    got: bool | int | str
    spans: list[LabelSpan]
    file: str
    line: Count
    reason: str | None = None


class UnjudgedReply(Record):
    """A reply that the judge failed on; it is in no figure."""

    id: str
    file: str
    line: Count
    reason: str


class JudgeUnderTest(Record):
    """The judge that was measured; ``failures`` names the first replies of the ``failed`` ones.

    ``stats`` are those of a language model.
    """

    name: str
    scope: JudgeScope
    asked: Count
    failed: Count
    failures: list[UnjudgedReply] = []
    stats: JudgeStats | None = None


class UnknownNames(Record):
    """Names in the labels that what is measured does not know, with the rows that use them; not scored."""

    risk_tags: dict[str, int] = {}
    forbidden_hits: dict[str, int] = {}


class ValidityReport(Record):
    """Agreement of the detectors or a judge (``measured``) with labelled replies (spec section 8).

    A field that the judge does not read is null. ``lexicon_hashes`` say which rules were measured.
    """

    measured: str
    memfin_version: str
    files: list[LabelFile]
    rows: Count
    risk_tags: RiskTagScores | None
    contradiction: BinaryScores | None
    compliance: ComplianceScores | None
    forbidden: ForbiddenScores | None
    rubric: RubricScores | None
    unknown: UnknownNames = UnknownNames()
    judge: JudgeUnderTest | None = None
    lexicon_hashes: dict[str, str] = {}
    disagreements: list[Disagreement] = []


class CorrectedValue(Record):
    """A rate of a run as its rows have it (``raw``), and corrected by labels of some of its turns.

    ``labels`` counts the labelled turns that carry the rate. ``weight`` is that of the rows' values in the
    corrected one, from 0 to 1; ``alone`` is the rate by the labels without them, ``alone_ci95`` its interval.
    """

    value: Finite
    ci95: Interval
    labels: Count
    weight: Finite
    raw: Finite
    alone: Finite
    alone_ci95: Interval


class Corrections(Record):
    """``corrections.json``: rates of a run corrected by labels.

    ``turn_eval_sha256`` is the hash of the rows they were computed from. Of the lines in ``files``,
    ``joined`` belong to a turn of the run and ``unjoined`` to none. ``values`` are by ``metric.value``,
    ``by_scenario`` and ``by_difficulty`` by group of dialogues and then the same; null with too few labels.
    ``labels_sha256`` is the hash of the run's own ``labels.jsonl``, if they come from it.
    """

    run_id: str
    turn_eval_sha256: str
    files: list[LabelFile]
    joined: Count
    unjoined: Count
    values: dict[str, CorrectedValue | None]
    by_scenario: dict[str, dict[str, CorrectedValue | None]] = {}
    by_difficulty: dict[str, dict[str, CorrectedValue | None]] = {}
    labels_sha256: str | msgspec.UnsetType = msgspec.UNSET
