"""A soak of many turns against an agent that answers at once: memory, descriptors, tasks and threads.

    python benchmarks/soak.py                        one million turns, about six minutes
    python benchmarks/soak.py --turns 50000          what the tests run with TESTS_LONG=1
    python benchmarks/soak.py --turns 50000 --json   figures for programs

Exit code 1 when resident memory grows by more than 1 MiB in 100,000 turns after the warm-up, by the lower
end of the slope's 95 % interval, or when descriptors, tasks or threads do not stay what they are. A step
that a pool takes once lets few turns look worse than many; a leak shows in both.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # wherever it is called from

from benchmarks.pipeline import ShortAgent, write_dataset
from memfin.contracts import SoakLimits, SoakSummary
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan

TURNS = 20
"""Turns of a dialogue."""

MIB = 1 << 20
MOST_GROWTH = 1 * MIB
"""Bytes of resident memory in 100,000 turns, after the warm-up."""

WARM_UP = 25_000
"""Turns before those that count: patterns are compiled when a reply first needs them."""

STEADY = ("open_files", "tasks", "threads")
MOST_MORE = 2
"""By how much these may differ between the first and the last epoch: pools of threads breathe."""


def measure(turns: int, epoch: int, folder: Path) -> SoakSummary:
    """Soak for so many turns in a folder, so many in an epoch, after at most half as many to warm up."""
    write_dataset(folder / "soak.jsonl", epoch // TURNS, TURNS)
    for run_id, epochs in (("warm", min(WARM_UP, turns // 2) // epoch), ("soak", turns // epoch)):
        plan = make_soak_plan(
            folder / "soak.jsonl",
            limits=SoakLimits(epochs=epochs, keep_epochs=1),
            agent=ShortAgent,
            runs_dir=folder / "runs",
            run_id=run_id,
        )
        summary = anyio.run(Soak(plan).run)
    return summary


def over_bounds(summary: SoakSummary) -> list[str]:
    """Return a line for every bound that is not held."""
    problems: list[str] = []
    bounds = summary.rss_ci95
    if bounds is None or bounds[0] > MOST_GROWTH:
        problems.append(f"resident memory grows by {bounds} bytes in 100,000 turns, at most {MOST_GROWTH}")
    for name in STEADY:
        drift = summary.operation[name]
        if drift.last > drift.first + MOST_MORE or (drift.drifting and drift.slope > 0):
            problems.append(f"{name} went from {drift.first:g} to {drift.last:g}, {drift.slope:+g} an epoch")
    return problems


def figures(summary: SoakSummary, wall: float) -> dict[str, Any]:
    """Return what the benchmark has found."""
    rss, bounds = summary.operation["rss_bytes"], summary.rss_ci95
    return {
        "turns": summary.turns,
        "epochs": summary.epochs,
        "wall_seconds": round(wall, 1),
        "ms_a_turn": round(wall / summary.turns * 1000, 3),
        "rss_mib_first": round(rss.first / MIB, 2),
        "rss_mib_last": round(rss.last / MIB, 2),
        "rss_mib_max": round(rss.max / MIB, 2),
        "rss_mib_per_100k_turns": round((summary.rss_bytes_per_100k_turns or 0.0) / MIB, 3),
        "rss_ci95_mib": None if bounds is None else [round(bound / MIB, 3) for bound in bounds],
        **{
            f"{name}_first_last_max": [
                getattr(summary.operation[name], at) for at in ("first", "last", "max")
            ]
            for name in STEADY
        },
        "latency_ms_p50_p99": [round(summary.turn_latency_ms.p50, 3), round(summary.turn_latency_ms.p99, 3)],
        "loop_lag_ms_p50_p99_max": [
            round(value, 2)
            for value in (summary.loop_lag_ms.p50, summary.loop_lag_ms.p99, summary.loop_lag_ms.max)
        ],
        "drifting_metrics": [name for name, drift in summary.metrics.items() if drift.drifting],
        "over_bounds": over_bounds(summary),
    }


def main() -> None:
    """Measure and print; exit 1 where a bound is not held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=1_000_000, help="turns, a multiple of the next")
    parser.add_argument("--epoch", type=int, default=1000, help="turns of an epoch, a multiple of 20")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        summary = measure(options.turns, options.epoch, Path(folder))
        found = figures(summary, time.perf_counter() - start)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, value in found.items():
            print(f"{name:28} {value}")
    sys.exit(bool(found["over_bounds"]))


if __name__ == "__main__":
    main()
