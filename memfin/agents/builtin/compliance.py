"""The adviser's check of a reply against what must not be said."""

import functools
import re
from typing import NamedTuple

from memfin.agents.builtin.rules import Pattern, data_file
from memfin.contracts import Language
from memfin.text.clauses import sentence_bounds


class Violation(NamedTuple):
    """A forbidden phrase in a reply; ``start`` and ``end`` bound its sentence."""

    category: str
    match: str
    start: int
    end: int

    def fields(self) -> dict[str, str]:
        """Return the violation as an entry of a `ComplianceTrace`."""
        return {"type": self.category, "match": self.match, "severity": "high"}


class ComplianceRules(NamedTuple):
    """The compiled check of one language; the groups of ``forbidden`` are its categories."""

    forbidden: Pattern
    refuted_before: Pattern
    refuted_after: Pattern


@functools.cache
def compliance_rules(language: Language) -> ComplianceRules:
    """Return the rules of ``compliance.toml`` for a language."""
    data = data_file("compliance.toml")[language]
    groups = (f"(?P<{category}>{'|'.join(forms)})" for category, forms in data["forbidden"].items())
    return ComplianceRules(
        forbidden=re.compile("|".join(groups), re.IGNORECASE),
        refuted_before=re.compile(data["refuted_before"], re.IGNORECASE),
        refuted_after=re.compile(data["refuted_after"], re.IGNORECASE),
    )


def find_violations(reply: str, rules: ComplianceRules) -> list[Violation]:
    """Return the forbidden phrases of a reply, except in sentences that refute or warn of them."""
    hits = list(rules.forbidden.finditer(reply))
    if not hits:
        return []
    return [
        Violation(hit.lastgroup or "", hit[0], start, end)
        for start, end in sentence_bounds(reply)
        for hit in hits
        if start <= hit.start() < end
        and rules.refuted_before.search(reply, start, hit.start()) is None
        and rules.refuted_after.search(reply, hit.end(), end) is None
    ]


def without_violations(reply: str, violations: list[Violation]) -> str:
    """Return the reply without the sentences that hold violations."""
    kept, at = [], 0
    for violation in violations:
        kept.append(reply[at : max(at, violation.start)])
        at = max(at, violation.end)
    return "".join([*kept, reply[at:]])
