"""What the five metrics and their values mean, in the words of the reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Scale = Literal["share", "score"]
"""``share``: 0 to 1, printed as per cent. ``score``: the judge's scale of 1 to 5."""

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class ValueText:
    """One value of a metric: its key in the summary, its label, and which direction is good."""

    key: str
    label: str
    meaning: str
    better: Better = "higher"
    scale: Scale = "share"


@dataclass(frozen=True, slots=True)
class MetricText:
    """One metric: ``headline`` is the value that speaks for it, ``beside`` stands next to it."""

    name: str
    code: str
    title: str
    meaning: str
    headline: ValueText
    beside: tuple[ValueText, ...] = ()

    @property
    def values(self) -> tuple[ValueText, ...]:
        """Return the values of the headline table, the headline first."""
        return (self.headline, *self.beside)


METRICS: Final = (
    MetricText(
        "m1_context_continuity",
        "M1",
        "Context continuity",
        "Did the facts a turn depends on reach the model, through the short-term window, long-term recall "
        "or the profile; and does the advice respect the client's constraints?",
        ValueText(
            "key_coverage",
            "Key coverage",
            "share of the required memory keys whose text was found in at least one memory source",
        ),
        (
            ValueText(
                "contradiction_rate",
                "Contradictions",
                "share of turns whose advice conflicts with a constraint of the client",
                better="lower",
            ),
        ),
    ),
    MetricText(
        "m2_profile_accuracy",
        "M2",
        "Profile accuracy",
        "Does the agent's last picture of the client match the true profile: risk level, horizon, liquidity, "
        "constraints, preferences?",
        ValueText("profile_score", "Profile score", "mean of three field accuracies and two set F1 values"),
    ),
    MetricText(
        "m3_risk_coverage",
        "M3",
        "Risk coverage",
        "Does a reply disclose the risks that the reference says it has to disclose?",
        ValueText("risk_coverage", "Risk coverage", "share of the required risk disclosures that were made"),
    ),
    MetricText(
        "m4_compliance",
        "M4",
        "Compliance",
        "Does the reply stay within the rules: no promises, orders, certain predictions, acting for the "
        "client?",
        ValueText(
            "compliance_label_acc",
            "Label accuracy",
            "share of replies whose compliance label equals the reference's",
        ),
        (
            ValueText(
                "severe_violation_rate",
                "Severe violations",
                "share of all read replies with a severe violation; needs no reference label",
                better="lower",
            ),
        ),
    ),
    MetricText(
        "m5_explainability",
        "M5",
        "Explainability",
        "Does the reply help the client decide: grounds, trade-offs, fit, comparison, steps, limits?",
        ValueText(
            "rubric_hit_rate", "Rubric hit rate", "share of the required rubric items the reply satisfies"
        ),
        (
            ValueText(
                "judge_score_mean",
                "Judge score",
                "mean score of the judge, from 1 to 5",
                scale="score",
            ),
        ),
    ),
)
"""The metrics in their order; every other module looks labels up here."""

SOURCES: Final = (
    ("short_term", "Short-term window"),
    ("long_term", "Long-term recall"),
    ("profile", "Profile context"),
)
"""The memory sources of M1, with the stem of their hit counts in the summary."""

SCORES: Final = frozenset({"judge_score_mean"})


_DENOMINATORS: Final = {
    "key_coverage": "required_key_total",
    "contradiction_rate": "contradiction_turns",
    "risk_coverage": "risk_required_total",
    "severe_violation_rate": "severe_turns",
    "rubric_hit_rate": "rubric_required_total",
    "judge_score_mean": "judge_scored_turns",
}
"""Counts that values are divided by; the others are divided by ``eligible_count``."""


def is_measured(key: str, counts: Mapping[str, int]) -> bool:
    """Say whether a value of a metric had anything to be divided by; otherwise it is a bare 0."""
    eligible = counts.get("eligible_count", 0)
    return counts.get(_DENOMINATORS.get(key, "eligible_count"), eligible) > 0


def format_value(key: str, value: float) -> str:
    """Write a value of a summary: shares as per cent with one decimal, judge scores with two decimals."""
    return f"{value:.2f}" if key in SCORES else f"{100 * value:.1f} %"


def format_interval(key: str, bounds: tuple[float, float] | None) -> str:
    """Write a confidence interval in the unit of its value; a dash when there is none."""
    if bounds is None:
        return "-"
    low, high = bounds
    if key in SCORES:
        return f"{low:.2f} to {high:.2f}"
    return f"{100 * low:.1f} to {100 * high:.1f} %"


NOTES: Final = (
    (
        "Micro and macro",
        (
            "micro values divide sums over all turns (for M2: all dialogues); macro values are means of "
            "the dialogues' own values, so that long dialogues weigh no more than short ones."
        ),
    ),
    (
        "Confidence intervals",
        (
            "95 %, clustered by dialogue, because turns of one dialogue are not independent. They are "
            "computed from the sums of the run without drawing random numbers and cover the choice of "
            "dialogues only, not errors of the detectors or the judge."
        ),
    ),
    (
        "Eligible, skipped, failed",
        (
            "a turn or dialogue enters a metric's denominator when the reference asks for something that "
            "metric measures. Failed turns and dialogues stay outside every denominator: an agent that "
            "fails on the hard ones looks better than it is, so look at the failures too."
        ),
    ),
    (
        "Free and forced history",
        (
            "in a free run the agent's own replies are its history, as in use, and one bad reply may "
            "spoil the turns after it; in a forced run the reference replies are committed instead, so "
            "that each turn stands alone. Do not compare one kind with the other."
        ),
    ),
    (
        "Key coverage",
        (
            "a required key is hit when its text stands literally in what the agent's memory put before "
            "the model. It measures what was recalled, not whether the reply made use of it. The guarded "
            "value counts very short targets only beside their field's name; the recoverable value leaves "
            "out what the client had not said yet."
        ),
    ),
    (
        "Detectors",
        (
            "risk disclosures, contradictions, forbidden claims and compliance labels are found by rules "
            "and a trained classifier that read the reply. Each finding names its rule and the words it "
            "fired on; check some before you rely on a figure. “No rule fired” says that nothing was "
            "found, not that the reply is compliant."
        ),
    ),
    (
        "The heuristic judge",
        (
            "without an LLM judge the M5 score is a proxy computed from the form of the reply. Compare it "
            "between runs of the same data set; do not read it as quality."
        ),
    ),
    (
        "A model as the judge",
        (
            "its scores are an opinion. Look at the controls first: a reply that says nothing belongs at 1, "
            "with or without an order to the judge in it, and reference replies well above. Alpha tells "
            "how far several votes on the same reply agree; below 0.67 little can be concluded."
        ),
    ),
)
"""What a reader has to know, as pairs of a title and a text."""
