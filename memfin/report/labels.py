"""A compliance label in words that say who found it."""

from typing import Final

from memfin.contracts import TurnEvalRow

NO_RULE: Final = "no rule fired"

_DETECTORS: Final = frozenset({"", "lexicon", "lexicon+classifier"})
"""The offline detectors of compliance as rows name them, those of earlier versions included."""

_OWN_CHECK: Final = "+trace"
_FIELD: Final = "compliance"
_SEVERE: Final = frozenset({"保本保收益", "明确买入指令", "确定性预测涨跌", "代客操作", "内幕信息"})
"""The categories that make a reply a severe violation, as `memfin.scoring.compliance` has them."""


def label_words(row: TurnEvalRow) -> str | None:
    """Return the label of a reply with its source, None for a reply that nobody read.

    Detectors that find nothing do not show that a reply is compliant. A violation that they did not find
    themselves is the agent's own check's; which of a judge and that check found it, the row does not tell.
    """
    label = row.pred_compliance_label
    source = row.detectors.get(_FIELD, "")
    by_detectors = source.removesuffix(_OWN_CHECK) in _DETECTORS
    if label == "compliant":
        return NO_RULE if by_detectors else label
    if by_own_check(row):
        return f"{label} (by the agent's own check)"
    if label is not None and not by_detectors and source.endswith(_OWN_CHECK):
        return f"{label} (by the judge or the agent's own check)"
    return label


def by_own_check(row: TurnEvalRow) -> bool:
    """Say whether a violation was found by the agent's own check and not by the offline detectors."""
    label, source = row.pred_compliance_label, row.detectors.get(_FIELD, "")
    if label in (None, "compliant") or not source.endswith(_OWN_CHECK):
        return False
    if source.removesuffix(_OWN_CHECK) not in _DETECTORS:
        return False
    found = {finding.value for finding in row.findings if finding.field == _FIELD}
    return not (found & _SEVERE if label == "severe_violation" else found)
