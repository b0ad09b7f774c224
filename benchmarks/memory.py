"""The memory layer's figures: context assembly, the expiry sweep, and both with storage in SQLite alone.

    python benchmarks/memory.py                     10,000 users x 20 threads, 100,000 task contexts
    python benchmarks/memory.py --users 500 --tasks 5000 --check

Everything is made in a directory of its own, below ``--root`` or that of temporary files, and measured in one
run, the two kinds of storage by turns, so that what else the machine does meets both; the directory is
removed in any case, unless the process is killed. The full size takes 4 GB. ``--check`` exits 1 where a
bound of the layer is not held: 2 ms for the 99th percentile of an assembly, 10 s for the sweep of 100,000.
"""

import argparse
import gc
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from memfin.contracts.memory import (
    ConsentScopes,
    ContextFields,
    Preferences,
    ProfileConsent,
    Route,
    ThreadHeader,
    UserContext,
)
from memfin.memory import MemoryStore
from memfin.memory.consent import granted
from memfin.memory.contexts import KEPT, later
from memfin.memory.files import Files
from memfin.memory.index import Index, TaskRow
from memfin.memory.package import verify_package
from memfin.memory.paths import STATE, Paths, Prefix, new_id, with_prefix
from memfin.memory.records import encode, onboarded
from memfin.memory.slices import Material, assemble, plan_reads

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SCOPES = ConsentScopes(
    create_task=True, save_to_profile=True, save_to_thread=True, training_use_allowed=False
)
PREFERENCES = Preferences(
    language_preference="zh",
    research_depth="deep",
    risk_prompt_preference="risk_first",
    user_focus_reason="关注黄金与长期利率的关系",
)
SAID = ContextFields(research_style="Fundamentals first, then flows; short paragraphs.")
"""What a user says in each thread."""

ASKED = ContextFields(time_horizon="a year")
"""What a user says in each task."""

SAMPLE: Final = 2
"""Users who are written by the layer, to compare with."""

SHARES = (0.5, 0.9, 0.99, 0.999)
ROUTES: Final[tuple[Route, ...]] = ("thread_refresh", "narrative_mapper", "snapshot", "pre_execution")
"""The routes that are read by turns: one with a thread's contexts, one with the titles of all threads."""

MOST_ASSEMBLY = 2.0
"""Milliseconds at the 99th percentile."""

MOST_SWEEP = 10.0
"""Seconds for 100,000 task contexts."""

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


def ids(prefix: Prefix, user_id: str, count: int) -> list[str]:
    """Return the ids that a user's first records of a kind get when all are made at one moment."""
    made: list[str] = []
    for _ in range(count):
        made.append(new_id(prefix, user_id, NOW, made.__contains__))
    return made


def lived(store: MemoryStore, user_id: str, threads: int, tasks: int) -> None:
    """Have the layer write a user: consent with preferences, threads with a context each, tasks."""
    consent = store.grant_consent(user_id, SCOPES, PREFERENCES)
    save = partial(store.save_thread, save_user_context=True, consent_id=consent.consent_id, context=SAID)
    for number in range(threads):
        save(user_id, *_thread(number))
    for _ in range(tasks):
        store.begin_task(user_id, "pre_execution", fields=ASKED)


def _thread(number: int) -> tuple[str, str, dict[str, str]]:
    """Return snapshot, title and object of a user's thread."""
    title = f"Thread {number}: gold and real yields"
    return f"snap_{number}", title, {"asset": "XAU", "name": f"gold {number}"}


class Filed(NamedTuple):
    """A record, the directory and name of its file below the data root, and its row in the database."""

    record: ProfileConsent | UserContext | ThreadHeader
    directory: str
    name: str
    table: str
    row: tuple[object, ...]


