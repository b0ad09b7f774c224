"""Profiles in canonical form, for M2: the agent's snapshot and the truth.

Implements the values of trace-fields-and-metric-formulas (profile accuracy) and spec section 6. Levels
become ``low/medium/high``, horizons ``short/medium/long``, constraints sets of predicates, preferences
sets of canonical terms. The prediction is read from the agent's ``profile_snapshot`` alone.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeVar

from memfin.contracts import ProfileTruth
from memfin.contracts.base import Horizon, Level
from memfin.scoring.constraint_texts import forbidden, parse_constraint, parse_constraints
from memfin.scoring.predicates import ForbiddenAsset, LowFee, MaxDrawdown, NoConstraint, Predicate, Preferred
from memfin.scoring.vocabulary import load_vocabulary
from memfin.text.normalize import normalize
from memfin.text.quantities import Quantity, bound, quantities


class SnapshotProfile(NamedTuple):
    """A profile in canonical form; None and empty sets mean that nothing is known."""

    risk: Level | None
    horizon: Horizon | None
    liquidity: Level | None
    constraints: frozenset[Predicate | str]
    preferences: frozenset[str]


_NOTHING: Final = SnapshotProfile(None, None, None, frozenset(), frozenset())
_UNKNOWN: Final = frozenset((
    "", "unknown", "unspecified", "undefined", "null", "none", "n/a", "na", "nan", "-", "未知", "不详",
    "未明确", "未指定", "未提及", "暂无", "无",
))  # fmt: skip
_LEVELS: Final[Mapping[Level, tuple[str, ...]]] = {
    "high": (
        *("medium-high", "medium_high", "moderately aggressive", "aggressive", "growth", "high"),
        *("中高", "较高", "稳健偏进取", "积极", "进取", "激进", "成长", "高"),
    ),
    "medium": (
        *("moderate", "balanced", "medium", "mid", "prudent", "steady", "neutral"),
        *("稳健", "平衡", "均衡", "一般", "中"),
    ),
    "low": (
        *("medium-low", "medium_low", "moderately conservative", "conservative", "cautious", "low"),
        *("中低", "较低", "稳健偏保守", "保守", "谨慎", "低"),
    ),
}
_RISK_GRADES: Final[Mapping[str, Level]] = {
    "r1": "low", "r2": "low", "r3": "medium", "r4": "high", "r5": "high",
    "c1": "low", "c2": "low", "c3": "medium", "c4": "high", "c5": "high",
}  # fmt: skip
_GRADE: Final = re.compile(r"(?<![a-z0-9])[rc][1-5](?![0-9])")
_HORIZONS: Final[Mapping[Horizon, tuple[str, ...]]] = {
    "long": (
        *("medium-long", "medium to long", "mid to long", "long"),
        *("中长期", "中长线", "长期", "长线", "长"),
    ),
    "medium": (
        *("short-medium", "short to medium", "medium", "mid", "intermediate"),
        *("短中期", "中短期", "中期", "中线", "中"),
    ),
    "short": ("short", "短期", "短线", "短"),
}
_MONTHS: Final = re.compile(r"(\d+)(?:\s?[-~]\s?(\d+))?\s?月(?!份)")
_Value = TypeVar("_Value", bound=str)
_SHORT_YEARS: Final = 0.5
_LONG_YEARS: Final = 2.0
_SLACK: Final = 1e-6
_LONGEST: Final = 1_000_000
"""No share and no number of years is larger; a profile may hold integers that no float can."""

_RISK_KEYS: Final = (
    "risk_level", "risk_level_gt", "risk", "risk_tolerance", "risk_preference", "risk_profile", "风险等级",
    "风险偏好",
)  # fmt: skip
_HORIZON_KEYS: Final = (
    "investment_horizon", "horizon", "horizon_gt", "time_horizon", "investment_period", "投资期限",
)  # fmt: skip
_LIQUIDITY_KEYS: Final = (
    "liquidity_need", "liquidity", "liquidity_need_gt", "liquidity_needs", "liquidity_requirement",
    "流动性需求",
)  # fmt: skip
_CONSTRAINT_KEYS: Final = (
    "constraints", "constraints_gt", "hard_constraints", "investment_constraints", "restrictions", "约束",
)  # fmt: skip
_FORBIDDEN_KEYS: Final = (
    "forbidden_assets", "forbidden", "forbidden_practices", "excluded_assets", "avoid", "禁投资产",
)  # fmt: skip
_PREFERENCE_KEYS: Final = (
    "preferred_topics", "preferences", "preferences_gt", "preferred_assets", "interests", "偏好",
)  # fmt: skip
_LOSS_KEYS: Final = (
    "max_acceptable_loss", "max_drawdown", "max_loss", "drawdown_limit", "max_acceptable_drawdown",
    "最大回撤",
)  # fmt: skip


_FIELDS: Final = (
    *(_RISK_KEYS, _HORIZON_KEYS, _LIQUIDITY_KEYS, _CONSTRAINT_KEYS),
    *(_FORBIDDEN_KEYS, _PREFERENCE_KEYS, _LOSS_KEYS),
)
_KNOWN: Final = frozenset(name for names in _FIELDS for name in names)
SNAPSHOT_FIELDS: Final = tuple(names[0] for names in _FIELDS)
"""The first name of each field that M2 reads of a snapshot."""


def has_known_field(snapshot: Mapping[str, object]) -> bool:
    """Return True if M2 reads a field of the snapshot."""
    return not _KNOWN.isdisjoint(snapshot)


def canonical_level(value: object) -> Level | None:
    """Return a risk level or liquidity need as ``low``, ``medium`` or ``high``; None when unknown."""
    text = _text(value)
    return None if text is None else _level(text)


@lru_cache(maxsize=4096)
def _level(text: str) -> Level | None:
    grade = _GRADE.search(text)
    if grade is not None:
        return _RISK_GRADES[grade.group()]
    return _longest(text, _LEVELS)


def canonical_horizon(value: object) -> Horizon | None:
    """Return an investment horizon as ``short`` (to 6 months), ``medium`` (to 2 years) or ``long``.

    A range counts by its middle, an open bound by the side it is open to; a bare number is in years.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bucket(float(min(value, _LONGEST))) if value > 0 else None
    text = _text(value)
    return None if text is None else _horizon(text)


