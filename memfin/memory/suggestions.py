"""Advisor order, hints and suggestions: preferences around a task (memory design §7, §8.3)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from memfin.contracts.base import Language, Record
from memfin.contracts.memory import Moment, RiskPromptPreference, Route, SchemaVersion
from memfin.memory.consent import OnboardingState
from memfin.memory.slices import LoadedMemory

Advisor = Literal["asset_research", "market_macro", "risk", "counter_thesis", "pre_execution"]

ORDERS: Final[Mapping[RiskPromptPreference, tuple[Advisor, ...]]] = {
    "balanced": ("asset_research", "market_macro", "risk", "counter_thesis"),
    "counter_first": ("counter_thesis", "asset_research", "market_macro", "risk"),
    "risk_first": ("risk", "asset_research", "counter_thesis", "market_macro"),
    "permission_or_credential": ("asset_research", "market_macro", "risk", "counter_thesis"),
}
"""The four advisors that every route asks, in the order of each preference."""


def advisor_order(route: Route, preference: RiskPromptPreference | None) -> tuple[Advisor, ...]:
    """Return a route's advisors in the order of a preference; None stands for ``balanced``.

    The fifth, before execution, comes first for ``permission_or_credential`` and last otherwise.
    """
    order = ORDERS[preference or "balanced"]
    if route != "pre_execution":
        return order
    if preference == "permission_or_credential":
        return ("pre_execution", *order)
    return (*order, "pre_execution")


def advisors_for(memory: LoadedMemory) -> tuple[Advisor, ...]:
    """Return the advisors of a task in the order of its slice S3, ``balanced`` where that is not loaded."""
    loaded = memory.value("S3")
    for preference in ORDERS:
        if preference == loaded:
            return advisor_order(memory.route, preference)
    return advisor_order(memory.route, None)


Hint = Literal["set_preferences", "renew_consent"]


class HintShown(Record):
    """The last hint that a user was shown, as it is on file."""

    hint: Hint
    shown_at: Moment
    schema_version: SchemaVersion = "1.0"


PAUSE: Final = timedelta(hours=24)  # a user sees at most one hint in this time
TEXTS: Final[Mapping[Hint, Mapping[Language, str]]] = {
    "set_preferences": {
        "zh": "在设置里填写偏好，结果会更贴合您。",
        "en": "Results fit you better once you set your preferences.",
    },
    "renew_consent": {
        "zh": "您已撤回个人资料授权；如需个性化结果，请重新授权。",
        "en": "You revoked consent to your profile; give it again for results made for you.",
    },
}


def hint_for(
    state: OnboardingState, shown_at: datetime | None, now: datetime, *, preferred: bool
) -> Hint | None:
    """Return the hint that a result may carry, or None; nobody gets one again before `PAUSE` is over."""
    if shown_at is not None and now - shown_at < PAUSE:
        return None
    if state == "revoked":
        return "renew_consent"
    return "set_preferences" if state == "active" and not preferred else None


def hint_text(hint: Hint, memory: LoadedMemory) -> str:
    """Return a hint's words in the language of the result."""
    return TEXTS[hint]["zh" if memory.value("S1") == "zh" else "en"]


RefreshCondition = Literal[
    "price_move",
    "filing_published",
    "rating_change",
    "policy_change",
    "flow_shift",
    "constituent_change",
    "event_outcome",
    "date_reached",
    "new_evidence",
]

REFRESH_CONDITIONS: Final[Mapping[str, tuple[RefreshCondition, ...]]] = {
    "asset": ("price_move", "filing_published", "rating_change"),
    "theme": ("policy_change", "flow_shift", "constituent_change"),
    "event": ("event_outcome", "date_reached", "policy_change"),
}
"""Suggested conditions for refreshing a thread, by the type of its cognition object."""

ANY_OBJECT: Final[tuple[RefreshCondition, ...]] = ("new_evidence",)
"""The suggestion for an object of no known type."""

FIRST_TASKS: Final[tuple[Route, ...]] = ("snapshot", "thread_refresh", "risk_challenge")
"""The kinds of task that are suggested to somebody who has not started three yet."""

EXAMPLES: Final[Mapping[Language, Mapping[str, str]]] = {
    "zh": {
        "quick": "用三句话说明沪深300指数基金的主要风险。",
        "standard": "沪深300指数基金适合做长期配置吗？请列出正反两方面的依据。",
        "deep": "请深入分析沪深300指数基金的费用、估值和风险，并说明哪些情况会推翻结论。",
    },
    "en": {
        "quick": "What are the main risks of a broad index fund, in three sentences?",
        "standard": "Does a broad index fund suit a long horizon? Give the evidence for and against.",
        "deep": "Examine a broad index fund's costs, valuation and risks. What would overturn the view?",
    },
}
"""The example question after onboarding, by language and depth."""


class Skill(Record):
    """A skill as it is listed: its id, and the words that say what it is about."""

    skill_id: str
    topics: tuple[str, ...] = ()


class Suggestions(Record):
    """Suggestions of a page to a person; refresh conditions are by type of object, or ``other``."""

    task_types: tuple[Route, ...]
    example_question: str
    refresh_conditions: dict[str, tuple[RefreshCondition, ...]]


def recommended(skills: Sequence[Skill], memory: LoadedMemory) -> list[Skill]:
    """Return all the skills, those that the user's recent threads are about first, newer threads first.

    A skill is related to a thread when the thread's line in S6 holds one of its topics.
    """
    named = memory.value("S6")
    threads = [line.casefold() for line in named] if isinstance(named, tuple) else []

    def rank(skill: Skill) -> int:
        topics = [topic.casefold() for topic in skill.topics if topic]
        related = (at for at, thread in enumerate(threads) if any(topic in thread for topic in topics))
        return next(related, len(threads))

    return sorted(skills, key=rank)


def suggested_tasks(used: Iterable[Route]) -> tuple[Route, ...]:
    """Return the three kinds of task to suggest: those used last, the latest first, then the usual ones."""
    return tuple(dict.fromkeys((*used, *FIRST_TASKS)))[: len(FIRST_TASKS)]


def suggestions_for(used: Iterable[Route], memory: LoadedMemory) -> Suggestions:
    """Return what to suggest, from the kinds of task done, the latest first, and what memory gives a task."""
    return Suggestions(
        task_types=suggested_tasks(used),
        example_question=example_question(memory),
        refresh_conditions={**REFRESH_CONDITIONS, "other": ANY_OBJECT},
    )


def example_question(memory: LoadedMemory) -> str:
    """Return the example for the first task after onboarding, in the language and depth that were set."""
    examples = EXAMPLES["zh" if memory.value("S1") == "zh" else "en"]
    return examples.get(str(memory.value("S2")), examples["standard"])
