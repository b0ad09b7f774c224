"""What lies outside the universes that constraints allow: ids of terms of the vocabulary."""

from typing import Final

_FUND_UNIVERSE: Final = (
    "individual_stocks",
    "private_funds",
    "trusts",
    "derivatives",
    "crypto",
    "p2p",
    "st_stocks",
    "single_small_cap",
    "insurance_products",
    "unlisted_equity",
    "direct_bonds",
    "direct_property",
    "physical_gold",
    "bank_wealth",
    "term_deposits",
)
_RISKY: Final = (
    *(term for term in _FUND_UNIVERSE if term not in ("direct_bonds", "term_deposits")),
    "stocks",
    "sector_funds",
    "active_funds",
    "new_funds",
    "precious_metals",
    "commodities",
    "collectibles",
    "real_estate",
    "reits",
    "convertible_bond",
    "credit_bonds",
    "structured_fund",
    "structured_products",
    "bond_funds",
)
OUTSIDE: Final = {
    "public_funds": _FUND_UNIVERSE,
    "index_funds": (*_FUND_UNIVERSE, "active_funds"),
    "safe": (*_RISKY, "money_funds"),
    "liquid": _RISKY,
}
"""The terms that lie outside a universe."""
FUNDS_ONLY: Final = ("public_funds", "index_funds")
"""Universes in which whatever a fund holds is allowed."""