def told(user_id: str, threads: int, tasks: int) -> Iterator[Filed]:
    """Yield the records of a user who has `lived`, made by the layer's own rules for each of them."""
    consent_id = new_id("consent", f"{user_id}:1", NOW, lambda _: False)
    (context_id,) = ids("ctx", user_id, 1)
    profile, _ = onboarded(user_id, context_id, PREFERENCES, 1, NOW)
    consent = granted(None, user_id, consent_id, SCOPES, context_id, NOW)
    own = f"user_contexts/{user_id}"
    yield Filed(consent, "consents", f"{user_id}.yaml", "consents", (user_id,))
    yield Filed(profile, f"{own}/_profile", f"{context_id}.json", "profiles", (user_id,))
    for number, thread_id in enumerate(ids("thread", user_id, threads)):
        snapshot_id, title, asset = _thread(number)
        header = ThreadHeader(
            thread_id=thread_id,
            user_id=user_id,
            snapshot_id=snapshot_id,
            title=title,
            cognition_object=asset,
            created_at=NOW,
            updated_at=NOW,
        )
        since = later(NOW, [header])
        context = UserContext(
            context_id=context_id,
            user_id=user_id,
            scope="thread",
            created_at=since,
            updated_at=since,
            consent_version=1,
            thread_id=thread_id,
            **structs.asdict(SAID),
        )
        name, row = f"{thread_id}.json", (user_id, thread_id)
        yield Filed(header, f"threads/{user_id}", name, "threads", row)
        directory = f"{own}/_thread/{thread_id}"
        yield Filed(context, directory, f"{context_id}.json", "contexts", (*row, context_id))
    for task_id in ids("ctx", user_id, tasks):
        task = UserContext(
            context_id=task_id,
            user_id=user_id,
            scope="task",
            created_at=NOW,
            updated_at=NOW,
            expires_at=NOW + KEPT,
            consent_version=1,
            task_id=with_prefix("task", task_id),
            route="pre_execution",
            task_status="running",
            **structs.asdict(ASKED),
        )
        due = (user_id, task_id, (NOW + KEPT).timestamp())
        yield Filed(task, f"{own}/_task", f"{task_id}.json", "tasks", due)


