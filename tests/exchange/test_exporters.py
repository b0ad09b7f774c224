"""Exports of runs: spans that are imported again, evaluations, unusable input."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memfin.agents.protocol import AgentReply
from memfin.contracts import DialogTrace, RecallItem
from memfin.contracts.reading import iter_jsonl
from memfin.dataset import SAMPLE
from memfin.errors import RunFault, UsageError
from memfin.exchange.exporters import export_run
from memfin.exchange.otel import import_otel
from memfin.results import Results, read_run
from memfin.runtime.api import run_eval_parallel
from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from tests.exchange.test_otel import LABELLED, UNKNOWN
from tests.support import dataset, dialog, read_jsonl, write_jsonl


def attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in item["attributes"]}


def exported_spans(path: Path) -> list[dict[str, Any]]:
    return [
        span
        for request in read_jsonl(path)
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


class Eventful:
    """An agent with tools and recalls that fails at times."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.observer = observer
        self.turns = 0

    def reply(self, text: str) -> AgentReply:
        self.turns += 1
        if self.turns == 2:
            raise ValueError("out of order")
        self.observer.recall(
            query=text,
            items=[
                RecallItem(content="no leverage", item_id="m1", score=0.5, source="a"),
                RecallItem(content="保守", source="b"),
            ],
        )
        self.observer.tool(tool_name="quote", args={"code": "510300"}, result_excerpt="3.9", latency_ms=9)
        self.observer.tool(tool_name="news", args="[", latency_ms=1, error="offline")
        return AgentReply(text="这只基金保证收益, 稳赚不赔。")


async def rescored(trace: Path, data: Path | None, out: Path, unlike: frozenset[str]) -> list[bytes]:
    await Run(make_rescore_plan(trace, data, out, history="free", workers_score=0)).run()
    rows = read_jsonl(out / "turn_eval.jsonl")
    for row in rows:  # the agent's own compliance check is in no span
        row["detectors"]["compliance"] = row["detectors"].get("compliance", "").removesuffix("+trace")
    return [msgspec.json.encode({key: row[key] for key in row if key not in unlike}) for row in rows]


async def test_exported_spans_are_imported_with_the_same_rows(tmp_path: Path) -> None:
    await Run(make_plan(SAMPLE, runs_dir=tmp_path, run_id="live", workers_score=0, limit=3)).run()
    live, imported = tmp_path / "live" / "dialog_trace.jsonl", tmp_path / "imported.jsonl"
    counts = export_run(tmp_path / "live", tmp_path / "spans", "otel")
    spans = exported_spans(tmp_path / "spans" / "spans.jsonl")
    assert counts == {"spans.jsonl": len(spans)}
    import_otel([tmp_path / "spans" / "spans.jsonl"], imported, run_id="live")
    for data, unlike in ((SAMPLE, UNKNOWN), (None, LABELLED)):
        expected = await rescored(live, data, tmp_path / f"live_{bool(data)}", unlike)
        assert len(expected) > 10
        assert await rescored(imported, data, tmp_path / f"imported_{bool(data)}", unlike) == expected


@pytest.fixture
def eventful_run(tmp_path: Path) -> Path:
    data = dataset(tmp_path / "data.jsonl", 2)
    run_eval_parallel(data, "r", agent_factory=Eventful, runs_dir=str(tmp_path), workers_score=0)
    return tmp_path / "r"


def seen(path: Path) -> list[Any]:
    turns = [turn for _, trace in iter_jsonl(path, DialogTrace) for turn in trace.turns]
    return [
        (turn.user_text, turn.pred_assistant_text, turn.turn_status, turn.error, turn.tools)
        + ((turn.recall.query, *(item.replace(rank=0) for item in turn.recall.items)) if turn.recall else ())
        for turn in turns
    ]


def test_failed_turns_tools_and_recalls_are_imported_as_they_were(eventful_run: Path, tmp_path: Path) -> None:
    export_run(eventful_run, tmp_path / "spans", "otel")
    import_otel([tmp_path / "spans" / "spans.jsonl"], tmp_path / "imported.jsonl")
    found = seen(tmp_path / "imported.jsonl")
    assert found == seen(eventful_run / "dialog_trace.jsonl")
    assert {turn[2] for turn in found} == {"ok", "error"}
    assert [len(turn) for turn in found[:2]] == [8, 5]


