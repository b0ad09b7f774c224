"""SQLite index of a run: places of its records, facets of its turns, full-text search.

An index stands in the directory of the run as ``.view.sqlite`` and is built again once a file that it was
built of has another size or time. It holds no record: those are read by offset when they are shown. That of a
run that has not finished has the committed records and grows with the commit log, as long as what was read of
the log is still there.
"""

# ruff: noqa: S608 - the conditions of filters are fixed texts with placeholders

import hashlib
import json
import re
import shutil
import sqlite3
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, NamedTuple, Self, TypeVar

from msgspec import UNSET

from memfin.contracts import DialogTrace, Judgement, TurnEvalRow, is_variant
from memfin.contracts.reading import canonical_difficulty, decode_part, iter_jsonl, open_input
from memfin.errors import UsageError
from memfin.journal import COMMITS, layout
from memfin.journal.commits import decode_line, digest
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.m1_context import hit_flags
from memfin.report.glossary import ALL_METRICS, VALUE_LABELS
from memfin.report.reader import SUMMARY, ScannedDialog
from memfin.report.worst_turns import missed_tags
from memfin.version import __version__
from memfin.web.view.filters import ANSWER, ANY, CONTRADICTION, KINDS, LOW_SCORE, VOTES, Filters

NAME: Final = ".view.sqlite"
PAGE: Final = 50
"""Turns on a page of a list."""

_SETTINGS: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16000;
"""
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE dialogs (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE, place INTEGER, scenario TEXT, difficulty TEXT, status TEXT,
    start INTEGER, length INTEGER
);
CREATE TABLE turns (
    id INTEGER PRIMARY KEY, dialog INTEGER, number INTEGER, status TEXT, latency REAL,
    start INTEGER, length INTEGER, label TEXT, contradiction INTEGER, missing INTEGER, score REAL,
    hits INTEGER, required INTEGER, findings INTEGER,
    UNIQUE (dialog, number)
);
CREATE TABLE votes (turn INTEGER, start INTEGER, length INTEGER);
CREATE TABLE facets (id INTEGER PRIMARY KEY, kind TEXT, value TEXT, UNIQUE (kind, value));
CREATE TABLE members (
    facet INTEGER, turn INTEGER, hits REAL, of REAL, PRIMARY KEY (facet, turn)
) WITHOUT ROWID;
CREATE INDEX votes_of ON votes (turn);
CREATE VIRTUAL TABLE texts USING fts5(user, reply, tokenize = 'trigram');
"""
_PROGRAM: Final = f"{__version__} {_SCHEMA}"

_SOURCES: Final = (layout.DIALOG_TRACE, layout.TURN_EVAL, layout.JUDGEMENTS)
_BEGINNINGS: Final = "substr(x.user, 1, 400) AS user, substr(x.reply, 1, 600) AS reply"
_IN_ORDER: Final = "ORDER BY d.place, d.id, t.number"

_OWN: Final = {metric.name for metric in ALL_METRICS}
_MAX_INTEGER: Final = 2**63 - 1

T = TypeVar("T")
Counts = dict[str, list[tuple[str, int]]]
"""Values of facets with the number of their turns."""


class Indexes:
    """Indexes of runs, built when they are first asked for.

    ``spare`` is a directory for those of runs that have not finished, or whose own is not writable.
    """

    def __init__(self, spare: Path) -> None:
        self._spare = spare
        self._locks: dict[Path, threading.Lock] = {}
        self._lock = threading.Lock()

    def open(self, files: Mapping[str, Path]) -> "Index":
        """Return the index of a run by the names of its files; it takes seconds where it is built first.

        Raises:
            UsageError: a file cannot be read.
        """
        trace = files[layout.DIALOG_TRACE]
        with self._lock:
            lock = self._locks.setdefault(trace, threading.Lock())
        with lock:
            source = _Source.of(files)
            spare = self._spare / f"{hashlib.sha256(str(trace).encode()).hexdigest()}.sqlite"
            places = [trace.with_name(NAME), spare] if SUMMARY in files else [spare]
            for path in places:
                if _meta(path, "key") == source.key:
                    return Index(path, files)
            return Index(_built(places, source, spare), files)


