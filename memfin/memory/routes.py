"""What each route may have of memory: the matrix of routes and slices (memory design §6.3).

A slice that stands in neither column of its route is never loaded on it, whatever there is.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, Literal, get_args

from memfin.contracts import Record
from memfin.contracts.memory import Route, SliceName

Condition = Literal["offered", "asked_for", "of_thread", "drifted"]
"""When an optional slice is wanted: always (``offered``), when the prompt speaks of the user's threads
(``asked_for``), when the task belongs to a thread (``of_thread``), when there is drift (``drifted``)."""


class RoutePlan(Record):
    """The slices of one route, each in the order of injection.

    Attributes:
        required: loaded whenever there is a value.
        optional: loaded when, besides, the slice's condition holds.
    """

    required: tuple[SliceName, ...]
    optional: Mapping[SliceName, Condition] = {}


MATRIX: Final[Mapping[Route, RoutePlan]] = {
    "snapshot": RoutePlan(required=("S1", "S2", "S3"), optional={"S6": "asked_for"}),
    "thread_refresh": RoutePlan(required=("S1", "S2", "S3", "S4", "S5"), optional={"S9": "drifted"}),
    "risk_challenge": RoutePlan(required=("S1", "S3"), optional={"S5": "of_thread"}),
    "pre_execution": RoutePlan(required=("S1", "S2", "S3"), optional={"S7": "offered", "S8": "offered"}),
    "evidence_audit": RoutePlan(required=("S1",)),
    "narrative_mapper": RoutePlan(required=("S1", "S2"), optional={"S6": "offered"}),
    "event_impact_reader": RoutePlan(required=("S1", "S2"), optional={"S6": "offered"}),
}

SLICES: Final[tuple[SliceName, ...]] = get_args(SliceName)
"""All slices in the order of injection."""


def wanted_slices(route: Route, *, prompt: str = "", of_thread: bool = False) -> tuple[SliceName, ...]:
    """Return the slices that a route wants for one task, in the order of injection.

    A slice whose condition is drift is among them; how much drift there is, only its value can tell.

    Args:
        route: one of the seven routes.
        prompt: the user's words, read for whether they speak of her threads.
        of_thread: whether the task belongs to a thread.
    """
    plan = MATRIX[route]
    met: dict[Condition, bool] = {
        "offered": True,
        "drifted": True,
        "of_thread": of_thread,
        "asked_for": "asked_for" in plan.optional.values() and refers_to_threads(prompt),
    }
    wanted = {*plan.required, *(name for name, condition in plan.optional.items() if met[condition])}
    return tuple(name for name in SLICES if name in wanted)


def refers_to_threads(prompt: str) -> bool:
    """Say whether a prompt, Chinese or English, speaks of the user's own threads."""
    return any(pattern.search(prompt) for pattern in _patterns())


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    source = files("memfin").joinpath("data", "memory", "references.toml")
    table = tomllib.loads(source.read_text("utf-8"))
    parts: dict[str, str] = table["parts"]
    return tuple(
        re.compile(re.sub(r"<<(\w+)>>", lambda found: parts[found[1]], text), re.IGNORECASE)
        for texts in table["patterns"].values()
        for text in texts
    )
