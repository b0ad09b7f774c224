"""The data files by which the builtin agent reads a client's words, compiled once a language."""

import functools
import importlib.resources
import re
import tomllib
from typing import Any, Final, Literal, NamedTuple

from memfin.contracts import Language
from memfin.text.forms import COUNT, MONEY, SHARE, SHARE_SIGNS

LevelField = Literal["risk_level", "horizon", "liquidity_need"]
LEVEL_FIELDS: Final[tuple[LevelField, ...]] = ("risk_level", "horizon", "liquidity_need")
"""The classified fields of a profile."""

Pattern = re.Pattern[str]
_PLACEHOLDER: Final = re.compile(r"<<(\w+)>>")


class LevelRule(NamedTuple):
    """The phrases of one classified field; the groups of ``phrases`` are named after the levels.

    A group ``low_words`` holds bare words for a level, which need the client as their subject.
    """

    field: LevelField
    phrases: Pattern
    not_the_client: Pattern | None
    by_itself: Pattern | None


class ConstraintRule(NamedTuple):
    """A form in which clients state constraints of one kind.

    The pattern is only tried on clauses that hold one of the strings in ``needs``, if there are any:
    most clauses state no constraint, and looking for a substring is far cheaper.
    """

    kind: str
    pattern: Pattern
    hypothetical: bool
    needs: tuple[str, ...]


class ProfileRules(NamedTuple):
    """Everything of ``profile.<language>.toml``, compiled."""

    language: Language
    reading: dict[str, Pattern]
    levels: tuple[LevelRule, ...]
    horizon: dict[str, Pattern]
    preference: dict[str, Pattern]
    item: Pattern
    constraints: tuple[ConstraintRule, ...]
    permission: Pattern
    principal: Pattern
    assets: Pattern
    asset_names: dict[str, str]
    asset_classes: dict[str, str]
    words: dict[str, Any]
    labels: dict[str, str]

    def asset(self, words: str) -> str | None:
        """Return the canonical name of an asset as the client called it, or None for an unknown one."""
        found = self.assets.fullmatch(words)
        return self.asset_names[found.lastgroup] if found is not None and found.lastgroup else None

    def kind_of(self, words: str) -> str | None:
        """Return the canonical name of the asset that words end with (国债 of 十年期国债), or None."""
        names = [hit for hit in self.assets.finditer(words) if hit.end() == len(words)]
        return self.asset(words) or (self.asset_names[names[-1].lastgroup or ""] if names else None)

    def level_word(self, field: str, level: str) -> str:
        """Return the dialogue language's canonical word for a level (``low`` is 保守 of risk_level)."""
        word: str = self.words[level][field]
        return word


@functools.cache
def data_file(name: str) -> dict[str, Any]:
    """Return a TOML file of ``memfin/data/agents`` as plain data."""
    source = importlib.resources.files("memfin").joinpath("data", "agents", name)
    return tomllib.loads(source.read_text(encoding="utf-8"))


def _longest_first(words: list[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


@functools.cache
def profile_rules(language: Language) -> ProfileRules:
    """Return the compiled rules of a language."""
    data = data_file(f"profile.{language}.toml")
    boundary = r"\b" if language == "en" else ""
    assets = data["assets"]
    asset_words = _longest_first([word for _, *words in assets.values() for word in words])
    parts: dict[str, str] = {
        "pct": SHARE,
        "count": COUNT,
        "money": MONEY,
        "asset": f"{boundary}(?:{asset_words}){boundary}",
        **data["parts"],
    }

    def build(pattern: str) -> Pattern:
        return re.compile(_PLACEHOLDER.sub(lambda found: parts[found[1]], pattern), re.IGNORECASE)

    levels = []
    for field in LEVEL_FIELDS:
        table = data["levels"][field]
        groups = [
            f"(?P<{name}>{'|'.join(table[name])})"
            for name in ("low", "low_words", "medium", "medium_words", "high", "high_words", "long", "short")
            if name in table
        ]
        levels.append(
            LevelRule(
                field=field,
                phrases=build("|".join(groups)),
                not_the_client=build(table["not_the_client"]) if "not_the_client" in table else None,
                by_itself=build(table["by_itself"]) if "by_itself" in table else None,
            )
        )
    group_names = {f"a{number}": name for number, name in enumerate(assets)}
    alternatives = [f"(?P<{group}>{_longest_first(assets[name][1:])})" for group, name in group_names.items()]
    product = f"{boundary}(?:{_longest_first(data['products']['words'])}){boundary}"
    lead = r"(?:[\w&'+-]+ ){0,3}?" if language == "en" else r"[A-Za-z0-9\u4e00-\u9fff+]{0,8}?"
    tail = r"(?: (?:" + product + "))*" if language == "en" else f"(?:{product}|类)*"
    return ProfileRules(
        language=language,
        reading={name: build(pattern) for name, pattern in data["reading"].items()},
        levels=tuple(levels),
        horizon={name: build(pattern) for name, pattern in data["horizon"].items()},
        preference={name: build(pattern) for name, pattern in data["preference"].items()},
        item=build(f"{lead}{product}{tail}"),
        constraints=tuple(
            ConstraintRule(
                kind=entry["kind"],
                pattern=build(entry["pattern"]),
                hypothetical=entry.get("hypothetical", False),
                needs=tuple(entry.get("needs", SHARE_SIGNS if "(?P<pct>" in entry["pattern"] else ())),
            )
            for entry in data["constraint"]
        ),
        permission=build(data["permission"]["pattern"]),
        principal=build(data["principal"]["pattern"]),
        assets=build("|".join(alternatives)),
        asset_names=group_names,
        asset_classes={name: entry[0] for name, entry in assets.items()},
        words=data["words"],
        labels=data["labels"],
    )
