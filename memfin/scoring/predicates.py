"""Predicates of client constraints in canonical form.

The structs are frozen and hashable, and constraints of one meaning compare equal. Shares are fractions of
one, durations years, amounts units of the client's currency. `memfin.scoring.constraint_texts` reads them off
texts.
"""

from typing import Literal

import msgspec

Rating = Literal["AAA", "AA+", "AA", "A", "BBB"]
"""Lowest rating allowed. 高等级 means AA+ and better, as the domestic bond market uses the word; investment
grade, as the international one does, BBB and better."""


class _Base(msgspec.Struct, frozen=True, tag_field="kind", order=True):
    """Base of the predicates: tagged, immutable values."""


class ForbiddenPractice(_Base, frozen=True, tag="forbidden_practice"):
    """A way of investing the client rules out (``leverage``, ``chasing_rallies``, ...)."""

    term: str


class ForbiddenAsset(_Base, frozen=True, tag="forbidden_asset"):
    """An asset the client rules out; ``term`` is a vocabulary id, or the text for an unknown asset."""

    term: str


class MaxDrawdown(_Base, frozen=True, tag="max_drawdown"):
    """The portfolio may lose at most this share."""

    limit: float


class MaxVolatility(_Base, frozen=True, tag="max_volatility"):
    """The portfolio's annual volatility is at most this share."""

    limit: float


class MaxLoss(_Base, frozen=True, tag="max_loss"):
    """The portfolio may lose at most this amount."""

    amount: float


class SingleAssetCap(_Base, frozen=True, tag="single_asset_cap"):
    """No single holding, or with ``scope`` fund no single fund, above this share."""

    limit: float
    scope: Literal["asset", "fund"]


class MaxPosition(_Base, frozen=True, tag="max_position"):
    """No single holding or purchase of more than this amount."""

    amount: float


class AssetClassCap(_Base, frozen=True, tag="asset_class_cap"):
    """All holdings of the class together at most this share."""

    asset_class: str
    limit: float


class AssetClassFloor(_Base, frozen=True, tag="asset_class_floor"):
    """All holdings of the class together at least this share."""

    asset_class: str
    share: float


class CashFloor(_Base, frozen=True, tag="cash_floor"):
    """Cash of at least this share, of at least this amount, or for this many months of spending."""

    share: float | None = None
    amount: float | None = None
    months: float | None = None


class AllowedUniverse(_Base, frozen=True, tag="allowed_universe"):
    """Nothing outside the universe.

    ``safe`` is government bonds and deposits, ``liquid`` these and money market funds.
    """

    universe: Literal["public_funds", "index_funds", "safe", "liquid"]


class MinRating(_Base, frozen=True, tag="min_rating"):
    """Credit bonds of this rating or better; ``scope`` main asks it of the larger part only."""

    rating: Rating
    scope: Literal["all", "main"] = "all"


class MaxDuration(_Base, frozen=True, tag="max_duration"):
    """The bonds' duration in years is at most this."""

    years: float


class MinHolding(_Base, frozen=True, tag="min_holding"):
    """Holdings are kept at least this many years."""

    years: float


class MaxLockUp(_Base, frozen=True, tag="max_lock_up"):
    """Nothing that is locked up for longer than this many years."""

    years: float


class MaxPremium(_Base, frozen=True, tag="max_premium"):
    """Insurance premiums of at most this amount per year."""

    amount: float


class MaxInstalment(_Base, frozen=True, tag="max_instalment"):
    """Regular investments of at most this amount per month, all together, or at a time."""

    amount: float
    every: Literal["month", "time"] = "month"


class MaxFee(_Base, frozen=True, tag="max_fee"):
    """No product whose costs per year, all of them or its management fee, are above this share."""

    limit: float
    scope: Literal["all", "management"] = "all"


class MaxTurnover(_Base, frozen=True, tag="max_turnover"):
    """Holdings are changed at most so many times per year."""

    times: float


class MaxHoldings(_Base, frozen=True, tag="max_holdings"):
    """At most so many products at a time."""

    count: int


class MinHoldings(_Base, frozen=True, tag="min_holdings"):
    """At least so many products at a time."""

    count: int


class MaxBudget(_Base, frozen=True, tag="max_budget"):
    """At most this amount is invested altogether."""

    amount: float


class MaxRiskLevel(_Base, frozen=True, tag="max_risk_level"):
    """No product above this level of the domestic scale from R1 to R5."""

    level: int


class LowFee(_Base, frozen=True, tag="low_fee"):
    """Funds with low fees come first."""


class Preferred(_Base, frozen=True, tag="preferred"):
    """A wish among the constraints; ``term`` is a canonical preference or normalized text."""

    term: str


class NoConstraint(_Base, frozen=True, tag="no_constraint"):
    """The client states that there is no constraint."""


Predicate = (
    ForbiddenPractice | ForbiddenAsset | MaxDrawdown | MaxVolatility | MaxLoss | SingleAssetCap
    | MaxPosition | AssetClassCap | AssetClassFloor | CashFloor | AllowedUniverse | MinRating
    | MaxDuration | MinHolding | MaxLockUp | MaxPremium | MaxInstalment | MaxFee | MaxTurnover
    | MaxHoldings | MinHoldings | MaxBudget | MaxRiskLevel | LowFee | Preferred | NoConstraint
)  # fmt: skip
"""Every kind of constraint."""
