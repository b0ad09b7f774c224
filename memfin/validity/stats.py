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
from memfin.validity.measures import Bounds, ClusteredTables, Table

Section = Literal["risk_tags", "contradiction", "compliance", "forbidden", "rubric"]
"""The parts of a report, one for each kind of label."""

SECTIONS: Final[tuple[Section, ...]] = get_args(Section)

LABELS: Final[tuple[ComplianceLabel, ...]] = get_args(ComplianceLabel)

ALWAYS_SCORED: Final = compliance.SEVERE_CATEGORIES[:4]
"""Forbidden categories that every list of ``forbidden_hits`` covers: those that datasets forbid by name and
that are visible in a reply. Others are scored where the labels name them."""

_ONE: Final = {
    (True, True): Table(tp=1),
    (False, True): Table(fp=1),
    (True, False): Table(fn=1),
    (False, False): Table(tn=1),
}
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
    """Tables of yes-or-no questions by name, at most one answer per reply, and their pooled tables.

    Args:
        names: questions that have scores even if no reply answers them.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.rows = 0
        self.pooled = ClusteredTables()
        self._tables = {name: ClusteredTables() for name in names}

    def add(self, dialog_id: str | None, decisions: Sequence[_Decision]) -> None:
        """Count the decisions on one reply."""
        if not decisions:
            return
        self.rows += 1
        whole = Table()
        for name, expected, got in decisions:
            table = _ONE[expected, got]
            self._tables.setdefault(name, ClusteredTables()).add(dialog_id, table)
            whole = whole.plus(table)
        self.pooled.add(dialog_id, whole)

    def scores(self, order: Sequence[str]) -> dict[str, BinaryScores]:
        """Return the scores of each question, in the order given and then by name."""
        ranks = {name: rank for rank, name in enumerate(order)}
        names = sorted(self._tables, key=lambda name: (ranks.get(name, len(ranks)), name))
        return {name: binary_scores(self._tables[name]) for name in names}


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
        self._labels = _Questions(LABELS)
        self._agreement = ClusteredTables()
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
        self._tags.add(row.dialog_id, list(decisions.values()))
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
        self._contradiction.add(row.dialog_id, [_Decision("contradiction", expected, got)])
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
        expected, got = row.compliance, found.compliance
        self._confusion[expected, got] += 1
        self._agreement.add(row.dialog_id, Table(tp=1) if expected == got else Table(fp=1))
        self._labels.add(
            row.dialog_id, [_Decision(label, expected == label, got == label) for label in LABELS]
        )
        if expected != got:
            spans = evidence_of(found.findings, compliance.FIELD, "")
            yield _Difference("compliance", expected, got, spans)

    def _add_forbidden(self, row: LabelledReply, found: Found) -> Iterator["_Difference"]:
        if "forbidden" not in self._reads or row.forbidden_hits is None or found.categories is None:
            return
        self._unknown_categories.update(set(row.forbidden_hits).difference(compliance.CATEGORIES))
        self._not_scored.update(name for name in found.categories if name not in self._scored)
        decisions = [
            _Decision(name, name in row.forbidden_hits, name in found.categories) for name in self._scored
        ]
        self._forbidden.add(row.dialog_id, decisions)
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
        self._rubric.add(row.dialog_id, decisions)
        for item, expected, got in decisions:
            if expected != got:
                spans = evidence_of(found.findings, rubric.FIELD, item) if got else []
                yield _Difference(f"rubric.{item}", expected, got, spans)

    def risk_tags(self) -> RiskTagScores | None:
        """Return the agreement on risk tags, None if these are not read, as the other methods do."""
        if "risk_tags" not in self._reads:
            return None
        pooled = self._tags.pooled
        whole, by_tag = pooled.whole(), self._tags.scores(_TAG_ORDER)
        return RiskTagScores(
            micro_f1=measures.f1(whole),
            micro_precision=measures.precision(whole),
            micro_recall=measures.recall(whole),
            macro_f1=measures.mean(scores.f1 for scores in by_tag.values()),
            rows=self._tags.rows,
            by_tag=by_tag,
            ci95=_intervals(
                micro_precision=pooled.precision(),
                micro_recall=pooled.recall(),
                micro_f1=pooled.f1(),
                macro_f1=_macro_bounds(by_tag),
            ),
        )

    def contradiction(self) -> BinaryScores | None:
        """Return the agreement on contradictions of constraints."""
        return binary_scores(self._contradiction.pooled) if "contradiction" in self._reads else None

    def compliance(self) -> ComplianceScores | None:
        """Return the agreement on compliance labels.

        The macro F1 is the mean over the labels that occur, in the labels or in the findings.
        """
        if "compliance" not in self._reads:
            return None
        rows = self._confusion.total()
        right = sum(self._confusion[label, label] for label in LABELS)
        by_label = self._labels.scores(LABELS)
        accuracy = self._agreement.accuracy()
        return ComplianceScores(
            accuracy=right / rows if rows else None,
            macro_f1=measures.mean(scores.f1 for scores in by_label.values()),
            kappa=measures.kappa(self._confusion),
            constant_accuracy=measures.constant_accuracy(scores.support for scores in by_label.values()),
            severe_false_positives=by_label[_SEVERE].fp,
            rows=rows,
            by_label=by_label,
            confusion={
                expected: {got: self._confusion[expected, got] for got in LABELS} for expected in LABELS
            },
            ci95=_intervals(
                accuracy=accuracy,
                macro_f1=_macro_bounds(by_label),
                kappa=measures.kappa_bounds(self._confusion, accuracy),
            ),
        )

    def forbidden(self) -> ForbiddenScores | None:
        """Return the agreement on forbidden categories."""
        if "forbidden" not in self._reads:
            return None
        pooled = self._forbidden.pooled
        whole, by_category = pooled.whole(), self._forbidden.scores(compliance.CATEGORIES)
        return ForbiddenScores(
            f1=measures.f1(whole),
            precision=measures.precision(whole),
            recall=measures.recall(whole),
            macro_f1=measures.mean(scores.f1 for scores in by_category.values()),
            rows=self._forbidden.rows,
            by_category=by_category,
            not_scored={name: self._not_scored[name] for name in sorted(self._not_scored)},
            ci95=_intervals(
                precision=pooled.precision(),
                recall=pooled.recall(),
                f1=pooled.f1(),
                macro_f1=_macro_bounds(by_category),
            ),
        )

    def rubric(self) -> RubricScores | None:
        """Return the agreement on rubric items."""
        if "rubric" not in self._reads:
            return None
        whole, by_item = self._rubric.pooled.whole(), self._rubric.scores(rubric.RUBRIC_ITEMS)
        constant = sum(max(scores.support, scores.rows - scores.support) for scores in by_item.values())
        return RubricScores(
            accuracy=measures.accuracy(whole),
            macro_f1=measures.mean(scores.f1 for scores in by_item.values()),
            constant_accuracy=constant / whole.total if whole.total else None,
            rows=self._rubric.rows,
            by_item=by_item,
            ci95=_intervals(accuracy=self._rubric.pooled.accuracy(), macro_f1=_macro_bounds(by_item)),
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


def binary_scores(tables: ClusteredTables) -> BinaryScores:
    """Return every measure of the two-by-two tables of one question, with its interval."""
    table = tables.whole()
    tp, fp, fn, tn = table
    accuracy = tables.accuracy()
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
            precision=tables.precision(),
            recall=tables.recall(),
            f1=tables.f1(),
            accuracy=accuracy,
            kappa=measures.kappa_bounds(table.matrix, accuracy),
        ),
    )


def _macro_bounds(parts: Mapping[str, BinaryScores]) -> Bounds | None:
    return measures.mean_bounds([scores.ci95.get("f1") for scores in parts.values() if scores.f1 is not None])


def _intervals(**bounds: Bounds | None) -> dict[str, Bounds]:
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
