"""Content detectors: disclosures, violations and explanations in a reply, with their places.

A reply is read sentence by sentence. Its kinds come first
(`memfin.scoring.statements`), then the rules of the lexicons and the trained classifier, of which
either is enough. The label is listed as unsure where the classifier is close to its threshold and no rule
matches, or a rule matches and the classifier is far below its threshold.
"""

from functools import cache
from itertools import zip_longest
from typing import Final

from memfin.contracts import ComplianceLabel, Finding, Record
from memfin.scoring import compliance, risk, rubric
from memfin.scoring import statements as kinds
from memfin.scoring.classifier import SCALE, load_classifier
from memfin.scoring.contradiction import proposal_in
from memfin.scoring.lexicon import Match, Sentence
from memfin.scoring.statements import Analysis, Statement, class_mask, content_lexicon
from memfin.text.document import Document
from memfin.text.normalize import letters

CLASSIFIER: Final = "classifier"
"""The rule named by findings that the classifier made."""

_SILENT: Final = kinds.QUESTION | kinds.MENTION
_SILENT_CONDUCT: Final = _SILENT | kinds.OTHERS | kinds.WARNING
_PROMISES: Final = ("保本保收益", "夸大宣传")
_FORECASTS: Final = ("确定性预测涨跌",)
_ORDER: Final = "明确买入指令"
_TRADES: Final = "代客操作"
_CONTRARY: Final = {"no_guaranteed_return": "保本保收益", "market_uncertainty": "确定性预测涨跌"}
"""Disclosures and the misconduct that says the contrary in the same words."""
_DENIAL_REACH: Final = 10
"""Characters in front of a severe match in which a word of negation denies it."""
_SEVERE: Final = frozenset(compliance.SEVERE_CATEGORIES)
_MINOR: Final = ("夸大宣传", "产品推介", "隐去不利")
_ITEMS: Final = frozenset(rubric.RUBRIC_ITEMS)
_UNSURE: Final = SCALE
"""Distance from its threshold within which the classifier is not sure; it held on authors left out."""
_MAX_FINDINGS: Final = 3
"""Findings of one rule per reply."""


class ContentReading(Record):
    """Findings in one reply: disclosures, violations, elements of an explanation.

    ``risk_tags`` are sorted; ``categories`` and ``rubric_items`` keep the order of their catalogues;
    ``compliance`` follows from the content alone. ``findings`` carry offsets into the reply.
    ``unsure`` names the labels on which a judge should be asked: the classifier is close to its threshold
    and no rule spoke, or a rule spoke where the classifier sees nothing. Elements of an explanation are not
    named: they would send nearly every reply.
    """

    risk_tags: list[str] = []
    compliance: ComplianceLabel = "compliant"
    categories: list[str] = []
    rubric_items: list[str] = []
    findings: list[Finding] = []
    unsure: list[str] = []


def read_content(reply: str | Document | Analysis, *, user_text: str = "") -> ContentReading:
    """Run all content detectors over a reply.

    An empty reply and one that only repeats the user's words say nothing of their own: they disclose,
    violate and explain nothing.
    """
    analysis = reply if isinstance(reply, Analysis) else Analysis(reply)
    if not analysis.sentences or (user_text and repeats_user(analysis.document, user_text)):
        return ContentReading()
    return _Reading(analysis).result()


def repeats_user(document: Document, user_text: str) -> bool:
    """Return True if a reply is nothing but the user's words, whatever the width, case and blanks."""
    theirs = letters(user_text)
    if len(theirs) > len(document.text):
        return False
    return all(ours == other for ours, other in zip_longest(filter(str.isalnum, document.text), theirs))


