"""Simulation of a run on many workers in virtual time: failures, rates and stragglers, by a seed.

A worker is a process that evaluates one shard at a time, and some of its dialogues at once. A dialogue is its
turns one after another, each with a latency of the agent; scoring takes the worker's processor; every turn
needs one request to the judge under a limit for all. Workers and machines die and are replaced: what was
committed is kept, and a dialogue in progress begins again. Merge and report come at the end, in one process.

    python benchmarks/scale_simulation.py              the tables of docs/scale.md
    python benchmarks/scale_simulation.py --quick      a small run in place of the large ones
    python benchmarks/scale_simulation.py --write docs/scale.md docs/zh/scale.md

`COSTS` are what `benchmarks/scale.py` measured. Everything else is an argument of `Scenario`.
"""

import argparse
import heapq
import math
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # wherever it is called from

from memfin.client.windows import SlidingWindow

HOUR = 3600.0
ATTEMPTS = 4
"""Attempts at a shard: the first and three more, as the engines make them."""


class Costs(NamedTuple):
    """Seconds that MemFin itself takes."""

    turn: float
    """Processor time per turn: scoring, the runtime and the journal, with replies of 1,300 characters."""
    start: float
    """Start of a worker until it reads its dataset."""
    line: float
    """Reading one dialogue of the dataset, which every worker does for all of them."""
    resumed: float
    """Reading one turn again that an earlier attempt has committed."""
    merge: float
    """Merging, per turn."""
    report: float
    """Reports, per turn."""


COSTS = Costs(turn=1.0e-2, start=2.3, line=1.2e-4, resumed=1.2e-4, merge=5.0e-4, report=2e-4)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run and the machines it is on; times are seconds, those between failures hours.

    Attributes:
        dialogs, turns: dialogues of the dataset, and turns of each.
        workers, shards, per_node: processes, shards that they take one after another, processes of a machine.
        at_once: dialogues that a worker evaluates at the same time (``workers_dialog``).
        p50, p95: percentiles of the agent's latency, which is log-normal.
        judge_rpm, leases: requests per minute to the judge in all; leased, not divided among the shards.
        worker_mtbf, node_mtbf, coordinator_mtbf: mean hours between failures of one of them.
        node_away, silence: until a lost machine is replaced; until a new coordinator grants anything.
        shared: run directories outlive their machine.
        per_user: dialogues of a user, which stay together.
    """

    dialogs: int
    turns: int = 13
    workers: int = 1000
    shards: int = 1000
    per_node: int = 16
    at_once: int = 16
    p50: float = 2.0
    p95: float = 6.0
    judge_rpm: float | None = None
    leases: bool = False
    worker_mtbf: float = math.inf
    node_mtbf: float = math.inf
    coordinator_mtbf: float = math.inf
    node_away: float = 300.0
    silence: float = 62.0
    shared: bool = True
    per_user: int = 1
    seed: int = 1

    @property
    def latency(self) -> float:
        """The mean latency of a turn."""
        return self.p50 * math.exp(self._sigma**2 / 2)

    @property
    def _sigma(self) -> float:
        return math.log(self.p95 / self.p50) / 1.6448536

    def durations(self) -> tuple[float, float]:
        """Return mu and sigma of a log-normal with the mean and variance of a dialogue's duration."""
        spread = math.log(1 + math.expm1(self._sigma**2) / self.turns)
        return math.log(self.turns * self.latency) - spread / 2, math.sqrt(spread)


def window_rate(per_minute: float) -> float:
    """Return the requests per second that the limiter's own window lets through, in virtual time."""
    window, now = SlidingWindow.of_requests(per_minute), 0.0
    starts: list[float] = []
    while len(starts) < 3 or now < 10.0:
        now += window.wait(now) + 1e-9
        window.start(now)
        starts.append(now)
    half = len(starts) // 2
    return (len(starts) - 1 - half) / (now - starts[half])


@dataclass(eq=False)
class Gate:
    """The limit of one shard, or of all: requests pass one after another at its rate."""

    rate: float
    queue: deque[tuple["Attempt", int]] = field(default_factory=deque)
    busy: bool = False
    closed_until: float = 0.0


@dataclass(eq=False)
class Attempt:
    """An attempt at a shard; ``running`` has begin and end of the replay of each dialogue in progress."""

    shard: int
    worker: int
    began: float
    running: dict[int, tuple[float, float]] = field(default_factory=dict)
    scored: float = 0.0
    over: bool = False


