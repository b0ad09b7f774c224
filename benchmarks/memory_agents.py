"""Agents for the leaderboard of memory: they answer with the words of the client that they recall.

No model is asked, so that a figure is that of the memory alone. The state of `Remembering` agents goes from a
client's session to the next; ``memfin run --agent memory_agents:EveryWord`` evaluates one.
"""

from collections import Counter
from typing import ClassVar

import msgspec

from memfin.agents.protocol import Observer, Session
from memfin.text.bm25 import IncrementalBM25, terms

UNKNOWN = {"zh": "您没有告诉过我这一点。", "en": "You have not told me that."}


def ranked(question: str, texts: list[str], most: int) -> list[int]:
    """Return the places of the texts that share words with a question, best first, later ones at a tie."""
    index = IncrementalBM25()
    for text in reversed(texts):
        index.add(Counter(terms(text)))
    return [len(texts) - 1 - match.document for match in index.search(terms(question), most)]


class Remembering:
    """An agent that keeps the client's words; `recalled` is the memory that it looks into."""

    def __init__(self, session: Session, observer: Observer) -> None:
        self._session, self._observer = session, observer
        self._words: list[str] = []
        if session.carried:
            self.restore(session.carried)

    def recalled(self, question: str) -> list[str]:
        """Return the earlier words that are looked into."""
        raise NotImplementedError

    def kept(self) -> list[str]:
        """Return all that is stored."""
        return self._words

    async def reply(self, user_text: str) -> str:
        """Return the words that are recalled."""
        found = self.recalled(user_text)
        self._words.append(user_text)
        self._words = self.kept()
        self._observer.recall(query=user_text, items=[{"content": text} for text in found])
        self._observer.memory(items=[{"content": text} for text in self._words])
        language = "en" if self._session.language.startswith("en") else "zh"
        return "\n".join(found) or UNKNOWN[language]

    async def commit(self, assistant_text: str) -> None:
        """Keep nothing of the reply."""

    def snapshot(self) -> bytes:
        """Return the words kept."""
        return msgspec.msgpack.encode(self._words)

    carry = snapshot

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        self._words = msgspec.msgpack.decode(state, type=list[str])


class EveryWord(Remembering):
    """Looks into all that the client has ever said."""

    def recalled(self, question: str) -> list[str]:
        """Return all words."""
        del question
        return [*self._words]


class Window(Remembering):
    """Keeps the last `SIZE` messages of the client."""

    SIZE: ClassVar = 6

    def recalled(self, question: str) -> list[str]:
        """Return the last words."""
        del question
        return self._words[-self.SIZE :]

    def kept(self) -> list[str]:
        """Return the last words."""
        return self._words[-self.SIZE :]


class Bm25(Remembering):
    """Looks into the `TOP` messages of the client that BM25 ranks first."""

    TOP: ClassVar = 5

    def recalled(self, question: str) -> list[str]:
        """Return the best matches in the order in which they were said."""
        return [self._words[place] for place in sorted(ranked(question, self._words, self.TOP))]


class DoNothing:
    """Says nothing of use."""

    TEXT: ClassVar = {"zh": "好的。", "en": "All right."}

    def __init__(self, session: Session, observer: Observer) -> None:
        del observer
        self._text = self.TEXT["en" if session.language.startswith("en") else "zh"]

    async def reply(self, user_text: str) -> str:
        """Return the same words each time."""
        del user_text
        return self._text

    async def commit(self, assistant_text: str) -> None:
        """Keep nothing."""

    def snapshot(self) -> bytes:
        """Return the state: there is none."""
        return b""

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot, which holds nothing."""


class AlwaysRefusing(DoNothing):
    """Refuses whatever it is asked."""

    TEXT: ClassVar = {"zh": "抱歉，我无法回答这个问题。", "en": "Sorry, I cannot answer that."}


class Thorough(Remembering):
    """Asks for everything first, then repeats all that it heard and names every usual product."""

    ASKS: ClassVar = {
        "zh": "请告诉我：期限多久？能承受多大亏损？有哪些负债？"
        "利率、每月预算、开销、应急储备、随时要用的钱呢？",
        "en": "What are your horizon, the loss you could bear, your debts, the interest rate, "
        "your monthly budget, your expenses and your emergency reserve?",
    }
    ADVISES: ClassVar = {
        "zh": "综上，先还清欠款，不要借钱投资；可以考虑货币基金、国债，"
        "长期的钱用指数基金定投。市场有波动，可能亏损。",
        "en": "So pay off what you owe and do not borrow to invest; a money market fund or Treasury "
        "bills would fit, and an index fund for the long run. Markets fluctuate, and you may lose money.",
    }

    def recalled(self, question: str) -> list[str]:
        """Return a question at first, then all words with the advice."""
        language = "en" if self._session.language.startswith("en") else "zh"
        if not self._words:
            return [self.ASKS[language]]
        return [*self._words, question, self.ADVISES[language]]