class Index:
    """Queries of an index, and the records at its places; close it after use."""

    def __init__(self, path: Path, files: Mapping[str, Path]) -> None:
        self._files = files
        self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA trusted_schema = OFF")

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def meta(self, key: str) -> str:
        """Return ``unreadable``, the number of lines that fit no contract, or ``key``, the files' state."""
        return str(self._all("SELECT value FROM meta WHERE key = ?", [key])[0][0])

    def counts(self, filters: Filters) -> Counts:
        """Return the turns by the values of each facet, under the filters of the other facets."""
        found: Counts = {kind: [] for kind in KINDS}
        for without in ("", *(kind for kind in filters.values if kind in KINDS)):
            where, parameters = filters.condition(without)
            kinds = (without,) if without else [kind for kind in KINDS if kind not in filters.values]
            for kind, value, count in self._all(
                f"WITH met AS MATERIALIZED (SELECT t.id FROM turns t WHERE {where}) "
                "SELECT f.kind, f.value, m.n FROM facets f JOIN (SELECT facet, count(*) AS n FROM members "
                f"{'WHERE turn IN met' if parameters else ''} GROUP BY facet) m ON m.facet = f.id "
                f"WHERE f.kind IN ({', '.join('?' * len(kinds))}) ORDER BY "
                "CASE WHEN f.kind IN ('failed', 'metric') THEN f.value != ? ELSE -m.n END, f.value",
                [*parameters, *kinds, ANSWER],
            ):
                found[kind].append((value, count))
        return found

    def totals(self, filters: Filters) -> tuple[int, int]:
        """Return the numbers of turns that meet the filters, and of their dialogues."""
        where, parameters = filters.condition()
        query = f"SELECT count(*), count(DISTINCT t.dialog) FROM turns t WHERE {where}"
        turns, dialogs = self._all(query, parameters)[0]
        return turns, dialogs

    def sums(self) -> Iterator[sqlite3.Row]:
        """Yield ``turns``, ``hits`` and ``of`` by dialogue and value of a metric, or kind of required key."""
        yield from self._db.execute(
            "SELECT f.kind, f.value, d.name, d.scenario, d.difficulty, "
            "count(*) AS turns, sum(m.hits) AS hits, sum(m.of) AS of FROM facets f "
            "JOIN members m ON m.facet = f.id JOIN turns t ON t.id = m.turn "
            "JOIN dialogs d ON d.id = t.dialog WHERE f.kind IN ('metric', 'key') GROUP BY f.id, d.id"
        )

    def numbers(self, column: str, filters: Filters) -> list[float]:
        """Return the values of a column of the turns that meet the filters, in order."""
        where, parameters = filters.condition()
        query = f"SELECT t.{column} FROM turns t WHERE {where} AND t.{column} NOT NULL ORDER BY 1"
        return [row[0] for row in self._all(query, parameters)]

    def lines(self, filters: Filters) -> list[sqlite3.Row]:
        """Return the turns of a page in the order of the dataset; with a search all of their texts."""
        where, parameters = filters.condition()
        page = (
            f"SELECT t.id FROM turns t JOIN dialogs d ON d.id = t.dialog WHERE {where} {_IN_ORDER} "
            "LIMIT ? OFFSET ?"
        )
        return self._all(
            "SELECT t.*, d.name AS name, d.scenario AS scenario, "
            f"{'x.user, x.reply' if filters.q else _BEGINNINGS} "
            "FROM turns t JOIN dialogs d ON d.id = t.dialog "
            f"JOIN texts x ON x.rowid = t.id WHERE t.id IN ({page}) {_IN_ORDER}",
            [*parameters, PAGE, (filters.page - 1) * PAGE],
        )

    def dialog(self, name: str) -> sqlite3.Row | None:
        """Return a dialogue by its id."""
        return self._one("SELECT * FROM dialogs WHERE name = ?", [name])

    def matching(self, dialog: sqlite3.Row, filters: Filters) -> set[int]:
        """Return the numbers of the turns of a dialogue that meet the filters."""
        where, parameters = filters.condition()
        query = f"SELECT t.number FROM turns t WHERE t.dialog = ? AND {where}"
        return {row[0] for row in self._all(query, [dialog["id"], *parameters])}

    def neighbour(self, dialog: sqlite3.Row, filters: Filters, *, after: bool) -> sqlite3.Row | None:
        """Return the next dialogue with turns that meet the filters, or the previous one, with its first."""
        where, parameters = filters.condition()
        sign, order = (">", "ASC") if after else ("<", "DESC")
        return self._one(
            "SELECT d.name, min(t.number) AS number FROM turns t JOIN dialogs d ON d.id = t.dialog "
            f"WHERE (d.place, d.id) {sign} (?, ?) AND {where} "
            f"GROUP BY d.id ORDER BY d.place {order}, d.id {order} LIMIT 1",
            [dialog["place"], dialog["id"], *parameters],
        )

    def replies(self) -> Iterator[sqlite3.Row]:
        """Yield every turn with its reply, in no order."""
        yield from self._db.execute(
            "SELECT d.name, d.place, t.number, t.status, x.reply FROM turns t "
            "JOIN dialogs d ON d.id = t.dialog JOIN texts x ON x.rowid = t.id ORDER BY t.id"
        )

    def places(self, filters: Filters, without: str = "") -> set[tuple[str, int]]:
        """Return dialogue and number of every turn that meets the filters; one kind can be left out."""
        where, parameters = filters.condition(without)
        query = f"SELECT d.name, t.number FROM turns t JOIN dialogs d ON d.id = t.dialog WHERE {where}"
        return {(name, number) for name, number in self._all(query, parameters)}

    def excerpt(self, name: str, number: int) -> sqlite3.Row | None:
        """Return status, message and reply of a turn, the texts from the beginning."""
        return self._one(
            "SELECT t.status, substr(x.user, 1, 300) AS user, substr(x.reply, 1, 400) AS reply FROM turns t "
            "JOIN dialogs d ON d.id = t.dialog JOIN texts x ON x.rowid = t.id "
            "WHERE d.name = ? AND t.number = ?",
            [name, number],
        )

    def records(
        self, dialog: sqlite3.Row
    ) -> tuple[DialogTrace, dict[int, TurnEvalRow], dict[int, list[Judgement]]]:
        """Return the trace of a dialogue, and by turn its row and the votes of the judge."""
        rows = self._all(
            "SELECT number, start, length FROM turns WHERE dialog = ? AND length > 0", [dialog["id"]]
        )
        votes = defaultdict[int, list[Judgement]](list)
        for number, *place in self._all(
            "SELECT t.number, v.start, v.length FROM votes v JOIN turns t ON t.id = v.turn WHERE dialog = ?",
            [dialog["id"]],
        ):
            votes[number].append(self._record(layout.JUDGEMENTS, place, Judgement))
        return (
            self._record(layout.DIALOG_TRACE, (dialog["start"], dialog["length"]), DialogTrace),
            {number: self._record(layout.TURN_EVAL, place, TurnEvalRow) for number, *place in rows},
            votes,
        )

    def _record(self, name: str, place: Sequence[int], kind: type[T]) -> T:
        start, length = place
        with open_input(self._files[name]) as file:
            file.seek(start)
            return decode_part(file.read(length), kind, self._files[name])

    def _all(self, query: str, parameters: list[Any]) -> list[sqlite3.Row]:
        return self._db.execute(query, parameters).fetchall()

    def _one(self, query: str, parameters: list[Any]) -> sqlite3.Row | None:
        return next(iter(self._all(query, parameters)), None)


