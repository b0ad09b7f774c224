"""Dialogue traces from exports of Langfuse: answers of its API, exports of its pages and of blob storage."""

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import DialogTrace
from memfin.contracts.reading import iter_jsonl
from memfin.errors import UsageError
from memfin.exchange.conversations import ImportStats
from memfin.exchange.langfuse import import_langfuse
from memfin.validation import validate_file

Row = dict[str, Any]


def trace(key: str, second: int, text: object = None, reply: object = None, **more: object) -> Row:
    """Return a trace as the API has it."""
    time = f"2025-03-01T10:00:{second:02}.000Z"
    return {"id": key, "timestamp": time, "name": "chat", "input": text, "output": reply, **more}


def observation(kind: str, key: str, trace_id: str, times: tuple[float, float], **more: object) -> Row:
    start, end = (f"2025-03-01T10:00:{time:06.3f}Z" for time in times)
    return {
        "id": key,
        "traceId": trace_id,
        "type": kind,
        "name": key,
        "startTime": start,
        "endTime": end,
        "parentObservationId": None,
        "level": "DEFAULT",
        "statusMessage": None,
        **more,
    }


def as_blob(row: Row) -> Row:
    """Return a row as blob storage has it: other names, times without a zone, payloads as text."""
    names = {name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in row}
    found = {names[name]: value for name, value in row.items()}
    for name in ("timestamp", "start_time", "end_time"):
        if name in found:
            found[name] = found[name].replace("T", " ").replace("Z", "")
    for name in ("input", "output"):
        if not isinstance(found.get(name), str | None):
            found[name] = json.dumps(found[name])
    return {**found, "parent_observation_id": found.get("parent_observation_id") or ""}


def imported(tmp_path: Path, *files: tuple[str, object]) -> tuple[list[DialogTrace], ImportStats]:
    """Import files, each of its name and its rows, its bytes or its document."""
    paths = []
    for name, content in files:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, list) and name.endswith(".jsonl"):
            path.write_text("".join(json.dumps(row) + "\n" for row in content), "utf-8")
        else:
            path.write_text(json.dumps(content, indent=1), "utf-8")
        paths.append(path)
    out = tmp_path / "trace.jsonl"
    out.unlink(missing_ok=True)
    stats = import_langfuse(paths, out)
    assert list(validate_file(out)) == []
    return [dialog for _, dialog in iter_jsonl(out, DialogTrace)], stats


def texts(dialog: DialogTrace) -> list[tuple[str, str | None]]:
    return [(turn.user_text, turn.pred_assistant_text) for turn in dialog.turns]


TRACES = [
    trace("t1", 1, {"messages": [{"role": "user", "content": "风险?"}]}, "有风险", sessionId="s"),
    trace("t2", 9, "收益?", {"role": "assistant", "content": "不保证"}, sessionId="s", latency=1.5),
]
OBSERVATIONS = [
    observation("SPAN", "root", "t1", (1.1, 4), input="ignored", output="ignored"),
    observation(
        "RETRIEVER",
        "search",
        "t1",
        (1.5, 2),
        parentObservationId="root",
        input={"query": "bonds"},
        output=[{"page_content": "likes bonds", "id": "d1", "score": 0.5}, "no leverage"],
    ),
    observation(
        "TOOL", "quote", "t1", (2, 2.25), parentObservationId="root", input={"code": "510300"}, output=3.9
    ),
    observation("GENERATION", "llm", "t1", (3, 3.5), parentObservationId="root", output="a draft"),
    observation("TOOL", "news", "t2", (9.1, 9.2), level="ERROR", statusMessage="offline"),
]
ENRICHED = [
    *({**row, "sessionId": "s"} for row in OBSERVATIONS[1:3]),
    {**OBSERVATIONS[0], "sessionId": "s", "input": "风险?", "output": "有风险"},
    {**OBSERVATIONS[3], "sessionId": "s"},
    {**OBSERVATIONS[4], "sessionId": "s"},
    observation("AGENT", "second", "t2", (9, 10.5), input="收益?", output="不保证", sessionId="s"),
]


