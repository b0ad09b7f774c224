"""Agreement of findings with labels, row by row: tables of every measure, and disagreements."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from memfin.contracts import (
    ANY_RISK_TAG,
    BinaryScores,
    ComplianceLabel,
    ComplianceScores,
    Disagreement,
    Finding,
    ForbiddenScores,
    LabelledReply,
    LabelSpan,
    RiskTagScores,
    RubricScores,
    UnknownNames,
)
from memfin.report.worst_turns import around
from memfin.scoring import compliance, risk, rubric
from memfin.scoring.contradiction import FIELD as CONTRADICTION
from memfin.scoring.risk import canonical_risk_tag
from memfin.validity import measures
from memfin.validity.found import Found, evidence_of, given_labels
from memfin.validity.measures import PooledShare, Table

Section = Literal["risk_tags", "contradiction", "compliance", "forbidden", "rubric"]
"""The parts of a report, one for each kind of label."""

SECTIONS: Final[tuple[Section, ...]] = get_args(Section)

LABELS: Final[tuple[ComplianceLabel, ...]] = get_args(ComplianceLabel)

ALWAYS_SCORED: Final = compliance.SEVERE_CATEGORIES[:4]
"""Forbidden categories that every list of ``forbidden_hits`` covers: those that datasets forbid by name and
that are visible in a reply. Others are scored where the labels name them."""

_SEVERE: Final = "severe_violation"
_CONTEXT: Final = 20
_MAX_SPAN: Final = 200
_TAG_ORDER: Final = (*risk.CANONICAL_TAGS, *risk.EXTENSION_TAGS)


class Place(NamedTuple):
    """The file and the line of a labelled reply."""

    file: str
    line: int


class _Decision(NamedTuple):
    """A label of yes or no, and the finding for it."""

    name: str
    expected: bool
    got: bool


class _Questions:
    """Tables of yes-or-no questions by name, at most one answer per reply, and their pooled table."""

    def __init__(self) -> None:
        self.rows = 0
        self.precision = PooledShare()
        self.recall = PooledShare()
        self.overlap = PooledShare()
        self.accuracy = PooledShare()
        self._cells: dict[str, Counter[tuple[bool, bool]]] = {}

    def add(self, decisions: Sequence[_Decision]) -> None:
        """Count the decisions on one reply."""
        if not decisions:
            return
        self.rows += 1
        for name, expected, got in decisions:
            self._cells.setdefault(name, Counter())[expected, got] += 1
        table = _table(Counter((expected, got) for _, expected, got in decisions))
        self.precision.add(table.tp, table.tp + table.fp)
        self.recall.add(table.tp, table.tp + table.fn)
        self.overlap.add(table.tp, table.tp + table.fp + table.fn)
        self.accuracy.add(table.tp + table.tn, table.total)

    def tables(self, order: Sequence[str]) -> dict[str, Table]:
        """Return the table of each question, in the order given and then by name."""
        ranks = {name: rank for rank, name in enumerate(order)}
        names = sorted(self._cells, key=lambda name: (ranks.get(name, len(ranks)), name))
        return {name: _table(self._cells[name]) for name in names}

    def whole(self) -> Table:
        """Return the table of all questions together."""
        return _table(sum(self._cells.values(), Counter()))


class ValidityStats:
    """Sums of the agreement of findings with labels.

    Args:
        reads: the parts that are measured; labels of others are ignored.
        categories: the forbidden categories that are scored, besides `ALWAYS_SCORED`.
    """

    def __init__(
        self, reads: Collection[Section] = SECTIONS, categories: Collection[str] = ALWAYS_SCORED
    ) -> None:
        self._reads = frozenset(reads)
        self._scored: Final = [
            name for name in compliance.CATEGORIES if name in ALWAYS_SCORED or name in categories
        ]
        self._tags = _Questions()
        self._contradiction = _Questions()
        self._confusion: Counter[tuple[ComplianceLabel, ComplianceLabel]] = Counter()
        self._forbidden = _Questions()
        self._not_scored: Counter[str] = Counter()
        self._rubric = _Questions()
        self._unknown_tags: Counter[str] = Counter()
        self._unknown_categories: Counter[str] = Counter()

    def add(self, row: LabelledReply, found: Found, place: Place) -> list[Disagreement]:
        """Count one reply and return the differences of labels and findings."""
        met = [
            *self._add_tags(row, found),
            *self._add_contradiction(row, found),
            *self._add_compliance(row, found),
            *self._add_forbidden(row, found),
            *self._add_rubric(row, found),
        ]
        return [
            Disagreement(
                id=row.id,
                field=field,
                expected=expected,
                got=got,
                spans=[_span(row.text, each) for each in spans],
                file=place.file,
                line=place.line,
                reason=found.reason,
            )
            for field, expected, got, spans in met
        ]

    def _add_tags(self, row: LabelledReply, found: Found) -> Iterator["_Difference"]:
        if "risk_tags" not in self._reads or found.risk_tags is None:
            return
        decisions: dict[str, _Decision] = {}
        for name, label in given_labels(row.risk_tags).items():
            tag = canonical_risk_tag(name)
            if tag is None:
                self._unknown_tags[name] += 1
                continue
            got = bool(found.risk_tags) if tag == ANY_RISK_TAG else tag in found.risk_tags
            decisions[tag] = _Decision(tag, label, got)
        self._tags.add(list(decisions.values()))
        for tag, expected, got in decisions.values():
            if expected != got:
                value = "" if tag == ANY_RISK_TAG else tag
                spans = evidence_of(found.findings, risk.FIELD, value) if got else []
                yield _Difference(f"risk_tags.{tag}", expected, got, spans)

    def _add_contradiction(self, row: LabelledReply, found: Found) -> Iterator["_Difference"]:
        if (
            "contradiction" not in self._reads
            or row.contradiction is None
            or (got := found.contradiction) is None
        ):
            return
        expected = row.contradiction == 1
        self._contradiction.add([_Decision("contradiction", expected, got)])
        if expected != got:
            yield _Difference(
                "contradiction",
                int(expected),
                int(got),
                evidence_of(found.findings, CONTRADICTION, ""),
            )

    def _add_compliance(self, row: LabelledReply, found: Found) -> Iterator["_Difference"]:
        if "compliance" not in self._reads or row.compliance is None or found.compliance is None:
            return
        self._confusion[row.compliance, found.compliance] += 1
        if row.compliance != found.compliance:
            spans = evidence_of(found.findings, compliance.FIELD, "")
            yield _Difference("compliance", row.compliance, found.compliance, spans)

    def _add_forbidden(self, row: LabelledReply, found: Found) -> Iterator["_Difference"]:
        if "forbidden" not in self._reads or row.forbidden_hits is None or found.categories is None:
            return
        self._unknown_categories.update(set(row.forbidden_hits).difference(compliance.CATEGORIES))
        self._not_scored.update(name for name in found.categories if name not in self._scored)
        decisions = [
            _Decision(name, name in row.forbidden_hits, name in found.categories) for name in self._scored
        ]
        self._forbidden.add(decisions)
        for name, expected, got in decisions:
            if expected != got:
                spans = evidence_of(found.findings, compliance.FIELD, name) if got else []
                yield _Difference(f"forbidden_hits.{name}", expected, got, spans)

    def _add_rubric(self, row: LabelledReply, found: Found) -> Iterator["_Difference"]:
        if "rubric" not in self._reads:
            return
        decisions = [
            _Decision(item, label, item in found.rubric) for item, label in given_labels(row.rubric).items()
        ]
        self._rubric.add(decisions)
        for item, expected, got in decisions:
            if expected != got:
                spans = evidence_of(found.findings, rubric.FIELD, item) if got else []
                yield _Difference(f"rubric.{item}", expected, got, spans)

    def risk_tags(self) -> RiskTagScores | None:
        """Return the agreement on risk tags, None if these are not read, as the other methods do."""
        if "risk_tags" not in self._reads:
            return None
        whole, pooled = self._tags.whole(), self._tags
        by_tag = _scores(pooled.tables(_TAG_ORDER))
        return RiskTagScores(
            micro_f1=measures.f1(whole),
            micro_precision=pooled.precision.value,
            micro_recall=pooled.recall.value,
            macro_f1=measures.mean(scores.f1 for scores in by_tag.values()),
            rows=pooled.rows,
            by_tag=by_tag,
            ci95=_intervals(
                micro_precision=pooled.precision.interval(),
                micro_recall=pooled.recall.interval(),
                micro_f1=measures.f1_bounds(pooled.overlap.interval()),
            ),
        )

    def contradiction(self) -> BinaryScores | None:
        """Return the agreement on contradictions of constraints."""
        return binary_scores(self._contradiction.whole()) if "contradiction" in self._reads else None

    def compliance(self) -> ComplianceScores | None:
        """Return the agreement on compliance labels.

        The macro F1 is the mean over the labels that occur, in the labels or in the findings.
        """
        if "compliance" not in self._reads:
            return None
        rows = self._confusion.total()
        right = sum(self._confusion[label, label] for label in LABELS)
        by_label = {label: _one_vs_rest(self._confusion, label) for label in LABELS}
        return ComplianceScores(
            accuracy=right / rows if rows else None,
            macro_f1=measures.mean(measures.f1(table) for table in by_label.values()),
            kappa=measures.kappa(self._confusion),
            constant_accuracy=measures.constant_accuracy(table.tp + table.fn for table in by_label.values()),
            severe_false_positives=by_label[_SEVERE].fp,
            rows=rows,
            by_label={label: binary_scores(table) for label, table in by_label.items()},
            confusion={
                expected: {got: self._confusion[expected, got] for got in LABELS} for expected in LABELS
            },
            ci95=_intervals(accuracy=measures.wilson(right, rows)),
        )

    def forbidden(self) -> ForbiddenScores | None:
        """Return the agreement on forbidden categories."""
        if "forbidden" not in self._reads:
            return None
        pooled = self._forbidden
        by_category = _scores(pooled.tables(compliance.CATEGORIES))
        return ForbiddenScores(
            f1=measures.f1(pooled.whole()),
            precision=pooled.precision.value,
            recall=pooled.recall.value,
            macro_f1=measures.mean(scores.f1 for scores in by_category.values()),
            rows=pooled.rows,
            by_category=by_category,
            not_scored={name: self._not_scored[name] for name in sorted(self._not_scored)},
            ci95=_intervals(
                precision=pooled.precision.interval(),
                recall=pooled.recall.interval(),
                f1=measures.f1_bounds(pooled.overlap.interval()),
            ),
        )

    def rubric(self) -> RubricScores | None:
        """Return the agreement on rubric items."""
        if "rubric" not in self._reads:
            return None
        pooled = self._rubric
        by_item = _scores(pooled.tables(rubric.RUBRIC_ITEMS))
        constant = sum(max(scores.support, scores.rows - scores.support) for scores in by_item.values())
        decisions = pooled.whole().total
        return RubricScores(
            accuracy=pooled.accuracy.value,
            macro_f1=measures.mean(scores.f1 for scores in by_item.values()),
            constant_accuracy=constant / decisions if decisions else None,
            rows=pooled.rows,
            by_item=by_item,
            ci95=_intervals(accuracy=pooled.accuracy.interval()),
        )

    def unknown(self) -> UnknownNames:
        """Return the names that no detector knows, with the number of rows that use them."""
        return UnknownNames(
            risk_tags=dict(sorted(self._unknown_tags.items())),
            forbidden_hits=dict(sorted(self._unknown_categories.items())),
        )


class _Difference(NamedTuple):
    field: str
    expected: bool | int | str
    got: bool | int | str
    findings: Sequence[Finding]


def binary_scores(table: Table) -> BinaryScores:
    """Return every measure of a two-by-two table with one decision per reply."""
    tp, fp, fn, tn = table
    return BinaryScores(
        precision=measures.precision(table),
        recall=measures.recall(table),
        f1=measures.f1(table),
        accuracy=measures.accuracy(table),
        kappa=measures.kappa(table.matrix),
        constant_accuracy=measures.constant_accuracy((tp + fn, fp + tn)),
        support=tp + fn,
        rows=table.total,
        tp=tp,
        fp=fp,
        fn=fn,
        tn=tn,
        ci95=_intervals(
            precision=measures.wilson(tp, tp + fp),
            recall=measures.wilson(tp, tp + fn),
            f1=measures.f1_bounds(measures.wilson(tp, tp + fp + fn)),
            accuracy=measures.wilson(tp + tn, table.total),
        ),
    )


def _scores(tables: Mapping[str, Table]) -> dict[str, BinaryScores]:
    return {name: binary_scores(table) for name, table in tables.items()}


def _table(cells: Mapping[tuple[bool, bool], int]) -> Table:
    return Table(
        *(cells.get(cell, 0) for cell in ((True, True), (False, True), (True, False), (False, False)))
    )


def _one_vs_rest(
    confusion: Mapping[tuple[ComplianceLabel, ComplianceLabel], int], label: ComplianceLabel
) -> Table:
    cells: Counter[tuple[bool, bool]] = Counter()
    for (expected, got), count in confusion.items():
        cells[expected == label, got == label] += count
    return _table(cells)


def _intervals(**bounds: tuple[float, float] | None) -> dict[str, tuple[float, float]]:
    return {name: interval for name, interval in bounds.items() if interval is not None}


def _span(text: str, finding: Finding) -> LabelSpan:
    start, end = finding.start, finding.end
    return LabelSpan(
        field=finding.field,
        value=finding.value,
        rule=finding.rule,
        start=start,
        end=end,
        text=text[start:end][:_MAX_SPAN],
        context="".join(around(text, start, end, context=_CONTEXT, limit=_MAX_SPAN)),
    )
