"""What an embedded evaluation costs the host: how late the event loop is while 64 dialogues run.

A heartbeat in the host's loop asks to be woken every two milliseconds and notes by how much it is
late. Beside the evaluation stands the plain loop alone, for what the machine itself adds. The columns
``held`` count of each lag only the processor time that this process took meanwhile: what other
processes take of a busy machine is not in them.

    python benchmarks/embedding.py            a table on stdout
    python benchmarks/embedding.py --check    exit 1 where a bound is not held
"""

import argparse
import asyncio
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # wherever it is called from

from benchmarks.pipeline import ShortAgent, SlowAgent, reply_text, write_dataset
from memfin import Evaluation
from memfin.contracts import DialogDone

DIALOGS = 256
TURNS = 13
WORKERS = 64
BEAT = 0.002
MOST_P99_MS = 20.0
"""The bound that ``--check`` holds the lag to, in milliseconds."""


class PlainAgent:
    """Answers in a thread of its own after 50 ms, as a blocking client does."""

    count = 0

    def __init__(self, session: Any, observer: Any) -> None:
        del session, observer

    def reply(self, user_text: str) -> str:
        """Return the next reply, later."""
        del user_text
        time.sleep(0.05)
        PlainAgent.count += 1
        return reply_text(PlainAgent.count)


AGENTS: dict[str, Any] = {"50 ms": SlowAgent, "50 ms in threads": PlainAgent, "no time": ShortAgent}


async def heartbeat(lags: list[float], held: list[float]) -> None:
    """Note by how many milliseconds each beat is late, and how much of that the process has used."""
    while True:
        due, used = time.perf_counter() + BEAT, time.process_time()
        await asyncio.sleep(BEAT)
        lags.append((time.perf_counter() - due) * 1000)
        held.append(min(lags[-1], (time.process_time() - used) * 1000))


def shares(values: list[float]) -> list[float]:
    """Return median, 99th percentile and maximum."""
    values.sort()
    return [values[len(values) // 2], values[math.ceil(0.99 * len(values)) - 1], values[-1]]


async def watched(work: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the distributions of both while the work goes on, and how many seconds it took."""
    lags: list[float] = []
    held: list[float] = []
    beating = asyncio.create_task(heartbeat(lags, held))
    start = time.perf_counter()
    await work()
    wall = time.perf_counter() - start
    beating.cancel()
    return [*shares(lags), *shares(held), wall]


def measure(kind: str) -> list[float]:
    """Run one evaluation in a host's loop, or nothing at all, and return how late the loop was."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "bench.jsonl"
        write_dataset(dataset, DIALOGS, TURNS)

        async def evaluate() -> None:
            done = 0
            async with Evaluation(
                dataset, agent=AGENTS[kind], runs_dir=folder, run_id="bench", workers_dialog=WORKERS
            ) as evaluation:
                async for event in evaluation:
                    done += isinstance(event, DialogDone)
            if done + evaluation.dropped_events < DIALOGS or evaluation.summary is None:
                raise RuntimeError(f"{done} of {DIALOGS} dialogues were done")

        async def main() -> list[float]:
            return await watched(evaluate if kind in AGENTS else lambda: asyncio.sleep(2.0))

        return asyncio.run(main())


def in_process(kind: str) -> list[float]:
    """Run one measurement in a fresh process."""
    done = subprocess.run([sys.executable, __file__, "--one", kind], check=True, capture_output=True)
    result: list[float] = json.loads(done.stdout)
    return result


def main() -> None:
    """Measure everything and print a table; with ``--check`` exit 1 where the bound is not held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="exit 1 where a bound is not held")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    missed: list[str] = []
    columns = ("p50", "p99", "max", "held p50", "held p99", "held max", "seconds")
    print(f"{'lag of the host loop, ms':42}", *(f"{column:>8}" for column in columns))
    for kind in ("the loop alone", *AGENTS):
        found = in_process(kind)
        name = kind if kind not in AGENTS else f"{WORKERS} dialogues, agent takes {kind}"
        print(f"{name:42}", *(f"{value:8.2f}" for value in found))
        if found[1] > MOST_P99_MS:
            missed.append(f"{name}: p99 {found[1]:.1f} ms, at most {MOST_P99_MS:.0f}")
    for line in missed:
        print(f"over its bound: {line}")
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