@lru_cache(maxsize=4096)
def _horizon(text: str) -> Horizon | None:
    found = [quantity for quantity in quantities(text) if quantity.kind == "duration"]
    if found:
        return _horizon_of(text, found)
    months = _MONTHS.search(text)
    if months is not None:
        low = float(months.group(1)) / 12
        return _bucket((low + float(months.group(2) or months.group(1)) / 12) / 2)
    return _longest(text, _HORIZONS)


def _longest(text: str, words: Mapping[_Value, tuple[str, ...]]) -> _Value | None:
    """Return the value whose longest word stands in the text: 中高 is not 中."""
    found = [(len(word), value) for value, names in words.items() for word in names if word in text]
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _horizon_of(text: str, found: list[Quantity]) -> Horizon:
    low, high = min(quantity.low for quantity in found), max(quantity.high for quantity in found)
    if low == high and bound(text, found[0]) == "at_least" and high >= _LONG_YEARS - _SLACK:
        return "long"
    return _bucket((low + high) / 2)


def _bucket(years: float) -> Horizon:
    if years <= _SHORT_YEARS + _SLACK:
        return "short"
    return "medium" if years <= _LONG_YEARS + _SLACK else "long"


def constraint_terms(values: Iterable[object]) -> frozenset[Predicate | str]:
    """Return the constraints as a set of predicates; what is none stays normalized text.

    无明确约束 states that there is nothing and adds nothing.
    """
    found: set[Predicate | str] = set()
    for value in values:
        text = _text(value)
        if text is None:
            continue
        predicates = parse_constraints(text)
        found.update(each for each in predicates if not isinstance(each, NoConstraint))
        if not predicates:
            found.add(_compact(text))
    return frozenset(found)


def preference_terms(values: Iterable[object]) -> frozenset[str]:
    """Return the preferences as a set of canonical terms; unknown ones stay as normalized text."""
    return frozenset(_preference(text) for value in values if (text := _text(value)) is not None)


