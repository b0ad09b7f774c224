"""The prompt that asks for a vote on an answer to a question of a benchmark."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from memfin.contracts.rag import RagAnswer, RagJudgeRequest, RagQuestion
from memfin.judges.prompts import Prompt, Section, Templates, masked, one_line, turned

PROMPT_VERSION: Final = "rag-judge-v1"

TEMPLATES: Final = Templates(PROMPT_VERSION)

_WORDS: Final = frozenset({"answer", "evidence", "citation"})
"""Fields of an answer that are no typed value."""


def sections_of(request: RagJudgeRequest) -> list[Section]:
    """Return the untrusted texts of a request by their names, in the order of the first vote."""
    return [
        Section("question", request.question.question),
        Section("expected", _expected(request.question)),
        *(Section(f"page_{page.number}", page.text) for page in request.pages),
        Section("answer", _answer(request.answer)),
    ]


def compose(request: RagJudgeRequest, vote: int) -> Prompt:
    """Return the prompt that asks for a vote, counted from 0.

    Every vote after the first masks who made the answer, and shows the sections in another order.

    Raises:
        TooLong: the texts are longer than a prompt may hold.
    """
    sections = [
        Section(each.name, masked(each.text)) if vote and each.name == "answer" else each
        for each in sections_of(request)
    ]
    return TEMPLATES.prompt(
        request.language,
        turned(sections, vote),
        {"pages": len(request.pages), "left_out": request.pages_left_out},
    )


def _expected(question: RagQuestion) -> str:
    return "\n".join(one_line(line) for line in _expected_lines(question))


def _expected_lines(question: RagQuestion) -> Iterator[str]:
    yield f"should_abstain: {_written(question.should_abstain)}"
    for name, value in _plain(question.expected).items():
        if name == "key_points":
            yield from (f"key_points: {point}" for point in value)
        elif value is not None and name != "evidence_count_min":
            yield f"{name}: {_written(value)}"
    for each in question.required_evidence:
        yield f"required (page {each.page}): {each.must_include}"
    for quote in (question.required_quote, *question.additional_quotes):
        if quote:
            yield f"required: {quote}"
    if question.expected_behavior:
        yield f"expected_behavior: {question.expected_behavior}"


def _answer(answer: RagAnswer) -> str:
    lines = [answer.answer]
    lines += [
        f"{name}: {_written(value)}"
        for name, value in _plain(answer).items()
        if name not in _WORDS and value is not None
    ]
    lines += [f"evidence (page {_page(each.page)}): {each.text}" for each in answer.evidence]
    lines += [f"citation (page {_page(each.page)}): {each.quote}" for each in answer.citation]
    return "\n".join(lines)


def _page(number: int | None) -> str:
    return "?" if number is None else str(number)


def _plain(record: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
