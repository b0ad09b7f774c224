"""Client profile of the built-in agent, read from the client's own words by patterns and constraint texts."""

import importlib.resources
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache, reduce
from typing import Any, Final, NamedTuple

from memfin.contracts import Language, Record
from memfin.scoring import predicates as kinds
from memfin.scoring.constraint_texts import parse_constraints
from memfin.scoring.predicates import Predicate
from memfin.scoring.profile import canonical_horizon
from memfin.scoring.vocabulary import finder_of, load_vocabulary
from memfin.text.clauses import sentence_bounds
from memfin.text.normalize import normalize
from memfin.text.quantities import quantities

Pattern = re.Pattern[str]
LEVEL_FIELDS: Final = ("risk_level", "horizon", "liquidity_need")
Ban = kinds.ForbiddenAsset | kinds.ForbiddenPractice

# Things to rule out that the vocabulary does not name.
_WHOLE_KINDS: Final = frozenset(("债券", "基金", "指数基金", "bonds", "funds", "mutual funds", "index funds"))
_NOT_KEPT: Final = (kinds.Preferred, kinds.NoConstraint, kinds.MaxBudget, kinds.MaxPosition)
_CLOSING: Final = "”」』\"'）) \n"
_END_MARKS: Final = "。！？!?；;…. \n"
_SHORT: Final = 24  # characters of a clause that is about the client although it names nobody
_MAX_CLAUSE: Final = 600  # longer stretches without punctuation are pasted material
_MAX_KEPT: Final = 24  # constraints and preferences each


class Rules(NamedTuple):
    """The patterns and words of ``profile.<language>.toml``; the groups of ``levels`` are the levels."""

    language: Language
    patterns: dict[str, Pattern]
    levels: dict[str, Pattern]
    words: dict[str, dict[str, str]]
    labels: dict[str, str]


@cache
def data_file(name: str) -> dict[str, Any]:
    """Return a TOML file of ``memfin/data/agents``."""
    source = importlib.resources.files("memfin").joinpath("data", "agents", name)
    return tomllib.loads(source.read_text(encoding="utf-8"))


def compiled(table: dict[str, str]) -> dict[str, Pattern]:
    """Return the patterns of a table, compiled without regard to case."""
    return {name: re.compile(pattern, re.IGNORECASE) for name, pattern in table.items()}


@cache
def profile_rules(language: Language) -> Rules:
    """Return the compiled rules of a language."""
    data = data_file(f"profile.{language}.toml")
    levels = {
        field: "|".join(f"(?P<{level}>{'|'.join(forms)})" for level, forms in table.items())
        for field, table in data["levels"].items()
    }
    return Rules(language, compiled(data["reading"]), compiled(levels), data["words"], data["labels"])


class Clause(NamedTuple):
    """A clause as written and in normal form; ``stated`` and ``personal`` ones are the client's own words."""

    words: str
    text: str
    question: bool
    stated: bool
    personal: bool


class Statement(Record):
    """A statement of the client about herself, taken back where it does not hold."""

    field: str
    words: str
    value: str = ""
    predicate: Predicate | None = None
    amount: float | None = None
    holds: bool = True


def read_clauses(text: str, rules: Rules) -> list[Clause]:
    """Return the clauses of a client's words."""
    reading, clauses = rules.patterns, []
    for start, end in sentence_bounds(text):
        sentence = text[start:end]
        asks = sentence.rstrip(_CLOSING).endswith(("?", "？"))
        personal = reading["first_person"].search(normalize(sentence)) is not None
        parts = [part for part in reading["clause_end"].split(sentence.rstrip(_END_MARKS)) if part.strip()]
        supposing = others = False
        for at, words in enumerate(parts, 1):
            part = normalize(words)
            # A supposition lasts to the end of its sentence; a clause without a subject keeps the last one.
            supposing = supposing or reading["hypothetical"].search(part) is not None
            if mentions := list(reading["others"].finditer(part)):
                others = reading["first_person"].search(part, mentions[-1].end()) is None
            elif reading["first_person"].search(part):
                others = False
            question = (asks and at == len(parts)) or reading["question"].search(part) is not None
            stated = not (question or supposing or others) and len(part) <= _MAX_CLAUSE
            clauses.append(Clause(words, part, question, stated, personal or len(part.strip()) < _SHORT))
    return clauses