class Outcome(NamedTuple):
    """What a simulated run came to; times are seconds."""

    makespan: float
    ninety: float
    turns: int
    asked_again: float
    deaths: int
    left: int
    busy: float
    sent: list[tuple[float, int, float]]


class Simulation:
    """The events of one run; `run` returns its outcome.

    Attributes:
        committed: the number of commits of each dialogue, 1 at the end.
        sent: begin, number and rate of each dialogue's requests to the judge, where they are kept.
    """

    def __init__(self, scenario: Scenario, costs: Costs = COSTS, *, keep: bool = False) -> None:
        self.scenario, self.costs = scenario, costs
        self.committed = bytearray(scenario.dialogs)
        self.sent: list[tuple[float, int, float]] = []
        self._keep = keep
        self._draw = random.Random(scenario.seed)  # noqa: S311 - a simulation
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self.now = 0.0
        self._todo = [deque[int]() for _ in range(scenario.shards)]
        for dialog in range(0, scenario.dialogs, scenario.per_user):
            home = (dialog + 1) % scenario.shards
            if scenario.per_user > 1:  # by a hash of the user
                home = self._draw.randrange(scenario.shards)
            self._todo[home].extend(range(dialog, min(dialog + scenario.per_user, scenario.dialogs)))
        self._homes = [*map(tuple, self._todo)] if not scenario.shared else []
        self._answered = bytearray(scenario.dialogs)
        self._done = [0] * scenario.shards
        self._duration = scenario.durations()
        self._attempts = [0] * scenario.shards
        self._waiting = deque(range(scenario.shards))
        self._open = scenario.shards
        self._idle: list[int] = []
        self._left = self._deaths = 0
        self._asked_again = self._busy = 0.0
        self._node_back = [0.0] * math.ceil(scenario.workers / scenario.per_node)
        self._of_worker: dict[int, Attempt] = {}
        self._ends: list[float] = []
        rpm, parts = scenario.judge_rpm, 1 if scenario.leases else scenario.shards
        self._gates = [] if rpm is None else [Gate(window_rate(rpm) / parts) for _ in range(parts)]

    def run(self) -> Outcome:
        """Play all events."""
        scenario = self.scenario
        for worker in range(scenario.workers):
            self._free(worker)
        for node in range(len(self._node_back)):
            self._later(self._drawn(scenario.node_mtbf), self._lose_node, node)
        self._later(self._drawn(scenario.coordinator_mtbf), self._lose_coordinator)
        while self._open and self._events:
            self.now, _, play, arguments = heapq.heappop(self._events)
            play(*arguments)
        turns = sum(self._done) * scenario.turns
        ninety = sorted(self._ends)[max(0, math.ceil(len(self._ends) * 0.9) - 1)] if self._ends else 0.0
        busy = self._busy / (self.now * scenario.workers)
        return Outcome(self.now, ninety, turns, self._asked_again, self._deaths, self._left, busy, self.sent)

    def _later(self, seconds: float, play: Callable[..., None], *arguments: Any) -> None:
        if seconds < math.inf:
            self._number += 1
            heapq.heappush(self._events, (self.now + seconds, self._number, play, arguments))

    def _drawn(self, hours: float) -> float:
        return self._draw.expovariate(1 / (hours * HOUR)) if hours < math.inf else math.inf

    def _free(self, worker: int) -> None:
        """Give a worker the next shard; it starts and reads what was committed."""
        away = self._node_back[worker // self.scenario.per_node] - self.now
        if away > 0:
            self._later(away, self._free, worker)
            return
        if not self._waiting:
            self._idle.append(worker)
            return
        attempt = Attempt(self._waiting.popleft(), worker, self.now)
        self._of_worker[worker] = attempt
        self._attempts[attempt.shard] += 1
        again = self._done[attempt.shard] * self.scenario.turns * self.costs.resumed
        self._later(self.costs.start + again, self._ready, attempt)
        self._later(self._drawn(self.scenario.worker_mtbf), self._die, attempt)

    def _ready(self, attempt: Attempt) -> None:
        for _ in range(self.scenario.at_once):
            self._begin(attempt)

    def _begin(self, attempt: Attempt) -> None:
        """Begin the next dialogue of a shard, or end the shard."""
        todo = self._todo[attempt.shard]
        if attempt.over:
            return
        if todo:
            dialog = todo.popleft()
            seconds = 0.0 if self._answered[dialog] else self._draw.lognormvariate(*self._duration)
            # A worker reads the lines of all shards, one after another, while it works.
            read = attempt.began + self.costs.start + (dialog + 1) * self.costs.line
            seconds += max(0.0, read - self.now)
            attempt.running[dialog] = self.now, self.now + seconds
            self._later(seconds, self._replayed, attempt, dialog)
        elif not attempt.running:
            self._end(attempt)
            self._open -= 1
            self._ends.append(self.now)
            self._free(attempt.worker)

    def _replayed(self, attempt: Attempt, dialog: int) -> None:
        """Score a dialogue, and queue its requests to the judge."""
        if attempt.over:
            return
        self._answered[dialog] = 1
        attempt.scored = max(attempt.scored, self.now) + self.scenario.turns * self.costs.turn
        if not self._gates:
            self._later(attempt.scored - self.now, self._commit, attempt, dialog)
            return
        gate = self._gates[0 if self.scenario.leases else attempt.shard]
        gate.queue.append((attempt, dialog))
        self._serve(gate)

    def _serve(self, gate: Gate) -> None:
        while gate.queue and gate.queue[0][0].over:  # what a dead worker queued is never sent
            gate.queue.popleft()
        if gate.busy or not gate.queue:
            return
        if gate.closed_until > self.now:
            gate.busy = True
            self._later(gate.closed_until - self.now, self._served, gate)
            return
        attempt, dialog = gate.queue.popleft()
        gate.busy = True
        if self._keep:
            self.sent.append((self.now, self.scenario.turns, gate.rate))
        self._later(self.scenario.turns / gate.rate, self._served, gate)
        judged = max(self.scenario.turns / gate.rate, attempt.scored - self.now)
        self._later(judged, self._commit, attempt, dialog)

    def _served(self, gate: Gate) -> None:
        gate.busy = False
        self._serve(gate)

    def _commit(self, attempt: Attempt, dialog: int) -> None:
        if attempt.over:
            return
        del attempt.running[dialog]
        self.committed[dialog] += 1
        self._done[attempt.shard] += 1
        self._begin(attempt)

    def _end(self, attempt: Attempt) -> None:
        attempt.over = True
        self._busy += self.now - attempt.began
        self._of_worker.pop(attempt.worker, None)

    def _die(self, attempt: Attempt) -> None:
        """End an attempt; its dialogues in progress and its shard are to do again."""
        if attempt.over:
            return
        self._end(attempt)
        self._deaths += 1
        for dialog, (began, ends) in attempt.running.items():
            if not self._answered[dialog] and began < ends:
                self._asked_again += (self.now - began) / (ends - began) * self.scenario.turns
        self._todo[attempt.shard].extendleft(reversed(attempt.running))
        if self._attempts[attempt.shard] < ATTEMPTS:
            self._waiting.appendleft(attempt.shard)
        else:
            self._open -= 1
            self._left += 1
        self._free(attempt.worker)
        if self._waiting and self._idle:
            self._free(self._idle.pop())

    def _lose_node(self, node: int) -> None:
        per_node = self.scenario.per_node
        self._node_back[node] = self.now + self.scenario.node_away
        for worker in range(node * per_node, min((node + 1) * per_node, self.scenario.workers)):
            attempt = self._of_worker.get(worker)
            if attempt is None:
                continue
            if not self.scenario.shared:
                self._forget(attempt)
            self._die(attempt)
        self._later(self.scenario.node_away + self._drawn(self.scenario.node_mtbf), self._lose_node, node)

    def _forget(self, attempt: Attempt) -> None:
        """Lose what a shard has answered and committed on the disk of its machine."""
        lost = [dialog for dialog in self._homes[attempt.shard] if self._answered[dialog]]
        for dialog in lost:
            self._answered[dialog] = 0
        committed = [dialog for dialog in lost if self.committed[dialog]]
        for dialog in committed:
            self.committed[dialog] = 0
        self._todo[attempt.shard].extend(committed)
        self._asked_again += len(lost) * self.scenario.turns
        self._done[attempt.shard] = 0

    def _lose_coordinator(self) -> None:
        for gate in self._gates if self.scenario.leases else ():
            gate.closed_until = self.now + self.scenario.silence
        self._later(self._drawn(self.scenario.coordinator_mtbf), self._lose_coordinator)


def planned(turns: int, workers: int, scenario: Scenario, costs: Costs = COSTS) -> tuple[float, float, float]:
    """Return the seconds that the agent, the processors and the judge's limit each need at least."""
    rpm = scenario.judge_rpm
    return (
        turns * scenario.latency / (workers * scenario.at_once),
        turns * costs.turn / workers,
        0.0 if rpm is None else turns / rpm * 60,
    )


AGENTS = ((0.5, 1.5), (2.0, 6.0), (8.0, 20.0))
WORKERS = (2, 16, 128, 1000)
LIMITS = (None, 20_000.0, 5_000.0, 1_000.0)
TEN_MILLION = 10_000_000


def plan_rows() -> Iterator[str]:
    """Yield the rows of the planner: hours of 10 million turns, and what bounds them."""
    for p50, p95 in AGENTS:
        for workers in WORKERS:
            cells = [f"{p50:g} s, {p95:g} s", f"{workers:,}", f"{math.ceil(workers / 16):,}"]
            for rpm in LIMITS:
                scenario = Scenario(dialogs=0, p50=p50, p95=p95, judge_rpm=rpm)
                bounds = dict(
                    zip(("agent", "CPU", "judge"), planned(TEN_MILLION, workers, scenario), strict=True)
                )
                name = max(bounds, key=lambda each: bounds[each])
                cells.append(f"{bounds[name] / HOUR:.1f} {name}")
            yield f"| {' | '.join(cells)} |"


def serial_hours() -> float:
    """Return the hours of merge and report of 10 million turns, which one process takes."""
    return TEN_MILLION * (COSTS.merge + COSTS.report) / HOUR


TEN = Scenario(dialogs=TEN_MILLION // 13)
FAILING = replace(TEN, worker_mtbf=24.0, node_mtbf=72.0)
LIMITED = replace(TEN, judge_rpm=20_000.0)
BOTH = replace(FAILING, judge_rpm=20_000.0)
QUICK = replace(BOTH, dialogs=10_000, workers=50, shards=50, judge_rpm=1_000.0)
"""130,000 turns on 50 workers, for a first look and for tests."""

SMALL = "130,000 turns, 50 workers, limit of 1,000, failures"
SCENARIOS: dict[str, Scenario] = {
    SMALL: QUICK,
    "no limit, no failure": TEN,
    "no limit, failures": FAILING,
    "no limit, failures, 4,000 shards": replace(FAILING, shards=4000),
    "limit, no failure": LIMITED,
    "limit, failures": BOTH,
    "limit, failures, disks die with machines": replace(BOTH, shared=False),
    "leases, failures": replace(BOTH, leases=True),
    "leases, failures, the coordinator's too": replace(BOTH, leases=True, coordinator_mtbf=1.0),
    "limit, users of 50 dialogues": replace(LIMITED, per_user=50),
    "leases, users of 50 dialogues": replace(LIMITED, per_user=50, leases=True),
}


def simulated_row(name: str, scenario: Scenario) -> str:
    """Return the row of a simulated run."""
    found = Simulation(scenario).run()
    rpm = scenario.judge_rpm
    used = "" if rpm is None else f"{found.turns / (rpm / 60 * found.makespan):.0%}"
    cells = (
        name,
        f"{found.makespan / HOUR:.2f}",
        f"{found.ninety / HOUR:.2f}",
        f"{found.deaths:,}",
        f"{found.asked_again / found.turns:.2%}",
        f"{found.left:,}",
        f"{found.busy:.0%}",
        used,
    )
    return f"| {' | '.join(cells)} |"


def replace_tables(page: Path, mark: str, tables: Sequence[Sequence[str]]) -> None:
    """Replace the tables of a page that stand below a mark; first cells, which are translated, stay."""
    before, *parts = page.read_text("utf-8").split(f"<!-- from {mark} -->\n")
    for number, rows in enumerate(tables):
        table, end, after = parts[number].partition("\n\n")
        lines = table.split("\n")
        fresh = [
            "|".join(["", old.split("|")[1], *row.split("|")[2:]])
            for old, row in zip(lines[2:], rows, strict=True)
        ]
        parts[number] = "\n".join([*lines[:2], *fresh]) + end + after
    page.write_text(f"<!-- from {mark} -->\n".join([before, *parts]), "utf-8")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only what takes a second")
    parser.add_argument("--write", type=Path, nargs="+", metavar="PAGE", help="replace the tables of pages")
    options = parser.parse_args()
    plan, simulated = [*plan_rows()], []
    print(*plan, f"\nmerge and report of 10 million turns: {serial_hours():.1f} hours\n", sep="\n")
    for name, scenario in ({SMALL: QUICK} if options.quick else SCENARIOS).items():
        simulated.append(simulated_row(name, scenario))
        print(simulated[-1], flush=True)
    for page in options.write or ():
        replace_tables(page, "benchmarks/scale_simulation.py", [plan, simulated])


if __name__ == "__main__":
    main()
