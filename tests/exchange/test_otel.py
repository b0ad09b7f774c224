"""Dialogue traces from spans: turns, tools, recalls, errors, and spans that belong to no conversation."""

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from memfin.contracts import DialogTrace
from memfin.contracts.reading import iter_jsonl
from memfin.dataset import SAMPLE
from memfin.errors import UsageError
from memfin.exchange.conversations import ImportStats
from memfin.exchange.otel import import_otel
from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.validation import validate_file
from tests.exchange.otlp_messages import key_values, request
from tests.support import length, read_jsonl

MS = 1_000_000


def otlp_span(span: ReadableSpan) -> dict[str, Any]:
    """Return a span of the SDK in the JSON encoding of OTLP."""
    assert span.context is not None

    def event(each: Event) -> dict[str, Any]:
        attributes = key_values(each.attributes)
        return {"name": each.name, "timeUnixNano": str(each.timestamp), "attributes": attributes}

    return {
        "traceId": f"{span.context.trace_id:032x}",
        "spanId": f"{span.context.span_id:016x}",
        **({"parentSpanId": f"{span.parent.span_id:016x}"} if span.parent else {}),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": key_values(span.attributes),
        "events": [event(each) for each in span.events],
        "status": {"code": span.status.status_code.value, "message": span.status.description or ""},
    }


