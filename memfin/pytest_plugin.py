"""Plug-in for pytest: evaluations as a fixture, and gates as assertions."""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Every pytest in the environment imports this module: nothing else of MemFin is imported before a test asks.


@pytest.fixture
def memfin_eval(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that takes the arguments of `memfin.evaluate` and returns its `memfin.Results`.

    An asynchronous test awaits it, any other calls it. Artifacts go to ``tmp_path`` unless ``runs_dir``
    is set.
    """

    def start(dataset: Any = None, **settings: Any) -> Any:
        from memfin.runtime.api import evaluate  # noqa: PLC0415 - see above

        in_loop = True
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            in_loop = False
            if inspect.iscoroutinefunction(getattr(request, "function", None)):
                advice = "with anyio's plug-in, let the fixture anyio_backend return 'asyncio'"
                pytest.fail(f"memfin_eval: the test does not run in an asyncio loop; {advice}", pytrace=False)
        settings.setdefault("runs_dir", tmp_path)
        evaluation = evaluate(dataset, **settings)
        return evaluation if in_loop else asyncio.run(evaluation)

    return start


def assert_gates(result: Any, gate: str, *gates: str) -> None:
    """Fail the test unless results pass all gates, written as for ``--gate``.

    Args:
        result: `memfin.Results`, a complete run, or the `EvalSummary` or `RagSummary` of either.
        gate: a limit such as ``m3_risk_coverage.risk_coverage>=0.5``, or ``>=0.5@95`` for the bound of the
            interval.
        gates: further ones.

    Raises:
        AssertionError: some are not passed; it names value, interval and limit of each.
        UsageError: a gate is malformed or names no value, or the result is something else.
    """
    __tracebackhide__ = True
    from memfin.contracts import EvalSummary  # noqa: PLC0415 - see above
    from memfin.contracts.rag import RagSummary  # noqa: PLC0415
    from memfin.errors import UsageError  # noqa: PLC0415
    from memfin.runtime import bench_gates  # noqa: PLC0415
    from memfin.runtime import gates as checks  # noqa: PLC0415

    summary = getattr(result, "summary", result)
    if isinstance(summary, EvalSummary):
        values = checks.gated_values(summary.metrics)
        directions = checks.value_directions(checks.custom_directions(summary.metrics))
        every = 0 < summary.counters.valid_dialogs == summary.counters.failed_dialogs
        problems = ["every turn failed"] if every else []
    elif isinstance(summary, RagSummary):
        score = checks.GatedValue(summary.overall_percentage, bench_gates.score_interval(summary.ci95))
        values, directions, problems = {bench_gates.PERCENTAGE: score}, bench_gates.DIRECTIONS, []
    else:
        kind = type(summary).__name__
        raise UsageError(f"assert_gates: expected a summary or a complete run, got {kind} as the summary")
    for parsed in map(checks.parse_gate, (gate, *gates)):
        checks.check_gate(parsed, directions)
        for line in checks.value_gates([parsed], values):
            interval = values[parsed.name].interval
            shown = "" if interval is None else f"; interval {interval[0]:.6g} to {interval[1]:.6g}"
            problems.append(line.removeprefix("--gate ") + shown)
    if problems:
        raise AssertionError("\n".join(["gates failed:", *problems]))
