"""Built-in agent: an offline, deterministic adviser in Chinese and English that answers from templates."""

import time
from collections.abc import Callable
from itertools import product
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from memfin.agents.builtin.compliance import compliance_rules, find_violations, without_violations
from memfin.agents.builtin.knowledge import Knowledge, Question, Topic, knowledge, understand
from memfin.agents.builtin.memory import ClientFile, ClientState, Heard, decode_state
from memfin.agents.builtin.profile import (
    LEVEL_FIELDS,
    Ban,
    ClientProfile,
    Statement,
    position_lines,
    rules_out,
)
from memfin.agents.protocol import Observer, Session
from memfin.memory.slices import LoadedMemory
from memfin.scoring import predicates as kinds
from memfin.scoring.predicates import AllowedUniverse, Predicate
from memfin.text.bm25 import terms

T = TypeVar("T")

STOCK_FALL: Final = 0.50  # assumed in the stress case, as is that of bonds
BOND_FALL: Final = 0.05
_WHOLE: Final = 100
_SLACK: Final = 1e-6
_CLASSES: Final = ("cash", "bond", "equity")
# Target shares of cash and stocks by risk level, and the part of the latter that a horizon leaves.
_TARGETS: Final = {"low": (20, 15), "medium": (15, 35), "high": (10, 65)}
_STOCKS: Final = {"short": 0.0, "medium": 0.5, "long": 1.0}
_LIQUID_CASH: Final = 30
_BANNED_CLASSES: Final = {"stocks": "equity", "债券": "bond", "bonds": "bond"}
_EXCERPT: Final = 200
_NAMED: Final = 2  # constraints that one answer names; the others take their turn later
_DEPTHS: Final = {"quick": (1, 0), "standard": (2, 3), "deep": (4, 6)}  # facts and steps of an answer at most
_QUOTED: Final = 80


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
    least: dict[str, float] = dict.fromkeys(_CLASSES, 0.0)
    most: dict[str, float] = dict.fromkeys((*_CLASSES, "loss"), 100.0)
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
    if profile.max_acceptable_loss is not None:
        most["loss"] = _WHOLE * profile.max_acceptable_loss
    return least, most


class Draft(NamedTuple):
    """An answer before its check, its kinds of disclosures, and a warning where it suits badly."""

    text: str
    disclosures: tuple[str, ...] = ()
    warning: str | None = None


