"""Imports and loads what commands import and load when they first use it, for processes to be forked from.

Small runs are evaluated, reported, compared and validated: a process that has done so once does it again in
half the time.
"""

import asyncio
import gc
import io
import pkgutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import msgspec
import rich.console
import rich.progress
import rich.table

import memfin
from memfin.agents.builtin.profile import profile_rules
from memfin.report.comparison import compare_runs
from memfin.report.tables import comparison_table
from memfin.runtime.api import evaluate
from memfin.runtime.bench import BenchmarkRunner
from memfin.scoring.rows import prepare_scoring
from memfin.validation import validate_run

SLOW = ("__main__", "pytest_plugin", "run_server", "memory_server", "langgraph")
"""Ends of the names of modules that load slowly, such as the SDK of MCP, and that few commands use."""


def subclasses(record: type) -> Iterator[type]:
    found: list[type] = record.__subclasses__()
    for each in found:
        yield each
        yield from subclasses(each)


for module in pkgutil.walk_packages(memfin.__path__, "memfin."):
    if not module.name.endswith(SLOW) and "adapter" not in module.name:
        import_module(module.name)

prepare_scoring()
profile_rules("zh")
profile_rules("en")

for record in subclasses(msgspec.Struct):
    if record.__module__.startswith("memfin."):
        with suppress(TypeError):  # some are never read
            msgspec.json.Decoder(record)
with tempfile.TemporaryDirectory() as folder:
    run = Path(folder) / "warm"
    asyncio.run(evaluate(limit=1, runs_dir=folder, run_id=run.name, workers_score=0, report=True))
    BenchmarkRunner(limit=1, runs_dir=folder, run_id="bench").run_benchmark()
    list(validate_run(run))
    rich.console.Console(file=io.StringIO()).print(comparison_table(compare_runs(run, run)))

# Collections of garbage in the processes leave out what is there to stay.
gc.collect()
gc.freeze()
