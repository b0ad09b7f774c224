import json
from pathlib import Path

import pytest

from memfin.contracts import RunConfig
from memfin.dataset import SAMPLE
from memfin.errors import UsageError
from memfin.runtime.api import evaluate
from memfin.runtime.plan import make_plan
from memfin.runtime.settings import make_config
from tests.support import WanderingAgent, dataset, each_case


async def test_the_summary_has_the_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 100)
    found = set()
    for workers in (1, 4, 64):
        await evaluate(
            data,
            agent=WanderingAgent,
            runs_dir=tmp_path / str(workers),
            run_id="same",
            workers_dialog=workers,
            workers_judge=workers,
        )
        found.add((tmp_path / str(workers) / "same" / "metrics_summary.json").read_bytes())
    assert len(found) == 1
    summary = json.loads(found.pop())
    assert summary["counters"]["total_dialogs"] == 100
    assert summary["metrics"]["m1_context_continuity"]["counts"]["failed_count"] == 20
    assert 0 < summary["metrics"]["m3_risk_coverage"]["micro"]["risk_coverage"] < 1


def test_the_fingerprint_depends_on_what_the_metrics_depend_on_and_on_nothing_else(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 3)
    first = make_plan(data, agent="echo").fingerprint
    assert make_plan(data, agent="echo", workers_dialog=9, runs_dir=tmp_path, notes="x").fingerprint == first
    assert make_plan(data, agent="oracle").fingerprint != first
    assert make_plan(data, agent="echo", judge="none").fingerprint != first
    assert make_plan(data, agent="echo", seed=1).fingerprint != first
    assert make_plan(data, agent="echo", history="forced").fingerprint != first
    data.write_bytes(data.read_bytes() + b"\n")
    assert make_plan(data, agent="echo").fingerprint != first


@each_case(
    ("settings", "words"),
    [
        ({"workers_dialog": 0}, "workers_dialog: must be at least 1"),
        ({"workers_dialog": "4"}, "workers_dialog: must be an integer, not a string"),
        ({"history": "both"}, "history: must be one of free, forced, not 'both'"),
        ({"turn_timeout": float("nan")}, "turn_timeout"),
        ({"turn_timeout": -1}, "turn_timeout"),
        ({"limit": 0}, "limit: must be at least 1"),
        ({"workers": 4}, "unknown setting 'workers'"),
        ({"run_id": "../x"}, "run id '../x'"),
        ({"run_id": ".hidden"}, "run id '.hidden'"),
        ({"run_id": "-x"}, "run id '-x'"),
        ({"runs_dir": ""}, "runs_dir: the name is empty"),
        ({"notes": "\udcff"}, "notes: holds bytes that are not UTF-8"),
        ({"run_id": "logs"}, "run id 'logs'"),
        ({"run_id": "x" * 129}, "run id"),
        ({"run_id": "a\n"}, "run id"),
    ],
)
def test_a_bad_setting_is_one_clear_line(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_config(settings)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value).replace("a\n", "")


def test_settings_default_to_those_of_the_command_line() -> None:
    assert make_config({}) == RunConfig()


async def test_the_sample_is_the_default_dataset(tmp_path: Path) -> None:
    summary = (await evaluate(agent="echo", runs_dir=tmp_path, run_id="sample", limit=2)).summary
    assert summary.counters.total_dialogs == 2
    assert summary.dataset_path == "builtin:sample.jsonl"
    assert SAMPLE.is_file()
