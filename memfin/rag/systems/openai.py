"""System ``openai:MODEL``: one request per question, with the nearest parts of the document."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from memfin.agents.openai.model import ServedModel, refuse_incomplete, usage_of
from memfin.agents.openai.prompts import SystemPrompt, prompt_from_file, prompt_of, shipped_prompt
from memfin.agents.protocol import AgentSettings
from memfin.client.endpoint import Endpoint
from memfin.client.errors import RequestError
from memfin.client.messages import ChatAnswer, ChatRequest
from memfin.client.structured import FORMATS, REFUSES_FORMAT, InvalidAnswer, read_document, response_format
from memfin.contracts.rag import RagAnswer
from memfin.errors import UsageError
from memfin.judges.prompts import fenced
from memfin.memory.tokens import estimate_tokens
from memfin.rag.document import Document
from memfin.rag.extraction.normalize import language_of
from memfin.rag.passages import Passage, PassageIndex, joined, passages_of
from memfin.rag.systems.protocol import RagReply

_OF_SESSIONS: Final = ("history", "user", "headers", "metadata", "memory")  # settings of agents alone
_FRAME_TOKENS: Final = 1_200  # estimated tokens of the answer, and of the messages besides their texts
_MARGIN_TOKENS: Final = 2  # tokens of a line of the fence besides its words


class Chunks:
    """The passages of a document, the nearest to a question first."""

    def __init__(self, document: Document) -> None:
        passages = passages_of(document)
        self._index = PassageIndex(passages)
        self._chunks = [list(_pieces(passage)) for passage in passages]
        lines = ((estimate_tokens(text) + _MARGIN_TOKENS for _, text in chunk) for chunk in self._chunks)
        self._tokens = [sum(tokens) for tokens in lines]

    def messages(self, instructions: str, question: str, budget: int) -> tuple[list[dict[str, Any]], bool]:
        """Return messages within a budget of estimated tokens, and True if they contain the whole document.

        The passages are added by falling score until the next does not fit any more, and stand in the
        document's order.
        """
        room = budget - estimate_tokens(instructions) - estimate_tokens(question) - _FRAME_TOKENS
        kept: list[int] = []
        for hit in self._index.search(self._index.units(question)):
            room -= self._tokens[hit.number]
            if room < 0:
                break
            kept.append(hit.number)
        language = language_of(question)
        pieces = [piece for number in sorted(kept) for piece in self._chunks[number]]
        lines: list[str] = []
        for page, texts in groupby(pieces, key=lambda piece: piece[0]):
            lines += [_PAGE_LINE[language].format(page=page), *(text for _, text in texts)]
        text = "\n".join(lines)
        # Every call has a nonce of its own, and the same question always the same prompt.
        nonce = hashlib.sha256(f"{question}\f{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        asked = f"{fenced('document', text, nonce)}\n\n{_ASKED[language]}{question}"
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": asked}]
        return messages, len(kept) == len(self._chunks)


_PAGE_LINE: Final = {"zh": "第 {page} 页", "en": "Page {page}"}
_ASKED: Final = {"zh": "问题：", "en": "Question: "}


def _pieces(passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield the text of a passage on each of its pages, the question and the answer labelled."""
    chinese = language_of(passage.question + passage.answer) == "zh"
    labels = ("问：", "答：") if chinese else ("Q: ", "A: ")
    for label, sentences in zip(labels, (passage.asked, passage.body), strict=True):
        lead = label if passage.is_pair else ""
        for page, group in groupby(sentences, key=lambda sentence: sentence.page):
            yield page, lead + joined(sentence.text for sentence in group)
            lead = ""


NAME: Final = "answer"  # of an answer, in requests and errors
MAX_ANSWER_CHARS: Final = 262_144


