"""Example weights of cash, bonds and stocks that keep a client's constraints."""

from itertools import product
from typing import Final

from memfin.agents.builtin.profile import ClientProfile
from memfin.scoring import predicates as kinds

STOCK_FALL: Final = 0.50
BOND_FALL: Final = 0.05
"""Assumed falls of stocks and bonds in the stress case."""

_WHOLE: Final = 100
_SLACK: Final = 1e-6
_CLASSES: Final = ("cash", "bond", "equity")
# Target shares of cash and stocks by risk level, and the part of the latter that a horizon leaves.
_TARGETS: Final = {"low": (20, 15), "medium": (15, 35), "high": (10, 65)}
_STOCKS: Final = {"short": 0.0, "medium": 0.5, "long": 1.0}
_LIQUID_CASH: Final = 30
_BANNED_CLASSES: Final = {"stocks": "equity", "债券": "bond", "bonds": "bond"}


def allocate(profile: ClientProfile) -> dict[str, int] | None:
    """Return the whole percents nearest to the targets that keep every constraint, or None where none do."""
    cash, stocks = _TARGETS[profile.levels.get("risk_level", "low")]
    target = int(stocks * _STOCKS[profile.levels.get("horizon", "medium")])
    if profile.levels.get("liquidity_need") == "high":
        cash = max(cash, _LIQUID_CASH)
    least, most = _bounds(profile)

    def feasible(weights: dict[str, int]) -> bool:
        return stress_loss(weights) <= most["loss"] + _SLACK and all(
            least[name] - _SLACK <= share <= most[name] + _SLACK for name, share in weights.items()
        )

    def distance(weights: dict[str, int]) -> tuple[bool, int, int]:
        equity = weights["equity"]
        return equity > target, abs(equity - target), abs(weights["cash"] - cash)

    shares = ((_WHOLE - bond - equity, bond, equity) for bond, equity in product(range(_WHOLE + 1), repeat=2))
    possible = ({"cash": one, "bond": two, "equity": three} for one, two, three in shares if one >= 0)
    return min(filter(feasible, possible), key=distance, default=None)


def stress_loss(weights: dict[str, int]) -> float:
    """Return the loss in percent in the stress case."""
    return round(STOCK_FALL * weights["equity"] + BOND_FALL * weights["bond"], 2)


def _bounds(profile: ClientProfile) -> tuple[dict[str, float], dict[str, float]]:
    """Return the least and the greatest share of each class in percent, and the greatest ``loss``."""
    least, most = dict.fromkeys(_CLASSES, 0.0), dict.fromkeys((*_CLASSES, "loss"), 100.0)
    for found in profile.constraints:
        match found.predicate:
            case kinds.CashFloor(share=float(share)):
                least["cash"] = max(least["cash"], _WHOLE * share)
            case kinds.AssetClassFloor(asset_class=name, share=share):
                least[name] = max(least.get(name, 0.0), _WHOLE * share)
            case kinds.AssetClassCap(asset_class=name, limit=limit):
                most[name] = min(most.get(name, 100.0), _WHOLE * limit)
            case kinds.AllowedUniverse(universe="safe" | "liquid"):
                most["equity"] = 0.0
            case kinds.ForbiddenAsset(term=term) if term in _BANNED_CLASSES:
                most[_BANNED_CLASSES[term]] = 0.0
            case _:
                pass
    if profile.max_acceptable_loss is not None:
        most["loss"] = _WHOLE * profile.max_acceptable_loss
    return least, most
