"""Dialogue traces from exports of Phoenix: rows of a data frame, answers of its API, OTLP."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import DialogTrace
from memfin.contracts.reading import iter_jsonl
from memfin.errors import UsageError
from memfin.exchange.conversations import ImportStats
from memfin.exchange.otel import import_otel
from memfin.exchange.phoenix import import_phoenix
from memfin.validation import validate_file
from tests.exchange.otlp_messages import key_values, request

MS = 1_000_000
START = 1_740_823_200_000
"""Milliseconds of 2025-03-01T10:00:00Z."""

Row = dict[str, Any]


def row(kind: str, key: str, parent: str | None, times: tuple[int, int], **attributes: object) -> Row:
    """Return a span of the API with attributes as they are flattened; ``__`` is a dot."""
    flat = {name.replace("__", "."): value for name, value in attributes.items()}
    return {
        "id": "U3Bhbjox",
        "name": key,
        "context": {"trace_id": flat.pop("trace", "t1"), "span_id": key},
        "span_kind": kind,
        "parent_id": parent,
        "start_time": f"2025-03-01T10:00:{times[0] / 1000:06.3f}+00:00",
        "end_time": f"2025-03-01T10:00:{times[1] / 1000:06.3f}+00:00",
        "status_code": flat.pop("status_code", "OK"),
        "status_message": flat.pop("status_message", ""),
        "attributes": {"openinference.span.kind": kind, **flat},
        "events": [],
    }


SPANS = [
    row("CHAIN", "root", None, (100, 900), input__value="风险?", output__value="有风险", session__id="s"),
    row(
        "RETRIEVER",
        "search",
        "root",
        (150, 200),
        **{
            "input.value": "bonds",
            "retrieval.documents.0.document.content": "likes bonds",
            "retrieval.documents.0.document.id": "d1",
            "retrieval.documents.0.document.score": 0.5,
            "retrieval.documents.1.document.content": "no leverage",
        },
    ),
    row(
        "TOOL",
        "call",
        "root",
        (200, 450),
        tool__name="quote",
        input__value='{"code": "510300"}',
        output__value="3.9",
    ),
    row("TOOL", "news", "root", (460, 470), status_code="ERROR", status_message="offline"),
    row("LLM", "draft", "root", (500, 600), input__value="ignored", output__value="a draft"),
    row(
        "LLM",
        "second",
        None,
        (2000, 2500),
        **{
            "trace": "t2",
            "session.id": "s",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "be kind",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.contents.0.message_content.type": "text",
            "llm.input_messages.1.message.contents.0.message_content.text": "收益?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "不保证",
        },
    ),
]


def framed(span: Row, lists: Mapping[str, object] | None = None) -> Row:
    """Return the row of a data frame: a column for each attribute, lists of objects with dotted keys."""
    attributes = {
        name: value
        for name, value in span["attributes"].items()
        if not name.startswith(("llm.", "retrieval."))
    }
    columns = {f"attributes.{name}": value for name, value in {**attributes, **(lists or {})}.items()}
    context = {f"context.{name}": value for name, value in span["context"].items()}
    kept = ("name", "span_kind", "parent_id", "start_time", "end_time", "status_code", "status_message")
    return {**{name: span[name] for name in kept}, **context, **columns}


DOCUMENTS = [
    {"document.content": "likes bonds", "document.id": "d1", "document.score": 0.5},
    {"document.content": "no leverage"},
]
ASKED = [
    {"message.role": "system", "message.content": "be kind"},
    {"message.role": "user", "message.content": "收益?"},
]
ANSWERED = [{"message.role": "assistant", "message.content": "不保证"}]
FRAME = [
    framed(SPANS[0]),
    framed(SPANS[1], {"retrieval.documents": DOCUMENTS}),
    *(framed(span) for span in SPANS[2:5]),
    framed(SPANS[5], {"llm.input_messages": ASKED, "llm.output_messages": ANSWERED}),
]


def milliseconds(row: Row) -> Row:
    """Return a row as a data frame writes it without ``date_format="iso"``."""
    times = {name: START + round(float(row[name][17:23]) * 1000) for name in ("start_time", "end_time")}
    return {**row, **times}


def pandas_csv(rows: list[Row]) -> str:
    """Return CSV as a data frame writes it: lists as their Python text."""
    names = list(dict.fromkeys(name for each in rows for name in each))
    out = io.StringIO()
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def otlp(span: Row) -> dict[str, Any]:
    def nanoseconds(name: str) -> str:
        return str((START + round(float(span[name][17:23]) * 1000)) * MS)

    return {
        "traceId": span["context"]["trace_id"],
        "spanId": span["context"]["span_id"],
        "parentSpanId": span["parent_id"] or "",
        "name": span["name"],
        "startTimeUnixNano": nanoseconds("start_time"),
        "endTimeUnixNano": nanoseconds("end_time"),
        "attributes": key_values(span["attributes"]),
        "status": {"code": 2 if span["status_code"] == "ERROR" else 1, "message": span["status_message"]},
    }


def nested_attributes(span: Row) -> Row:
    attributes: dict[str, Any] = {}
    for name, value in span["attributes"].items():
        *above, last = name.split(".")
        place = attributes
        for each in above:
            place = place.setdefault(each, {})
        place[last] = value
    return {**span, "attributes": attributes}


def lines(rows: list[Row]) -> str:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows)


FORMS = {
    "spans of the API": ("spans.json", json.dumps({"data": SPANS, "next_cursor": None})),
    "nested attributes": ("spans.jsonl", lines([nested_attributes(span) for span in reversed(SPANS)])),
    "traces of the command line": (
        "traces.jsonl",
        lines([{"traceId": "t1", "spans": SPANS[:5]}, {"traceId": "t2", "spans": SPANS[5:]}]),
    ),
    "data frame in lines": ("spans.jsonl", lines([milliseconds(each) for each in FRAME])),
    "data frame in an array": ("spans.json", json.dumps(FRAME, indent=2)),
    "data frame in CSV": ("spans.csv", pandas_csv(FRAME)),
    "OTLP": ("otlp.jsonl", lines([request([otlp(span)]) for span in SPANS])),
}


def read(out: Path) -> list[DialogTrace]:
    assert list(validate_file(out)) == []
    return [dialog for _, dialog in iter_jsonl(out, DialogTrace)]


@pytest.mark.parametrize(("name", "content"), FORMS.values(), ids=FORMS)
def test_sessions_are_dialogues_and_outermost_spans_turns(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    stats = import_phoenix([tmp_path / name], tmp_path / "trace.jsonl")
    (dialog,) = read(tmp_path / "trace.jsonl")
    assert (stats.dialogs, stats.turns, stats.strays) == (1, 2, 0)
    first, second = dialog.turns
    assert (dialog.dialog_id, dialog.dialog_status) == ("s", "ok")
    assert (first.user_text, first.pred_assistant_text, first.latency_ms) == ("风险?", "有风险", 800)
    assert (second.user_text, second.pred_assistant_text, second.latency_ms) == ("收益?", "不保证", 500)
    quote, news = first.tools
    assert (quote.tool_name, quote.args, quote.result_excerpt) == ("quote", {"code": "510300"}, "3.9")
    assert (quote.latency_ms, news.tool_name, news.error) == (250, "news", "offline")
    assert first.recall is not None
    assert first.recall.query == "bonds"
    assert [(item.rank, item.item_id, item.content, item.score) for item in first.recall.items] == [
        (1, "d1", "likes bonds", 0.5),
        (2, None, "no leverage", None),
    ]


def test_parquet(tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    columns = dict.fromkeys(name for each in FRAME for name in each)
    table = arrow.Table.from_pylist([columns | each for each in FRAME])
    nanoseconds = arrow.array([START * MS + 1] * len(FRAME), arrow.timestamp("ns", "UTC"))
    place = table.schema.get_field_index("start_time")
    parquet.write_table(table.set_column(place, "start_time", nanoseconds), tmp_path / "spans.parquet")
    import_phoenix([tmp_path / "spans.parquet"], tmp_path / "trace.jsonl")
    (dialog,) = read(tmp_path / "trace.jsonl")
    assert {turn.user_text for turn in dialog.turns} == {"风险?", "收益?"}


def test_openinference_spans_in_otlp_beside_others(tmp_path: Path) -> None:
    """An agent's span of the GenAI conventions with a model and a search of OpenInference within."""
    agent = otlp(row("", "agent", None, (0, 900)))
    agent["attributes"] = key_values(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c", "session.id": "browser"}
    )
    model = otlp(row("LLM", "model", "agent", (200, 900), input__value="q", output__value="a"))
    search = otlp(SPANS[1] | {"parent_id": "agent"})
    (tmp_path / "otlp.jsonl").write_text(lines([request([agent, model, search])]))
    import_otel([tmp_path / "otlp.jsonl"], tmp_path / "trace.jsonl")
    (dialog,) = read(tmp_path / "trace.jsonl")
    (turn,) = dialog.turns
    assert (dialog.dialog_id, turn.user_text, turn.pred_assistant_text) == ("c", "q", "a")
    assert turn.recall is not None
    assert [item.item_id for item in turn.recall.items] == ["d1", None]