class Recorder:
    """An agent's tracer: spans at given milliseconds, written as OTLP JSON."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracer = provider.get_tracer("agent")

    def span(
        self,
        operation: str,
        start: float,
        end: float,
        attributes: Mapping[str, Any] | None = None,
        *,
        parent: Span | None = None,
        error: str | None = None,
        events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    ) -> Span:
        context = None if parent is None else set_span_in_context(parent)
        named = {"gen_ai.operation.name": operation, **(attributes or {})}
        span = self._tracer.start_span(operation, context, attributes=named, start_time=round(start * MS))
        for name, body in events:
            span.add_event(name, dict(body), timestamp=round(start * MS))
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(round(end * MS))
        return span

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [otlp_span(span) for span in self._exporter.get_finished_spans()]

    def write(self, path: Path) -> Path:
        lines = [json.dumps(request([span]), ensure_ascii=False) for span in self.spans]
        path.write_text("\n".join(lines) + "\n", "utf-8")
        return path


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asked(conversation: str | None, *texts: str, reply: str | None = None) -> dict[str, Any]:
    """Return the attributes of a span with messages of the user and, between them, answers."""
    roles = ("user", "assistant")
    inputs = [message(roles[place % 2], text) for place, text in enumerate(texts)]
    found: dict[str, Any] = {"gen_ai.input.messages": json.dumps(inputs, ensure_ascii=False)}
    if conversation is not None:
        found["gen_ai.conversation.id"] = conversation
    if reply is not None:
        found["gen_ai.output.messages"] = json.dumps([message("assistant", reply)], ensure_ascii=False)
    return found


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def imported(tmp_path: Path, recorder: Recorder) -> Callable[[], tuple[list[DialogTrace], ImportStats]]:
    def run() -> tuple[list[DialogTrace], ImportStats]:
        out = tmp_path / "dialog_trace.jsonl"
        stats = import_otel([recorder.write(tmp_path / "spans.jsonl")], out)
        assert list(validate_file(out)) == []
        return [trace for _, trace in iter_jsonl(out, DialogTrace)], stats

    return run


Imported = Callable[[], tuple[list[DialogTrace], ImportStats]]


def test_turns_of_conversations_in_the_order_of_time(recorder: Recorder, imported: Imported) -> None:
    recorder.span("chat", 300, 340.5, asked("b", "hello", reply="hi"))
    recorder.span("chat", 200, 210, asked("a", "one", "first", "two", reply="second"))
    recorder.span("chat", 100, 110, asked("a", "one", reply="first"))
    (a, b), stats = imported()
    assert [(turn.user_text, turn.pred_assistant_text) for turn in a.turns] == [
        ("one", "first"),
        ("two", "second"),
    ]
    assert (a.dialog_id, a.dataset_index, a.dialog_status, a.run_id) == ("a", 1, "ok", "imported")
    assert [(turn.turn_pair_id, turn.user_turn_abs_idx, turn.latency_ms) for turn in b.turns] == [
        (1, 0, 40.5)
    ]
    assert (stats.dialogs, stats.turns, stats.strays) == (2, 3, 0)


def test_tools_and_recalls_within_an_agent_span(recorder: Recorder, imported: Imported) -> None:
    agent = recorder.span("invoke_agent", 100, 200, {"gen_ai.conversation.id": "c"})
    records = json.dumps([{"id": "m1", "content": "likes bonds", "score": 0.5}, {"content": "no leverage"}])
    found = {"gen_ai.memory.query.text": "risk", "gen_ai.memory.records": records}
    recorder.span("search_memory", 105, 110, {**found, "gen_ai.memory.store.id": "s"}, parent=agent)
    recorder.span("chat", 110, 120, asked(None, "which fund?"), parent=agent)
    called = {"gen_ai.tool.name": "quote", "gen_ai.tool.call.arguments": '{"code": "510300"}'}
    recorder.span("execute_tool", 120, 145, {**called, "gen_ai.tool.call.result": "3.9"}, parent=agent)
    recorder.span("execute_tool", 145, 150, {"gen_ai.tool.name": "news"}, parent=agent, error="offline")
    recorder.span("chat", 150, 190, asked(None, "which fund?", reply="this one"), parent=agent)
    ((trace,), _) = imported()
    (turn,) = trace.turns
    assert (turn.user_text, turn.pred_assistant_text, turn.latency_ms) == ("which fund?", "this one", 100)
    quote, news = turn.tools
    assert (quote.tool_name, quote.args, quote.result_excerpt) == ("quote", {"code": "510300"}, "3.9")
    assert (quote.latency_ms, quote.error, news.error) == (25, None, "offline")
    assert turn.recall is not None
    assert turn.recall.query == "risk"
    assert [(item.rank, item.item_id, item.content, item.score) for item in turn.recall.items] == [
        (1, "m1", "likes bonds", 0.5),
        (2, None, "no leverage", None),
    ]


def test_a_model_called_again_after_a_tool_goes_on_with_the_turn(
    recorder: Recorder, imported: Imported
) -> None:
    """Spans side by side: recall, model, tool, model; then the next turn's recall and model."""
    root = recorder.span("POST /chat", 100, 400)
    recorder.span("retrieval", 101, 104, {"gen_ai.retrieval.query.text": "one"}, parent=root)
    recorder.span("chat", 110, 120, asked("c", "question"), parent=root)
    recorder.span("execute_tool", 121, 129, {"gen_ai.tool.name": "quote"}, parent=root)
    messages = [message("user", "question"), {"role": "tool", "parts": [{"type": "tool_call_response"}]}]
    again = {**asked("c", reply="answer"), "gen_ai.input.messages": json.dumps(messages)}
    recorder.span("chat", 130, 140, again, parent=root)
    recorder.span("retrieval", 201, 204, {"gen_ai.retrieval.query.text": "two"}, parent=root)
    recorder.span("chat", 210, 220, asked("c", "question", "answer", "next", reply="done"), parent=root)
    ((trace,), stats) = imported()
    first, second = trace.turns
    assert (first.user_text, first.pred_assistant_text, first.latency_ms) == ("question", "answer", 30)
    assert ([tool.tool_name for tool in first.tools], second.tools) == (["quote"], [])
    assert first.recall is not None
    assert second.recall is not None
    assert (first.recall.query, second.recall.query) == ("one", "two")
    assert stats.strays == 0


def test_an_agent_called_as_a_tool_is_no_turn(recorder: Recorder, imported: Imported) -> None:
    root = recorder.span("POST /chat", 100, 200, {"gen_ai.conversation.id": "c"})
    recorder.span("chat", 110, 120, asked("c", "question"), parent=root)
    tool = recorder.span("execute_tool", 120, 150, {"gen_ai.tool.name": "expert"}, parent=root)
    recorder.span("chat", 125, 145, asked(None, "what does it cost?", reply="2 yuan"), parent=tool)
    recorder.span("chat", 150, 160, asked("c", "question", "", "next", reply="answer"), parent=root)
    ((trace,), _) = imported()
    assert [turn.user_text for turn in trace.turns] == ["question", "next"]
    assert [tool.tool_name for tool in trace.turns[0].tools] == ["expert"]
    assert trace.turns[0].pred_assistant_text is None


def test_errors_and_retries(recorder: Recorder, imported: Imported) -> None:
    root = recorder.span("POST /chat", 100, 400)
    recorder.span("chat", 110, 120, asked("c", "one"), parent=root, error="overloaded")
    recorder.span("chat", 120, 130, asked("c", "one", reply="first"), parent=root)
    recorder.span("chat", 210, 220, {**asked("c", "two"), "error.type": "timeout"}, error="no answer")
    ((trace,), _) = imported()
    assert [(turn.turn_status, turn.error, turn.pred_assistant_text) for turn in trace.turns] == [
        ("ok", None, "first"),
        ("timeout", "timeout: no answer", None),
    ]
    assert trace.dialog_status == "partial"


