"""Batches for Langfuse, checked against the types of its API definition (fern/apis/server, ingestion.yml)."""

import math
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from memfin.agents.protocol import AgentReply
from memfin.contracts import ModelUsage, RecallItem
from memfin.exchange import export_langfuse
from memfin.exchange.exporters import export_run
from memfin.runtime.api import run_eval_parallel
from tests.support import dataset

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=800)]


class Body(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Base of the bodies."""

    id: Id


class TraceBody(Body):
    timestamp: datetime
    name: str
    session_id: Annotated[str, msgspec.Meta(max_length=200)]
    user_id: str | None = None
    input: Any = None
    output: Any = None
    metadata: Any = None
    tags: list[str] = []


class SpanBody(Body):
    trace_id: Id
    name: str
    start_time: datetime
    end_time: datetime
    input: Any = None
    output: Any = None
    level: Literal["DEBUG", "DEFAULT", "WARNING", "ERROR"] = "DEFAULT"
    status_message: str | None = None
    parent_observation_id: str | None = None


class GenerationBody(SpanBody):
    model: str | None = None
    usage_details: dict[str, int] = {}


class ScoreBody(Body):
    name: str
    value: float | str
    data_type: Literal["NUMERIC", "BOOLEAN", "CATEGORICAL"]
    trace_id: str | None = None
    session_id: str | None = None
    observation_id: str | None = None
    comment: str | None = None


class Event(msgspec.Struct, forbid_unknown_fields=True, tag_field="type"):
    """Base of the events."""

    id: Id
    timestamp: datetime


class TraceEvent(Event, tag="trace-create"):
    body: TraceBody


class SpanEvent(Event, tag="span-create"):
    body: SpanBody


class GenerationEvent(Event, tag="generation-create"):
    body: GenerationBody


class ScoreEvent(Event, tag="score-create"):
    body: ScoreBody


class Request(msgspec.Struct, forbid_unknown_fields=True):
    batch: list[TraceEvent | SpanEvent | GenerationEvent | ScoreEvent]


class Metered:
    """An agent with usage, recall and a tool, whose second turn fails."""

    def __init__(self, session: Any, observer: Any) -> None:
        self.observer = observer
        self.turns = 0

    def reply(self, text: str) -> AgentReply:
        self.turns += 1
        if self.turns == 2:
            raise ValueError("out of order")
        self.observer.recall(query=text, items=[RecallItem(content="保守")])
        self.observer.tool(tool_name="quote", args={"code": "510300"}, latency_ms=9, error="offline")
        usage = ModelUsage(model="m", calls=1, prompt_tokens=11, completion_tokens=7)
        return AgentReply(text="这只基金保证收益, 稳赚不赔。", usage=usage)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    data = dataset(tmp_path / "data.jsonl", 2)
    run_eval_parallel(
        data, "r", agent_factory=Metered, runs_dir=str(tmp_path), workers_score=0, trace_version="v1.1"
    )
    return tmp_path / "r"


def requests(path: Path) -> list[Request]:
    return [msgspec.json.decode(line, type=Request) for line in path.read_bytes().splitlines()]


def test_batches_have_the_types_of_the_api(run: Path, tmp_path: Path) -> None:
    assert export_run(run, tmp_path / "out", "langfuse") == {"batches.jsonl": 1}
    (request,) = requests(tmp_path / "out" / "batches.jsonl")
    events = request.batch
    assert len({event.id for event in events}) == len(events)
    traces = {each.body.id: each.body for each in events if isinstance(each, TraceEvent)}
    replies = {each.body.id: each.body for each in events if isinstance(each, GenerationEvent)}
    spans = [each.body for each in events if isinstance(each, SpanEvent)]
    scores = [each.body for each in events if isinstance(each, ScoreEvent)]
    assert sorted(each.session_id for each in traces.values()) == ["r/d0000"] * 3 + ["r/d0001"] * 3
    assert {each.trace_id for each in replies.values()} == traces.keys()
    assert {each.parent_observation_id for each in spans} < replies.keys()
    first, failed, _ = list(replies.values())[:3]
    assert (first.model, first.usage_details) == ("m", {"input": 11, "output": 7})
    assert (failed.level, failed.output) == ("ERROR", None)
    assert failed.status_message
    assert "out of order" in failed.status_message
    recall, tool = spans[:2]
    assert (recall.name, recall.output[0]["content"]) == ("recall", "保守")
    assert (tool.name, tool.input, tool.status_message) == ("quote", {"code": "510300"}, "offline")
    kinds = {"NUMERIC": float, "BOOLEAN": float, "CATEGORICAL": str}
    for score in scores:
        assert type(score.value) is kinds[score.data_type]
        assert score.data_type != "BOOLEAN" or score.value in (0.0, 1.0)
        assert isinstance(score.value, str) or math.isfinite(score.value)
        assert score.session_id or (score.trace_id in traces and score.observation_id in replies)
    assert {("m4_compliance.severe_violation_rate", 1.0), ("m4_compliance.label", "severe_violation")} <= {
        (score.name, score.value) for score in scores
    }


def test_ids_are_the_same_again_and_batches_are_bounded(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_run(run, tmp_path / "out", "langfuse")
    monkeypatch.setattr(export_langfuse, "_MAX_BATCH", 3000)
    assert export_run(run, tmp_path / "small", "langfuse")["batches.jsonl"] > 3
    (whole,), parts = (
        requests(tmp_path / "out" / "batches.jsonl"),
        requests(tmp_path / "small" / "batches.jsonl"),
    )
    assert [event for part in parts for event in part.batch] == whole.batch
    assert max(map(len, (tmp_path / "small" / "batches.jsonl").read_bytes().splitlines())) < 3100
