"""The memory layer's figures: context assembly, the expiry sweep, and both with storage in SQLite alone.

    python benchmarks/memory.py                     10,000 users x 20 threads, 100,000 task contexts
    python benchmarks/memory.py --users 500 --tasks 5000 --check

Everything is made in a directory of its own (``--root``, a temporary one by default), then measured in one
run, the two kinds of storage by turns, so that what else the machine does meets both. ``--check`` exits 1
where a bound of the layer is not held: 2 ms for the 99th percentile of an assembly, 10 s for the sweep.
"""

import argparse
import gc
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from memfin.contracts.memory import (
    ConsentScopes,
    ContextFields,
    ProfileConsent,
    Route,
    ThreadHeader,
    UserContext,
)
from memfin.memory import MemoryStore
from memfin.memory.slices import Material, assemble, plan_reads

NOW = datetime(2026, 11, 22, tzinfo=UTC)
EVERYTHING = ConsentScopes(
    create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=True
)
SHARES = (0.5, 0.9, 0.99, 0.999)
ROUTES: Final[tuple[Route, ...]] = ("thread_refresh", "narrative_mapper", "snapshot", "pre_execution")
"""The routes that are read by turns: one with a thread's contexts, one with the titles of all threads."""

MOST_ASSEMBLY = 2.0
"""Milliseconds at the 99th percentile."""

MOST_SWEEP = 10.0
"""Seconds for 100,000 task contexts."""

SAID = ContextFields(
    research_style="Fundamentals first, then flows; short paragraphs.", time_horizon="a year"
)

_TABLES = """
CREATE TABLE consents (user_id TEXT PRIMARY KEY, record BLOB);
CREATE TABLE profiles (user_id TEXT PRIMARY KEY, record BLOB);
CREATE TABLE threads (user_id TEXT, thread_id TEXT, record BLOB, PRIMARY KEY (user_id, thread_id));
CREATE TABLE contexts (user_id TEXT, thread_id TEXT, context_id TEXT, record BLOB,
                       PRIMARY KEY (user_id, thread_id, context_id));
CREATE TABLE tasks (user_id TEXT, context_id TEXT, expires_at REAL, record BLOB,
                    PRIMARY KEY (user_id, context_id));
CREATE INDEX tasks_by_expiry ON tasks (expires_at);
"""


class SQLiteOnly:
    """The same records in one SQLite database, as a store without files would keep them."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; {_TABLES}")

    def put(self, table: str, *row: object) -> None:
        """Insert a row."""
        marks = ", ".join("?" * len(row))
        self.connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608 - names of ours

    def one(self, table: str, user_id: str) -> bytes:
        """Return the record of a user in a table that has one a user."""
        query = f"SELECT record FROM {table} WHERE user_id = ?"  # noqa: S608 - names of ours
        found: bytes = self.connection.execute(query, (user_id,)).fetchone()[0]
        return found

    def assemble(self, user_id: str, route: Route, thread_id: str) -> object:
        """Do what `MemoryStore.load_memory_slices` does, with queries for what it reads from files."""
        raw = self.one("consents", user_id)
        consent = msgspec.json.decode(raw, type=ProfileConsent)
        plan = plan_reads(route, consent.scopes, thread_id=thread_id)
        threads: list[ThreadHeader] = []
        contexts: list[UserContext] = []
        if "threads" in plan.open:
            rows = self.connection.execute("SELECT record FROM threads WHERE user_id = ?", (user_id,))
            threads = [msgspec.json.decode(record, type=ThreadHeader) for (record,) in rows]
        if "thread" in plan.open:
            query = "SELECT record FROM contexts WHERE user_id = ? AND thread_id = ?"
            rows = self.connection.execute(query, (user_id, thread_id))
            contexts = [msgspec.json.decode(record, type=UserContext) for (record,) in rows]
        profile = msgspec.json.decode(self.one("profiles", user_id), type=UserContext)
        memory = assemble(plan, Material(profile=profile, thread=contexts, threads=threads), None)
        if self.one("consents", user_id) != raw:
            raise AssertionError
        return memory

    def sweep(self, now: datetime) -> int:
        """Remove the task contexts that have expired; return how many."""
        return self.connection.execute("DELETE FROM tasks WHERE expires_at <= ?", (now.timestamp(),)).rowcount


def user(number: int) -> str:
    """Return the id of a user."""
    return f"user-{number:05d}"


def thread(number: int) -> str:
    """Return the id of a thread."""
    return f"thread_20261122T000000Z_{number:06x}"


def populate(
    root: Path, users: int, threads: int, tasks: int
) -> tuple[MemoryStore, SQLiteOnly, list[datetime]]:
    """Make users with their threads and tasks in both storages; return these, and a clock that can be set.

    The files are written as the store writes them, but not synchronised: only reads and the sweep are
    measured.
    """
    root.mkdir(parents=True, exist_ok=True)
    sql = SQLiteOnly(root / "only.sqlite")
    sql.connection.execute("BEGIN")
    for number in range(users):
        _populate_user(root / "data", sql, user(number), threads)
    for number in range(tasks):
        _task(root / "data", sql, user(number % users), number)
    sql.connection.execute("COMMIT")
    clock = [NOW]
    return MemoryStore(root / "data", clock=lambda: clock[0]), sql, clock


def _write(path: Path, record: msgspec.Struct) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.encode(record)
    path.write_bytes(msgspec.yaml.encode(msgspec.to_builtins(record)) if path.suffix == ".yaml" else data)
    return data


def _populate_user(data: Path, sql: SQLiteOnly, user_id: str, threads: int) -> None:
    consent = ProfileConsent(
        consent_id="consent_1",
        user_id=user_id,
        version=1,
        scopes=EVERYTHING,
        granted_at=NOW,
        updated_at=NOW,
        profile_context_id="ctx_1",
    )
    sql.put("consents", user_id, _write(data / "consents" / f"{user_id}.yaml", consent))
    contexts = data / "user_contexts" / user_id
    profile = UserContext(
        context_id="ctx_1",
        user_id=user_id,
        scope="profile",
        created_at=NOW,
        updated_at=NOW,
        language_preference="zh",
        research_depth="deep",
        risk_prompt_preference="risk_first",
        user_focus_reason="关注黄金与长期利率的关系",
    )
    sql.put("profiles", user_id, _write(contexts / "_profile" / "ctx_1.json", profile))
    for number in range(threads):
        header = ThreadHeader(
            thread_id=thread(number),
            user_id=user_id,
            snapshot_id=f"snap_{number}",
            title=f"Thread {number}: gold and real yields",
            cognition_object={"asset": "XAU", "name": f"gold {number}"},
            created_at=NOW + timedelta(seconds=number),
            updated_at=NOW + timedelta(seconds=number),
        )
        record = _write(data / "threads" / user_id / f"{header.thread_id}.json", header)
        sql.put("threads", user_id, header.thread_id, record)
        context = UserContext(
            context_id="ctx_1",
            user_id=user_id,
            scope="thread",
            created_at=NOW,
            updated_at=NOW,
            thread_id=header.thread_id,
            research_style=SAID.research_style,
        )
        path = contexts / "_thread" / header.thread_id / "ctx_1.json"
        sql.put("contexts", user_id, header.thread_id, "ctx_1", _write(path, context))


def _task(data: Path, sql: SQLiteOnly, user_id: str, number: int) -> None:
    context_id = f"ctx_20261122T000000Z_{number:06x}"
    context = UserContext(
        context_id=context_id,
        user_id=user_id,
        scope="task",
        created_at=NOW,
        updated_at=NOW,
        expires_at=NOW + timedelta(hours=24),
        task_id=f"task_{number}",
        time_horizon=SAID.time_horizon,
    )
    path = data / "user_contexts" / user_id / "_task" / f"{context_id}.json"
    expires_at = (NOW + timedelta(hours=24)).timestamp()
    sql.put("tasks", user_id, context_id, expires_at, _write(path, context))


def percentile(times: Sequence[float], share: float) -> float:
    """Return a percentile by rank, in milliseconds."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] * 1e3


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds something took."""
    return both_timed(work)[0]


def both_timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return how many seconds something took, and how many of them on a processor."""
    began, worked = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - began, time.thread_time() - worked


