"""What must hold of a file of labelled replies beyond its structure."""

from collections.abc import Iterator
from typing import Final

from memfin.contracts import LabelledReply
from memfin.contracts.reading import shown
from memfin.scoring.compliance import CATEGORIES
from memfin.scoring.risk import canonical_risk_tag
from memfin.validation.findings import Violation
from memfin.validation.rules import Digest, RunRules, digest


class LabelRules(RunRules):
    """Each reply stands once, and no label says the contrary of another.

    Keeps a digest of every id. ``rows`` counts the replies; ``categories`` are the known forbidden
    categories that some label names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.categories: Final[set[str]] = set()
        self._seen: set[Digest] = set()

    def check(self, record: LabelledReply) -> Iterator[Violation]:
        """Check one labelled reply."""
        self.rows += 1
        self.categories.update(name for name in record.forbidden_hits or () if name in CATEGORIES)
        if not record.id.strip():
            yield Violation(("id",), "the id is blank")
        key = digest(record.id)
        if key in self._seen:
            yield Violation(("id",), f"{shown(record.id)} stands on an earlier line too")
        self._seen.add(key)
        by_tag: dict[str, tuple[str, bool]] = {}
        for name, label in (record.risk_tags or {}).items():
            tag = canonical_risk_tag(name)
            if tag is None or label is None:
                continue
            first, said = by_tag.setdefault(tag, (name, label))
            if said != label:
                yield Violation(("risk_tags", name), f"says the contrary of {shown(first)}, the same tag")
