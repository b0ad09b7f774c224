"""One simulated run: interrupted as its seed says, resumed to its end, and held against what is promised."""

import asyncio
import hashlib
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec

from memfin.agents.calls import TransportError
from memfin.contracts import (
    DialogCheckpoint,
    DialogDone,
    DialogStarted,
    DialogTrace,
    EvalSummary,
    JudgeFailure,
    JudgeRequest,
    ProgressEvent,
    Verdict,
)
from memfin.errors import RunFault, RunStopped, UsageError
from memfin.journal import COMMITS, DIALOG_TRACE, TURN_EVAL, Entry, RunDirectory
from memfin.journal.checkpoints import TURNS, CheckpointLog
from memfin.journal.disk import Disk
from memfin.journal.recovery import examine
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.sandbox.thread import CallThread
from memfin.validation import validate_run
from tests.simulation.simulated_disk import SimulatedDisk
from tests.simulation.virtual_time import StuckError, VirtualLoop, run_in
from tests.support import dialog, read_jsonl, write_jsonl

SUMMARY = "metrics_summary.json"
RETRIES = 2
TIMEOUT = 5.0
MOST_LIVES = 40
INTERRUPTIONS = ("fault", "off", "off later", "power cut", "cancel", "task cancel", "stop", "abort")


def drawn(*what: object) -> random.Random:
    """Return a source of chance that is the same for the same words."""
    return random.Random(hashlib.blake2b(repr(what).encode(), digest_size=8).digest())


class World:
    """A dataset with its agents' and judge's manners; runs of the same world come to the same end."""

    def __init__(self, number: int, folder: Path) -> None:
        draw = drawn("world", number)
        self.number = number
        self.folder = folder
        self.history = draw.choice(["free", "forced"])
        self.sizes = {f"d{place}": draw.randint(1, 5) for place in range(draw.randint(2, 6))}
        self.data = folder / f"world{number}.jsonl"
        lines: list[object] = [dialog(name, turns) for name, turns in self.sizes.items()]
        lines.insert(draw.randint(0, len(lines)), {"dialog_id": "no turns"})
        write_jsonl(self.data, lines)
        self.lines = len(lines)
        self._expected: tuple[bytes, list[Any]] | None = None

    def manner(self, dialog_id: str, turn: int) -> str:
        """Return how the agent takes a turn, in every life."""
        return drawn(self.number, dialog_id, turn).choice(
            ["answers"] * 12 + ["raises", "hangs", "misreports"]
        )

    def expected(self) -> tuple[bytes, list[Any]]:
        """Return the summary's bytes and the traces of a run that nothing disturbs."""
        if self._expected is None:
            lives = Lives(self, 0, self.folder / f"whole{self.number}", disturbed=False)
            lives.live()
            assert lives.complete
            self._expected = (lives.run / SUMMARY).read_bytes(), traces(lives.run)
        return self._expected


def traces(run: Path) -> list[Any]:
    """Return the traces in the order of the dataset without what time and chance decide."""
    found = [
        msgspec.json.decode(line, type=DialogTrace)
        for line in (run / DIALOG_TRACE).read_bytes().split(b"\n")
        if line
    ]
    return [
        trace.replace(
            worker_id=None,
            turns=[turn.replace(latency_ms=None if turn.latency_ms is None else 0.0) for turn in trace.turns],
        )
        for trace in sorted(found, key=lambda trace: trace.dataset_index)
    ]


class SimulatedDirectory(RunDirectory):
    """A run directory that remembers how far dialogues were when a commit of that came back."""

    confirmed: dict[int, int]

    async def commit(self, entries: Sequence[Entry], begun: Sequence[DialogCheckpoint] = ()) -> None:
        await super().commit(entries, begun)
        self.confirmed |= {each.dataset_index: len(each.turns) for each in begun}


