"""What a client states about herself: levels, horizon, constraints, preferences, money.

Every statement comes from the client's words of one turn; questions, suppositions and reports of what
others said state nothing. The rules are in ``memfin/data/agents/profile.*.toml``.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from memfin.agents.builtin.clauses import Clause, about_others
from memfin.agents.builtin.rules import ConstraintRule, LevelField, LevelRule, ProfileRules
from memfin.contracts import Record
from memfin.text.quantities import Quantity, find, quantities

Field = LevelField | Literal["constraint", "preference", "principal"]

_SHORT_YEARS: Final = 0.5
_MEDIUM_YEARS: Final = 2.0
_FEW: Final = re.compile(r"几|\b(?:a few|several|few)\b", re.IGNORECASE)
_LOWER_BOUNDS: Final = frozenset({"cash_floor", "class_floor"})
_HORIZON_WORDS: Final = 40
"""A clause up to this length is kept as the words for a horizon, of a longer one the duration only."""

_MAX_CLAUSE: Final = 600
"""Longer stretches without punctuation are pasted material, not something said about oneself."""


class Statement(Record):
    """One thing the client said about herself.

    ``value`` is the level of a classified field, the constraint's kind, or the words of a
    preference; ``words`` are the client's own; ``asset`` is what a constraint or preference is about,
    by canonical name where it has one; ``amount`` is a fraction, or an amount of money. ``holds`` is
    False when the client takes it back or denies it.
    """

    field: Field
    value: str
    words: str
    asset: str | None = None
    amount: float | None = None
    holds: bool = True


def extract(clauses: list[Clause], rules: ProfileRules) -> list[Statement]:
    """Return the client's statements in the clauses of a turn, in the order they were made."""
    found: list[Statement] = []
    listing = -1
    for clause in clauses:
        if clause.question or clause.hearsay or len(clause.text) > _MAX_CLAUSE:
            continue
        placed: list[tuple[int, Statement]] = list(_constraints(clause, rules))
        if clause.stated:
            taken = [(at, at + len(statement.words)) for at, statement in placed]
            placed.extend(_levels(clause, rules))
            placed.extend(_horizon(clause, rules))
            preferred = list(_preferences(clause, rules, continuing=listing == clause.sentence))
            placed.extend(
                (at, statement)
                for at, statement in preferred
                if not any(start <= at < end for start, end in taken)
            )
            listing = clause.sentence if preferred else -1
            placed.extend(_permissions(clause, rules))
            placed.extend(_principal(clause, rules))
        placed.sort(key=lambda entry: entry[0])
        found.extend(statement for _, statement in placed)
    return found


def _levels(clause: Clause, rules: ProfileRules) -> Iterator[tuple[int, Statement]]:
    for rule in rules.levels:
        for match in rule.phrases.finditer(clause.text):
            group = match.lastgroup or ""
            if group.endswith("_words") and not _speaks_of_herself(clause, match, rule):
                continue
            if about_others(clause, match.start(), rules):
                continue
            denied = rules.reading["negation"].search(clause.text, 0, match.start()) is not None
            yield (
                match.start(),
                Statement(
                    field=rule.field,
                    value=group.removesuffix("_words"),
                    words=match[0],
                    holds=not denied,
                ),
            )


def _speaks_of_herself(clause: Clause, match: re.Match[str], rule: LevelRule) -> bool:
    """Return whether a bare word such as 稳健 is said of the client and not of some product or policy."""
    if rule.not_the_client is not None and rule.not_the_client.search(clause.text):
        return False
    if clause.personal:
        return True
    return rule.by_itself is not None and rule.by_itself.search(clause.text[: match.start()]) is not None


def _horizon(clause: Clause, rules: ProfileRules) -> Iterator[tuple[int, Statement]]:
    table, text = rules.horizon, clause.text
    if table["part_only"].search(text):
        return
    # A few counts as three; blanks keep the offsets.
    for span in quantities(_FEW.sub(lambda few: "3".rjust(len(few[0])), text)):
        if span.kind != "duration" or span.unit == "日":
            continue
        before, after = text[: span.start], text[span.end :]
        if table["not_before"].search(before) or table["not_after"].search(after):
            continue
        if not (table["after"].search(after) or (clause.personal and table["before"].search(before))):
            continue
        if about_others(clause, span.start, rules):
            continue
        yield (
            span.start,
            Statement(
                field="horizon",
                value=_horizon_level(span, text, rules),
                words=text.strip() if len(text) <= _HORIZON_WORDS else text[span.start : span.end],
            ),
        )


