"""What the gate found: a kind, a place and the rule, never the text itself."""

from collections.abc import Iterable
from typing import Final, Literal, get_args

from memfin.contracts.base import Count, Record

Kind = Literal[
    "identity_number",
    "person_name",
    "email",
    "phone",
    "bank_card",
    "wallet_address",
    "private_key",
    "seed_phrase",
    "api_key",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class Finding(Record):
    """One piece of sensitive input (memory design §10.2).

    ``start`` and ``end`` count characters of the text as it was given; ``rule`` names what found it;
    ``field`` is the path within a structure, empty for plain text. The text is nowhere in a finding, so
    it may be logged and shown.
    """

    kind: Kind
    rule: str
    start: Count
    end: Count
    field: str = ""


def outermost(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in order of their place, without those that lie inside another one."""
    kept: list[Finding] = []
    reached = -1  # the furthest end so far: in this order what lies inside another one ends no later
    for each in sorted(findings, key=lambda each: (each.start, -each.end, KINDS.index(each.kind), each.rule)):
        if each.end > reached:
            reached = each.end
            kept.append(each)
    return tuple(kept)