@pytest.mark.parametrize(
    "events",
    [
        [
            ("gen_ai.system.message", {"content": "be kind"}),
            ("gen_ai.user.message", {"content": "question"}),
            ("gen_ai.choice", {"index": 0, "message": '{"role": "assistant", "content": "answer"}'}),
        ],
        [
            ("gen_ai.user.message", {"gen_ai.event.content": '{"content": "question"}'}),
            ("gen_ai.choice", {"gen_ai.event.content": '{"message": {"content": "answer"}}'}),
        ],
        [("gen_ai.client.inference.operation.details", asked(None, "question", reply="answer"))],
    ],
    ids=["an event per message", "event content", "operation details"],
)
def test_messages_in_events(
    recorder: Recorder, imported: Imported, events: Sequence[tuple[str, Mapping[str, Any]]]
) -> None:
    recorder.span("chat", 100, 110, {"gen_ai.conversation.id": "c"}, events=events)
    ((trace,), _) = imported()
    assert [(turn.user_text, turn.pred_assistant_text) for turn in trace.turns] == [("question", "answer")]


def test_spans_left_out_are_counted(recorder: Recorder, imported: Imported, tmp_path: Path) -> None:
    recorder.span("chat", 100, 110, asked(None, "whose?", reply="nobody's"))
    recorder.span("chat", 120, 130, asked(None, "whose?", reply="nobody's"))
    recorder.span("chat", 140, 150, {"gen_ai.conversation.id": "c"})
    recorder.span("chat", 160, 170, asked("c", "question"))
    _, stats = imported()
    spans = tmp_path / "spans.jsonl"
    assert stats == ImportStats(
        dialogs=1,
        turns=1,
        strays=2,
        first_stray=f"{spans}:1",
        silent=1,
        first_silent=f"{spans}:3",
        unanswered=1,
    )


def test_documents_compressed_files_and_repeated_exports_give_the_same(
    recorder: Recorder, tmp_path: Path
) -> None:
    recorder.span("chat", 100, 110, asked("c", "问题", reply="回答"))
    recorder.span("chat", 120, 130, asked("c", "问题", "回答", "再问", reply="再答"))
    lines = recorder.write(tmp_path / "spans.jsonl")
    document = tmp_path / "spans.json"
    document.write_text(json.dumps(request(recorder.spans), indent=2), "utf-8")
    compressed = tmp_path / "spans.jsonl.gz"
    compressed.write_bytes(gzip.compress(lines.read_bytes()))
    results = []
    for place, files in enumerate(([lines], [document], [compressed], [lines, compressed])):
        import_otel(files, tmp_path / f"{place}.jsonl")
        results.append((tmp_path / f"{place}.jsonl").read_bytes())
    assert len(read_jsonl(tmp_path / "0.jsonl")[0]["turns"]) == 2
    assert len(set(results)) == 1


def test_protobuf(recorder: Recorder, tmp_path: Path) -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    protobuf = pytest.importorskip("google.protobuf.json_format")
    recorder.span("chat", 100, 110, asked("c", "question", reply="answer"))
    import_otel([recorder.write(tmp_path / "spans.jsonl")], tmp_path / "json.jsonl")
    message = protobuf.ParseDict(request(recorder.spans), service.ExportTraceServiceRequest())
    data = message.SerializeToString()
    for place, content in enumerate((data, 2 * (len(data).to_bytes(4, "big") + data))):
        (tmp_path / f"{place}.pb").write_bytes(content)
        import_otel([tmp_path / f"{place}.pb"], tmp_path / f"{place}.jsonl")
        assert (tmp_path / f"{place}.jsonl").read_bytes() == (tmp_path / "json.jsonl").read_bytes()
    (tmp_path / "broken.pb").write_bytes(b"broken")
    with pytest.raises(UsageError, match=r"broken.pb:1: no OTLP request of spans: "):
        import_otel([tmp_path / "broken.pb"], tmp_path / "broken.jsonl")
    (tmp_path / "cut.pb").write_bytes(len(data).to_bytes(4, "big") + data[:-1])
    with pytest.raises(UsageError, match=r"cut.pb:1: the request is cut off"):
        import_otel([tmp_path / "cut.pb"], tmp_path / "cut.jsonl")