def extract(clauses: list[Clause], rules: Rules, profile: "ClientProfile") -> list[Statement]:
    """Return the statements in the clauses of a turn, in order; ``profile`` is what was known before."""
    found: list[Statement] = []
    for clause in clauses:
        if clause.stated:
            if clause.personal:
                found += [*_levels(clause, rules), *_figures(clause, rules)]
            found += [*_preferences(clause, rules)] or [*_constraints(clause, rules, profile)]
    return found


def _levels(clause: Clause, rules: Rules) -> Iterator[Statement]:
    if rules.patterns["not_the_client"].search(clause.text):
        return
    for field, pattern in rules.levels.items():
        for match in pattern.finditer(clause.text):
            denied = rules.patterns["negation"].search(clause.text, 0, match.start()) is not None
            words = clause.words[match.start() : match.end()]
            yield Statement(field=field, value=match.lastgroup or "", words=words, holds=not denied)


def _figures(clause: Clause, rules: Rules) -> Iterator[Statement]:
    """Yield the horizon and the principals that a clause states in figures."""
    cue, not_cue = rules.patterns["horizon_cue"], rules.patterns["horizon_not_cue"]
    found = quantities(clause.text)
    lasting = any(each.kind == "duration" and each.unit != "日" for each in found)
    if lasting and cue.search(clause.text) and not not_cue.search(clause.text):
        yield Statement(field="horizon", value=canonical_horizon(clause.text) or "medium", words=clause.words)
    for amount in found:
        if amount.kind == "money" and rules.patterns["principal"].search(clause.text, 0, amount.start):
            words = clause.words[amount.start : amount.end]
            yield Statement(field="principal", words=words, amount=amount.high)


def _constraints(clause: Clause, rules: Rules, profile: "ClientProfile") -> Iterator[Statement]:
    stated = [each for each in parse_constraints(clause.text) if _is_constraint(each, clause, rules)]
    lifted: list[Predicate] = []
    if not stated and rules.patterns["permission"].search(clause.text):
        lifted += [ban for ban in profile.bans if rules_out(ban, clause.text)]
    words = rules.patterns["lead"].sub("", clause.words.strip())
    for predicate in stated or lifted:
        yield Statement(field="constraint", words=words, predicate=predicate, holds=bool(stated))


def _is_constraint(predicate: Predicate, clause: Clause, rules: Rules) -> bool:
    """Return True if the client states the predicate, and of something known."""
    if isinstance(predicate, Ban):
        return predicate.term in _WHOLE_KINDS or load_vocabulary().term(predicate.term) is not None
    if isinstance(predicate, _NOT_KEPT) or rules.patterns["product"].search(clause.text):
        return False  # "this fund's largest drawdown is 25 %" describes a product
    if isinstance(predicate, kinds.MinHolding | kinds.MaxLockUp):
        return rules.patterns["held"].search(clause.text) is not None
    return max(getattr(predicate, "limit", 0.0), getattr(predicate, "share", None) or 0.0) <= 1.0


def _preferences(clause: Clause, rules: Rules) -> Iterator[Statement]:
    """Yield the investments listed after a word of liking."""
    patterns = rules.patterns
    if verb := patterns["liking"].search(clause.text):
        holds = patterns["disliking"].search(clause.text, 0, verb.start()) is None
        for words in patterns["list_separator"].split(clause.words[verb.end() :]):
            if item := patterns["investment"].search(words):
                yield Statement(field="preference", words=item[0].strip(), holds=holds)


class Constraint(Record):
    """A constraint in the client's words, and its meaning; None for saved words that are not understood."""

    words: str
    predicate: Predicate | None


