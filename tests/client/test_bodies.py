"""Bodies, streams of events and answers by themselves: bounded, and cut anywhere."""

import gzip
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfin.client.body import EventStream, Inflater
from memfin.client.errors import RequestError
from memfin.client.messages import AnswerDraft, ChatAnswer
from memfin.secrets import Scrubber
from tests.support import each_case


def unpacked(inflater: Inflater, piece: bytes) -> bytes:
    return b"".join(inflater.steps(piece))


@given(st.binary(max_size=3000), st.integers(1, 500), st.integers(1, 3))
def test_a_compressed_body_cut_anywhere_is_whole_again(data: bytes, size: int, members: int) -> None:
    packed = gzip.compress(data) * members
    inflater = Inflater("gzip", 100_000)
    out = b"".join(unpacked(inflater, packed[at : at + size]) for at in range(0, len(packed), size))
    inflater.finish()
    assert out == data * members


def test_size_counts_after_decompression_and_stops_at_once() -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    inflater = Inflater("gzip", 1_000_000)
    with pytest.raises(RequestError) as caught:
        unpacked(inflater, bomb)
    assert caught.value.kind == "too_large"
    exact = Inflater("gzip", 1000)
    assert len(unpacked(exact, gzip.compress(b"x" * 1000))) == 1000
    exact.finish()
    with pytest.raises(RequestError):
        unpacked(Inflater("gzip", 999), gzip.compress(b"x" * 1000))


def test_size_counts_before_decompression_too() -> None:
    empty = gzip.compress(b"")
    inflater = Inflater("gzip", 1000)
    with pytest.raises(RequestError) as caught:
        unpacked(inflater, empty * 1000)
    assert caught.value.kind == "too_large"
    plain = Inflater("", 10)
    assert unpacked(plain, b"x" * 10) == b"x" * 10
    with pytest.raises(RequestError):
        unpacked(plain, b"x")


@pytest.mark.parametrize("cut", [1, 5, 12, -9, -1])
def test_a_compressed_body_that_ends_early_is_truncated(cut: int) -> None:
    inflater = Inflater("gzip", 1000)
    unpacked(inflater, gzip.compress(b"hello, hello")[:cut])
    with pytest.raises(RequestError) as caught:
        inflater.finish()
    assert caught.value.kind == "truncated"


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "sk-canary"])
def test_encodings_that_nobody_asked_for_are_refused_without_their_name(encoding: str) -> None:
    with pytest.raises(RequestError) as caught:
        Inflater(encoding, 1000)
    assert caught.value.kind == "encoding"
    assert encoding not in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"plain text", zlib.compress(b"text"), gzip.compress(b"text", mtime=0) + b"garbage"]
)
def test_what_only_claims_to_be_gzip_is_refused(data: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        unpacked(Inflater("x-gzip", 1000), data)
    assert caught.value.kind == "encoding"


def events_of(data: bytes, size: int) -> list[str]:
    stream = EventStream()
    found = [event for at in range(0, len(data), size) for event in stream.feed(data[at : at + size])]
    return found + stream.finish()


LINE = st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)


@given(
    st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 30),
    st.booleans(),
)
def test_events_cut_anywhere_are_whole_again(events: list[list[str]], end: str, size: int, bom: bool) -> None:
    text = "\ufeff" if bom else ""
    for lines in events:
        text += f": a comment{end}event: x{end}id: 7{end}"
        text += "".join(f"data: {line}{end}" for line in lines) + end
    assert events_of(text.encode(), size) == ["\n".join(lines) for lines in events]


@given(
    st.lists(
        st.sampled_from(["data: a", "data:b:", "", ": still here", "event: x", " :"]),
        max_size=12,
    ),
    st.sampled_from([1, 2, 7, 1000]),
)
def test_comments_and_blank_lines_change_nothing(lines: list[str], size: int) -> None:
    expected, data = [], list[str]()
    for line in [*lines, ""]:
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            expected.append("\n".join(data))
            data = []
    assert events_of("".join(f"{line}\n" for line in ["", *lines, ""]).encode(), size) == expected


def test_an_event_without_its_blank_line_counts_at_the_end() -> None:
    assert events_of(b"data: one\n\ndata:two", 3) == ["one", "two"]
    assert events_of(b"data: one\n\n: nothing\n\n\n\n", 4) == ["one"]
    assert events_of(b"database: no\ndata\n\n", 4) == [""]


def test_events_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(RequestError) as caught:
        events_of(b"data: \xff\n\n", 100)
    assert caught.value.kind == "encoding"


