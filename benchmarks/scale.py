"""Costs of a run in shards: per turn, per worker and on disk; throughput of two processes; a million turns.

Every figure is of whole commands as a user types them, each in a process of its own.

    python benchmarks/scale.py costs                    the table of measured costs in docs/scale.md
    python benchmarks/scale.py throughput               two processes against one, 10,000 dialogues
    python benchmarks/scale.py throughput --long        the same with long Markdown replies
    python benchmarks/scale.py million                  1,000,000 turns on two processes: memory and time
    python benchmarks/scale.py throughput --dialogs 200 --repeats 1       a first look

With ``--check`` the exit code is 1 where a bound is not held, on a machine that does nothing else.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, Final, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # wherever it is called from

from benchmarks.pipeline import memory_mib, write_dataset
from benchmarks.scale_simulation import replace_tables

ROOT: Final = Path(__file__).resolve().parents[1]
SHORT: Final = "benchmarks.pipeline:ShortAgent"
LONG: Final = "benchmarks.pipeline:LongAgent"
PROCESSES: Final = ("--engine", "processes", "--engine-workers", "2")
ALONE: Final = ("--workers-score", "0")
"""A run with it is one process; by default there is another for each further core, which scores."""

BOUNDS: Final = {"ratio": 1.7, "peak_mb": 300.0, "slope": 0.05}
"""Two processes over one, at least; megabytes in all and change of the time per turn, at most."""

READ: Final = 20
"""Times as many dialogues in the dataset of which reading is measured: it is next to nothing for each."""

RATIO: Final = "two processes against one process, times"
LINEAR: Final = "time from 50 to 90 % of the turns over that from 10 to 50 %"
PEAK: Final = "peak of all processes, MB"
ROWS: Final = ("dialog_trace.jsonl", "turn_eval.jsonl", "commits.log")


class Sample(NamedTuple):
    """Memory of a command and its descendants at a time, and what its rows take on disk so far."""

    seconds: float
    mib: float
    rows: int


class Measured(NamedTuple):
    """A command that has ended: wall and processor seconds, of its descendants too, and samples."""

    wall: float
    cpu: float
    samples: list[Sample]

    @property
    def peak(self) -> float:
        """The most memory in MiB."""
        return max((sample.mib for sample in self.samples), default=0.0)


def measured(*line: str, rows: Callable[[], int] = lambda: 0, interval: float = 0.2) -> Measured:
    """Run a command and look at it from time to time; exit where it fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    samples: list[Sample] = []
    start = time.perf_counter()
    with subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL) as process:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            with suppress(psutil.Error):  # a process ended while it was looked at
                samples.append(Sample(time.perf_counter() - start, memory_mib(process.pid), rows()))
            time.sleep(interval)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(line)} failed with exit code {process.returncode}")
    return Measured(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, samples)


def command(*words: str | Path, **look: Any) -> Measured:
    """Run ``memfin`` with these words; see `measured`."""
    start = (sys.executable, "-c", "from memfin.cli.main import main; main()")
    return measured(*start, *map(str, words), **look)


def scoring_cpu(name: str, dialogs: int, turns: int) -> float:
    """Return the processor seconds of scoring alone, in one process."""
    kind = ("--one", "scoring", name, str(dialogs), str(turns), "1")
    return measured(sys.executable, str(ROOT / "benchmarks" / "pipeline.py"), *kind).cpu