def test_asides_errors_and_what_is_left_out(tmp_path: Path) -> None:
    session = {"session.id": "s"}
    spans = [
        row("LLM", "stray", None, (0, 10), trace="t0", input__value="whose?"),
        row("EVALUATOR", "eval", None, (20, 90), **session),
        row("LLM", "judge", "eval", (30, 40), input__value="good?", output__value="yes"),
        row("AGENT", "broken", None, (100, 110), input__value="one", status_code="ERROR", **session),
        row("CHAIN", "empty", None, (200, 210), trace="t2", **session),
    ]
    path = tmp_path / "spans.jsonl"
    path.write_text(lines(spans))
    stats = import_phoenix([path], tmp_path / "trace.jsonl")
    (dialog,) = read(tmp_path / "trace.jsonl")
    assert [(turn.user_text, turn.error) for turn in dialog.turns] == [("one", "error")]
    assert stats == ImportStats(
        dialogs=1, turns=1, strays=1, first_stray=f"{path}:1", silent=1, first_silent=f"{path}:5"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"name": "x"}', r":1: no span of Phoenix: context.trace_id or context.span_id is missing"),
        (lines([{**SPANS[0], "start_time": None}]), r":1: span root: start_time is missing"),
        (lines([SPANS[0], {**SPANS[0], "end_time": "noon"}]), r":2: 'noon' is no time since 1970"),
        (
            lines([row("RETRIEVER", "x", None, (0, 1), retrieval__documents=r"['\ud800']")]),
            r":1: .* surrogates not allowed",
        ),
        ('{"data": [3]}', r":1: no span of Phoenix"),
        ('{"resourceSpans": 3}', r":1: .*resourceSpans"),
        (lines(SPANS[1:2]), r": no span of a model, a chain or an agent has session.id"),
        (lines([row("LLM", "x", None, (0, 1), session__id="s")]), r":1: .*has the user's text"),
    ],
)
def test_unusable_files(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "spans.jsonl").write_text(content)
    with pytest.raises(UsageError, match=r"spans.jsonl" + expected) as caught:
        import_phoenix([tmp_path / "spans.jsonl"], tmp_path / "out.jsonl")
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["spans.jsonl"]