def csv_text(rows: Sequence[Row]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()})
    return out.getvalue().encode()


@pytest.mark.parametrize(
    "files",
    [
        [("traces.jsonl", TRACES), ("observations.jsonl", OBSERVATIONS)],
        [("observations.json", OBSERVATIONS), ("traces.json", TRACES)],
        [("traces.csv", csv_text(TRACES)), ("observations.csv", csv_text(OBSERVATIONS))],
        [
            ("traces.json", {"data": TRACES, "meta": {"page": 1}}),
            ("observations.json", {"data": OBSERVATIONS, "meta": {"page": 1}}),
        ],
        [
            ("session.json", {"id": "s", "createdAt": "2025-03-01T10:00:00Z", "traces": TRACES}),
            ("observations.jsonl", OBSERVATIONS),
        ],
        [
            ("1.json", {**TRACES[0], "observations": OBSERVATIONS[:4]}),
            ("2.json", {"trace": TRACES[1], "observations": OBSERVATIONS[4:]}),
        ],
        [
            ("traces.jsonl.gz", gzip.compress(json.dumps(as_blob(TRACES[0])).encode())),
            ("traces.jsonl", [as_blob(TRACES[1])]),
            ("observations.csv.gz", gzip.compress(csv_text([as_blob(row) for row in OBSERVATIONS]))),
        ],
        [("observations_v2.jsonl", [as_blob(row) for row in ENRICHED])],
    ],
    ids=["JSONL", "JSON", "CSV", "lists", "session", "single traces", "blob storage", "enriched"],
)
def test_sessions_are_dialogues_and_traces_turns(tmp_path: Path, files: Sequence[tuple[str, object]]) -> None:
    (dialog,), stats = imported(tmp_path, *files)
    assert (dialog.dialog_id, texts(dialog)) == ("s", [("风险?", "有风险"), ("收益?", "不保证")])
    first, second = dialog.turns
    assert [(tool.tool_name, tool.args, tool.result_excerpt, tool.latency_ms) for tool in first.tools] == [
        ("quote", {"code": "510300"}, "3.9", 250)
    ]
    assert first.recall is not None
    assert first.recall.query == "bonds"
    assert [(item.rank, item.item_id, item.content, item.score) for item in first.recall.items] == [
        (1, "d1", "likes bonds", 0.5),
        (2, None, "no leverage", None),
    ]
    assert [(tool.tool_name, tool.error) for tool in second.tools] == [("news", "offline")]
    assert first.latency_ms in (2900, 3000)  # from the trace's own time, where it is there
    assert second.latency_ms == 1500
    assert (stats.strays, stats.scores, stats.silent) == (0, 0, 0)


@pytest.mark.parametrize(
    ("given", "made", "expected"),
    [
        ("question", "answer", ("question", "answer")),
        ([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], ["a"], ("q", "a")),
        ({"input": "q"}, {"output": "a"}, ("q", "a")),
        ({"args": ["q"], "kwargs": {}}, {"answer": "a", "sources": []}, ("q", "a")),
        ({"args": [], "kwargs": {"message": "q"}}, {"anything": "a"}, ("q", "a")),
        (
            {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "image_url"}]},
            {"choices": [{"message": {"role": "assistant", "content": "a"}}, {"message": {"content": "b"}}]},
            ("q", "a"),
        ),
        (
            {"messages": [{"type": "human", "content": "q"}]},
            {"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "a"}]},
            ("q", "a"),
        ),
        (
            [{"lc": 1, "type": "constructor", "kwargs": {"type": "human", "content": "q"}}],
            {"generations": [[{"text": "a"}]]},
            ("q", "a"),
        ),
        ("12", [{"type": "reasoning"}, {"type": "output_text", "text": "a"}], ("12", "a")),
        ("q", {"role": "assistant", "content": None, "tool_calls": [{}]}, ("q", None)),
    ],
)
def test_shapes_of_inputs_and_outputs(
    tmp_path: Path, given: object, made: object, expected: tuple[str, str | None]
) -> None:
    (dialog,), _ = imported(tmp_path, ("traces.jsonl", [trace("t", 1, given, made, sessionId="s")]))
    assert texts(dialog) == [expected]
    assert dialog.turns[0].latency_ms is None