def answer_of(document: Any, scrubber: Scrubber | None = None) -> ChatAnswer:
    draft = AnswerDraft(scrubber or Scrubber())
    draft.add_document(document if isinstance(document, bytes) else json.dumps(document).encode())
    return draft.answer("asked-model", 12.0, None)


def with_message(finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def test_an_answer_of_one_document() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    answer = answer_of(with_message(content="你好") | {"model": "m-1", "usage": usage, "unknown": [1]})
    assert answer == ChatAnswer(
        text="你好",
        model="m-1",
        latency_ms=12.0,
        finish_reason="stop",
        prompt_tokens=3,
        completion_tokens=4,
    )
    assert answer.total_tokens == 7


def test_what_servers_leave_out_is_made_up_for() -> None:
    answer = answer_of(b"\xef\xbb\xbf" + json.dumps(with_message(finish=None, content="x")).encode())
    assert (answer.model, answer.finish_reason, answer.total_tokens) == ("asked-model", None, None)
    parts = answer_of(with_message(content=[{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]))
    assert parts.text == "ab"


@each_case(
    "usage",
    [None, "12", [], {"prompt_tokens": "7"}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {"x": 1}],
)
def test_a_strange_usage_spoils_no_answer(usage: object) -> None:
    assert answer_of(with_message(content="x") | {"usage": usage}).total_tokens is None


def test_tool_calls() -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "quote", "arguments": '{"code": "600519"}'}},
        {"function": {"name": "news", "arguments": {"n": 3}}},
    ]
    answer = answer_of(with_message("tool_calls", content=None, tool_calls=calls))
    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [
        ("c1", "quote", '{"code": "600519"}'),
        ("call_1", "news", '{"n":3}'),
    ]
    assert answer.text == ""


def test_refusals_are_answers() -> None:
    refused = answer_of(with_message(content=None, refusal="I will not."))
    assert (refused.text, refused.refusal) == ("", "I will not.")
    filtered = answer_of(with_message("content_filter", content=""))
    assert filtered.refusal == "the server's content filter withheld the answer"


@each_case(
    ("document", "kind"),
    [
        ({"choices": []}, "empty"),
        (with_message(content=""), "empty"),
        (with_message(content=" \n"), "empty"),
        (with_message(content=None), "empty"),
        ({}, "invalid_schema"),
        ({"choices": [{}]}, "invalid_schema"),
        ({"choices": [{"message": None}]}, "invalid_schema"),
        ({"choices": [{"message": {"content": 7}}]}, "invalid_schema"),
        ({"choices": "none"}, "invalid_schema"),
        (with_message(content="x", tool_calls=[{"id": "1"}]), "invalid_schema"),
        (with_message(tool_calls=[{"index": 10**6, "function": {"name": "f"}}]), "invalid_schema"),
        ([], "invalid_schema"),
        ({"error": {"message": "it broke"}}, "status"),
        ({"error": "it broke", "choices": []}, "status"),
        (b"", "truncated"),
        (b'{"choices": [', "truncated"),
        (b"no json", "invalid_json"),
        (b'{"choices": [{"message": {"content": "\\ud800 and more"}}]}', "invalid_json"),
        (b'{"choices": NaN}', "invalid_json"),
        (b'{"choices": [{"message": {"content": "\xff"}}]}', "encoding"),
        (b'{"x": "\xff", "choices": [{"message": {"content": "y"}}]}', "encoding"),
        (b'{"usage": ' + b"[" * 100_000, "invalid_json"),
    ],
)
def test_documents_that_are_no_answer_are_typed(document: object, kind: str) -> None:
    with pytest.raises(RequestError) as caught:
        answer_of(document)
    assert caught.value.kind == kind
    assert caught.value.retryable


def test_an_empty_answer_has_its_cost() -> None:
    with pytest.raises(RequestError) as caught:
        answer_of(
            with_message("length", content="") | {"usage": {"prompt_tokens": 5, "completion_tokens": 900}}
        )
    assert caught.value.tokens == 905
    assert "length" in str(caught.value)


def test_every_text_of_an_answer_is_masked() -> None:
    key = "sk-canary-123456"
    calls = [{"id": key, "function": {"name": f"f-{key}", "arguments": f'{{"k": "{key}"}}'}}]
    document = with_message(f"stop {key}", content=f"a {key}", refusal=f"b {key}", tool_calls=calls)
    answer = answer_of(document | {"model": f"m {key}"}, Scrubber([key]))
    assert "canary" not in repr(answer)
    assert answer.text == "a ***"
    padding = "x" * 290
    with pytest.raises(RequestError) as caught:
        answer_of({"error": {"message": f"{padding}{key}"}}, Scrubber([key]))
    assert "sk-" not in str(caught.value)
