"""What is put before the model: system prompt, what memory has, the conversation so far, the question."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from memfin.contracts import RecallTrace, Record, ShortTermTurn
from memfin.memory.tokens import estimate_tokens

MESSAGE_TOKENS: Final = 4
"""What a message takes besides its words: its role and its ends."""


class Exchange(Record):
    """The client's words and the reply that counts as said; None where a turn got none."""

    user: str
    assistant: str | None = None


class Prompt(NamedTuple):
    """The messages of a request, and what did not fit.

    ``kept`` are the utterances of the conversation before the question that are in it, ``trimmed`` the
    number of the oldest turns that are not.
    """

    messages: list[dict[str, Any]]
    kept: list[ShortTermTurn]
    trimmed: int


def utterances(history: Sequence[Exchange]) -> list[ShortTermTurn]:
    """Return a history as utterances, oldest first."""
    said: list[ShortTermTurn] = []
    for exchange in history:
        said.append(ShortTermTurn(role="user", content=exchange.user))
        if exchange.assistant is not None:
            said.append(ShortTermTurn(role="assistant", content=exchange.assistant))
    return said


def build_prompt(
    system: str, context: str, said: Sequence[ShortTermTurn], question: str, budget: int
) -> Prompt:
    """Return the messages within a budget of estimated tokens.

    The oldest turns are left out until the rest fits, each whole: the client's words with the reply.
    System prompt, context and question always stay, whatever they take. Neighbouring messages of the
    same role become one, since many chat templates want the roles to alternate.
    """
    head = f"{system}\n\n{context}" if context else system
    room = budget - _tokens(head) - _tokens(question)
    turns = _turns(said)
    kept: list[list[ShortTermTurn]] = []
    for turn in reversed(turns):
        room -= sum(_tokens(utterance.content) for utterance in turn)
        if room < 0:
            break
        kept.append(turn)
    kept.reverse()
    conversation = [utterance for turn in kept for utterance in turn]
    messages: list[dict[str, Any]] = [{"role": "system", "content": head}]
    for role, content in [*((each.role, each.content) for each in conversation), ("user", question)]:
        if messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n\n{content}"
        else:
            messages.append({"role": role, "content": content})
    return Prompt(messages, conversation, len(turns) - len(kept))


def trimmed_recall(recall: RecallTrace, context: str, kept: Sequence[ShortTermTurn]) -> RecallTrace:
    """Return the recall observation of a prompt that had no room for all of the conversation."""
    words = "\n".join(f"{each.role}: {each.content}" for each in kept)
    packed = "\n\n".join(part for part in (context, words) if part)
    return recall.replace(
        short_term_context=words,
        short_term_turns=list(kept),
        packed_context=packed,
        token_count=estimate_tokens(packed),
    )


def _turns(said: Sequence[ShortTermTurn]) -> list[list[ShortTermTurn]]:
    """Cut a conversation before every utterance of the client."""
    turns: list[list[ShortTermTurn]] = []
    for utterance in said:
        if utterance.role == "user" or not turns:
            turns.append([])
        turns[-1].append(utterance)
    return turns


def _tokens(text: str) -> int:
    return estimate_tokens(text) + MESSAGE_TOKENS
