"""The pytest plug-in, in small projects of its users."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memfin.contracts import Counters, EvalSummary, MetricResult
from memfin.errors import UsageError
from memfin.pytest_plugin import assert_gates

ROOT = Path(__file__).resolve().parents[1]
VALUE = "m3_risk_coverage.risk_coverage"

PROJECT = f"""
import sys

import pytest

from memfin.pytest_plugin import assert_gates

LOADED = {{name for name in sys.modules if name.startswith("memfin.")}}


@pytest.fixture
def anyio_backend():
    return "asyncio"


class Agent:
    def __init__(self, session, observer):
        pass

    def reply(self, user_text):
        return "市场存在不确定性，仅供参考。"


def test_nothing_else_was_loaded():
    assert LOADED == {{"memfin.pytest_plugin", "memfin.version"}}


def test_sync(memfin_eval, tmp_path):
    results = memfin_eval(agent=Agent, limit=2, workers_score=0)
    assert results.summary.counters.valid_dialogs == 2
    assert results.directory.parent == tmp_path
    assert next(results.rows()).run_id == results.run_id
    assert_gates(results, "{VALUE}>=0")


async def test_async(memfin_eval, tmp_path):
    results = await memfin_eval(agent=Agent, limit=2, workers_score=0, runs_dir=tmp_path / "mine", run_id="r")
    assert (tmp_path / "mine" / "r" / "turn_eval.jsonl").is_file()
    assert_gates(results.summary, "{VALUE}>=0.99@95", "m4_compliance.severe_violation_rate<=1")


async def test_elsewhere(memfin_eval):
    await memfin_eval()
"""

CONFTEST = """
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if pyfuncitem.name == "test_elsewhere":  # as in a loop that is not asyncio's
        return pyfuncitem.obj(pyfuncitem.funcargs["memfin_eval"]).send(None)
"""


def test_a_project_uses_it(tmp_path: Path) -> None:
    """As installed: found by its entry point, and strict about warnings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    installed = tmp_path / "site" / "memfin-0.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: memfin\nVersion: 0.0\n")
    ((name, place),) = project["entry-points"]["pytest11"].items()
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{name} = {place}\n")
    (tmp_path / "test_agent.py").write_text(PROJECT, "utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    options = ["-o", "anyio_mode=auto", "-W", "error", "-p", "no:langsmith_plugin", "-p", "no:schemathesis"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{installed.parent}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "memfin_eval: the test does not run in an asyncio loop" in done.stdout
    line = rf"E +{re.escape(VALUE)}>=0\.99@95: the value is \S+.*; interval 0|E +.*too few dialogues"
    assert re.search(line, done.stdout), done.stdout
    assert "pytest_plugin.py:" not in done.stdout


def summary(value: float, *, failed: int = 0) -> EvalSummary:
    metric = MetricResult(
        metric_name="m3_risk_coverage",
        micro={"risk_coverage": value},
        macro={},
        by_dialog={},
        counts={},
        ci95={"risk_coverage": (0.25, 0.75)},
    )
    counters = Counters(valid_dialogs=3, failed_dialogs=failed)
    return EvalSummary(
        run_id="r",
        trace_version="v1",
        dataset_path="d",
        metrics={"m3_risk_coverage": metric},
        counters=counters,
    )


def test_failed_gates_are_named_with_value_interval_and_limit() -> None:
    assert_gates(summary(0.5), f"{VALUE}>=0.5", f"{VALUE}>=0.25@95")
    with pytest.raises(AssertionError) as failed:
        assert_gates(summary(0.5), f"{VALUE}>=0.5", f"{VALUE}>=0.6", f"{VALUE}>=0.3@95")
    assert str(failed.value) == (
        "gates failed:\n"
        f"{VALUE}>=0.6: the value is 0.5; interval 0.25 to 0.75\n"
        f"{VALUE}>=0.3@95: the value is 0.5 and the bound of its 95 % interval 0.25; interval 0.25 to 0.75"
    )


def test_metrics_of_users_have_gates() -> None:
    fees = (
        summary(0.5)
        .metrics["m3_risk_coverage"]
        .replace(metric_name="fee", micro={"rate": 0.2}, ci95={}, lower_is_better=False)
    )
    found = summary(0.5).replace(metrics={"fee": fees})
    assert_gates(found, "fee.rate>=0.2")
    with pytest.raises(AssertionError, match=r"fee\.rate>=0\.3: the value is 0\.2"):
        assert_gates(found, "fee.rate>=0.3")


def test_nothing_passes_where_every_turn_failed() -> None:
    with pytest.raises(AssertionError, match="every turn failed"):
        assert_gates(summary(1.0, failed=3), f"{VALUE}>=0")


def test_unknown_gates_and_results_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown value 'nothing'"):
        assert_gates(summary(0.5), "nothing>=0.5")
    with pytest.raises(UsageError, match=r"expected metric\.value<=number"):
        assert_gates(summary(0.5), "nothing")
    with pytest.raises(UsageError, match="expected a summary or a complete run, got NoneType"):
        assert_gates(None, f"{VALUE}>=0")