class _Source(NamedTuple):
    """Files that an index is built of.

    ``log`` are the intact bytes of the commit log, and ``ends`` the committed sizes of the files; None for a
    run that has finished or has no such log, of which all is read.
    """

    files: Mapping[str, Path]
    key: str
    log: bytes
    ends: dict[str, int] | None

    @classmethod
    def of(cls, files: Mapping[str, Path]) -> Self:
        """Return the present state of the files of a run."""
        log = b""
        if COMMITS in files:
            log, ends = _committed(files[COMMITS])
            if SUMMARY not in files:
                return cls(files, json.dumps([_PROGRAM, digest(log)]), log, ends)
        states = {name: path.stat() for name, path in sorted(files.items()) if name in _SOURCES}
        sizes = {name: [each.st_size, each.st_mtime_ns] for name, each in states.items()}
        return cls(files, json.dumps([_PROGRAM, sizes]), log, None)

    def read_before(self, path: Path) -> dict[str, int] | None:
        """Return the sizes that an index was built of, None if it cannot grow to one of this source."""
        read: Any = json.loads(_meta(path, "read") or "[]")
        if not read or read[0] != _PROGRAM or digest(self.log[: read[1]]) != read[2]:
            return None
        return dict(read[3])


def _committed(path: Path) -> tuple[bytes, dict[str, int]]:
    """Return the intact bytes of a commit log, and the size up to which each file is committed."""
    log = path.read_bytes()
    ends: dict[str, int] = {}
    size = 0
    for line in log.split(b"\n"):
        if (record := decode_line(line + b"\n")) is None:
            break
        size += len(line) + 1
        ends |= {part.file: part.offset + part.length for part in record.parts}
    return log[:size], ends


def _meta(path: Path, key: str) -> str | None:
    if path.is_symlink() or not path.is_file():
        return None
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db,
    ):
        found = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])
    return None


