"""Merging of the shards of a run: their rows in the order of the dataset, and the results of all together.

The merged run is built in a work directory beside its place and renamed at the end: it is there complete or
not at all. A merge that was killed begins again, since its results need every row anyway.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from memfin.actors.dialog_scoring import DialogTotals
from memfin.actors.dialogs import recorded_result
from memfin.actors.measuring import resolve_metrics
from memfin.actors.messages import encode, utc_now
from memfin.agents.calls import UsageTotal
from memfin.contracts import (
    ConfigFile,
    DialogTrace,
    EvalSummary,
    JudgeStats,
    MetricsDone,
    ParameterChange,
    Record,
    RunConfig,
    RunFinished,
    RunManifest,
    RunStarted,
    RunStats,
    TurnEvalRow,
    TurnTrace,
)
from memfin.contracts.reading import decode, read_json
from memfin.contracts.settings import MAX_PROCESSES, MAX_WORKERS, settings_of
from memfin.contracts.validity import LABELS
from memfin.dataset import SAMPLE, check_dataset_file, digest_dataset, read_entries
from memfin.errors import RunFault, UsageError
from memfin.journal import COMMITS, DATASET, DIALOGUES, JUDGE_CONTROLS, Artifact, Entry, progress_path
from memfin.journal.artifacts import CONFIG, FIRST_ARTIFACTS, MANIFEST, artifact_checks
from memfin.journal.disk import PRIVATE, Disk
from memfin.journal.journal import Journal
from memfin.journal.lock import LOCK, RunLock, is_locked
from memfin.journal.merging import JournalReader
from memfin.journal.rewrite import WORKSHOP
from memfin.judges.protocol import CacheCounts
from memfin.metrics.aggregate import summary_pieces
from memfin.metrics.custom import CustomMetric
from memfin.runtime.outputs import pretty_json
from memfin.runtime.plan import pressure_files
from memfin.runtime.resume import changed_inputs, read_artifacts
from memfin.sessions import ClientSessions
from memfin.shards import Shard
from memfin.version import __version__

MERGE: Final = "merge.json"
"""The file of a merged run that says of which shards it is made."""

_SHARD_NAME: Final = re.compile(r"[0-9]+-of-[0-9]+")
_PIECE: Final = 1 << 20

GROUP: Final = 4 << 20
"""Bytes of rows that are committed at a time."""

_ONE_VALUE: Final = ("metric", "trace_version")
"""Settings that, beside the gates and what the fingerprint holds, have one value in all shards."""

_WORKERS: Final = {
    "workers_dialog": MAX_WORKERS,
    "workers_judge": MAX_WORKERS,
    "workers_score": MAX_PROCESSES,
}
"""Settings of which the merged run has the sum, and the most that they may be."""

_SUMMED: Final = (
    "votes",
    "failed_votes",
    "attempts",
    "cache_hits",
    "cache_misses",
    "cache_damaged",
    "prompt_tokens",
    "completion_tokens",
)

_DECODED: Final[Any] = {"frozen": True, "kw_only": True, "gc": False}
_TEXT: Final = (msgspec.Raw, msgspec.Raw())
_TURN: Final = msgspec.defstruct(
    "CountedTurn",
    [("pred_assistant_text", *_TEXT), ("gt_assistant_text", *_TEXT)],
    bases=(TurnTrace,),
    **_DECODED,
)
_TRACE: Final = cast(
    "type[DialogTrace]",
    msgspec.defstruct("CountedTrace", [("turns", list[_TURN], [])], bases=(DialogTrace,), **_DECODED),  # type: ignore[valid-type]
)
_FINDING: Final = msgspec.defstruct("CountedFinding", [("field", str)], **_DECODED)
_ROW: Final = cast(
    "type[TurnEvalRow]",
    msgspec.defstruct("CountedRow", [("findings", list[_FINDING], [])], bases=(TurnEvalRow,), **_DECODED),  # type: ignore[valid-type]
)
"""Traces and rows as far as results need them: texts and findings are two thirds of the time to decode."""

OnProgress = Callable[[int, int], None]
"""Takes the number of dialogues that are merged, and that of all."""


class MergeRecord(Record):
    """``merge.json``: the shards of a merged run; ``commits`` are the checksums of their logs by shard."""

    run_id: str
    config_fingerprint: str
    commits: dict[str, str]


class _ShardRun(NamedTuple):
    """The complete run directory of a shard."""

    directory: Path
    shard: Shard
    config: ConfigFile
    manifest: RunManifest
    stats: RunStats

    @property
    def settings(self) -> RunConfig:
        return self.config.settings


class _Job(NamedTuple):
    """A merge that can be made: what was checked, and what the merged run says of itself."""

    runs: Sequence[_ShardRun]
    out: Path
    record: MergeRecord
    dataset: Path
    metrics: Mapping[str, CustomMetric]
    config: ConfigFile
    manifest: RunManifest


def merge_shards(
    shards: Sequence[Path], out: Path, on_progress: OnProgress | None = None, *, disk: Disk | None = None
) -> Path:
    """Write the run that the shards are together into a new directory, and return that.

    A directory without a run of its own stands for all shards in it. The rows, and the summary, are those of
    one process, whatever the number of shards. No agent and no judge is imported; custom metrics are. Of a
    run that is merged from the same shards already, nothing is done. A merge that was killed begins again.

    Raises:
        UsageError: the shards are not all those of one complete run, another process uses one of them or
            merges them, the dataset is not theirs any more, or ``out`` is something else.
        JournalDamaged: a row or a commit of a shard is missing or changed.
        RunFault: the file system refuses.
    """
    disk = disk or Disk()
    try:
        job = _make_job([_read_shard(path) for path in shard_paths(shards)], out)
        if _is_done(job):
            return out
        with JournalReader(disk, [run.directory for run in job.runs]) as reader:
            out.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
            with _work_directory(disk, job) as work:
                if work is not None:
                    _build(disk, job, reader, work, on_progress)
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise RunFault(
            f"merge into {out}: {where}{problem.strerror or problem}; fix the cause and run the command again"
        ) from problem
    return out


def shard_paths(paths: Sequence[Path]) -> list[Path]:
    """Return the run directories of shards; a directory that is none stands for the shards in it.

    Raises:
        OSError: a directory cannot be read.
    """
    found: list[Path] = []
    for path in paths:
        inner: list[Path] = []
        if path.is_dir() and not (path / COMMITS).exists():
            inner = sorted(each for each in path.iterdir() if _SHARD_NAME.fullmatch(each.name))
        found += inner or [path]
    return found


def _read_shard(directory: Path) -> _ShardRun:
    """Return a shard; raise `UsageError` unless its run is complete and left alone."""
    if directory.is_dir() and not all((directory / name).is_file() for name in (COMMITS, *FIRST_ARTIFACTS)):
        raise UsageError(f"{directory}: holds no run that has begun; give the run directories of shards")
    config, manifest = read_artifacts(directory, ConfigFile)
    if config.settings.shard is None:
        raise UsageError(f"run {directory}: is no shard of a run (memfin run --shard K/N)")
    shard = Shard.parse(config.settings.shard)
    if is_locked(directory / LOCK):
        raise UsageError(f"shard {shard}: {directory} is in use by another process; wait for it to end")
    ends = all((directory / name).is_file() for name in DIALOGUES.ends)
    if manifest.ended_at is None or not ends or (directory / WORKSHOP).exists():
        raise UsageError(f"shard {shard} is not finished; memfin resume {directory} goes on with it")
    if (directory / LABELS).exists():
        raise UsageError(
            f"shard {shard}: {directory / LABELS} was made for a part of the run; move it away, and give it "
            "to memfin correct --labels after the merge"
        )
    return _ShardRun(directory, shard, config, manifest, read_json(directory / "run_stats.json", RunStats))


def _make_job(runs: Sequence[_ShardRun], out: Path) -> _Job:
    """Return the merge of all shards of one run; raise `UsageError` unless they are that."""
    if not runs:
        raise UsageError("no shard is given; name the run directories of all shards")
    runs = sorted(runs, key=lambda run: run.shard.index)
    first = runs[0]
    _check_shards(runs)
    settings = first.settings
    own = first.directory / DATASET
    spooled = own.is_file()
    dataset = own if spooled else SAMPLE if settings.dataset is None else Path(settings.dataset)
    check_dataset_file(dataset)
    metrics = resolve_metrics(settings.metric)
    now = {
        "dataset_sha256": digest_dataset(dataset)[0],
        "memfin_version": __version__,
        "metrics": {name: metric.version for name, metric in metrics.items()} or None,
    }
    recorded = first.config.fingerprint_inputs
    if changed := [name for name, value in now.items() if recorded.get(name) != value]:
        raise UsageError(
            f"shards of run {first.config.run_id}: not as it was when they ran: {', '.join(changed)} "
            f"(dataset {dataset}, memfin {__version__}); put it back to merge them"
        )
    place = str(out / DATASET)
    workers = {name: _total([run.settings[name] for run in runs], most) for name, most in _WORKERS.items()}
    settings = settings.replace(
        shard=None, rate_lease_address=None, dataset=place if spooled else settings.dataset, **workers
    )
    record = MergeRecord(
        run_id=first.config.run_id,
        config_fingerprint=first.config.config_fingerprint,
        commits={str(run.shard): _log_digest(run.directory) for run in runs},
    )
    return _Job(
        runs,
        out,
        record,
        dataset,
        metrics,
        first.config.replace(settings=settings),
        first.manifest.replace(
            dataset_path=place if spooled else first.manifest.dataset_path,
            started_at=min(run.manifest.started_at for run in runs),
            ended_at=max(run.manifest.ended_at or "" for run in runs),
            workers_dialog=settings.workers_dialog,
            workers_judge=settings.workers_judge,
        ),
    )


def _total(workers: Sequence[int | None], most: int) -> int | None:
    """Return the workers of all shards together; None where one of them took the default."""
    return None if None in workers else min(most, sum(filter(None, workers)))


def _check_shards(runs: Sequence[_ShardRun]) -> None:
    """Raise `UsageError` unless the runs, in the order of the shards, are all those of one run."""
    first, count = runs[0], runs[0].shard.count
    for run in runs[1:]:
        if run.config.run_id != first.config.run_id:
            raise UsageError(
                f"{run.directory}: is of run {run.config.run_id!r}, {first.directory} of "
                f"{first.config.run_id!r}; give the shards of one run"
            )
        if run.shard.count != count:
            raise UsageError(
                f"{run.directory}: is shard {run.shard}, {first.directory} is shard {first.shard}; give the "
                "shards of one run"
            )
        if differing := _differing(first, run):
            raise UsageError(
                f"shards {first.shard} and {run.shard}: have different {', '.join(differing)}; a run has one"
            )
    by_index: dict[int, _ShardRun] = {}
    for run in runs:
        if (other := by_index.setdefault(run.shard.index, run)) is not run:
            same = other.directory.resolve() == run.directory.resolve()
            raise UsageError(
                f"shard {run.shard}: {run.directory} is given twice"
                if same
                else f"shard {run.shard}: is given as {other.directory} and as {run.directory}; keep one"
            )
    if missing := [str(Shard(index, count)) for index in range(count) if index not in by_index]:
        verb = "shard {} is" if len(missing) == 1 else "shards {} are"
        shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")  # noqa: PLR2004 - to be read
        raise UsageError(f"{verb.format(shown)} missing; give the run directories of all {count} shards")


def _differing(one: _ShardRun, other: _ShardRun) -> list[str]:
    """Return the names of what the shards of a run have in common and these two do not."""
    names = [each.name for each in settings_of(RunConfig) if each.extra["group"] == "Gates"]
    return [
        *changed_inputs(one.config, other.config),
        *(name for name in (*_ONE_VALUE, *names) if one.settings[name] != other.settings[name]),
        *(["agent_file_sha256"] if one.config.agent_file_sha256 != other.config.agent_file_sha256 else []),
    ]


def _log_digest(directory: Path) -> str:
    with (directory / COMMITS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_done(job: _Job) -> bool:
    """Return True if the merged run is there; raise `UsageError` if something else is."""
    if not job.out.exists() and not job.out.is_symlink():
        return False
    if _merge_record(job.out) == job.record:
        return True
    raise UsageError(f"{job.out}: exists already and is no merge of these shards; choose another --out")


def _merge_record(directory: Path) -> MergeRecord | None:
    with suppress(OSError, UsageError):
        return decode((directory / MERGE).read_bytes(), MergeRecord)
    return None


@contextmanager
def _work_directory(disk: Disk, job: _Job) -> Iterator[Path | None]:
    """Yield a locked directory for the merged run, which becomes it at the end; None if it is there.

    What a killed merge has left is taken over and removed. Nothing is left of one that fails.

    Raises:
        UsageError: another process is merging, or an unfinished merge of other shards is there.
        OSError: the file system refuses.
    """
    work = job.out.with_name(f".{job.out.name}.merging")
    lock = RunLock(work, disk)

    def remove() -> None:
        with suppress(OSError):
            for name in disk.names(work):
                disk.unlink(work / name)
            disk.rmdir(work)

    with suppress(FileExistsError):
        disk.mkdir(work)
    try:
        lock.acquire()
    except OSError:
        with suppress(OSError):  # it is not empty where another process has made it
            disk.rmdir(work)
        raise
    try:
        if job.out.exists():  # by another process: the directory was that one's, or is new and empty
            with suppress(OSError):
                if disk.names(work) == [LOCK]:
                    remove()
            yield None if _is_done(job) else work
            return
        _clear(disk, job, work)
        try:
            disk.write_whole(work / MERGE, pretty_json(job.record))
            yield work
            disk.fsync_directory(work)
            disk.replace(work, job.out)
            disk.fsync_directory(job.out.parent)
        except BaseException:
            remove()
            raise
    finally:
        lock.release()


def _clear(disk: Disk, job: _Job, work: Path) -> None:
    """Remove what a killed merge of the same shards has left."""
    names = [name for name in disk.names(work) if name != LOCK]
    left = _merge_record(work)
    same = left is not None and (left.run_id, left.config_fingerprint, [*left.commits]) == (
        job.record.run_id,
        job.record.config_fingerprint,
        [*job.record.commits],
    )
    if MERGE in names and not same:
        raise UsageError(
            f"{work}: holds an unfinished merge of other shards; remove it, or choose another --out"
        )
    for name in sorted(names, key=lambda name: name == MERGE):  # last, as it says whose the others are
        disk.unlink(work / name)


def _build(disk: Disk, job: _Job, reader: JournalReader, work: Path, on_progress: OnProgress | None) -> None:
    """Write all files of the merged run."""
    config = pretty_json(job.config)
    totals = DialogTotals(job.config.settings.judge_scope, job.metrics)
    checks = artifact_checks({CONFIG: config, MANIFEST: pretty_json(job.manifest)})
    with closing(Journal(work, disk, DIALOGUES.rows)) as journal:
        journal.create(checks)
        _copy_rows(job, reader, journal, totals, on_progress)
    counters, summary = totals.counters(), _summary(job, totals)
    files: dict[str, Artifact] = {
        CONFIG: config,
        "metrics_summary.json": summary_pieces(summary),
        "run_stats.json": pretty_json(_stats(job, totals)),
        MANIFEST: pretty_json(job.manifest.replace(counters=counters)),
        **pressure_files(totals, job.config.run_id),
    }
    for name in (DATASET, JUDGE_CONTROLS):
        if (job.runs[0].directory / name).is_file():
            files[name] = _pieces(job.runs[0].directory / name)
    for name, data in files.items():
        disk.write_whole(work / name, data)
    _log_progress(disk, job, totals)


def _copy_rows(
    job: _Job,
    reader: JournalReader,
    journal: Journal,
    totals: DialogTotals,
    on_progress: OnProgress | None,
) -> None:
    """Copy and count the rows of every line of the dataset; raise `UsageError` unless it has all of them."""
    done, held = 0, 0
    group: list[Entry] = []
    with job.dataset.open("rb") as file:
        sessions = ClientSessions(file, job.config.settings.limit)
        for read in read_entries(file, job.config.settings.limit):
            entry = sessions.completed(read, file)
            found = reader.read(entry.dataset_index)
            if found is None:
                line = f"line {entry.dataset_index} of dataset {job.dataset}"
                raise UsageError(f"shards of run {job.record.run_id}: {line} is in none of them")
            totals.add(recorded_result(entry, found.known, found.lines, job.dataset, _TRACE, _ROW))
            done += 1
            group += found.entries
            held += sum(
                len(line) for entry in found.entries for lines in entry.rows.values() for line in lines
            )
            if held >= GROUP:
                journal.commit(group)
                group, held = [], 0
                if on_progress is not None:
                    on_progress(done, reader.dialogs)
    journal.commit(group)
    if done < reader.dialogs:
        raise UsageError(
            f"shards of run {job.record.run_id}: {reader.dialogs - done} of their dialogues are not in "
            f"dataset {job.dataset}"
        )


def _summary(job: _Job, totals: DialogTotals) -> EvalSummary:
    counters = totals.counters()
    if not counters.valid_dialogs:
        raise UsageError(f"dataset {job.dataset}: no valid dialogue; memfin validate tells where")
    return totals.metrics.summary(
        run_id=job.config.run_id,
        dataset_path=job.manifest.dataset_path,
        counters=counters,
        fingerprint=job.config.config_fingerprint,
        trace_version=job.config.settings.trace_version,
    )


def _stats(job: _Job, totals: DialogTotals) -> RunStats:
    """Return the statistics: of rows and commits, and what only the processes of the shards know summed."""
    stats = [run.stats for run in job.runs]
    usage = UsageTotal()
    for each in stats:
        if each.usage is not None:
            usage.add(each.usage)
    started, ended = map(datetime.fromisoformat, (job.manifest.started_at, job.manifest.ended_at or ""))
    return RunStats(
        run_id=job.config.run_id,
        wall_seconds=(ended - started).total_seconds(),
        **totals.statistics(),
        abandoned_calls=totals.abandoned,
        judge=_judge_stats([each.judge for each in stats if each.judge is not None], totals),
        usage=usage.of_run(),
        agent_parameters=_parameters(each.agent_parameters for each in stats),
    )


def _judge_stats(shards: Sequence[JudgeStats], totals: DialogTotals) -> JudgeStats | None:
    """Return the sums of the shards, which have the controls in them, and the agreement of all votes."""
    if not shards:
        return None
    formats = sum((Counter(each.response_formats) for each in shards), Counter[str]())
    return totals.judge.statistics(
        CacheCounts(),
        [*dict.fromkeys(warning for each in shards for warning in each.warnings)],
        _parameters(each.parameters for each in shards),
    ).replace(
        response_formats=dict(sorted(formats.items())),
        **{name: sum(each[name] for each in shards) for name in _SUMMED},
    )


def _parameters(shards: Iterable[Sequence[ParameterChange]]) -> list[ParameterChange]:
    refusals: Counter[tuple[str, str | None]] = Counter()
    for changes in shards:
        for each in changes:
            refusals[each.parameter, each.sent_as] += each.refusals
    return [
        ParameterChange(parameter=name, sent_as=sent_as, refusals=count)
        for (name, sent_as), count in refusals.items()
    ]


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _log_progress(disk: Disk, job: _Job, totals: DialogTotals) -> None:
    """Write the progress log of the merged run, its beginning and its end; again after an interruption."""
    settings, now = job.config.settings, utc_now()
    common: dict[str, Any] = {"run_id": job.config.run_id}
    started = RunStarted(
        **common,
        ts=job.manifest.started_at,
        dataset_path=job.manifest.dataset_path,
        dialogs=totals.dialogs.total(),
        agent=settings.agent,
        judge=settings.judge,
        workers_dialog=settings.workers_dialog,
        workers_judge=settings.workers_judge,
    )
    done = MetricsDone(**common, ts=now, turn_rows=totals.rows)
    finished = RunFinished(**common, ts=now, **dict(totals.counters()))
    path = progress_path(job.out.absolute().parent, job.config.run_id)
    path.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
    disk.write_whole(path, b"".join(encode(event) + b"\n" for event in (started, done, finished)))