class Lives:
    """A run from its start through all interruptions to its end.

    Attributes:
        problems: what was not as it is promised.
        complete: whether the run has come to its end.
        steps: how many steps the tasks of the last life took.
        unwinding: how many seconds the last life took to end after it was cancelled at a step.
        interruptions: how each life ended.
    """

    def __init__(
        self, world: World, seed: int, folder: Path, *, disturbed: bool = True, cancelled_at: int = 0
    ) -> None:
        self.world = world
        self.seed = seed
        self.run = folder / "r"
        self.problems: list[str] = []
        self.complete = False
        self.interruptions: list[str] = []
        self.restored = 0
        self._draw = drawn("run", seed)
        self._disturbed = disturbed
        self._cancelled_at = cancelled_at
        self.steps = 0
        self.unwinding = 0.0
        self._number = 0
        self.snapshots = self._draw.choice(["none", "plain", "async"]) if disturbed else "none"
        self._workers = self._draw.randint(1, 4)
        self._fsync_turns = self._draw.choice([1, 2, 4, 256])
        self._fsync_interval = self._draw.choice([0.0, 0.05, 0.5])
        self.pace = self._draw.choice([0.001, 0.1, 1.0])

    # --- what agents and judge are told and tell

    def _begin(self) -> None:
        self._number += 1
        self.alive = True
        self._made: Run[EvalSummary] | None = None
        self.chance = drawn("life", self.seed, self._number)
        self.asked: Counter[tuple[str, int]] = Counter()
        self.judged: Counter[tuple[str, int]] = Counter()
        self.refuses: set[str] = set()
        self.acknowledged: set[str] = set()
        self.first_turns: dict[str, int] = {}
        self.open_agents = 0
        self._cancelled: float | None = None

    def chances(self, share: float) -> bool:
        """Return whether something happens that leaves the result as it is."""
        return self._disturbed and self.chance.random() < share

    def latency(self) -> float:
        """Return how many seconds a call takes."""
        return self.chance.expovariate(1 / self.pace)

    def _delay(self, thread: object) -> float:
        """Return how long a function takes in its thread; a second is a disk that stands still."""
        slowest = 0.05 if isinstance(thread, CallThread) or not self._disturbed else 1.0
        return self.chance.choice([0.0, 0.0, 0.002, 0.02, slowest])

    def note(self, event: ProgressEvent) -> None:
        if isinstance(event, DialogDone):
            if event.dialog_id in self.acknowledged:
                self.problems.append(f"acknowledged twice: {event.dialog_id}")
            self.acknowledged.add(event.dialog_id)
        if isinstance(event, DialogStarted):
            self.first_turns[event.dialog_id] = event.first_turn

    # --- one life

    def live(self) -> None:
        """Begin the run or go on with it, until its end or the interruption that is drawn."""
        self._begin()
        replays, judgements = committed(self.run)
        begun = turns_begun(self.run)
        plan = self._plan()
        if plan is None:
            if replays:
                self.problems.append("cannot go on although replays are committed")
            shutil.rmtree(self.run.parent, ignore_errors=True)
            return
        kind = self._draw.choice(INTERRUPTIONS)
        kind = kind if self._disturbed and self._number < MOST_LIVES and self.chances(0.75) else "nothing"
        if self._cancelled_at and self._number == 1:
            kind = "cancel at a step"
        loop = VirtualLoop(self.chance, self._delay, shuffling=self.chances(0.7))
        disk = SimulatedDisk(
            self.chance,
            fail_at=self.chance.randint(1, 120) if kind == "fault" else 0,
            off_at=self.chance.randint(1, 120) if kind in ("off", "power cut") else 0,
            go_off=lambda: self._go_off(loop, disk),
        )
        directory = SimulatedDirectory(
            plan.directory.absolute(),
            plan.progress.absolute(),
            existing=plan.resumed is not None,
            advice=plan.advice,
            disk=disk,
        )
        directory.confirmed = {}
        random.seed(self.chance.random())
        try:
            problem = run_in(loop, self._main(plan, directory, loop, disk, kind))
        except StuckError as stuck:
            self.problems.append(f"life {self._number}, {kind}: {stuck}")
            return
        else:
            left = [task.get_name() for task in asyncio.all_tasks(loop)]
            loop.run_until_complete(loop.shutdown_asyncgens()) if not disk.off else None
        finally:
            loop.close()
            asyncio.set_event_loop(None)
        self.alive = False
        self.steps = loop.steps
        complete = self._made is not None and self._made.summary is not None
        self._check_end(disk, problem, left, complete=complete)
        for descriptor in list(disk.opened):
            disk.close(descriptor)
        if disk.off and kind != "off":
            disk.cut_power()
        to_the_end = complete and not disk.failed and not disk.off
        self.interruptions.append("none" if to_the_end else kind)
        self._check_life(replays, judgements, begun, directory.confirmed)
        self.complete = complete

    def _plan(self) -> RunPlan | None:
        factory: Any = {"none": Agent, "plain": PlainSnapshots, "async": AsyncSnapshots}[self.snapshots]

        def agent(session: Any, observer: Any) -> Agent:
            made: Agent = factory(self, session, observer)
            return made

        agent.__qualname__ = "agent"
        judge = SimulatedJudge(self)
        if self.run.exists():
            try:
                return make_resume_plan(self.run, agent=agent, judge=lambda: judge)
            except UsageError as problem:
                if "start a new run" in str(problem):
                    return None
                if "takes its place" not in str(problem):
                    raise
        return make_plan(
            self.world.data,
            agent=agent,
            judge=lambda: judge,
            runs_dir=self.run.parent,
            run_id="r",
            history=self.world.history,
            workers_dialog=self._workers,
            workers_judge=self._draw.randint(1, 3),
            turn_timeout=TIMEOUT,
            turn_retries=RETRIES,
            fsync_turns=self._fsync_turns,
            fsync_interval=self._fsync_interval,
        )

    def _go_off(self, loop: VirtualLoop, disk: SimulatedDisk) -> None:
        disk.off = True
        self.alive = False
        loop.stop()

    async def _main(
        self, plan: RunPlan, directory: RunDirectory, loop: VirtualLoop, disk: SimulatedDisk, kind: str
    ) -> None:
        made = self._made = Run(plan, self.note)
        made.directory = directory
        life = self.chance.expovariate(1 / (self.pace * 6 + 0.3))
        if kind == "off later":
            loop.call_later(life, lambda: self._go_off(loop, disk))
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, made)
            with anyio.CancelScope() as scope:
                if kind == "cancel":
                    loop.call_later(life, scope.cancel)
                if kind == "cancel at a step":
                    loop.call_at_step(self._cancelled_at, partial(self._cancel_now, scope, loop))
                if kind == "task cancel" and (task := asyncio.current_task()) is not None:
                    loop.call_later(life, task.cancel)
                if kind == "stop":
                    loop.call_later(life, made.stop, "asked to")
                if kind == "abort":
                    loop.call_later(life, made.cancel, "told to")
                try:
                    await made.run()
                except RunStopped:
                    assert kind in ("stop", "abort")
                finally:
                    group.cancel_scope.cancel()
                    self.unwinding = loop.time() - self._cancelled if self._cancelled is not None else 0.0

    def _cancel_now(self, scope: anyio.CancelScope, loop: VirtualLoop) -> None:
        self._cancelled = loop.time()
        scope.cancel()

    async def _watch(self, made: Run[EvalSummary]) -> None:
        """Look at the channels at drawn moments."""
        for _ in range(50):  # and no more, so that a run that stands still is found to do so
            await anyio.sleep(self.latency())
            for actor in made.statistics():
                if max(actor.waiting, actor.peak_waiting) > actor.capacity:
                    self.problems.append(f"{actor.name}: more messages wait than its channel holds")
            if self.open_agents > self._workers:
                self.problems.append(f"{self.open_agents} agents at a time for {self._workers} workers")

    def _check_end(
        self, disk: SimulatedDisk, problem: BaseException | None, left: list[str], *, complete: bool
    ) -> None:
        expected = complete or disk.off or isinstance(problem, asyncio.CancelledError | None)
        if isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        if not expected and not (disk.failed and isinstance(problem, RunFault)):
            self.problems.append(f"ended with {problem!r}")
        if left:
            self.problems.append(f"tasks that did not end: {left}")
        if disk.opened and not disk.off:
            self.problems.append(f"files that stay open: {sorted(disk.opened.values())}")
        if self.open_agents and not disk.off:
            self.problems.append(f"{self.open_agents} agents were not closed")

    def _check_life(
        self,
        replays: set[str],
        judgements: set[str],
        begun: dict[str, int],
        confirmed: dict[int, int],
    ) -> None:
        replays_now, judgements_now = committed(self.run)
        begun_now = turns_begun(self.run)
        names = dict(enumerate(self._names(), 1))
        confirmed_now = {names[place]: turns for place, turns in confirmed.items()}
        for what, found in (
            ("a committed replay is lost", replays - replays_now),
            ("a committed judgement is lost", judgements - judgements_now),
            ("an acknowledged dialogue is lost", self.acknowledged - judgements_now),
            ("acknowledged again", self.acknowledged & judgements),
            ("asked although its replay is committed", {name for name, _ in self.asked} & replays),
            ("judged although that is committed", {name for name, _ in self.judged} & judgements),
            (
                "a committed turn is lost",
                {
                    name
                    for name, turns in (begun | confirmed_now).items()
                    if name not in replays_now and begun_now.get(name, 0) < turns and name not in self.refuses
                },
            ),
            (
                "asked although the turn is committed",
                {
                    name
                    for name, turn in self.asked
                    if turn <= begun.get(name, 0) and name not in self.refuses
                },
            ),
            (
                "goes on at another turn than is told",
                {
                    name
                    for name, first in self.first_turns.items()
                    if first != (1 if name in self.refuses else begun.get(name, 0) + 1)
                },
            ),
            ("judged twice", {name for (name, _), times in self.judged.items() if times > 1}),
        ):
            self.problems += [f"life {self._number}: {what}: {name}" for name in sorted(found)]
        self.restored += sum(first > 1 for first in self.first_turns.values())

    def _names(self) -> list[str]:
        return [line["dialog_id"] for line in read_jsonl(self.world.data)]

    def check_result(self) -> None:
        """Hold the complete run against one that nothing disturbed."""
        summary, expected = self.world.expected()
        if (self.run / SUMMARY).read_bytes() != summary:
            self.problems.append("another summary")
        if traces(self.run) != expected:
            self.problems.append("other traces")
        rows = Counter((row["dialog_id"], row["turn_pair_id"]) for row in read_jsonl(self.run / TURN_EVAL))
        turns = {(name, turn) for name, size in self.world.sizes.items() for turn in range(1, size + 1)}
        if rows != dict.fromkeys(turns, 1):
            self.problems.append("turns without a row, or with several")
        if self.interruptions[-1] == "none":
            self.problems += [f"validate: {finding}" for finding in validate_run(self.run)]
        if turns_begun(self.run):
            self.problems.append("turns of dialogues that are complete are kept")
        if (self.run / TURNS).exists() and self.interruptions[-1] == "none":
            self.problems.append(f"{TURNS} is left behind")