def test_a_trace_without_a_session_is_a_dialogue_with_its_history(tmp_path: Path) -> None:
    history = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "first"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "", "tool_calls": [{}]},
        {"role": "tool", "content": "3.9"},
        {"role": "assistant", "content": "second"},
        {"role": "user", "content": "three"},
    ]
    rows = [
        observation("GENERATION", "g", "t1", (1, 2), input=history, output="third"),
        observation("TOOL", "quote", "t1", (1.5, 1.6)),
        observation("SPAN", "t2", "t2", (5, 6)),  # LangChain's handler gives it the id of the trace
        trace("t2", 5, "alone", "yes"),
        trace("t3", 6, history, "third", sessionId="s"),
    ]
    (many, alone, session), _ = imported(tmp_path, ("rows.jsonl", rows))
    assert texts(many) == [("one", "first"), ("two", "second"), ("three", "third")]
    assert [turn.latency_ms for turn in many.turns] == [None, None, 1000]
    assert [len(turn.tools) for turn in many.turns] == [0, 0, 1]
    assert (alone.dialog_id, texts(alone)) == ("t2", [("alone", "yes")])
    assert alone.turns[0].latency_ms == 1000
    assert texts(session) == [("three", "third")]


def test_errors_and_asides(tmp_path: Path) -> None:
    rows = [
        observation("SPAN", "failed", "t1", (1, 2), input="one", level="ERROR", statusMessage="overloaded"),
        observation("GUARDRAIL", "guard", "t2", (3, 4), input="guarded"),
        observation("GENERATION", "judge", "t2", (3, 4), parentObservationId="guard", input="safe?"),
        observation("GENERATION", "failed", "t2", (4, 5), input="two", level="ERROR"),
        observation("GENERATION", "again", "t2", (5, 6), parentObservationId="lost", input="two", output="b"),
    ]
    (first, second), stats = imported(
        tmp_path, ("rows.jsonl", [{**row, "sessionId": row["traceId"] + "s"} for row in rows])
    )
    assert [(turn.turn_status, turn.error) for turn in first.turns] == [("error", "overloaded")]
    assert texts(second) == [("two", "b")]
    assert second.turns[0].error is None
    assert stats.unanswered == 0


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    score: Mapping[str, object] = {"id": "x", "name": "helpful", "value": 1, "dataType": "NUMERIC"}
    rows = [
        {"id": "s", "createdAt": "2025-03-01", "countTraces": 2},
        trace("t1", 1, "q", "a", scores=[score, score]),
        trace("t2", 2, {"unknown": 1, "keys": 2}, "a"),
        {**score, "trace": {"userId": "u"}},
    ]
    _, stats = imported(tmp_path, ("rows.jsonl", rows))
    rows_file = tmp_path / "rows.jsonl"
    assert stats == ImportStats(
        dialogs=1,
        turns=1,
        strays=1,
        first_stray=f"{rows_file}:1",
        silent=1,
        first_silent=f"{rows_file}:3",
        scores=3,
        first_score=f"{rows_file}:2",
    )


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("rows.jsonl", b'{"id": "t"}\n{"id', r"rows.jsonl:2: no JSON: "),
        ("rows.jsonl", b"{}\n3\n", r"rows.jsonl:2: no JSON object"),
        ("rows.json", b'[\n{"id": "t"},\n{"id"', r"rows.json:3: no JSON: "),
        ("rows.json", b"[" * 100_000, r"rows.json:1: no JSON: .*recursion"),
        ("rows.json", b"[1]", r"rows.json:1: no JSON object"),
        ("rows.json", b'["\xff"]', r"rows.json:1: no JSON: "),
        ("rows.jsonl", b'{"id": "t", "timestamp": "noon"}', r"rows.jsonl:1: 'noon' is no time since 1970"),
        ("rows.jsonl", b'{"id": "t", "timestamp": "9999-12-31"}', r"rows.jsonl:1: '9999-12-31' is no time"),
        ("rows.jsonl", b'{"id": "t", "timestamp": 1, "latency": "x"}', r"rows.jsonl:1: .*'x'"),
        (
            "rows.jsonl",
            b'{"id": "t", "timestamp": 1, "latency": 1e300}',
            r"rows.jsonl:1: the latency 1e\+300 ",
        ),
        ("rows.jsonl", b'{"id": "t", "timestamp": 1, "latency": {"s": 1}}', r"rows.jsonl:1: float.* 'dict'"),
        ("rows.json", b'[{"id": "\\ud800"}]', r"rows.json:1: no JSON: "),
        (
            "rows.json",
            b'[{"id": "t", "timestamp": 1, "input": ' + b"[" * 500 + b'"q"' + b"]" * 500 + b"}]",
            r"rows.json:1: nested too deeply",
        ),
        ("rows.csv", b"id,timestamp\nt\n", r"rows.csv:2: the row has not the columns of the header"),
        ("rows.csv", b'id\n"x\n', r"rows.csv:2: no CSV: "),
        ("rows.jsonl", b"", r"rows.jsonl: no trace and no observation of Langfuse"),
        ("rows.jsonl", b'{"id": "t", "timestamp": 1}', r"rows.jsonl:1: no trace has the user's text"),
        ("rows.jsonl.gz", b"\x1f\x8bbroken", r"cannot read .*rows.jsonl.gz"),
    ],
)
def test_unusable_files(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=expected) as caught:
        import_langfuse([tmp_path / name], tmp_path / "out.jsonl")
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_an_array_is_read_piece_by_piece(tmp_path: Path) -> None:
    rows = [trace(f"t{place}", 1, "q" * place, "字" * 40_000) for place in range(1, 5)]
    dialogs, _ = imported(tmp_path, ("rows.json", json.dumps(rows, ensure_ascii=False).encode()))
    assert sorted(len(dialog.turns[0].user_text) for dialog in dialogs) == [1, 2, 3, 4]