def _built(places: Sequence[Path], source: _Source, smaller: Path) -> Path:
    """Build an index at the first place where that succeeds, from a ``smaller`` one if it can grow.

    It grows as a copy: pages are made of the smaller one meanwhile.
    """
    before = source.read_before(smaller)
    for path in places:
        try:
            with NamedTemporaryFile(dir=path.parent, prefix=f"{NAME}.", delete=False) as file:
                partial = Path(file.name)
            try:
                if before is not None:
                    shutil.copyfile(smaller, partial)
                with closing(sqlite3.connect(partial, isolation_level=None)) as db:
                    _Builder(db, source, before).build()
                return partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        except (OSError, sqlite3.Error):  # a directory that is not writable, or a full disk
            if path == places[-1]:
                raise
    raise AssertionError(places)


class _Dialog(ScannedDialog, kw_only=True):
    dataset_index: int = 0


def _integer(number: int) -> int:
    """Return a number as SQLite can store it."""
    return max(-_MAX_INTEGER, min(number, _MAX_INTEGER))


class _Builder:
    """Reads the files of a run once each, a record at a time, from the sizes that were read ``before``."""

    def __init__(self, db: sqlite3.Connection, source: _Source, before: dict[str, int] | None) -> None:
        self._db = db
        self._source = source
        self._before = before
        self._unreadable = 0
        self._metrics = MetricsState()
        self._facets: dict[tuple[str, str], int] = {}

    def build(self) -> None:
        self._db.executescript(_SETTINGS + (_SCHEMA if self._before is None else ""))
        self._db.execute("BEGIN")
        if self._before is not None:
            rows = self._db.execute("SELECT kind, value, id FROM facets")
            self._facets = {(kind, value): number for kind, value, number in rows}
            (found,) = self._db.execute("SELECT value FROM meta WHERE key = 'unreadable'").fetchone()
            self._unreadable = int(found)
        for start, length, trace in self._lines(layout.DIALOG_TRACE, _Dialog):
            if trace.valid_dialog:
                self._add_trace(start, length, trace)
        for start, length, row in self._lines(layout.TURN_EVAL, TurnEvalRow):
            if (turn := self._turn(row.dialog_id, row.turn_pair_id)) is not None:
                self._add_row(turn, start, length, row)
        for start, length, vote in self._lines(layout.JUDGEMENTS, Judgement):
            if (turn := self._turn(vote.dialog_id, vote.turn_pair_id)) is not None:
                self._db.execute("INSERT INTO votes VALUES (?, ?, ?)", (turn, start, length))
        facets = ((number, *facet) for facet, number in self._facets.items())
        self._db.executemany("INSERT OR IGNORE INTO facets VALUES (?, ?, ?)", facets)
        source = self._source
        read = [_PROGRAM, len(source.log), digest(source.log), source.ends]
        meta = {"key": source.key, "unreadable": self._unreadable}
        if source.ends is not None:
            meta["read"] = json.dumps(read)
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
        self._db.execute("COMMIT")

    def _lines(self, name: str, kind: type[T]) -> Iterator[tuple[int, int, T]]:
        """Yield offset, length and record of the lines of a file that fit the contract."""
        if name not in self._source.files:
            return
        start = (self._before or {}).get(name, 0)
        limit = sys.maxsize if self._source.ends is None else self._source.ends.get(name, 0)

        def unreadable(number: int, problem: UsageError) -> None:
            nonlocal start
            del number, problem
            self._unreadable += file.tell() <= limit
            start = file.tell()

        with open_input(self._source.files[name]) as file:
            file.seek(start)
            for _, record in iter_jsonl(file, kind, on_error=unreadable):
                end = file.tell()
                if end > limit:
                    return
                yield start, end - start, record
                start = end

    def _turn(self, dialog: str, number: int) -> int | None:
        query = "SELECT t.id FROM dialogs d JOIN turns t ON t.dialog = d.id WHERE d.name = ? AND t.number = ?"
        found = self._db.execute(query, (dialog, _integer(number))).fetchone()
        return None if found is None else found[0]

    def _add_trace(self, start: int, length: int, trace: _Dialog) -> None:
        difficulty = canonical_difficulty(trace.difficulty) or trace.difficulty
        place = (_integer(trace.dataset_index), trace.scenario_type, difficulty, trace.dialog_status)
        added = self._db.execute(
            "INSERT OR IGNORE INTO dialogs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
            (trace.dialog_id, *place, start, length),
        )
        if not added.rowcount:
            return
        for turn in trace.turns:
            one = self._db.execute(
                "INSERT OR IGNORE INTO turns (dialog, number, status, latency, start, length, contradiction, "
                "missing, hits, required, findings) VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0)",
                (added.lastrowid, _integer(turn.turn_pair_id), turn.outcome, turn.latency_ms),
            )
            if not one.rowcount:
                continue
            texts = (one.lastrowid, turn.user_text, turn.pred_assistant_text or "")
            self._db.execute("INSERT INTO texts (rowid, user, reply) VALUES (?, ?, ?)", texts)
            facets = [
                *(Facet("scenario", trace.scenario_type), Facet("difficulty", difficulty)),
                Facet("status", turn.outcome),
            ]
            if turn.outcome != "ok":
                facets.append(Facet("failed", ANSWER))
            self._add_facets(one.lastrowid, facets)

    def _add_row(self, turn: int | None, start: int, length: int, row: TurnEvalRow) -> None:
        self._db.execute(
            "UPDATE turns SET start = ?, length = ?, label = ?, contradiction = ?, missing = ?, score = ?, "
            "hits = ?, required = ?, findings = ? WHERE id = ?",
            (
                *(start, length, row.pred_compliance_label, row.constraint_contradiction),
                *(len(missed_tags(row)), row.judge_score_1_5, sum(row.key_hit_flags), len(row.key_hit_flags)),
                *(len(row.findings), turn),
            ),
        )
        self._add_facets(turn, row_facets(row, self._metrics))

    def _add_facets(self, turn: int | None, facets: "list[Facet]") -> None:
        members = {
            self._facets.setdefault((each.kind, each.value), len(self._facets)): each
            for each in facets
            if each.value
        }
        rows = ((number, turn, each.hits, each.of) for number, each in members.items())
        self._db.executemany("INSERT OR IGNORE INTO members VALUES (?, ?, ?, ?)", rows)