def committed(run: Path) -> tuple[set[str], set[str]]:
    """Return the dialogues whose replay is committed, and those whose judgement is."""
    if not (run / COMMITS).exists():
        return set(), set()
    found = examine(Disk(), run).committed
    return {each.dialog_id for each in found}, {each.dialog_id for each in found if each.judged}


def turns_begun(run: Path) -> dict[str, int]:
    """Return how many turns are recorded of dialogues under way, as a copy of the file is recovered."""
    if not (run / TURNS).exists():
        return {}
    copy = run.parent / "copy"
    copy.mkdir()
    shutil.copy(run / TURNS, copy)
    done = {each.dataset_index for each in examine(Disk(), run).committed}
    log = CheckpointLog(copy, Disk())
    log.recover(done)
    found = [log.read(place) for place in range(1, 100)]
    log.close()
    shutil.rmtree(copy)
    return {each.dialog_id: len(each.turns) for each in found if each is not None}


def simulate(world: World, seed: int, folder: Path) -> Lives:
    """Live a run to its end; return what was seen."""
    lives = Lives(world, seed, folder)
    try:
        while not lives.complete and not lives.problems:
            lives.live()
        if not lives.problems:
            lives.check_result()
    except Exception:  # noqa: BLE001 - whatever it is, the seed has to be told with it
        lives.problems.append(traceback.format_exc())
    return lives