def _object(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _typed(name: str, *others: str) -> dict[str, Any]:
    return {"type": [name, *others] if others else name}


SCHEMA: Final[dict[str, Any]] = _object(
    answer=_typed("string"),
    abstained=_typed("boolean"),
    amount=_typed("number", "null"),
    amount_breakdown=_or_null({"type": "array", "items": _typed("number")}),
    date=_typed("string", "null"),
    date_range=_or_null(_object(start=_typed("string", "null"), end=_typed("string", "null"))),
    count=_typed("integer", "null"),
    boolean=_typed("boolean", "null"),
    entity=_typed("string", "null"),
    text=_typed("string", "null"),
    evidence={"type": "array", "items": _object(page=_typed("integer", "null"), text=_typed("string"))},
    citation={"type": "array", "items": _object(page=_typed("integer", "null"), quote=_typed("string"))},
)
"""JSON schema of an answer, limited to the features of strict decoding on servers."""

_FIELDS: Final = {field.name: field for field in msgspec.structs.fields(RagAnswer)}


class ModelAnswer(NamedTuple):
    """An answer; ``dropped`` are the malformed fields, ``plain`` is True for a text without JSON."""

    answer: RagAnswer
    dropped: tuple[str, ...] = ()
    plain: bool = False


def read_answer(text: str) -> ModelAnswer:
    """Return the answer of a model: one JSON object, as `read_document` takes it.

    A field that violates the contract is left out; its value is extracted from the words of the answer, as
    for any system. A text that is no JSON object, or one without an answer, is the answer as plain text.
    """
    value = None
    with suppress(InvalidAnswer):
        value = read_document(text, NAME, MAX_ANSWER_CHARS)
    if not isinstance(value, dict) or not isinstance(value.get("answer"), str):
        return ModelAnswer(RagAnswer(answer=text.strip()), plain=True)
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, field in _FIELDS.items():
        if value.get(name) is None:
            continue
        try:
            kept[name] = msgspec.convert(value[name], field.type)
            msgspec.json.encode(kept[name])  # refuses text that cannot be written
        except (msgspec.ValidationError, ValueError, OverflowError, RecursionError):
            kept.pop(name, None)
            dropped.append(name)
    if "answer" not in kept:  # half a surrogate pair
        return ModelAnswer(RagAnswer(answer=text.strip().encode("utf-8", "replace").decode()), plain=True)
    return ModelAnswer(RagAnswer(**kept), tuple(dropped))


class OpenAIRag(ServedModel):
    """A model that answers from the parts of a document that fit into its prompt.

    ``memfin bench --rag openai:qwen3`` uses it; in Python give it to `BenchmarkRunner` or `load_system`.

    Args:
        model: the model's name, as its server knows it.
        document: the document.
        endpoint: the model's endpoint; None takes ``MEMFIN_AGENT_BASE_URL`` or ``OPENAI_BASE_URL``,
            and ``MEMFIN_AGENT_API_KEY`` or ``OPENAI_API_KEY``.
        system: the instructions; None for those that ship with MemFin.
        temperature, max_tokens, seed: sent with every request; None is not sent.
        context_tokens: estimated tokens of a prompt with its answer.
        timeout: seconds that a request may take, at most.

    Raises:
        UsageError: no model is named, or the endpoint is unusable.
    """

    def __init__(  # noqa: PLR0913 - each setting stands alone and has a default
        self,
        model: str,
        document: Document,
        *,
        endpoint: Endpoint | None = None,
        system: str | SystemPrompt | None = None,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        context_tokens: int = 32_000,
        seed: int | None = 0,
        timeout: float = 3600.0,
    ) -> None:
        super().__init__("rag", model, endpoint, timeout)
        instructions = prompt_of(system) if isinstance(system, str) else system
        self._instructions = instructions or shipped_prompt("rag-v1")
        self._chunks = Chunks(document)
        self._context_tokens = context_tokens
        self._sent: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        self._first_format = 0
        self._notified: set[str] = set()

    @classmethod
    def from_settings(cls, model: str, document: Document, settings: AgentSettings) -> "OpenAIRag":
        """Return the system of ``--rag openai:MODEL``; raise `UsageError` when a setting is unusable."""
        for name in _OF_SESSIONS:
            if settings[name] != AgentSettings()[name]:
                raise UsageError(
                    f"setting agent_{name}: is for agents; a RAG system has no memory and no sessions"
                )
        given = {name: settings[name] for name in ("temperature", "max_tokens", "context_tokens", "seed")}
        system = None if settings.system is None else prompt_from_file(Path(settings.system))
        return cls(model, document, system=system, timeout=settings.turn_timeout, **given)

    async def query(self, question: str) -> RagReply:
        """Return the model's answer with its usage; a refusal in its text is an answer.

        Raises:
            TransportError: the request failed on its way; the question may be asked again.
            CallFailed: the endpoint or the model failed.
        """
        instructions = self._instructions.text(language_of(question))
        messages, is_whole = self._chunks.messages(instructions, question, self._context_tokens)
        if not is_whole:
            self._notify_once(
                "the document does not fit into --agent-context-tokens; the prompt gets its nearest parts"
            )
        answer = await self._answered(messages)
        usage = usage_of(answer)
        self.usage.add(usage)
        refuse_incomplete(answer, self._sent["max_tokens"])
        if answer.refusal is not None and not answer.text.strip():
            return RagReply(answer=RagAnswer(answer=answer.refusal), usage=usage)
        read = read_answer(answer.text)
        if read.plain:
            self._notify_once("answers that are not a JSON object are taken as plain text")
        for name in read.dropped:
            self._notify_once(f"malformed {name} in its answers is left out")
        return RagReply(answer=read.answer, usage=usage)

    @property
    def inputs(self) -> dict[str, Any]:
        """Settings that the answers depend on besides the document, for the fingerprint; no secrets."""
        return {
            "base_url": self._endpoint.base_url,
            "system_prompt_sha256": dict(self._instructions.hashes()),
            "context_tokens": self._context_tokens,
            **self._sent,
        }

    async def close(self) -> None:
        """Close the connections and begin new counts; the next run opens new ones."""
        self._notified.clear()
        await super().close()

    async def _answered(self, messages: list[dict[str, Any]]) -> ChatAnswer:
        """Ask in the best format that the server accepts, and keep it."""
        for place in range(self._first_format, len(FORMATS)):
            request = ChatRequest(
                model=self.model,
                messages=messages,
                response_format=response_format(FORMATS[place], SCHEMA, NAME),
                **self._sent,
            )
            try:
                answer = await self.asked(self.chat.complete, request)
            except RequestError as problem:
                refuses_format = problem.status in REFUSES_FORMAT and problem.kind != "refusal"
                if refuses_format and place + 1 < len(FORMATS):
                    continue
                raise self.error_of(problem) from problem
            if place > self._first_format:
                self._first_format = place
                form = FORMATS[place]
                self._notify_once(f"the server refuses structured answers; they are asked for as {form}")
            return answer
        raise AssertionError("the last format returns or raises")

    def _notify_once(self, line: str) -> None:
        """Send a warning to the user, once per run."""
        if line not in self._notified:
            self._notified.add(line)
            self.notify(line)