def _horizon_level(span: Quantity, text: str, rules: ProfileRules) -> str:
    """Return the horizon a duration stands for; money unused within it stays invested beyond it."""
    table, after = rules.horizon, text[span.end :]
    years = (span.low + span.high) / 2
    beyond = table["above"].search(after) is not None or (
        table["unused"].search(text) is not None and table["above"].search(after) is None
    )
    if years > _MEDIUM_YEARS or (beyond and years >= _MEDIUM_YEARS):
        return "long"
    if years > _SHORT_YEARS or (beyond and years >= _SHORT_YEARS):
        return "medium"
    return "short"


def _constraints(clause: Clause, rules: ProfileRules) -> Iterator[tuple[int, Statement]]:
    lowered = clause.text.lower()
    taken: list[tuple[int, int]] = []
    for rule in rules.constraints:
        if clause.hypothetical and not rule.hypothetical:
            continue
        if rule.needs and not any(sign in lowered for sign in rule.needs):
            continue
        for match in rule.pattern.finditer(clause.text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            if _denied(clause, match, rules) or about_others(clause, match.start(), rules):
                continue
            # "This fund's largest drawdown is 25 %" describes a product and limits nothing.
            if rule.kind != "forbidden" and rules.reading["product"].search(clause.text, 0, match.start()):
                continue
            taken.append(match.span())
            for statement in _constraint(rule, match, rules):
                if rule.kind == "max_loss_amount" or (statement.amount or 0.0) <= 1.0:
                    yield match.start(), statement


def _denied(clause: Clause, match: re.Match[str], rules: ProfileRules) -> bool:
    """Return whether the constraint itself is negated (我不是不买股票)."""
    return rules.reading["negation"].search(clause.text, 0, match.start()) is not None


def _constraint(rule: ConstraintRule, match: re.Match[str], rules: ProfileRules) -> Iterator[Statement]:
    groups = match.groupdict()
    words = match[0].strip()
    kind: Literal["share", "money"] = "share" if groups.get("pct") else "money"
    limit = find(groups.get("pct") or groups.get("money") or "", kind)
    amount = limit and (limit.low if kind == "share" and rule.kind in _LOWER_BOUNDS else limit.high)
    if groups.get("asset") is None:
        yield Statement(field="constraint", value=rule.kind, words=words, amount=amount)
        return
    first = groups["asset"].strip()
    if groups.get("pct"):
        yield Statement(
            field="constraint",
            value=rule.kind,
            words=words,
            asset=rules.asset(first) or first,
            amount=amount,
        )
        return
    more = groups.get("more") or ""
    others = [found[0] for found in rules.assets.finditer(more)]
    if rule.kind == "only":
        names = [rules.asset(name) or name for name in (first, *others)]
        yield Statement(field="constraint", value="only", words=words, asset=rules.words["list"].join(names))
        return
    # Two assets named in one breath are two constraints, each in the words that introduced them.
    said = words[: len(words) - len(more)] if more else words
    for name in (first, *others):
        yield Statement(
            field="constraint",
            value=rule.kind,
            words=said.replace(first, name, 1),
            asset=rules.asset(name) or name,
        )


def _preferences(clause: Clause, rules: ProfileRules, *, continuing: bool) -> Iterator[tuple[int, Statement]]:
    table, text = rules.preference, clause.text
    verb = None
    for candidate in table["verb"].finditer(text):
        if about_others(clause, candidate.start(), rules):
            continue
        verb = candidate
        denied = table["negated"].search(text, 0, candidate.start()) is not None
        yield from _listed(text, candidate.end(), rules, holds=not denied)
    if verb is None and continuing:
        yield from _listed(text, 0, rules, holds=True)


def _listed(text: str, at: int, rules: ProfileRules, *, holds: bool) -> Iterator[tuple[int, Statement]]:
    """Yield the investments listed from an offset on, as long as the list goes on."""
    table = rules.preference
    while True:
        if filler := table["filler"].match(text, at):
            at = filler.end()
        item = rules.item.match(text, at)
        if item is None or table["reject"].search(item[0]):
            return
        words = item[0].strip()
        yield (
            item.start(),
            Statement(field="preference", value=words, words=words, asset=rules.kind_of(words), holds=holds),
        )
        separator = table["separator"].match(text, item.end())
        if separator is None:
            return
        at = separator.end()


def _permissions(clause: Clause, rules: ProfileRules) -> Iterator[tuple[int, Statement]]:
    for match in rules.permission.finditer(clause.text):
        name = rules.asset(next(filter(None, match.groups())))
        if name is not None and not _denied(clause, match, rules):
            yield (
                match.start(),
                Statement(field="constraint", value="forbidden", words=match[0], asset=name, holds=False),
            )


def _principal(clause: Clause, rules: ProfileRules) -> Iterator[tuple[int, Statement]]:
    for match in rules.principal.finditer(clause.text):
        if clause.personal and not about_others(clause, match.start(), rules):
            words = match["money"].strip()
            amount = find(words, "money")
            yield (
                match.start(),
                Statement(field="principal", value=words, words=words, amount=amount and amount.high),
            )
