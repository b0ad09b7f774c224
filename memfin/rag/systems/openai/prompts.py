"""What a model is asked: the instructions, the parts of the document that fit, the question."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from memfin.agents.openai.prompts import LANGUAGES, SystemPrompt
from memfin.judges.fence import fenced
from memfin.memory.tokens import estimate_tokens
from memfin.rag.document import Document
from memfin.rag.language import language_of
from memfin.rag.passages import Passage, PassageIndex, joined, passages_of, units_of

ANSWER_TOKENS: Final = 1_000
FRAME_TOKENS: Final = 200
"""Estimated tokens that are left for the answer, and that the messages take besides their texts."""

MARGIN_TOKENS: Final = 2
"""What a line of the fence takes besides its words."""

_SHIPPED: Final = Path(__file__).parents[3] / "data" / "prompts"


class Chunk(NamedTuple):
    """A passage as the model gets it: the text on each of its pages."""

    parts: tuple[tuple[int, str], ...]
    tokens: int


class Asked(NamedTuple):
    """The messages of a request; ``chunks`` of ``of`` are in them."""

    messages: list[dict[str, Any]]
    chunks: int
    of: int


def shipped_instructions() -> SystemPrompt:
    """Return the instructions that ship with MemFin, in Chinese and English."""
    texts = {name: (_SHIPPED / f"rag-v1.{name}.md").read_text("utf-8") for name in LANGUAGES}
    return SystemPrompt(texts={name: text.strip() for name, text in texts.items()})


class Chunks:
    """The passages of a document, the nearest to a question first."""

    def __init__(self, document: Document) -> None:
        self._passages = passages_of(document)
        self._index = PassageIndex(self._passages)
        self._chunks = [_chunk(passage) for passage in self._passages]

    def messages(self, instructions: str, question: str, budget: int) -> Asked:
        """Return the messages within a budget of estimated tokens.

        The passages are added by falling score until the next does not fit any more, and stand in the
        document's order; a document that fits is there as a whole. Passages that share no word with the
        question come last, in the document's order.
        """
        room = budget - estimate_tokens(instructions) - estimate_tokens(question)
        room -= ANSWER_TOKENS + FRAME_TOKENS
        kept: list[int] = []
        for number in self._by_nearness(question):
            room -= self._chunks[number].tokens
            if room < 0:
                break
            kept.append(number)
        text = "\n".join(self._lines(sorted(kept), language_of(question)))
        # Every call has a nonce of its own, and the same question always the same prompt.
        nonce = hashlib.sha256(f"{question}\f{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        asked = f"{fenced('document', text, nonce)}\n\n{_ASKED[language_of(question)]}{question}"
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": asked}]
        return Asked(messages, len(kept), len(self._chunks))

    def _by_nearness(self, question: str) -> list[int]:
        ranked = [hit.number for hit in self._index.search(units_of(question))]
        near = set(ranked)
        return [*ranked, *(number for number in range(len(self._chunks)) if number not in near)]

    def _lines(self, numbers: list[int], language: str) -> Iterator[str]:
        page: int | None = None
        for number in numbers:
            for on_page, text in self._chunks[number].parts:
                if on_page != page:
                    page = on_page
                    yield _PAGE[language].format(page=page)
                yield text


_PAGE: Final = {"zh": "第 {page} 页", "en": "Page {page}"}
_ASKED: Final = {"zh": "问题：", "en": "Question: "}


def _chunk(passage: Passage) -> Chunk:
    asked, said = ("问：", "答：") if _is_chinese(passage) else ("Q: ", "A: ")
    parts: list[tuple[int, str]] = []
    for lead, sentences in ((asked, passage.asked), (said, passage.said)):
        page: int | None = None
        for sentence in sentences:
            if sentence.page == page:
                parts[-1] = (sentence.page, joined((parts[-1][1], sentence.text)))
            else:
                label = lead if passage.is_pair and page is None else ""
                page = sentence.page
                parts.append((page, label + sentence.text))
    tokens = sum(estimate_tokens(text) + MARGIN_TOKENS for _, text in parts)
    return Chunk(tuple(parts), tokens)


def _is_chinese(passage: Passage) -> bool:
    return language_of(passage.question + passage.answer) == "zh"