class Agent:
    """Answers from a state that every turn changes, so that a lost one shows in all later answers."""

    def __init__(self, lives: Lives, session: Any, observer: Any) -> None:
        self._lives = lives
        self._name: str = session.dialog_id
        self._observer = observer
        self._state = hashlib.blake2b(self._name.encode(), digest_size=6).hexdigest()
        self._turn = 0
        self._failures = lives.chance.randint(0, RETRIES) if lives.chances(0.3) else 0
        lives.open_agents += 1

    async def reply(self, user_text: str) -> str:
        lives, turn = self._lives, self._turn + 1
        await anyio.sleep(min(TIMEOUT / 10, lives.latency()))
        assert lives.alive
        lives.asked[self._name, turn] += 1
        if self._failures:
            self._failures -= 1
            raise TransportError("unlucky")
        self._turn = turn
        self._state = hashlib.blake2b((self._state + user_text).encode(), digest_size=6).hexdigest()
        match lives.world.manner(self._name, turn):
            case "raises":
                raise ValueError("will not")
            case "hangs":
                await anyio.sleep_forever()
            case "misreports":
                self._observer.recall(query=7)
            case _:
                self._observer.recall(short_term_context=self._state + user_text, query=user_text)
                self._observer.tool(tool_name="state", args={"now": self._state})
                self._observer.profile(risk_level="medium", max_acceptable_loss=turn / 7)
        return f"{self._state}：根据公开数据，市场存在不确定性，仅供参考。"

    async def commit(self, assistant_text: str) -> None:
        self._state = hashlib.blake2b((self._state + assistant_text).encode(), digest_size=6).hexdigest()

    async def close(self) -> None:
        self._lives.open_agents -= 1

    def _taken(self) -> Any:
        if self._lives.chances(0.02):
            raise OSError("no snapshot today")
        if self._lives.chances(0.02):
            return None
        return msgspec.json.encode([self._state, self._turn])

    def _given(self, state: bytes) -> None:
        if self._lives.chances(0.1):
            self._lives.refuses.add(self._name)
            raise ValueError("cannot read that any more")
        self._state, self._turn = msgspec.json.decode(state)