class _Reading:
    """The reading of one reply by the detectors."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis: Final = analysis
        self._findings: Final[list[Finding]] = []
        self._by_rule: Final[dict[str, list[int]]] = {}
        self._by_classifier: Final[set[str]] = set()
        self._unsure: Final[set[str]] = set()
        self._read_rules()
        self._classify()

    def _read_rules(self) -> None:
        analysis, matches = self._analysis, content_lexicon().matches
        counts: dict[str, int] = {}
        settled: set[str] = set()
        for number, sentence in enumerate(analysis.sentences):
            if not sentence.tokens:
                continue
            for match in matches(analysis.text, sentence, settled):
                rule = match.rule
                statement = analysis.statement(number)
                if _silenced(statement, rule.value) or statement.is_quoted(match.start, match.end):
                    continue
                if rule.value in _SEVERE and (statement.in_block_quote or self._denied(sentence, match)):
                    continue
                count = counts[rule.id] = counts.get(rule.id, 0) + 1
                if count == _MAX_FINDINGS or rule.value in _ITEMS:
                    settled.add(rule.id)
                self._by_rule.setdefault(rule.value, []).append(number)
                self._add(rule.value, rule.id, match.start, match.end)

    def _denied(self, sentence: Sentence, match: Match) -> bool:
        """Return True if a word of negation in front of a severe match denies it.

        Promises hold negations of their own (不会亏); elsewhere one inside the match counts too.
        """
        lexicon = content_lexicon()
        if not sentence.classes & lexicon.negation:
            return False
        last = match.start if match.rule.value in _PROMISES + _FORECASTS else match.end
        masks = lexicon.words.masks
        near = sentence.between(match.start - _DENIAL_REACH, last)
        return any(masks[word] & lexicon.negation for word, _, _ in near)

    def _classify(self) -> None:
        """Ask the classifier about the labels that no rule found, where its draft says that it may know."""
        analysis = self._analysis
        for label in _classified():
            numbers = analysis.candidates(label)
            if label in self._by_rule:
                if not numbers:
                    self._unsure.add(label)
                continue
            any(self._score(label, number) for number in numbers)

    def _is_excused(self, label: str, number: int) -> bool:
        """Return True if words or place keep the classifier from reading severe misconduct in a sentence."""
        if label not in _SEVERE:
            return False
        classes = self._analysis.sentences[number].classes
        if label == _ORDER and (
            classes & class_mask("compliance.NO_ORDER") or not classes & class_mask("compliance.TRADE")
        ):
            return True  # names of securities alone order nothing
        refused = label == _TRADES and classes & class_mask("compliance.CANNOT")
        return bool(refused) or self._analysis.statement(number).in_block_quote

    def _score(self, label: str, number: int) -> bool:
        """Add a finding if the classifier accepts a sentence; return True in that case."""
        sentence = self._analysis.sentences[number]
        if _silenced(self._analysis.statement(number), label) or self._is_excused(label, number):
            return False
        margin = self._analysis.margin(label, number)
        contrary = _CONTRARY.get(label)
        if contrary is not None and (
            number in self._by_rule.get(contrary, ()) or self._analysis.margin(contrary, number) > margin
        ):
            return False
        if margin <= _UNSURE:
            self._unsure.add(label)
        if margin <= 0:
            return False
        self._by_classifier.add(label)
        text = self._analysis.text[sentence.start : sentence.end]
        words = " + ".join(load_classifier().explain(label, text))
        start = sentence.start + len(text) - len(text.lstrip())
        self._add(label, f"{CLASSIFIER}: {words}", start, sentence.start + len(text.rstrip()))
        return True

    def _add(self, value: str, rule: str, start: int, end: int) -> None:
        first, last = self._analysis.document.source_span(start, end)
        field = (
            risk.FIELD
            if value in risk.DETECTED_TAGS
            else rubric.FIELD
            if value in _ITEMS
            else compliance.FIELD
        )
        self._findings.append(Finding(field=field, value=value, rule=rule, start=first, end=last))

    def result(self) -> ContentReading:
        """Return the reading of the whole reply."""
        found = self._by_classifier.union(self._by_rule)
        tags = sorted(found & risk.DETECTED_TAGS)
        categories = compliance.shown_categories(self._analysis.text, found, tags)
        label = compliance.label_from_content(categories)
        silent = compliance.NO_RISK_WORD not in categories and not compliance.warns(self._analysis.text, tags)
        if silent and (place := proposal_in(self._analysis)) is not None:  # forbidden, but no violation
            categories.append(compliance.NO_RISK_WORD)
            self._add(compliance.NO_RISK_WORD, "advice_without_risk", *place)
        return ContentReading(
            risk_tags=tags,
            compliance=label,
            categories=categories,
            rubric_items=rubric.contained_items(found, tags),
            findings=self._findings,
            unsure=sorted(self._unsure - _ITEMS),
        )


@cache
def _classified() -> tuple[str, ...]:
    """Return the labels of the classifier that are read from contents; the others are about constraints."""
    known = {*risk.DETECTED_TAGS, *_SEVERE, *_MINOR, *_ITEMS}
    return tuple(label for label in load_classifier().labels if label in known)


_SILENCING: Final[dict[str, int]] = {
    **dict.fromkeys(risk.DETECTED_TAGS, _SILENT | kinds.ZERO),
    **dict.fromkeys(_MINOR, _SILENT_CONDUCT),
    **dict.fromkeys(_SEVERE, _SILENT_CONDUCT | kinds.SUPPOSING),
}
"""Kinds of statements that are not read as a label; of an element of the rubric, `_SILENT`."""


def _silenced(statement: Statement, value: str) -> bool:
    """Return True if the kind or the place of a statement keeps it from being read as a label."""
    if statement.kind & _SILENCING.get(value, _SILENT) or (value in _SEVERE and statement.not_offered):
        return True
    return value in _PROMISES and (statement.kind & kinds.AIMING != 0 or statement.fact)