SPAN = {"traceId": "t", "spanId": "s"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps(request([])) + "\n{}\n", r":2: no OTLP request of spans: .*`resourceSpans`"),
        ("{", r":1: no OTLP request of spans: "),
        (json.dumps(request([{"traceId": "t"}])), r":1: .*`spanId`"),
        (json.dumps(request([{**SPAN, "startTimeUnixNano": "noon"}])), r":1: .*noon"),
        (json.dumps(request([{**SPAN, "traceId": ""}])), r":1: a span without traceId or spanId"),
        (json.dumps(request([{**SPAN, "endTimeUnixNano": 2**70}])), r":1: .*times"),
        (
            json.dumps(request([SPAN])),
            r"spans.json: no span of a model or an agent has gen_ai.conversation.id",
        ),
        ("", r"spans.json: no span of a model or an agent has gen_ai.conversation.id"),
        (b"\x1f\x8bbroken", r"cannot read .*spans.json"),
    ],
)
def test_unusable_files(tmp_path: Path, content: str | bytes, expected: str) -> None:
    path = tmp_path / "spans.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError, match=expected) as caught:
        import_otel([path], tmp_path / "out.jsonl")
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["spans.json"]


def test_where_a_trace_cannot_be_written(recorder: Recorder, tmp_path: Path) -> None:
    recorder.span("chat", 100, 110, asked("c", "question", reply="answer"))
    spans = recorder.write(tmp_path / "spans.jsonl")
    with pytest.raises(UsageError, match=r"spans.jsonl exists; remove it"):
        import_otel([spans], spans)
    with pytest.raises(UsageError, match=r"out.jsonl: there is no directory .*missing"):
        import_otel([spans], tmp_path / "missing" / "out.jsonl")


def test_memory_does_not_grow_with_the_spans(tmp_path: Path) -> None:
    """Spans of 4 KB each, 12 MB of text or more, interleaved over the conversations."""
    count = length(3_000, 20_000)

    def lines() -> Iterator[str]:
        for number in range(count):
            span = {
                "traceId": f"{number}",
                "spanId": f"{number}",
                "startTimeUnixNano": number * MS,
                "endTimeUnixNano": (number + 1) * MS,
                "attributes": key_values(asked(f"c{number % 500}", "q", reply=f"{number}" + "x" * 4000)),
            }
            yield json.dumps(request([span])) + "\n"

    with (tmp_path / "spans.jsonl").open("w") as file:
        file.writelines(lines())
    tracemalloc.start()
    try:
        stats = import_otel([tmp_path / "spans.jsonl"], tmp_path / "out.jsonl")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (stats.dialogs, stats.turns) == (500, count)
    assert peak < 8_000_000


UNKNOWN = frozenset({"run_id", "key_hit_flags", "key_hit_sources", "key_hit_guarded", "m1_source_hits"})
"""Fields of rows about the run's name and the agent's whole context; spans hold what was searched of it."""

LABELLED = UNKNOWN | {
    *("eligible_m1", "eligible_m3", "eligible_m4", "eligible_m5", "required_keys_raw", "resolved_keys"),
    *("key_recoverability", "risk_required_tags", "risk_tag_hits", "gt_compliance_label"),
    *("rubric_required", "rubric_hit_items", "judge_score_1_5", "detectors"),
}
"""Fields that are about labels, too."""


def emit(recorder: Recorder, trace: DialogTrace, start: float) -> float:
    """Emit the spans of an instrumented agent in a recorded dialogue; return the time after it."""
    texts: list[str] = []
    for turn in trace.turns:
        end = start + (turn.latency_ms or 0)
        reply = turn.pred_assistant_text
        known = asked(trace.dialog_id, *texts, turn.user_text, reply=reply)
        agent = recorder.span("invoke_agent", start, end, known, error=turn.error)
        if turn.recall is not None:
            records = [
                {"id": item.item_id, "content": item.content, "score": item.score}
                for item in turn.recall.items
            ]
            found = {
                "gen_ai.memory.query.text": turn.recall.query,
                "gen_ai.memory.records": json.dumps(records),
            }
            recorder.span("search_memory", start, start, found, parent=agent)
        for tool in turn.tools:
            called = {
                "gen_ai.tool.name": tool.tool_name,
                "gen_ai.tool.call.arguments": json.dumps(tool.args),
                "gen_ai.tool.call.result": tool.result_excerpt,
            }
            took = tool.latency_ms or 0
            recorder.span("execute_tool", start, start + took, called, parent=agent, error=tool.error)
        texts += [turn.user_text, reply or ""]
        start = end + 1
    return start


