"""Common parts of the contracts: the base struct, finite numbers, closed sets of values."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self, dataclass_transform

import msgspec

TRACE_VERSION: Final = "v1"
TRACE_VERSION_EXTENDED: Final = "v1.1"

_MAX = 1.7976931348623157e308

Finite = Annotated[float, msgspec.Meta(ge=-_MAX, le=_MAX)]
"""A float that is neither NaN nor infinite; JSON has no form for the others."""

Count = Annotated[int, msgspec.Meta(ge=0)]
"""A number of things."""

Bit = Literal[0, 1]
"""An indicator, as the formulas of the trace schema write it."""

Role = Literal["user", "assistant"]
TurnStatus = Literal["ok", "timeout", "error"]
DialogStatus = Literal["ok", "partial", "failed", "skipped"]
ComplianceLabel = Literal["compliant", "minor_violation", "severe_violation"]
Difficulty = Literal["easy", "medium", "hard"]
HistoryMode = Literal["free", "forced"]
ProbeMode = Literal["dataset", "none"]
ClientMode = Literal["scripted", "simulated"]
ProbeFork = Literal["auto", "snapshot", "replay", "session"]
TraceVersion = Literal["v1", "v1.1"]
KeySource = Literal["short_term", "long_term", "profile"]
Language = Literal["zh", "en"]
Level = Literal["low", "medium", "high"]
Horizon = Literal["short", "medium", "long"]
SkipReason = Literal[
    "invalid_json", "not_an_object", "line_too_long", "missing_turns", "missing_profile_gt",
    "invalid_turn_sequence", "missing_gt_tags", "invalid_gt_tags", "duplicate_dialog_id", "invalid_session",
]  # fmt: skip


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An immutable value of the contract.

    Records hold plain data and never themselves, so the garbage collector need not follow them.

    The seed writes its contract as typed dictionaries, so a record also answers item access,
    ``row["dialog_id"]`` is ``row.dialog_id``, and ``get``.
    """

    def __getitem__(self, name: str) -> Any:
        """Return the field of that name; raise KeyError for a name that is no field."""
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the field of that name; the default for a name that is no field and a field left out."""
        value = getattr(self, name) if name in self.__struct_fields__ else default
        return default if value is msgspec.UNSET else value

    def __contains__(self, name: object) -> bool:
        """Return True if the record has a field of that name."""
        return name in self.__struct_fields__

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the fields, as a dictionary would."""
        return iter(self.__struct_fields__)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields; with item access this makes ``dict(record)`` work."""
        return self.__struct_fields__

    def replace(self, **changes: Any) -> Self:
        """Return a copy with the given fields changed."""
        return msgspec.structs.replace(self, **changes)


def non_finite_path(value: object, path: str = "$") -> str | None:
    """Return the path of the first NaN or infinite number inside plain data, or None.

    Free-form parts of the contract (tool arguments, profile snapshots, violations) have no field
    types that could refuse such numbers, and msgspec would write them as ``null``.
    """
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if isinstance(value, dict):
        parts = ((f"{path}.{key}", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{path}[{index}]", item) for index, item in enumerate(value))
    else:
        return None
    return next((found for where, item in parts if (found := non_finite_path(item, where))), None)
