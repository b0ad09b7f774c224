"""Spans of other systems to a scored trace on the command line, without a dataset."""

import json
from pathlib import Path

from tests.commands import run_command


def test_spans_are_imported_and_scored_without_a_dataset(tmp_path: Path) -> None:
    def span(name: str, **attributes: str) -> dict[str, object]:
        values = [
            {"key": key.replace("__", "."), "value": {"stringValue": attributes[key]}} for key in attributes
        ]
        return {"traceId": name, "spanId": name, "name": "chat", "attributes": values}

    texts = {
        "gen_ai__input__messages": json.dumps([{"role": "user", "content": "买什么?"}]),
        "gen_ai__output__messages": json.dumps(
            [{"role": "assistant", "content": "这只基金保证收益, 稳赚不赔, 全仓买入。"}]
        ),
    }
    spans = [span("a"), span("b", gen_ai__conversation__id="c", **texts)]
    (tmp_path / "spans.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    made = run_command("import", "otel", "spans.json", "--out", "trace.jsonl", cwd=tmp_path)
    assert (made.returncode, made.stdout) == (0, "1 dialogue, 1 turn: trace.jsonl\n")
    warning = "spans.json:1: 1 span without gen_ai.conversation.id left out, this the first"
    assert made.stderr == f"memfin: warning: {warning}\n"
    scored = run_command("score", "trace.jsonl", "--out", "scored", "--json", cwd=tmp_path)
    assert scored.returncode == 0
    metrics = json.loads(scored.stdout)["metrics"]
    assert metrics["m4_compliance"]["micro"]["severe_violation_rate"] == 1
    assert "compliance_label_acc" in metrics["m4_compliance"]["not_measured"]
    again = run_command("import", "otel", "spans.json", "--out", "trace.jsonl", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (
        2,
        "memfin: trace.jsonl exists; remove it or name another file\n",
    )


def test_what_langfuse_and_phoenix_have_beside_turns_is_left_out_with_a_warning(tmp_path: Path) -> None:
    score = {"id": "x", "name": "helpful", "value": 1, "dataType": "NUMERIC"}
    trace = {"id": "t", "timestamp": "2025-03-01T10:00:00Z", "input": "q", "scores": [score, score]}
    (tmp_path / "rows.jsonl").write_text(f'{json.dumps(trace)}\n{{"id": "m"}}\n')
    made = run_command("import", "langfuse", "rows.jsonl", "--out", "trace.jsonl", cwd=tmp_path)
    assert made.stderr.splitlines() == [
        "memfin: warning: rows.jsonl:2: 1 record of other kinds left out, this the first",
        "memfin: warning: rows.jsonl:1: 2 scores of Langfuse left out, this the first",
        "memfin: warning: 1 turn without a reply's text: nothing is scored there",
    ]
    assert made.stdout == "1 dialogue, 1 turn: trace.jsonl\n"
    span = {"context": {"trace_id": "t", "span_id": "s"}, "span_kind": "LLM", "start_time": 1}
    (tmp_path / "spans.jsonl").write_text(json.dumps(span))
    failed = run_command("import", "phoenix", "spans.jsonl", "--out", "other.jsonl", cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (
        2,
        "memfin: spans.jsonl: no span of a model, a chain or an agent has session.id; have it set\n",
    )
