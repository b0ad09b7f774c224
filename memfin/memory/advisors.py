"""In which order advisors speak: the one thing about them that a preference changes (memory design §7.3).

Which advisors a route asks is the route's own matter: every order of a route has the same members.
"""

from collections.abc import Mapping
from typing import Final, Literal

from memfin.contracts.memory import RiskPromptPreference, Route
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

    Before execution there is a fifth advisor. It comes first for ``permission_or_credential`` and last
    otherwise; on the other routes that preference orders as ``balanced`` does.
    """
    order = ORDERS[preference or "balanced"]
    if route != "pre_execution":
        return order
    if preference == "permission_or_credential":
        return ("pre_execution", *order)
    return (*order, "pre_execution")


def advisors_for(memory: LoadedMemory) -> tuple[Advisor, ...]:
    """Return the advisors of a task in the order that its slice S3 asks for.

    A route that does not load S3 has the order of ``balanced``, whoever asks.
    """
    loaded = memory.value("S3")
    for preference in ORDERS:
        if preference == loaded:
            return advisor_order(memory.route, preference)
    return advisor_order(memory.route, None)