def read_both(
    store: MemoryStore, sql: SQLiteOnly, users: int, threads: int, reads: int
) -> dict[str, dict[str, float]]:
    """Assemble contexts of random users from both storages by turns; return what it took.

    The figures named for the processor leave out what other processes took of a busy machine.
    """
    draw = random.Random(20261122)  # noqa: S311 - variety, no secret
    times: dict[str, list[tuple[float, float]]] = {"files": [], "sqlite": []}
    gc.collect()
    for number in range(reads):
        route = ROUTES[number % len(ROUTES)]
        user_id, thread_id = user(draw.randrange(users)), thread(draw.randrange(threads))
        from_files = partial(store.load_memory_slices, user_id, route, thread_id)
        times["files"].append(both_timed(from_files))
        times["sqlite"].append(both_timed(partial(sql.assemble, user_id, route, thread_id)))
    figures: dict[str, dict[str, float]] = {}
    for name, taken in times.items():
        walls, cpus = zip(*taken, strict=True)
        figures[name] = {
            **{f"p{share * 100:g}_ms": round(percentile(walls, share), 3) for share in SHARES},
            **{f"p{share * 100:g}_processor_ms": round(percentile(cpus, share), 3) for share in SHARES},
        }
    return figures


def main() -> int:
    """Print the figures as JSON; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--reads", type=int, default=20_000)
    parser.add_argument("--root", type=Path, help="an empty directory for the data; it is removed afterwards")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bound is not held")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=options.root))
    try:
        began = time.perf_counter()
        store, sql, clock = populate(root, options.users, options.threads, options.tasks)
        opened = time.perf_counter() - began
        rebuilt = timed(store.close)
        store = MemoryStore(root / "data", clock=lambda: clock[0])
        assemblies = read_both(store, sql, options.users, options.threads, options.reads)
        clock[0] = NOW + timedelta(hours=24, seconds=-1)
        early = store.expire().task_contexts
        clock[0] = NOW + timedelta(hours=24)
        swept = 0

        def sweep() -> None:
            nonlocal swept
            swept = store.expire().task_contexts

        files_sweep = timed(sweep)
        sqlite_sweep = timed(lambda: sql.sweep(clock[0]))
        store.close()
        figures = {
            "users": options.users,
            "threads_a_user": options.threads,
            "populated_and_index_built_s": round(opened + rebuilt, 1),
            "assembly": assemblies,
            "sweep": {
                "task_contexts": swept,
                "files_s": round(files_sweep, 2),
                "sqlite_s": round(sqlite_sweep, 2),
            },
        }
        print(json.dumps(figures, indent=2), flush=True)
    finally:
        shutil.rmtree(root)
    if early or swept != options.tasks:
        print(f"swept {early} contexts too early and {swept} of {options.tasks} in time", file=sys.stderr)
        return 1
    assembly = assemblies["files"]["p99_ms"]
    if options.check and (assembly > MOST_ASSEMBLY or files_sweep > MOST_SWEEP):
        print(
            f"not held: {assembly} ms of {MOST_ASSEMBLY}, {files_sweep:.1f} s of {MOST_SWEEP}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