class PlainSnapshots(Agent):
    """Gives and takes its state in its thread."""

    def snapshot(self) -> bytes:
        taken: bytes = self._taken()
        return taken

    def restore(self, state: bytes) -> None:
        self._given(state)


class AsyncSnapshots(Agent):
    """Gives and takes its state on the loop, and sometimes never."""

    async def snapshot(self) -> bytes:
        await anyio.sleep(100 if self._lives.chances(0.02) else self._lives.latency() / 10)
        taken: bytes = self._taken()
        return taken

    async def restore(self, state: bytes) -> None:
        if self._lives.chances(0.03):
            self._lives.refuses.add(self._name)
            await anyio.sleep_forever()
        self._given(state)


class SimulatedJudge:
    """Judges by the reply alone; some it cannot."""

    def __init__(self, lives: Lives) -> None:
        self._lives = lives

    async def judge(self, request: JudgeRequest) -> Verdict | JudgeFailure:
        await anyio.sleep(min(TIMEOUT / 2, self._lives.latency()))
        assert self._lives.alive
        self._lives.judged[request.dialog_id, request.turn_pair_id] += 1
        draw = drawn("judge", request.reply)
        if draw.random() < 0.1:
            return JudgeFailure(reason="no opinion")
        if draw.random() < 0.1:
            raise ValueError("broken")
        return Verdict(score=draw.randint(1, 5), rubric_items=["信息依据"])
