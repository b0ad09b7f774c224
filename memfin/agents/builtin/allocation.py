"""Example weights for cash, bonds and stocks that keep to what the client said she needs.

Whole percents. The weights come from the risk level and the horizon, then give way to every
constraint that weights can express; when no weights meet them all, there is no result.
"""

import math
from typing import Final, NamedTuple

from memfin.agents.builtin.profile import ClientProfile, Constraint
from memfin.agents.builtin.rules import ProfileRules
from memfin.contracts import Record

STOCK_FALL: Final = 0.50
"""Assumed fall of stocks in the stress case, about what broad indices have lost in a crisis."""

BOND_FALL: Final = 0.05
"""Assumed fall of bonds in the stress case."""

CLASSES: Final[tuple[str, ...]] = ("cash", "bond", "equity")

_WHOLE: Final = 100
_BY_LEVEL: Final = {"low": (20, 15), "medium": (15, 35), "high": (10, 65)}
"""Risk level to target shares of cash and stocks; bonds take the rest."""

_SHORT_BONDS: Final = 30
_LIQUID_CASH: Final = 30
_CLASS_OF: Final = {
    "cash": "cash",
    "bond": "bond",
    "equity": "equity",
    "stock": "equity",
    "equity_all": "equity",
}
_WEIGHTED: Final = frozenset(
    {"forbidden", "only", "max_drawdown", "max_loss_amount", "no_loss", "cash_floor", "single_cap"}
    | {"class_cap", "class_floor"}
)


class Split(Record):
    """A cap on single positions and how many positions each class needs to keep it."""

    words: str
    positions: dict[str, int]


class Allocation(Record):
    """Example weights in percent by class, summing to 100, or none where ``conflicting`` says why.

    ``stress_loss`` is the assumed loss of the whole in percent; ``unchecked`` are constraints that
    weights cannot express; ``assumed`` names profile fields a cautious assumption stands in for.
    """

    weights: dict[str, int] | None
    stress_loss: float
    splits: list[Split]
    conflicting: list[str]
    unchecked: list[str]
    assumed: list[str]


class _Bounds(NamedTuple):
    """Lowest and highest share of each class, and the largest loss in percent."""

    low: dict[str, int]
    high: dict[str, int]
    loss: float | None


def allocate(profile: ClientProfile, rules: ProfileRules) -> Allocation:
    """Return example weights for a client."""
    assumed = [field for field in ("risk_level", "horizon") if getattr(profile, field) is None]
    level = profile.risk_level.value if profile.risk_level else "low"
    horizon = profile.horizon.value if profile.horizon else "medium"
    cash, equity = _BY_LEVEL[level]
    bond = _WHOLE
    if horizon == "short":
        bond, equity = _SHORT_BONDS, 0
    elif horizon == "medium":
        equity //= 2
    if profile.liquidity_need is not None and profile.liquidity_need.value == "high":
        cash = max(cash, _LIQUID_CASH)
    bounds = _bounds(profile, rules)
    weights = _solve(bounds, bond=bond, equity=equity, cash=cash)
    considered = [found for found in profile.constraints if _expressible(found, rules)]
    return Allocation(
        weights=weights,
        stress_loss=round(_loss(weights["equity"], weights["bond"]), 2) if weights else 0.0,
        splits=_splits(profile, weights) if weights else [],
        conflicting=[] if weights else [found.words for found in considered],
        unchecked=[found.words for found in profile.constraints if found not in considered],
        assumed=assumed,
    )


def _loss(equity: int, bond: int) -> float:
    return STOCK_FALL * equity + BOND_FALL * bond


def _asset_class(asset: str | None, rules: ProfileRules) -> str | None:
    return _CLASS_OF.get(rules.asset_classes.get(asset or "", ""))


def _expressible(constraint: Constraint, rules: ProfileRules) -> bool:
    """Return whether the weights, or what they are filled with, keep this constraint."""
    if constraint.kind in ("class_cap", "class_floor"):
        return _asset_class(constraint.asset, rules) is not None
    return constraint.kind in _WEIGHTED and (
        constraint.kind != "forbidden" or rules.asset_classes.get(constraint.asset or "") is not None
    )


