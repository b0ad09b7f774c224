"""Everything the offline detectors read off one reply, in one scan."""

from collections.abc import Collection
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Final

from memfin.contracts import ComplianceLabel, Finding, Record
from memfin.scoring import compliance, risk, rubric
from memfin.scoring.lexicons.scanner import Scanner, findings
from memfin.scoring.text.forms import normalize
from memfin.scoring.text.language import Analysis, analyze

LEXICONS: Final = ("risk_tags", "compliance", "rubric")
"""The lexicons of all content detectors."""

_HEAD: Final = 16
"""Characters of a text that tell whether it can be another one at all."""


class ContentReading(Record):
    """What a reply discloses, violates and explains, and where.

    ``risk_tags`` are sorted; ``categories`` and ``rubric_items`` keep the order of their catalogues;
    ``compliance`` follows from the content alone. ``findings`` carry offsets into the reply.
    """

    risk_tags: list[str] = []
    compliance: ComplianceLabel = "compliant"
    categories: list[str] = []
    rubric_items: list[str] = []
    findings: list[Finding] = []


@cache
def content_scanner() -> Scanner:
    """Return the scanner over the lexicons of all content detectors, compiled once."""
    return Scanner(LEXICONS)


@lru_cache(maxsize=256)
def _unasked(asked: tuple[str, ...]) -> frozenset[int]:
    """Return the slots of the scanner that matter to none of the rubric items asked for."""
    return content_scanner().slots(rubric.FIELD, rubric.values_besides(asked))


def read_content(text: str, *, user_text: str = "") -> ContentReading:
    """Run all content detectors over a reply.

    An empty reply and one that only repeats the user's words say nothing of their own: they disclose,
    violate and explain nothing.
    """
    return read_content_from(analyze(text), user_text=user_text)


def read_content_from(
    analysis: Analysis, *, user_text: str = "", asked: Collection[str] | None = None
) -> ContentReading:
    """Run all content detectors over a reply that is analysed already.

    ``asked`` are the rubric items that somebody asks for; the others are not looked for. None asks
    for all.
    """
    if not analysis.norm.strip() or (user_text and _same(analysis, user_text)):
        return ContentReading()
    unasked = frozenset[int]() if asked is None else _unasked(tuple(asked))
    matches = content_scanner().scan(analysis, unasked)
    tags = risk.predicted_tags(matches)
    categories = compliance.shown_categories(analysis, matches, tags)
    return ContentReading(
        risk_tags=tags,
        compliance=compliance.label_from_content(categories),
        categories=categories,
        rubric_items=rubric.contained_items(matches, tags),
        findings=list(findings(analysis, [*matches, *rubric.implied(matches)])),
    )


def repeats_user(text: str, user_text: str) -> bool:
    """Say whether a reply is nothing but the user's words, whatever the width, case and blanks."""
    return _same(analyze(text), user_text)


def _same(analysis: Analysis, user_text: str) -> bool:
    """Compare letter by letter; two different texts are told apart at their first letters."""
    first = next(filter(str.isalnum, analysis.plain), "")
    if next(filter(str.isalnum, normalize(user_text[:_HEAD])), first) != first:
        return False
    theirs = filter(str.isalnum, normalize(user_text))
    return all(ours == other for ours, other in zip_longest(filter(str.isalnum, analysis.plain), theirs))
