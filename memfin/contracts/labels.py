"""A labelled reply: one line of the files that validity is measured on (spec section 8)."""

from memfin.contracts.base import Bit, ComplianceLabel, Record


class LabelledReply(Record):
    """A reply, what it answers, and what careful readers found in it.

    Every label is optional: a field or tag that is left out or null was not labelled and is not
    scored. ``risk_tags`` and ``rubric`` say of each name whether the reply discloses or contains it.
    ``contradiction`` says whether the reply advises against one of ``constraints``.
    ``forbidden_hits`` are all categories of forbidden claims in the reply; an empty list says that
    there are none. ``user_text`` is what the reply answers.
    """

    id: str
    text: str
    user_text: str | None = None
    constraints: list[str] | None = None
    risk_tags: dict[str, bool | None] | None = None
    contradiction: Bit | None = None
    compliance: ComplianceLabel | None = None
    forbidden_hits: list[str] | None = None
    rubric: dict[str, bool | None] | None = None