def write(data: Path, sql: SQLiteOnly | None, people: Mapping[str, int], threads: int) -> None:
    """Write users, each with so many tasks, into a data root that is there, and into the database.

    The bytes are those that the layer writes. They are not synchronised one by one, and the index is
    filled in one transaction, so that there can be many.
    """
    rows: list[TaskRow] = []
    known: set[str] = set()
    for user_id, tasks in people.items():
        for record, directory, name, table, row in told(user_id, threads, tasks):
            content = encode(record, Path(name), _passed)
            if directory not in known:
                (data / directory).mkdir(0o700, parents=True, exist_ok=True)
                known.add(directory)
            descriptor = os.open(f"{data}/{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(descriptor, content)
            os.close(descriptor)
            if sql is not None:
                sql.put(table, *row, msgspec.json.encode(record))
            if table == "tasks":
                rows.append((user_id, str(row[1]), NOW + KEPT))
        known.clear()
    index = Index(Paths(data).index, Files())
    index.build(people, rows)
    index.close()


def _passed(_: object, __: str) -> None:
    """Look for nothing: the words are the same for everybody, and the layer's gate has taken the sample's."""


def check_sample(root: Path, threads: int, tasks: int) -> None:
    """Return when some users are written here byte for byte as the layer writes them, the index included.

    Raises:
        AssertionError: they are not.
    """
    people = {user(number): tasks for number in range(SAMPLE)}
    with MemoryStore(root / "lived", clock=lambda: NOW) as store:
        for user_id in people:
            lived(store, user_id, threads, tasks)
    MemoryStore(root / "told").close()
    write(root / "told", None, people, threads)
    real, made = (set(files_of(root / name).items()) for name in ("lived", "told"))
    if real != made:
        raise AssertionError(f"not as the layer writes it: {sorted(name for name, _ in real ^ made)[:3]}")
    with MemoryStore(root / "lived") as first, MemoryStore(root / "told") as second:
        real_index, made_index = (
            (store.workspace.index.users(), store.workspace.index.expired(NOW + KEPT))
            for store in (first, second)
        )
    if real_index != made_index:
        raise AssertionError("not the index that the layer makes")


def files_of(data: Path) -> dict[str, bytes]:
    """Return the files of a data root that are content, by path."""
    found = (path for path in data.rglob("*") if path.is_file())
    named = {path.relative_to(data).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in named.items() if not name.startswith(f"{STATE}/")}


def verify_sample(store: MemoryStore, root: Path, users: int, threads: int) -> None:
    """Return when exports of some users are whole and hold all of their records.

    Raises:
        AssertionError: they do not.
    """
    for number in sorted({0, users // 2, users - 1}):
        found = verify_package(store.export_to(user(number), root))
        if found.discrepancies or found.manifest is None or len(found.manifest.files) < 2 + 2 * threads:
            raise AssertionError(f"{user(number)}: {found.discrepancies}")


def populate(root: Path, users: int, threads: int, tasks: int) -> SQLiteOnly:
    """Make users with their threads and tasks in both storages; return the one of SQLite alone."""
    check_sample(root, threads, max(1, tasks // users))
    data = root / "data"
    MemoryStore(data).close()
    sql = SQLiteOnly(root / "only.sqlite")
    sql.connection.execute("BEGIN")
    write(data, sql, {user(number): len(range(number, tasks, users)) for number in range(users)}, threads)
    sql.connection.execute("COMMIT")
    os.sync()
    return sql


def remove(root: Path) -> None:
    """Remove a directory with many users in it, many at a time: a file system may wait at each file."""
    each = [path for tree in ("user_contexts", "threads") for path in (root / "data" / tree).glob("*")]
    with ThreadPoolExecutor(32) as pool:
        for _ in pool.map(partial(shutil.rmtree, ignore_errors=True), each):
            pass
    shutil.rmtree(root)


def percentile(times: Sequence[float], share: float) -> float:
    """Return a percentile by rank, in milliseconds."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] * 1e3


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Return how many seconds something took, and how many of them on a processor, in all threads."""
    began, worked = time.perf_counter(), time.process_time()
    work()
    taken = {"wall_s": time.perf_counter() - began, "processor_s": time.process_time() - worked}
    return {name: round(seconds, 2) for name, seconds in taken.items()}


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
        user_id = user(draw.randrange(users))
        thread_id = draw.choice(ids("thread", user_id, threads))
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
    root = Path(tempfile.mkdtemp(prefix="memfin-memory-", dir=options.root))

    def end(number: int, _frame: object) -> None:
        """End at once: an exception would be lost where a finaliser happens to run."""
        remove(root)
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        figures = measured(root, options.users, options.threads, options.tasks, options.reads)
        print(json.dumps(figures, indent=2), flush=True)
    finally:
        remove(root)
    assembly, sweep = figures["assembly"]["files"]["p99_ms"], figures["sweep"]["files"]["wall_s"]
    if options.check and (assembly > MOST_ASSEMBLY or sweep > MOST_SWEEP):
        print(f"not held: {assembly} ms of {MOST_ASSEMBLY}, {sweep} s of {MOST_SWEEP}", file=sys.stderr)
        return 1
    return 0


def measured(root: Path, users: int, threads: int, tasks: int, reads: int) -> dict[str, Any]:
    """Return the figures of a run.

    Raises:
        AssertionError: what was measured was not what the layer does.
    """
    began = time.perf_counter()
    sql = populate(root, users, threads, tasks)
    populated = time.perf_counter() - began
    clock = [NOW]
    with MemoryStore(root / "data", clock=lambda: clock[0]) as store:
        verify_sample(store, root / "exports", users, threads)
        assemblies = read_both(store, sql, users, threads, reads)
        clock[0] = NOW + KEPT - timedelta(seconds=1)
        early = store.expire().task_contexts
        clock[0] = NOW + KEPT
        swept: list[int] = []
        files_sweep = timed(lambda: swept.append(store.expire().task_contexts))
    sqlite_sweep = timed(lambda: sql.sweep(clock[0]))
    sql.connection.close()
    if (early, swept) != (0, [tasks]):
        raise AssertionError(f"swept {early} contexts too early and {swept} of {tasks} in time")
    return {
        "users": users,
        "threads_a_user": threads,
        "populated_s": round(populated, 1),
        "assembly": assemblies,
        "sweep": {"task_contexts": tasks, "files": files_sweep, "sqlite": sqlite_sweep},
    }


if __name__ == "__main__":
    sys.exit(main())
