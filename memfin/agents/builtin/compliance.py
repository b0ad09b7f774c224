"""Compliance check of a reply: forbidden phrases outside of sentences that refute them."""

from functools import cache
from typing import NamedTuple

from memfin.agents.builtin.profile import Pattern, compiled, data_file
from memfin.contracts import Language
from memfin.text.clauses import sentence_bounds


class ComplianceRules(NamedTuple):
    """The check of one language; the groups of ``forbidden`` are categories."""

    forbidden: Pattern
    refuted_before: Pattern
    refuted_after: Pattern


@cache
def compliance_rules(language: Language) -> ComplianceRules:
    """Return the rules of ``compliance.toml`` for a language."""
    data = data_file("compliance.toml")[language]
    groups = [f"(?P<{name}>{'|'.join(forms)})" for name, forms in data["forbidden"].items()]
    return ComplianceRules(**compiled({**data, "forbidden": "|".join(groups)}))


def find_violations(reply: str, rules: ComplianceRules) -> list[dict[str, str]]:
    """Return the forbidden phrases of a reply, for a `ComplianceTrace`, unless the sentence refutes them."""
    return [
        {"type": hit.lastgroup or "", "match": hit[0], "severity": "high"}
        for start, end in sentence_bounds(reply)
        for hit in rules.forbidden.finditer(reply, start, end)
        if rules.refuted_before.search(reply, start, hit.start()) is None
        and rules.refuted_after.search(reply, hit.end(), end) is None
    ]


def without_violations(reply: str, rules: ComplianceRules) -> str:
    """Return the reply without the sentences that hold violations."""
    parts = (reply[start:end] for start, end in sentence_bounds(reply))
    return "".join(part for part in parts if not find_violations(part, rules))
