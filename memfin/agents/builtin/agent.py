"""The builtin agent: an offline adviser whose replies follow from the dialogue and nothing else."""

import time
from typing import Any, Final, NamedTuple

import msgspec

from memfin.agents.builtin import answers
from memfin.agents.builtin.allocation import allocate
from memfin.agents.builtin.answers import Speaker
from memfin.agents.builtin.arithmetic import Growth, compute_growth
from memfin.agents.builtin.client import ClientFile, ClientState, Heard, decode_state
from memfin.agents.builtin.compliance import (
    compliance_rules,
    find_violations,
    without_violations,
)
from memfin.agents.builtin.knowledge import Knowledge, Question, Topic, knowledge, understand
from memfin.agents.builtin.ties import Ties, tie
from memfin.agents.protocol import Observer, Session
from memfin.contracts import Language, Record

_LANGUAGES: Final[tuple[Language, ...]] = ("zh", "en")
_EXCERPT: Final = 200
_NS_PER_MS: Final = 1e6


class Draft(NamedTuple):
    """An answer before its check: what it says, its disclosure, and a warning where it suits badly."""

    text: str
    disclosure: str = ""
    warning: str | None = None


class BuiltinState(Record):
    """The agent between two turns: the client file, and how often each topic came up."""

    client: ClientState
    discussed: dict[str, int]
    last_topic: str | None