class BuiltinAgent:
    """A deterministic adviser that remembers, explains, allocates and refuses; every draft is checked.

    It knows from the start what the client has `saved` in a memory store (`BuiltinAgents`).
    """

    def __init__(self, session: Session, observer: Observer, saved: LoadedMemory | None = None) -> None:
        self._observer = observer
        self._client = ClientFile(session, saved)
        self._facts, self._steps = _DEPTHS[self._client.depth]
        for language in ("zh", "en"):  # no file is read later
            knowledge(language)
            compliance_rules(language)

    @property
    def _known(self) -> Knowledge:
        return knowledge(self._client.language)

    async def reply(self, user_text: str) -> str:
        """Answer the client's words and observe recall, tools, compliance and profile."""
        client, size = self._client, {"text_length": len(user_text)}
        heard = self._tool("profile_extractor", size, lambda: client.hear(user_text))
        self._observer.recall(**client.recall_observation(heard))
        question = understand(heard, self._known, next(reversed(self._client.topics), None))
        reply = self._checked(self._draft(heard, question), self._confirmation(heard.statements))
        self._observer.profile(**client.profile_observation())
        return reply

    async def commit(self, assistant_text: str) -> None:
        """Put a reply into the history: the agent's own, or the reference in forced history."""
        self._client.memory.record(assistant_text)

    def snapshot(self) -> bytes:
        """Return the full state between turns; an agent restored from it answers the same."""
        return msgspec.msgpack.encode(self._client.state())

    def carry(self) -> bytes:
        """Return the client file for the next session."""
        return self._client.carry()

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot; raise `StateError` when the bytes are none."""
        self._client.load(decode_state(state, ClientState))

    def _draft(self, heard: Heard, question: Question) -> Draft:
        match question.intent:
            case "recall":
                return Draft(self._recalled(heard), ("boundary",))
            case "small_talk":
                return Draft(self._say("small_talk"))
            case "none":
                return Draft(self._summary(), ("general", "boundary"))
            case "unknown":
                return Draft(self._say("unknown") + self._say("unknown_offer"), ("boundary",))
        name = "allocation" if question.intent == "allocate" else question.topics[0]
        topic = self._tool("knowledge_lookup", {"topic": name}, lambda: self._known.topics[name])
        conflict = self._conflict(topic, question.keywords)
        ties, warning = self._ties(topic, conflict)
        text = self._allocation() if question.intent == "allocate" else self._explanation(topic)
        numbered = enumerate(topic.steps[: self._steps], 1)
        steps = [self._say("step", number=at, step=step) for at, step in numbered]
        text += ties + ("" if conflict or not steps else self._say("steps", steps=self._joined(steps)))
        self._client.topics.append(name)
        return Draft(text, (topic.disclosure, "boundary"), warning)

    def _checked(self, draft: Draft, opening: str) -> str:
        """Return the draft as it may be given: without forbidden sentences, with its disclosures."""
        kinds = {"kinds": [*draft.disclosures]}
        texts = self._tool("risk_template", kinds, lambda: [*map(self._variant, draft.disclosures)])
        match self._client.order:
            case "risk_first":
                parts = [opening, *texts, draft.text]
            case "permission_or_credential":  # the boundary, which is the last
                parts = [opening, *texts[-1:], draft.text, *texts[:-1]]
            case _:
                parts = [opening + draft.text, *texts]
        parts = [part.strip() for part in parts if part.strip()]
        reply = "".join(f"{part} " if part.endswith((".", "?")) else part for part in parts).strip()
        rules = compliance_rules(self._client.language)
        found = left = find_violations(reply, rules)
        if found:
            reply = without_violations(reply, rules).strip() or self._say("unknown").strip()
            left = find_violations(reply, rules)
        self._observer.compliance(
            is_compliant=not left,
            needs_modification=bool(found),
            violations=left,
            risk_disclaimer_added=bool(texts),
            suitability_warning=draft.warning,
        )
        return reply

    def _tool(self, name: str, args: dict[str, Any], call: Callable[[], T]) -> T:
        """Return the result of a tool, and observe the call."""
        start = time.perf_counter()
        result = call()
        excerpt = msgspec.json.encode(result).decode()[:_EXCERPT]
        latency = (time.perf_counter() - start) * 1000
        self._observer.tool(tool_name=name, args=args, result_excerpt=excerpt, latency_ms=latency)
        return result

    def _say(self, phrase: str, **values: object) -> str:
        text: str = self._known.wording["phrases"][phrase]
        return text.format(**values)

    def _joined(self, parts: list[str], mark: str = "join") -> str:
        return self._say(mark).join(parts)

    def _variant(self, kind: str) -> str:
        """Return a disclosure of a kind, another one every turn."""
        variants: list[str] = self._known.wording["disclosures"][kind]
        return variants[self._client.memory.turn_index % len(variants)]

    def _constraints(self) -> list[str]:
        return list(dict.fromkeys(found.words for found in self._client.profile.constraints))

    def _profile_lines(self) -> list[str]:
        label = self._client.rules.labels["constraint"]
        constraints = [f"{label}: {words}" for words in self._constraints()]
        position = self._client.saved_position
        lines = [f"{self._client.rules.labels['position']}: {position}"] if position else []
        lines += position_lines(self._client.profile, self._client.rules)
        if horizon := self._client.saved_horizon:  # in the client's words, of a known level or of none
            label = f"{self._client.rules.labels['horizon']}: "
            lines = [label + horizon, *(line for line in lines if not line.startswith(label))]
        return lines + constraints

    def _confirmation(self, statements: list[Statement]) -> str:
        """Return the sentence that confirms the client's statements of this turn, or nothing."""
        rules, items = self._client.rules, []
        for each in statements:
            words = rules.words[each.value][each.field] if each.value else each.words
            phrase = "item" if each.holds else "item_denied"
            items.append(self._say(phrase, label=rules.labels[each.field], words=words))
        phrase = "noted" if all(each.holds for each in statements) else "corrected"
        return self._say(phrase, items=self._joined(items, "enumerate")) if items else ""

    def _summary(self) -> str:
        """Return the known and the missing facts about the client."""
        lines, rules = self._profile_lines(), self._client.rules
        missing = [rules.labels[field] for field in LEVEL_FIELDS if field not in self._client.profile.levels]
        text = self._say("summary", lines=self._joined(lines)) if lines else ""
        return text + (self._say("missing", fields=self._joined(missing, "enumerate")) if missing else "")

    def _explanation(self, topic: Topic) -> str:
        """Return facts about a topic, others each time it comes up."""
        discussed, count = self._client.topics.count(topic.id), len(topic.facts)
        facts = [topic.facts[(discussed + at) % count] for at in range(min(self._facts, count))]
        phrase = "understood_again" if discussed else "understood"
        opening = (topic.refusal or self._say(phrase, name=topic.name)).strip() + self._say("space")
        reason = self._say("reason", facts=self._joined(facts))
        counter = self._client.order == "counter_first"
        if not topic.benefit:
            return opening + reason
        phrase = "balance_counter" if counter else "balance"
        balance = self._say(phrase, benefit=topic.benefit, risk=topic.risk)
        return opening + (balance + reason if counter else reason + balance)

    def _ties(self, topic: Topic, conflict: str | None) -> tuple[str, str | None]:
        """Return the ties of a topic to the client, and a warning where it does not suit her."""
        levels, words = self._client.profile.levels, self._client.rules.words
        clauses, warning, turn = [], None, self._client.memory.turn_index
        if conflict is not None:
            clauses.append(self._say("constraint_conflict", words=conflict, name=topic.name))
        elif level := levels.get("risk_level"):
            values = {"level": words[level]["risk_level"], "name": topic.name}
            phrase = "level_only" if topic.fits is None else "fits" if level in topic.fits else "does_not_fit"
            warning = self._say("suitability", **values) if phrase == "does_not_fit" else None
            clauses.append(self._say(phrase, **values))
        # A long horizon warns of little and is named every other turn.
        if (horizon := levels.get("horizon")) and (horizon != "long" or turn % 2 == 0):
            word = self._client.saved_horizon or words[horizon]["horizon"]
            clauses.append(self._say(f"horizon_{horizon}", word=word))
        if levels.get("liquidity_need") == "high":
            clauses.append(self._say("liquidity_high"))
        kept = self._constraints()
        if self._client.saved_horizon and not horizon:  # one of no level
            kept.append(self._client.saved_horizon)
        others = [self._say("quote", words=each) for each in kept if each != conflict]
        named = [others[(turn * _NAMED + at) % len(others)] for at in range(min(_NAMED, len(others)))]
        if named:
            clauses.append(self._say("constraint_kept", constraints=self._joined(named)))
        return self._say("ties" if clauses else "nothing_known", ties=self._joined(clauses)), warning

    def _conflict(self, topic: Topic, keywords: list[str]) -> str | None:
        """Return the words of the constraint by which the client excluded a topic, if any."""
        named = [topic.name, *(word for word in topic.keywords if word.lower() in keywords)]

        def excludes(each: Predicate | None) -> bool:
            if isinstance(each, AllowedUniverse):
                return each.universe not in topic.within
            return isinstance(each, Ban) and any(rules_out(each, word) for word in named)

        found = (each.words for each in self._client.profile.constraints if excludes(each.predicate))
        return next(found, None) if topic.fits is not None else None

    def _allocation(self) -> str:
        """Return example weights in words, with their reasons and what they assume."""
        profile, labels = self._client.profile, self._client.rules.labels
        constraints = [self._say("quote", words=words) for words in self._constraints()]
        weights = self._tool("allocation_calculator", {"constraints": constraints}, lambda: allocate(profile))
        if weights is None:
            return self._say("allocation_conflict", constraints=self._joined(constraints))
        assumed = [labels[name] for name in LEVEL_FIELDS[:2] if name not in profile.levels]
        text = self._say("allocation_assumed", fields=self._joined(assumed, "enumerate")) if assumed else ""
        parts = [f"{self._known.wording['names'][name]} {share}%" for name, share in weights.items()]
        text += self._say("allocation_head", parts=self._joined(parts, "enumerate"))
        loss, limit = f"{stress_loss(weights):g}", profile.max_acceptable_loss
        phrase = "allocation_stress" if limit is None else "allocation_within"
        text += self._say(phrase, loss=loss, limit=f"{100 * (limit or 0.0):g}")
        return text + self._say("allocation_reasons")

    def _recalled(self, heard: Heard) -> str:
        """Return an earlier statement of the client: from the profile where it is kept, else from memory."""
        asked = [name for name, pattern in self._known.recall_fields.items() if pattern.search(heard.text)]
        labels = tuple(f"{self._client.rules.labels[name]}: " for name in asked)
        if words := [line for line in self._profile_lines() if line.startswith(labels)]:
            return self._say("recalled_field", words=self._joined(words))
        earlier = [each for each in self._client.memory.exchanges if each.user]
        if asked or not earlier:
            return self._say("nothing_recalled")
        shared = set(terms(heard.text))
        found = max(reversed(earlier), key=lambda each: len(shared.intersection(terms(each.user or ""))))
        return self._say("recalled_text", words=(found.user or "")[:_QUOTED], turn=found.turn_index)