def test_a_question_repeated_after_a_failed_turn_is_a_turn_of_its_own(tmp_path: Path) -> None:
    asked = dialog("d0000", 3)
    for turn in asked["turns"]:
        turn["text"] = "好的" if turn["role"] == "user" else turn["text"]
    data = write_jsonl(tmp_path / "data.jsonl", [asked])
    run_eval_parallel(data, "r", agent_factory=Eventful, runs_dir=str(tmp_path), workers_score=0)
    export_run(tmp_path / "r", tmp_path / "spans", "otel")
    import_otel([tmp_path / "spans" / "spans.jsonl"], tmp_path / "imported.jsonl")
    assert [turn[2] for turn in seen(tmp_path / "imported.jsonl")] == ["ok", "error", "ok"]


def test_evaluations_are_events_of_the_turns(eventful_run: Path, tmp_path: Path) -> None:
    export_run(eventful_run, tmp_path / "spans", "otel")
    export_run(eventful_run, tmp_path / "again", "otel")
    path = tmp_path / "spans" / "spans.jsonl"
    assert path.read_bytes() == (tmp_path / "again" / "spans.jsonl").read_bytes()
    spans = exported_spans(path)
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert {(len(span["traceId"]), len(span["spanId"])) for span in spans} == {(32, 16)}
    values: dict[str, list[float]] = {}
    for span in spans:
        events = [attributes(each) for each in span["events"]]
        assert {each["name"] for each in span["events"]} <= {"gen_ai.evaluation.result"}
        assert not events or attributes(span)["gen_ai.operation.name"] == "invoke_agent"
        for event in events:
            name = event["gen_ai.evaluation.name"]
            if "gen_ai.evaluation.score.value" in event:
                values.setdefault(name, []).append(event["gen_ai.evaluation.score.value"])
            if name == "m4_compliance.severe_violation_rate":
                assert event["gen_ai.evaluation.score.label"] == "fail"
                assert event["gen_ai.evaluation.explanation"]
    assert values["m4_compliance.severe_violation_rate"] == [1.0] * 4
    for name, metric in read_run(eventful_run).summary.metrics.items():
        for value in {"severe_violation_rate", "compliance_label_acc", "strict_key_hit_rate"} & {
            *metric.micro
        }:
            found = values.get(f"{name}.{value}", [0.0])
            assert sum(found) / len(found) == pytest.approx(metric.micro[value])


def leaving(run: Results[Any], out: Path) -> Mapping[str, int]:
    (out / "half").write_text(run.run_id)
    raise SystemExit(0)


def forgetful(run: Results[Any], out: Path) -> Mapping[str, int]:
    return {"rows.csv": 5}


def wandering(run: Results[Any], out: Path) -> Mapping[str, int]:
    os.chdir("/")
    raise ValueError("lost")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("leaving", "raised SystemExit: 0"),
        ("forgetful", "returned 'rows.csv', and wrote no file of that name"),
        ("wandering", "raised ValueError: lost"),
    ],
)
def test_exporters_that_fail_leave_nothing(
    eventful_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: str
) -> None:
    run = eventful_run.absolute()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RunFault, match=expected):
        export_run(run, Path("out"), f"{__name__}:{name}")
    assert sorted(tmp_path.iterdir()) == before


def test_unusable_input_leaves_nothing(eventful_run: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"exporter 'otle': unknown reference; .*did you mean 'otel'"):
        export_run(eventful_run, tmp_path / "out", "otle")
    with pytest.raises(UsageError, match=r"exists; remove it"):
        export_run(eventful_run, eventful_run, "otel")
    with pytest.raises(UsageError, match=r"missing: no such directory"):
        export_run(tmp_path / "missing", tmp_path / "out", "otel")
    with (eventful_run / "turn_eval.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(UsageError, match=r"turn_eval.jsonl:\d+: "):
        export_run(eventful_run, tmp_path / "out", "otel")
    assert sorted(tmp_path.iterdir()) == before