class BuiltinAgent:
    """An adviser that remembers, explains, calculates and refuses what must be refused.

    It reads the client's profile from her own words, recalls earlier exchanges, answers from a small
    body of knowledge in Chinese and English, and checks each draft before it is given. The same
    dialogue gives the same replies; only the latencies it reports vary.
    """

    def __init__(self, session: Session, observer: Observer) -> None:
        self._observer = observer
        self._client = ClientFile(session)
        self._knowledge: dict[Language, Knowledge] = {name: knowledge(name) for name in _LANGUAGES}
        for name in _LANGUAGES:
            compliance_rules(name)
        self._discussed: dict[str, int] = {}
        self._last_topic: str | None = None

    async def reply(self, user_text: str) -> str:
        """Answer the client's words and observe recall, tools, compliance and profile."""
        start = time.perf_counter_ns()
        heard = self._client.hear(user_text)
        self._tool(
            "profile_extractor",
            {"text_length": len(user_text), "language": heard.language},
            [f"{said.field}={said.value}" for said in heard.statements],
            start,
        )
        self._observer.recall(**self._client.recall_observation(heard))
        known = self._knowledge[heard.language]
        question = understand(heard, known, self._last_topic)
        speaker = Speaker(self._client.profile, known, self._client.rules)
        reply = self._checked(self._draft(heard, question, speaker), heard.language)
        self._observer.profile(**self._client.profile_observation())
        return reply

    async def commit(self, assistant_text: str) -> None:
        """Put a reply into the history: the agent's own, or the reference in forced history."""
        self._client.memory.record(assistant_text)

    async def close(self) -> None:
        """End the session; the agent holds nothing that needs closing."""

    def snapshot(self) -> bytes:
        """Return the full state between turns; an agent restored from it answers the same."""
        return msgspec.msgpack.encode(
            BuiltinState(client=self._client.state(), discussed=self._discussed, last_topic=self._last_topic)
        )

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot; raise `StateError` when the bytes are none."""
        restored = decode_state(state, BuiltinState)
        self._client.load(restored.client)
        self._discussed, self._last_topic = dict(restored.discussed), restored.last_topic

    def _draft(self, heard: Heard, question: Question, speaker: Speaker) -> Draft:
        """Return the answer before its check."""
        opening = answers.acknowledge(heard, speaker)
        growth = self._growth(heard.text)
        if growth is not None:
            draft = Draft(
                answers.present_growth(growth, speaker.known), self._disclosure("general", speaker.known)
            )
        else:
            draft = self._answer(heard, question, speaker)
        return draft._replace(text=opening + draft.text)

    def _answer(self, heard: Heard, question: Question, speaker: Speaker) -> Draft:
        known = speaker.known
        match question.intent:
            case "recall":
                text = answers.answer_recall(heard, self._client.memory.first(), speaker)
                return Draft(text, self._boundary(known))
            case "small_talk":
                return Draft(known.phrases["small_talk"])
            case "none":
                return Draft(answers.take_stock(speaker), self._disclosure("general", known))
            case "allocate":
                return self._allocation(question, speaker)
            case "unknown":
                return Draft(answers.unknown(known), self._boundary(known))
        return self._on_topic(question, speaker)

    def _on_topic(self, question: Question, speaker: Speaker) -> Draft:
        topics = self._look_up(question, speaker.known)
        topic = topics[0]
        ties = self._tie(topic, question, speaker)
        if question.intent == "compare":
            other = self._tie(topics[1], question, speaker)
            ties = other if ties.conflict is None and other.conflict is not None else ties
            body = answers.compare(topic, topics[1], ties, speaker)
        else:
            body = answers.explain(topic, ties, speaker, discussed=self._discussed.get(topic.id, 0))
        self._discussed[topic.id] = self._discussed.get(topic.id, 0) + 1
        self._last_topic = topic.id
        return Draft(body, self._disclosure(topic.disclosure, speaker.known), ties.warning)

    def _tie(self, topic: Topic, question: Question, speaker: Speaker) -> Ties:
        turn = self._client.memory.turn_index
        return tie(speaker.profile, topic, question, speaker.known, speaker.rules, turn)

    def _look_up(self, question: Question, known: Knowledge) -> list[Topic]:
        start = time.perf_counter_ns()
        topics = [known.topics[name] for name in question.topics]
        self._tool("knowledge_lookup", {"keywords": question.keywords}, [topic.id for topic in topics], start)
        return topics

    def _growth(self, text: str) -> Growth | None:
        start = time.perf_counter_ns()
        growth = compute_growth(text)
        if growth is not None:
            self._tool("growth_calculator", {"kind": growth.phrase}, growth.numbers, start)
        return growth

    def _allocation(self, question: Question, speaker: Speaker) -> Draft:
        start = time.perf_counter_ns()
        result = allocate(speaker.profile, speaker.rules)
        profile = self._client.profile_observation()
        self._tool(
            "allocation_calculator",
            {name: profile[name] for name in ("risk_level", "investment_horizon", "constraints")},
            result.weights if result.weights is not None else {"conflicting": result.conflicting},
            start,
        )
        topic = speaker.known.topics["allocation"]
        ties = self._tie(topic, question, speaker)
        self._last_topic = topic.id
        text = answers.present_allocation(result, ties, topic, speaker)
        return Draft(text, self._disclosure("general", speaker.known), ties.warning)

    def _disclosure(self, kind: str, known: Knowledge) -> str:
        """Return the disclosure of a kind of product with the boundary statement, varied by turn."""
        start = time.perf_counter_ns()
        turn = self._client.memory.turn_index
        text = known.disclosures[kind][turn % len(known.disclosures[kind])]
        self._tool("risk_template", {"product_type": kind}, text, start)
        return answers.spaced(text) + self._boundary(known)

    def _boundary(self, known: Knowledge) -> str:
        variants = known.disclosures["boundary"]
        return variants[self._client.memory.turn_index % len(variants)]

    def _checked(self, draft: Draft, language: Language) -> str:
        """Return the draft as it may be given: without forbidden sentences, with its disclosure.

        The observation is about the reply that is given; that the draft had to be changed shows in
        ``needs_modification``.
        """
        rules, known = compliance_rules(language), self._knowledge[language]
        text = draft.text.strip()
        reply = answers.spaced(text) + draft.disclosure if draft.disclosure else text
        found = left = find_violations(reply, rules)
        if found:
            reply = without_violations(reply, found).strip() or answers.unknown(known).strip()
            left = find_violations(reply, rules)
        self._observer.compliance(
            is_compliant=not left,
            needs_modification=bool(found),
            violations=[violation.fields() for violation in left],
            risk_disclaimer_added=bool(draft.disclosure),
            suitability_warning=draft.warning,
        )
        return reply

    def _tool(self, name: str, args: dict[str, Any], result: object, start: int) -> None:
        """Observe a tool call that began at a monotonic time in nanoseconds."""
        self._observer.tool(
            tool_name=name,
            args=args,
            result_excerpt=msgspec.json.encode(result).decode()[:_EXCERPT],
            latency_ms=(time.perf_counter_ns() - start) / _NS_PER_MS,
        )