class Facet(NamedTuple):
    """A value of a facet; of those that measure something, numerator and denominator in the turn."""

    kind: str
    value: str | None
    hits: float = 0.0
    of: float = 0.0


def _rule(rule: str) -> str:
    """Return a rule without the words that weighed most where the classifier spoke."""
    return "classifier" if rule.startswith("classifier:") else rule


def row_facets(row: TurnEvalRow, metrics: MetricsState) -> list[Facet]:
    """Return the facets of a scored turn: label, rules, the values that count it and where it falls short."""
    facets = [Facet("label", row.pred_compliance_label)]
    facets += (Facet("rule", _rule(finding.rule)) for finding in row.findings)
    if is_variant(row):
        return facets  # no figure counts it
    for state in metrics.row_states(row):
        for share, hits, of in state.units(row):
            name = f"{state.name}.{share.name}"
            if share.name == "key_coverage":
                facets += _key_facets(row)
            if share.name not in VALUE_LABELS and state.name in _OWN:
                continue  # reports show it in other tables
            facets.append(Facet("metric", name, hits, of))
            enough = of * (LOW_SCORE if share.name == "judge_score_mean" else share.high)
            if hits > of * share.low if share.lower_is_better else hits < enough:
                facets.append(Facet("failed", name))
    if row.eligible_m2:
        facets.append(Facet("metric", "m2_profile_accuracy.profile_score"))
    return [*facets, *_unsure_facets(row)]


def _key_facets(row: TurnEvalRow) -> Iterator[Facet]:
    """Yield the kinds of the required keys that M1 counts, with those found, and the kinds of missed ones."""
    resolved = [key for key in row.resolved_keys if key.resolvable]
    flags: defaultdict[str, list[int]] = defaultdict(list)
    for key, flag in zip(resolved, hit_flags(row, len(resolved)) if resolved else (), strict=True):
        flags[re.split(r"[\[:]", key.key, maxsplit=1)[0]].append(flag)
    for kind, hits in flags.items():
        yield Facet("key", kind, sum(hits), len(hits))
        if not all(hits):
            yield Facet("missed", kind)


def _unsure_facets(row: TurnEvalRow) -> Iterator[Facet]:
    """Yield the labels on which rules and classifier disagree, and what else is undecided."""
    labels = [] if row.unsure is UNSET else list(row.unsure)
    if row.undecided_constraints is not UNSET and row.undecided_constraints:
        labels.append(CONTRADICTION)
    if row.judge_spread is not UNSET and row.judge_spread > 0:
        labels.append(VOTES)
    for label in (*labels, *([ANY] if labels else ())):
        yield Facet("unsure", label)
