"""The client as the builtin agent has come to know her, from her own words and nothing else."""

from typing import Any, Final

from memfin.agents.builtin.extraction import Statement
from memfin.agents.builtin.rules import LEVEL_FIELDS, ProfileRules
from memfin.contracts import Record

_MANY: Final = frozenset({"forbidden", "class_cap", "class_floor"})
"""Kinds of constraint that hold once per asset; of every other kind the last statement stands."""

_MOST_KEPT: Final = 24
"""Constraints and preferences kept each, the newest: nobody has more, and a turn's cost stays flat."""


class Level(Record):
    """A classified field: its level (``low``, ``short``, ...) and the words it was read from."""

    value: str
    words: str


class Constraint(Record):
    """A constraint in the client's words, and what of it can be calculated with."""

    words: str
    kind: str
    asset: str | None = None
    amount: float | None = None


class Preference(Record):
    """An investment the client said she likes, in her words, with its canonical name if it has one."""

    words: str
    asset: str | None = None


class ClientProfile(Record):
    """What is known about the client; None and empty mean that she has not said."""

    risk_level: Level | None = None
    horizon: Level | None = None
    liquidity_need: Level | None = None
    constraints: list[Constraint] = []
    preferences: list[Preference] = []
    principal: float | None = None

    def after(self, statements: list[Statement]) -> "ClientProfile":
        """Return the profile with new statements taken in; later ones override earlier ones."""
        profile = self
        for statement in statements:
            profile = _with(profile, statement)
        return profile

    @property
    def max_acceptable_loss(self) -> float | None:
        """Return the largest loss she accepts as a fraction, the tightest of what she said."""
        limits = [
            found.amount
            for found in self.constraints
            if found.kind == "max_drawdown" and found.amount is not None
        ]
        limits += [0.0 for found in self.constraints if found.kind == "no_loss"]
        if self.principal:
            limits += [
                round(found.amount / self.principal, 6)
                for found in self.constraints
                if found.kind == "max_loss_amount" and found.amount is not None
            ]
        return min((limit for limit in limits if limit <= 1.0), default=None)

    @property
    def forbidden(self) -> list[str]:
        """Return the canonical names of what she does not want."""
        return [found.asset for found in self.constraints if found.kind == "forbidden" and found.asset]

    def known(self) -> bool:
        """Return whether she has said anything about herself yet."""
        return bool(
            self.risk_level or self.horizon or self.liquidity_need or self.constraints or self.preferences
        )


def _with(profile: ClientProfile, said: Statement) -> ClientProfile:
    if said.field in LEVEL_FIELDS:
        current: Level | None = getattr(profile, said.field)
        if said.holds:
            return profile.replace(**{said.field: Level(value=said.value, words=said.words)})
        # "I am not conservative" takes the level back; which one holds instead, she has not said.
        if current is not None and current.value == said.value:
            return profile.replace(**{said.field: None})
        return profile
    if said.field == "principal":
        return profile.replace(principal=said.amount)
    if said.field == "preference":
        return _with_preference(profile, said)
    return _with_constraint(profile, said)


def _with_preference(profile: ClientProfile, said: Statement) -> ClientProfile:
    others = [found for found in profile.preferences if found.words.casefold() != said.words.casefold()]
    if not said.holds:
        return profile.replace(
            preferences=[found for found in others if said.asset is None or found.asset != said.asset]
        )
    lifted = [
        found
        for found in profile.constraints
        if not (found.kind == "forbidden" and said.asset and found.asset == said.asset)
    ]
    kept = [*others, Preference(words=said.words, asset=said.asset)][-_MOST_KEPT:]
    return profile.replace(preferences=kept, constraints=lifted)


def _with_constraint(profile: ClientProfile, said: Statement) -> ClientProfile:
    by_asset = said.value in _MANY
    others = [
        found
        for found in profile.constraints
        if found.kind != said.value or (by_asset and found.asset != said.asset)
    ]
    if not said.holds:
        return profile.replace(constraints=others)
    new = Constraint(words=said.words, kind=said.value, asset=said.asset, amount=said.amount)
    preferences = profile.preferences
    if said.value == "forbidden" and said.asset:
        preferences = [found for found in preferences if found.asset != said.asset]
    return profile.replace(constraints=[*others, new][-_MOST_KEPT:], preferences=preferences)


def profile_lines(profile: ClientProfile, rules: ProfileRules) -> list[str]:
    """Return the profile as labelled lines: canonical words for levels, the client's own for the rest."""
    labels = rules.labels
    return [
        *_level_lines(profile, rules),
        *(f"{labels['constraint']}: {found.words}" for found in profile.constraints),
        *_preference_lines(profile, rules),
        *_amount_lines(profile, rules),
    ]


def position_lines(profile: ClientProfile, rules: ProfileRules) -> list[str]:
    """Return all of the profile but its constraints as labelled lines, the newest preference first."""
    preferences = _preference_lines(profile, rules)[::-1]
    return [*_level_lines(profile, rules), *_amount_lines(profile, rules), *preferences]


def _level_lines(profile: ClientProfile, rules: ProfileRules) -> list[str]:
    labels = rules.labels
    lines = []
    for field in LEVEL_FIELDS:
        level: Level | None = getattr(profile, field)
        if level is not None:
            word = rules.level_word(field, level.value)
            own = f" ({labels['own_words']}: {level.words})" if level.words != word else ""
            lines.append(f"{labels[field]}: {word}{own}")
    return lines


def _preference_lines(profile: ClientProfile, rules: ProfileRules) -> list[str]:
    return [f"{rules.labels['preference']}: {found.words}" for found in profile.preferences]


def _amount_lines(profile: ClientProfile, rules: ProfileRules) -> list[str]:
    labels = rules.labels
    lines = []
    if (loss := profile.max_acceptable_loss) is not None:
        lines.append(f"{labels['max_acceptable_loss']}: {100 * loss:.4g}%")
    if profile.principal is not None:
        lines.append(f"{labels['principal']}: {profile.principal:.12g}")
    return lines


def profile_snapshot(profile: ClientProfile) -> dict[str, Any]:
    """Return the fields of a profile observation; a level that was not stated is ``unknown``."""

    def level(known: Level | None) -> str:
        return known.value if known is not None else "unknown"

    return {
        "risk_level": level(profile.risk_level),
        "investment_horizon": level(profile.horizon),
        "liquidity_need": level(profile.liquidity_need),
        "preferred_topics": [found.words for found in profile.preferences],
        "forbidden_assets": profile.forbidden,
        "max_acceptable_loss": profile.max_acceptable_loss,
        "constraints": [found.words for found in profile.constraints],
        "principal": profile.principal,
    }