class ClientProfile(Record):
    """Everything known about the client; ``levels`` are by classified field."""

    levels: dict[str, str] = {}
    constraints: list[Constraint] = []
    preferences: list[str] = []
    principal: float | None = None

    @property
    def bans(self) -> list[Ban]:
        """Everything that she rules out."""
        return [found.predicate for found in self.constraints if isinstance(found.predicate, Ban)]

    @property
    def max_acceptable_loss(self) -> float | None:
        """The largest loss she accepts as a fraction, the tightest one stated."""
        limits = []
        for found in self.constraints:
            if isinstance(found.predicate, kinds.MaxDrawdown):
                limits.append(found.predicate.limit)
            elif isinstance(found.predicate, kinds.MaxLoss) and self.principal:
                limits.append(round(found.predicate.amount / self.principal, 6))
        return min((limit for limit in limits if limit <= 1.0), default=None)

    def after(self, statements: list[Statement]) -> "ClientProfile":
        """Return the profile with new statements taken in; later ones override earlier ones."""
        return reduce(ClientProfile._with, statements, self)

    def _with(self, new: Statement) -> "ClientProfile":
        if new.predicate is not None:
            others = [found for found in self.constraints if _key(found.predicate) != _key(new.predicate)]
            if not new.holds:
                return self.replace(constraints=others)
            kept = [*others, Constraint(words=new.words, predicate=new.predicate)][-_MAX_KEPT:]
            ban = new.predicate if isinstance(new.predicate, Ban) else None
            liked = [words for words in self.preferences if ban is None or not rules_out(ban, words)]
            return self.replace(constraints=kept, preferences=liked)
        if new.field == "preference":
            liked = [words for words in self.preferences if words.casefold() != new.words.casefold()]
            return self.replace(preferences=[*liked, new.words][-_MAX_KEPT:] if new.holds else liked)
        if new.field == "principal":
            return self.replace(principal=new.amount)
        # "I am not conservative" takes the level back; she has not given another one.
        levels = {
            name: level for name, level in self.levels.items() if (name, level) != (new.field, new.value)
        }
        return self.replace(levels=levels | {new.field: new.value} if new.holds else levels)


def saved_profile(position: str, horizon: str, constraints: Iterable[str], rules: Rules) -> ClientProfile:
    """Return the profile of a client's saved words; constraints are kept, understood or not."""
    profile = ClientProfile()
    for words in (position, horizon):
        clauses = [clause._replace(personal=True) for clause in read_clauses(words, rules)]
        profile = profile.after(extract(clauses, rules, profile))
    if level := canonical_horizon(normalize(horizon)):
        profile = profile.replace(levels=profile.levels | {"horizon": level})
    known = [
        Constraint(words=words, predicate=predicate)
        for words in constraints
        for predicate in parse_constraints(normalize(words)) or (None,)
    ]
    return profile.replace(constraints=[*profile.constraints, *known][-_MAX_KEPT:])


def _key(predicate: Predicate | None) -> str:
    """Return the identity of a constraint: the later of two with one key holds."""
    about: str | None = getattr(predicate, "term", None)
    return about or f"{type(predicate).__name__} {getattr(predicate, 'asset_class', '')}"


def rules_out(ban: Ban, text: str) -> bool:
    """Return True if a text names the subject of a ban."""
    form, term = normalize(text), load_vocabulary().term(ban.term)
    names = (*term.names, *term.alone) if term else (ban.term,)
    in_words = any(len(name) > 1 and name in form for name in names)
    return in_words or bool(finder_of(load_vocabulary().closure(ban.term)).find(form))


def _term_name(name: str, language: Language) -> str:
    """Return the name of a vocabulary term in a language."""
    term = load_vocabulary().term(name)
    names = (*term.names, *term.alone, *term.words) if term else ()
    return next((each for each in names if each.isascii() == (language == "en")), name)


def position_lines(profile: ClientProfile, rules: Rules) -> list[str]:
    """Return the profile without its constraints as labelled lines, the newest preference first."""
    labels = rules.labels
    lines = [f"{labels[name]}: {rules.words[level][name]}" for name, level in sorted(profile.levels.items())]
    if (loss := profile.max_acceptable_loss) is not None:
        lines.append(f"{labels['max_acceptable_loss']}: {100 * loss:.4g}%")
    if profile.principal is not None:
        lines.append(f"{labels['principal']}: {profile.principal:.12g}")
    return [*lines, *(f"{labels['preference']}: {words}" for words in reversed(profile.preferences))]


def profile_snapshot(profile: ClientProfile, rules: Rules) -> dict[str, Any]:
    """Return the fields of a profile observation; a level that was not stated is ``unknown``."""
    return {
        "risk_level": profile.levels.get("risk_level", "unknown"),
        "investment_horizon": profile.levels.get("horizon", "unknown"),
        "liquidity_need": profile.levels.get("liquidity_need", "unknown"),
        "preferred_topics": profile.preferences,
        "forbidden_assets": [_term_name(ban.term, rules.language) for ban in profile.bans],
        "max_acceptable_loss": profile.max_acceptable_loss,
        "constraints": list(dict.fromkeys(found.words for found in profile.constraints)),
        "principal": profile.principal,
    }