def test_parquet(tmp_path: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    rows = [as_blob(row) for row in TRACES]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "made.parquet")
    (dialog,), _ = imported(tmp_path, ("traces.parquet", (tmp_path / "made.parquet").read_bytes()))
    assert texts(dialog) == [("风险?", "有风险"), ("收益?", "不保证")]
    with pytest.raises(UsageError, match=r"broken.parquet: no Parquet: "):
        imported(tmp_path, ("broken.parquet", b"broken"))


def test_values_of_unusual_types(tmp_path: Path) -> None:
    trace = {"id": "t", "timestamp": 1, "input": "q", "output": {"choices": []}}
    tool = {"type": "TOOL", "name": "quote", "level": "ERROR", "statusMessage": {"code": 5}}
    search = {"type": "RETRIEVER", "input": "q", "output": [{"text": "a", "score": True}]}
    steps = [{**each, "id": each["type"], "traceId": "t", "startTime": 2} for each in (tool, search)]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([trace, *steps]))
    import_langfuse([path], tmp_path / "trace.jsonl")
    ((_, dialog),) = iter_jsonl(tmp_path / "trace.jsonl", DialogTrace)
    (turn,) = dialog.turns
    assert [(found.error, found.latency_ms) for found in turn.tools] == [('{"code":5}', None)]
    assert turn.recall is not None
    assert [(item.content, item.score) for item in turn.recall.items] == [("a", None)]
