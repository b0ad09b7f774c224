"""Scoring of a recorded trace without its dataset: the trace's own labels, and no others."""

from pathlib import Path

import pytest

from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.validation import validate_path
from tests.support import dataset


@pytest.mark.parametrize("version", ["v1", "v1.1"])
async def test_labels_come_from_the_trace(tmp_path: Path, version: str) -> None:
    data = dataset(tmp_path / "data.jsonl", 4)
    live = await Run(
        make_plan(data, runs_dir=tmp_path, run_id="r", workers_score=0, trace_version=version)
    ).run()
    plan = make_rescore_plan(tmp_path / "r" / "dialog_trace.jsonl", None, tmp_path / "again", workers_score=0)
    assert plan.history_known
    again = await Run(plan).run()
    assert again.counters == live.counters
    for name, metric in live.metrics.items():
        if version == "v1" and name in ("m1_context_continuity", "m2_profile_accuracy"):
            assert not metric.not_measured
            assert again.metrics[name].not_measured.keys() == metric.micro.keys()
        else:
            assert again.metrics[name] == metric
    assert list(validate_path(tmp_path / "again")) == []