async def scored(trace: Path, data: Path | None, out: Path, unlike: frozenset[str]) -> list[bytes]:
    """Return the lines of the rows of a scored trace, without the fields that may differ."""
    await Run(make_rescore_plan(trace, data, out, history="free", workers_score=0)).run()
    rows = read_jsonl(out / "turn_eval.jsonl")
    for row in rows:  # the agent's own compliance check is in no span
        row["detectors"]["compliance"] = row["detectors"].get("compliance", "").removesuffix("+trace")
    return [msgspec.json.encode({key: row[key] for key in row if key not in unlike}) for row in rows]


async def test_rows_of_an_imported_dialogue_are_those_of_the_live_one(
    tmp_path: Path, recorder: Recorder
) -> None:
    """Without labels but for fields of labels, and with the dataset's in all that spans tell."""
    await Run(make_plan(SAMPLE, runs_dir=tmp_path, run_id="live", workers_score=0, limit=4)).run()
    live, imported = tmp_path / "live" / "dialog_trace.jsonl", tmp_path / "imported.jsonl"
    time = 1.0
    for _, trace in iter_jsonl(live, DialogTrace):
        time = emit(recorder, trace, time)
    spans = tmp_path / "spans.jsonl"
    spans.write_text(
        "".join(json.dumps(request([each])) + "\n" for each in reversed(recorder.spans)), "utf-8"
    )
    import_otel([spans], imported)
    for data, unlike in ((None, LABELLED), (SAMPLE, UNKNOWN)):
        expected = await scored(live, data, tmp_path / f"live_{data}".replace("/", "_"), unlike)
        found = await scored(imported, data, tmp_path / f"imported_{data}".replace("/", "_"), unlike)
        assert len(expected) > 12
        assert found == expected


async def test_what_has_no_label_is_not_measured(tmp_path: Path, recorder: Recorder) -> None:
    recorder.span("chat", 1, 2, asked("c", "买什么?", reply="这只基金保证收益, 稳赚不赔, 全仓买入。"))
    recorder.span("chat", 3, 4, asked("c", "风险呢?", reply="市场存在不确定性, 可能亏损本金。"))
    imported = tmp_path / "imported.jsonl"
    import_otel([recorder.write(tmp_path / "spans.jsonl")], imported)
    summary = await Run(make_rescore_plan(imported, None, tmp_path / "scored", workers_score=0)).run()
    measured = {
        (name, value)
        for name, metric in summary.metrics.items()
        for value in metric.micro
        if value not in metric.not_measured
    }
    assert measured == {("m4_compliance", "severe_violation_rate")}
    assert summary.metrics["m4_compliance"].micro["severe_violation_rate"] == 0.5
    assert summary.dataset_path == "none"
    assert [bool(row["risk_pred_tags"]) for row in read_jsonl(tmp_path / "scored" / "turn_eval.jsonl")][1]
    assert list(validate_file(tmp_path / "scored" / "turn_eval.jsonl")) == []


def test_spans_without_an_end_and_from_other_clocks(recorder: Recorder, tmp_path: Path) -> None:
    top = recorder.span("invoke_agent", 100, 0, asked("c", "one", reply="first"))
    recorder.span("search_memory", 90, 80, {"gen_ai.memory.query.text": "within"}, parent=top)
    recorder.span("execute_tool", 250, 0, {"gen_ai.tool.name": "quote"}, parent=top)
    recorder.span("invoke_agent", 200, 300, asked("c", "two", reply="second"))
    spans = recorder.spans
    spans.append({**spans[-1], "endTimeUnixNano": "400000000"})
    (tmp_path / "spans.jsonl").write_text(json.dumps(request([*spans, spans[0]])))
    out = tmp_path / "dialog_trace.jsonl"
    stats = import_otel([tmp_path / "spans.jsonl"], out)
    ((_, trace),) = iter_jsonl(out, DialogTrace)
    first, second = trace.turns
    assert (first.latency_ms, second.latency_ms) == (None, 100)
    assert first.recall is not None
    assert first.recall.query == "within"
    assert [(tool.tool_name, tool.latency_ms) for tool in first.tools] == [("quote", None)]
    assert (second.recall, second.tools) == (None, [])
    assert (stats.twins, stats.first_twin) == (1, f"{tmp_path / 'spans.jsonl'}:1")
