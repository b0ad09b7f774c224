"""Typed settings: the keyword arguments of evaluations are the fields of the run's configuration."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

import memfin
from memfin.runtime.settings import CommonSettings

ROOT = Path(__file__).parents[2]
USER = """
from pathlib import Path
from typing import Any

import memfin
from memfin.runtime import run_eval_parallel


async def right(settings: memfin.Settings, more: dict[str, Any]) -> None:
    limits = {"m3_risk_coverage.risk_coverage": 1}
    await memfin.evaluate(runs_dir=Path("runs"), judge_rpm=60, fail_under=limits, report=True, **more)
    await memfin.evaluate("d.jsonl", agent="echo", **settings)
    run_eval_parallel("d.jsonl", "run", 4, 2, judge="none", seed=3, report=True)
    summary: memfin.EvalSummary = memfin.Evaluation(history="forced", run_id="a").results.summary


async def wrong() -> None:
    await memfin.evaluate(worker_dialog=8)
    await memfin.evaluate(workers_dialog="8")
    memfin.Evaluation(histroy="forced")
    memfin.Evaluation(history="forcd")
    run_eval_parallel("d.jsonl", sed=3)
    run_eval_parallel("d.jsonl", seed="3")
"""


def as_in_the_configuration(hint: Any) -> Any:
    """Return the type of a setting without what only Python may give: paths, functions, mappings."""
    if get_origin(hint) is Sequence:
        return list[str]
    if get_origin(hint) is Mapping:
        return dict[get_args(hint)]  # type: ignore[misc] # made from a type at run time
    kept = tuple(each for each in get_args(hint) if get_origin(each) not in (os.PathLike, Callable))
    return Union[kept] if len(kept) < len(get_args(hint)) else hint  # noqa: UP007 - computed


def test_names_and_types_are_those_of_the_configuration() -> None:
    known = get_type_hints(memfin.RunConfig)
    settings = {name: as_in_the_configuration(hint) for name, hint in get_type_hints(memfin.Settings).items()}
    assert settings == {
        name: hint for name, hint in known.items() if name not in ("dataset", "agent", "judge")
    }
    parameters = {"run_id", "workers_dialog", "workers_judge"}
    assert settings.keys() - get_type_hints(CommonSettings).keys() == parameters


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed; make lint installs it")
def test_mypy_finds_a_setting_that_is_misspelt_or_of_another_type(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--hide-error-context", str(tmp_path / "user.py")]
    found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    errors = re.findall(r"user\.py:(\d+): error: (.*)", found.stdout)
    first = USER.split("\n").index("async def wrong() -> None:") + 2
    assert [int(line) for line, _ in errors] == list(range(first, first + 6)), found.stdout + found.stderr
    for (_, text), name in zip(
        errors, ("worker_dialog", "workers_dialog", "histroy", "history"), strict=False
    ):
        assert f'"{name}"' in text