def _bounds(profile: ClientProfile, rules: ProfileRules) -> _Bounds:
    low: dict[str, int] = dict.fromkeys(CLASSES, 0)
    high: dict[str, int] = dict.fromkeys(CLASSES, _WHOLE)
    for constraint in profile.constraints:
        percent = 100 * (constraint.amount or 0.0)
        name = _asset_class(constraint.asset, rules)
        if constraint.kind == "cash_floor":
            low["cash"] = max(low["cash"], _up(percent))
        elif constraint.kind == "class_floor" and name:
            low[name] = max(low[name], _up(percent))
        elif constraint.kind == "class_cap" and name:
            high[name] = min(high[name], _down(percent))
        elif constraint.kind == "forbidden" and name and _whole_class(constraint.asset, name, rules):
            high[name] = 0
        elif constraint.kind == "only":
            _keep_only(constraint.asset or "", high, rules)
    loss = profile.max_acceptable_loss
    return _Bounds(low, high, None if loss is None else 100 * loss)


def _up(percent: float) -> int:
    return math.ceil(round(percent, 6))


def _down(percent: float) -> int:
    return math.floor(round(percent, 6))


def _whole_class(asset: str | None, name: str, rules: ProfileRules) -> bool:
    """Return whether an asset is the class itself (股票, 债券) and not one kind of it (可转债)."""
    if name == "bond":
        return asset in ("债券", "bonds")
    return rules.asset_classes.get(asset or "") == "equity_all"


def _keep_only(assets: str, high: dict[str, int], rules: ProfileRules) -> None:
    """Close the classes that a client who wants only certain assets leaves out; cash stays open."""
    kinds = {rules.asset_classes.get(asset) for asset in assets.split(rules.words["list"])}
    if "fund_all" in kinds or not kinds & set(_CLASS_OF):
        return
    kept = {_CLASS_OF[kind] for kind in kinds if kind in _CLASS_OF}
    for name in ("bond", "equity"):
        if name not in kept:
            high[name] = 0


def _solve(bounds: _Bounds, *, bond: int, equity: int, cash: int) -> dict[str, int] | None:
    """Return the feasible weights with the largest share of stocks up to the target, or None.

    Where even the target is too few for a floor, the smallest share above it is taken. Bonds take what
    stocks and the target for cash leave, up to the target `bond`.
    """
    low, high, loss = bounds
    first = min(equity, high["equity"])
    candidates = [
        *range(first, low["equity"] - 1, -1),
        *range(max(first + 1, low["equity"]), high["equity"] + 1),
    ]
    for stocks in candidates:
        rest = _WHOLE - stocks
        most = min(high["bond"], rest - low["cash"])
        if loss is not None:
            most = min(most, _down((loss - STOCK_FALL * stocks) / BOND_FALL))
        least = max(low["bond"], rest - high["cash"])
        if least <= most:
            bonds = min(max(min(bond, rest - cash), least), most)
            return {"cash": rest - bonds, "bond": bonds, "equity": stocks}
    return None


def _splits(profile: ClientProfile, weights: dict[str, int]) -> list[Split]:
    """Return how many positions each class needs so that no single one exceeds the client's cap."""
    return [
        Split(
            words=constraint.words,
            positions={
                name: math.ceil(round(share / (100 * constraint.amount), 6))
                for name, share in weights.items()
                if share > 100 * constraint.amount
            },
        )
        for constraint in profile.constraints
        if constraint.kind == "single_cap" and constraint.amount
    ]


def vehicles(profile: ClientProfile, rules: ProfileRules, defaults: dict[str, list[str]]) -> dict[str, str]:
    """Return what each class could be filled with: a preference of the client, or a common choice.

    Nothing the client has ruled out is named; `defaults` lists the common choices by class.
    """
    forbidden = set(profile.forbidden)
    no_funds = any(rules.asset_classes.get(asset) == "fund_all" for asset in forbidden)
    chosen = {}
    for name in CLASSES:
        wanted = [found.words for found in profile.preferences if _asset_class(found.asset, rules) == name]
        for words in (*wanted, *defaults[name]):
            if _allowed(words, forbidden, rules, no_funds=no_funds):
                chosen[name] = words
                break
    return chosen


def _allowed(words: str, forbidden: set[str], rules: ProfileRules, *, no_funds: bool) -> bool:
    named = {rules.asset_names[hit.lastgroup] for hit in rules.assets.finditer(words) if hit.lastgroup}
    return not (named & forbidden or (no_funds and ("基金" in words or "fund" in words)))