def snapshot_values(snapshot: Mapping[str, object]) -> SnapshotProfile:
    """Read a ``profile_snapshot``: levels, forbidden assets, the largest acceptable loss, preferences.

    ``max_acceptable_loss`` is a fraction (0.1), a percentage (10) or a text (10%).
    """
    if not snapshot:
        return _NOTHING
    constraints = set(constraint_terms(_listed(snapshot, _CONSTRAINT_KEYS)))
    for value in _listed(snapshot, _FORBIDDEN_KEYS):
        text = _text(value)
        if text is None:
            continue
        predicates = parse_constraints(text)
        if any(isinstance(each, NoConstraint) for each in predicates):
            continue
        if not predicates or isinstance(predicates[0], LowFee | Preferred):
            named = forbidden(text)
            predicates = () if named is None else (named,)
        constraints.update(predicates)
    loss = _loss(_first(snapshot, _LOSS_KEYS))
    if loss is not None:
        constraints.add(loss)
    return SnapshotProfile(
        risk=canonical_level(_first(snapshot, _RISK_KEYS)),
        horizon=canonical_horizon(_first(snapshot, _HORIZON_KEYS)),
        liquidity=canonical_level(_first(snapshot, _LIQUIDITY_KEYS)),
        constraints=frozenset(constraints),
        preferences=preference_terms(_listed(snapshot, _PREFERENCE_KEYS)),
    )


def truth_values(profile_gt: ProfileTruth) -> SnapshotProfile:
    """Return the true profile in the same form as a snapshot's."""
    return SnapshotProfile(
        risk=canonical_level(profile_gt.risk_level_gt),
        horizon=canonical_horizon(profile_gt.horizon_gt),
        liquidity=canonical_level(profile_gt.liquidity_need_gt),
        constraints=constraint_terms(profile_gt.constraints_gt),
        preferences=preference_terms(profile_gt.preferences_gt),
    )


def _text(value: object) -> str | None:
    """Return a value as normalized text, or None when it says nothing."""
    if value is None or isinstance(value, bool | Mapping):
        return None
    text = " ".join(normalize(str(value)).split())
    return None if text in _UNKNOWN else text


def _first(snapshot: Mapping[str, object], names: Iterable[str]) -> object:
    """Return the first of the fields that says something."""
    for name in names:
        value = snapshot.get(name)
        if isinstance(value, Mapping):
            value = value.get("value")
        if _text(value) is not None:
            return value
    return None


def _listed(snapshot: Mapping[str, object], names: Iterable[str]) -> list[object]:
    """Return the values of all the named fields; a text is split at commas and semicolons."""
    values: list[object] = []
    for name in names:
        value = snapshot.get(name)
        if isinstance(value, str):
            values.extend(part for part in re.split(r"[,;，；、\n]", value) if part.strip())
        elif isinstance(value, Iterable) and not isinstance(value, Mapping):
            values.extend(value)
    return values


def _loss(value: object) -> MaxDrawdown | None:
    if isinstance(value, str):
        text = _text(value)
        if text is None:
            return None
        share = next((quantity for quantity in quantities(text) if quantity.kind == "share"), None)
        if share is not None:
            return MaxDrawdown(round(share.high, 6))
        try:
            value = float(text)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    size = abs(float(max(min(value, _LONGEST), -_LONGEST)))
    if not 0 < size <= 100:  # noqa: PLR2004 - percent
        return None
    return MaxDrawdown(round(size if size < 1 else size / 100, 6))


@cache
def _preference_words() -> tuple[tuple[str, str], ...]:
    words = [(_compact(word), entry.id) for entry in load_vocabulary().preferences for word in entry.words]
    return tuple(sorted(words, key=lambda entry: -len(entry[0])))


_DECORATION: Final = re.compile(
    r"^(?:偏好|喜欢|关注|优先|倾向于?|prefers? )|(?:为主|类资产|类产品|类基金|类|产品|资产|板块|标的|投资)$"
)
_SHORT_WORD: Final = 3


@lru_cache(maxsize=4096)
def _preference(text: str) -> str:
    compact = _compact(text)
    bare = _DECORATION.sub("", compact) or compact
    for word, term in _preference_words():
        if word in (compact, bare):
            return term
    for word, term in _preference_words():
        # Short words (科技, ai, 消费) are too common inside others to stand for the whole.
        if len(word) >= _SHORT_WORD and word in compact and not _negative(compact):
            return term
    return bare


def _negative(text: str) -> bool:
    banned = parse_constraint(text)
    return isinstance(banned, ForbiddenAsset) or "低评级" in text


def _compact(text: str) -> str:
    return re.sub(r"[\s,.;:。、'\"“”()]+", "", normalize(text))