@contextmanager
def workplace(folder: Path | None) -> Iterator[Path]:
    """Give a new folder, which goes again."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        yield Path(name)


def run(folder: Path, dataset: Path, run_id: str, *words: str, agent: str = SHORT, **look: Any) -> Measured:
    """Evaluate a dataset as run ``run_id`` in a folder."""
    base = ("run", dataset, "--agent", agent, "--runs-dir", folder, "--run-id", run_id, "--quiet")
    return command(*base, *words, **look)


def costs(folder: Path, dialogs: int, turns: int) -> dict[str, dict[str, float]]:
    """Measure what a turn, a worker and a dialogue of the dataset cost, for short and for long replies."""
    names = {"short": SHORT, "long": LONG}
    found: dict[str, dict[str, float]] = {}
    for name, agent in names.items():
        few, many, most = (folder / f"{name}-{size}.jsonl" for size in ("few", "many", "most"))
        write_dataset(few, dialogs, turns)
        write_dataset(many, 2 * dialogs, turns)
        write_dataset(most, READ * dialogs, turns)
        small = run(folder, few, f"{name}-small", *ALONE, agent=agent)
        large = run(folder, many, f"{name}-large", *ALONE, agent=agent)
        reports = [command("report", folder / f"{name}-{size}") for size in ("small", "large")]
        both = (small.cpu - reports[0].cpu, large.cpu - reports[1].cpu)
        extra = dialogs * turns
        alone = scoring_cpu(name, dialogs, turns), scoring_cpu(name, 2 * dialogs, turns)
        scoring, whole = ((each[1] - each[0]) / extra * 1000 for each in (alone, both))
        lone = run(folder, few, f"{name}-alone", "--shard", f"0/{dialogs}", *ALONE, agent=agent)
        crowd = run(folder, most, f"{name}-crowd", "--shard", f"0/{READ * dialogs}", *ALONE, agent=agent)
        shards = [f"{name}-parts"] * 2
        for number, run_id in enumerate(shards):
            run(folder, many, run_id, "--shard", f"{number}/2", *ALONE, agent=agent)
        merged = command(
            "merge", folder / f"{shards[0]}.shards", "--out", folder / f"{name}-merged", "--quiet"
        )
        found[name] = {
            "scoring, ms of CPU per turn": scoring,
            "runtime, ms of CPU per turn": whole - scoring,
            "merge, ms of CPU per turn": (merged.cpu - reports[1].cpu) / (2 * extra) * 1000,
            "report, ms of CPU per turn": (reports[1].cpu - reports[0].cpu) / extra * 1000,
            "worker of a shard with one dialogue, s of CPU": lone.cpu,
            "reading the dataset, ms of CPU per dialogue and worker": (crowd.cpu - lone.cpu)
            / ((READ - 1) * dialogs)
            * 1000,
            "memory of a worker, MiB": small.peak,
            **{
                f"{row}, bytes per turn": (folder / f"{name}-large" / row).stat().st_size / (2 * extra)
                for row in ROWS
            },
        }
    return found


def throughput(folder: Path, dialogs: int, turns: int, agent: str, repeats: int) -> dict[str, float]:
    """Measure whole commands in turn, and return the medians of their seconds and the ratios."""
    dataset = folder / "throughput.jsonl"
    write_dataset(dataset, dialogs, turns)
    kinds: dict[str, Sequence[str]] = {
        "one, defaults": (),
        "two, defaults": PROCESSES,
        "one, --workers-score 0": ALONE,
        "two, --workers-score 0": (*PROCESSES, *ALONE),
    }
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    reports: list[float] = []
    for number in range(repeats):
        for place, (name, words) in enumerate(kinds.items()):
            run_id = f"throughput-{number}-{place}"
            seconds[name].append(run(folder, dataset, run_id, *words, agent=agent, interval=1.0).wall)
            if not place:
                reports.append(command("report", folder / run_id).wall)
            shutil.rmtree(folder / run_id)
    middle = {name: median(values) for name, values in seconds.items()}
    defaults = zip(seconds["one, defaults"], seconds["two, defaults"], strict=True)
    alone = zip(seconds["one, --workers-score 0"], seconds["two, --workers-score 0"], strict=True)
    return {
        **{f"{name}, s": value for name, value in middle.items()},
        "report, in each of them, s": median(reports),
        "two workers against one run, both with defaults, times": median(one / two for one, two in defaults),
        RATIO: median(one / two for one, two in alone),
    }


def million(folder: Path, turns: int, per_dialog: int, *words: str) -> dict[str, float]:
    """Answer so many turns on two processes, and return memory and the time of each tenth."""
    dataset, shards = folder / "million.jsonl", folder / "million.shards"
    dialogs = turns // per_dialog
    write_dataset(dataset, dialogs, per_dialog)

    def rows() -> int:
        return sum(path.stat().st_size for path in shards.glob("*/turn_eval.jsonl"))

    found = run(folder, dataset, "million", *PROCESSES, *words, rows=rows, interval=1.0)
    written = max(sample.rows for sample in found.samples)
    # The first tenth warms up; in the last one a worker may be done before the other.
    tenths = [next(s.seconds for s in found.samples if s.rows >= written * n / 10) for n in range(1, 11)]
    steady = [sample for sample in found.samples if tenths[0] <= sample.seconds <= tenths[8]]
    growth, _ = linear_regression([s.rows / written for s in steady], [s.mib for s in steady])
    done = dialogs * per_dialog
    return {
        "turns": done,
        "evaluation, s": tenths[9],
        "all, merge and report included, s": found.wall,
        "ms per turn, two processes": tenths[9] / done * 1000,
        LINEAR: (tenths[8] - tenths[4]) / (tenths[4] - tenths[0]),
        "memory of the evaluation, MiB": max(s.mib for s in found.samples if s.seconds <= tenths[9]),
        "its growth after the first tenth, MiB per 100,000 turns": growth * 100_000 / done,
        "memory of merge and report, MiB": max(s.mib for s in found.samples if s.seconds > tenths[9]),
        PEAK: found.peak * 2**20 / 1e6,
    }


def missed(kind: str, found: dict[str, float]) -> list[str]:
    """Return a line for every bound that is not held."""
    lines: list[str] = []
    if kind == "throughput" and (ratio := found[RATIO]) < BOUNDS["ratio"]:
        lines.append(f"two processes are {ratio:.2f} times as fast as one, at least {BOUNDS['ratio']}")
    if kind == "million":
        if (peak := found[PEAK]) > BOUNDS["peak_mb"]:
            lines.append(f"peak of {peak:.0f} MB, at most {BOUNDS['peak_mb']:.0f}")
        change = found[LINEAR] - 1
        if abs(change) > BOUNDS["slope"]:
            lines.append(f"the time per turn changes by {change:.1%}, at most {BOUNDS['slope']:.0%}")
    return lines


def main() -> None:
    """Measure and print a Markdown table; with ``--check`` exit 1 where a bound is not held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("costs", "throughput", "million"))
    parser.add_argument("--dialogs", type=int, help="dialogues: 400 for costs, 10,000 for throughput")
    parser.add_argument("--turns", type=int, help="turns of a dialogue: 4, or 13 of a million")
    parser.add_argument("--total", type=int, default=1_000_000, help="turns of a million")
    parser.add_argument("--long", action="store_true", help="long Markdown replies for throughput")
    parser.add_argument("--repeats", type=int, default=3, help="repeats for throughput")
    parser.add_argument("--alone", action="store_true", help="a million with --workers-score 0")
    parser.add_argument("--folder", type=Path, help="where the runs are, on the disk to measure")
    parser.add_argument("--write", type=Path, nargs="+", metavar="PAGE", help="replace the table of costs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bound is not held")
    options = parser.parse_args()
    with workplace(options.folder) as folder:
        if options.kind == "costs":
            table: dict[str, Any] = costs(folder, options.dialogs or 400, options.turns or 4)
        elif options.kind == "throughput":
            sizes = (options.dialogs or 10_000, options.turns or 4)
            table = throughput(folder, *sizes, LONG if options.long else SHORT, options.repeats)
        else:
            table = million(folder, options.total, options.turns or 13, *(ALONE if options.alone else ()))
    if options.json:
        print(json.dumps(table, indent=2))
    elif options.kind == "costs":
        lines = [
            f"| {name} | {table['short'][name]:,.2f} | {table['long'][name]:,.2f} |"
            for name in table["short"]
        ]
        print(*lines, sep="\n")
        for page in options.write or ():
            replace_tables(page, "benchmarks/scale.py costs", [lines])
    else:
        for name, value in table.items():
            print(f"| {name} | {value:,.2f} |")
    problems = missed(options.kind, table)
    for line in problems:
        print(f"over its bound: {line}", file=sys.stderr)
    sys.exit(bool(options.check and problems))


if __name__ == "__main__":
    main()
