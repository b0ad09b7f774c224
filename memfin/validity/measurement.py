"""Validity of detectors or a judge against labelled replies (spec section 8, ``validity``)."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from memfin.client.errors import EndpointDown
from memfin.contracts import (
    DETECTORS,
    HEURISTIC_JUDGE,
    NO_JUDGE,
    Disagreement,
    JudgeFailure,
    JudgeScope,
    JudgeUnderTest,
    LabelFile,
    LabelledReply,
    UnjudgedReply,
    ValidityReport,
    Verdict,
)
from memfin.contracts.catalog import LABELS
from memfin.contracts.reading import MAX_LINE_BYTES, iter_jsonl
from memfin.errors import RunFault, UsageError
from memfin.judges import DialogJudge
from memfin.judges.protocol import JudgeResult, RecordingJudge, judge_result
from memfin.judges.registry import JudgeLike
from memfin.judges.stats import ReplyVoteStats
from memfin.runtime.judging import make_judge
from memfin.runtime.pipeline import foremost
from memfin.runtime.settings import make_config
from memfin.scoring.lexicon import lexicon_hashes
from memfin.validation import Finding
from memfin.validation.files import validate_artifact
from memfin.validation.rules import LabelRules
from memfin.validity import Found, Place, ValidityStats, found_by_detectors, found_by_judge
from memfin.validity.found import judge_request
from memfin.validity.stats import SECTIONS, Section
from memfin.version import __version__

MAX_FINDINGS: Final = 1000
"""Maximum number of reported errors in labels."""

MAX_FAILURES: Final = 20
"""Maximum number of failed judgements in the report."""

LEAD: Final = 4
"""Maximum number of replies per worker that may overtake an earlier one."""

_BATCH_CHARACTERS: Final = 1_000_000
_BATCH_ROWS: Final = 64

OnDisagreement = Callable[[Disagreement], object]
OnWarning = Callable[[str], object]
OnProgress = Callable[[int, int], object]
"""Called with the number of finished replies and the total."""


class InvalidLabels(UsageError):  # noqa: N818 - names what was read, as the other errors do
    """Files of labelled replies are invalid; ``findings`` has up to `MAX_FINDINGS` of the errors."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = findings
        more = f" ({len(findings)} findings)" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{more}")


class _Labelled(NamedTuple):
    place: Place
    row: LabelledReply


class LabelFiles:
    """Files of labelled replies; `check` reads all of them before anything is measured."""

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        self.paths = [Path(path) for path in paths]
        self.files: list[LabelFile] = []
        self.categories: set[str] = set()
        if not self.paths:
            raise UsageError("name a file of labelled replies")
        seen: dict[Path, Path] = {}
        for path in self.paths:
            first = seen.setdefault(path.resolve(), path)
            if first is not path:
                raise UsageError(f"{path} is given twice; its replies would count twice")

    def check(self) -> None:
        """Check every line, and collect the names that the count of the first line depends on.

        Raises:
            InvalidLabels: something is wrong with a line.
            UsageError: a file cannot be read.
        """
        findings = list(islice(self._findings(), MAX_FINDINGS))
        if findings:
            raise InvalidLabels(findings)

    def _findings(self) -> Iterator[Finding]:
        for path in self.paths:
            rules = LabelRules()
            yield from validate_artifact(path, LABELS, rules)
            self.files.append(LabelFile(path=str(path), rows=rules.count))
            self.categories |= rules.categories

    async def rows(self) -> AsyncIterator[_Labelled]:
        """Yield the replies, read by a thread in lists of bounded size."""
        batches = self._batches()
        while (batch := await anyio.to_thread.run_sync(next, batches, None)) is not None:
            for labelled in batch:
                yield labelled

    def _batches(self) -> Iterator[list[_Labelled]]:
        batch: list[_Labelled] = []
        characters = 0
        for path in self.paths:
            for number, row in iter_jsonl(path, LabelledReply, limit=MAX_LINE_BYTES):
                batch.append(_Labelled(Place(str(path), number), row))
                characters += len(row.text)
                if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
                    yield batch
                    batch, characters = [], 0
        if batch:
            yield batch


async def measure_validity(
    labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    judge: JudgeLike = None,
    judge_scope: JudgeScope = "all",
    on_disagreement: OnDisagreement | None = None,
    on_progress: OnProgress | None = None,
    on_warning: OnWarning | None = None,
    **settings: Any,
) -> ValidityReport:
    """Measure the detectors, or a judge, against labelled replies.

    Args:
        labels: a JSONL file of labelled replies, or several.
        judge: a reference as for ``--judge`` or a judge factory; None and ``heuristic`` measure the
            offline detectors.
        judge_scope: the scope of the judge; ``m5`` is the rubric alone, ``uncertain`` the same as ``all``.
        on_disagreement: called with each disagreement, in the order of the files. The report then
            holds none, so that memory does not grow with them.
        on_progress: called with the number of finished replies and the total.
        on_warning: called with the warnings of the judge, one line each time.
        settings: the other fields of `memfin.contracts.RunConfig` that speak of the judge, such as
            ``judge_rpm`` and ``workers_judge``.

    A judgement that fails is in no figure; the report counts them.

    Raises:
        InvalidLabels: a line is not a labelled reply, occurs twice, or contradicts itself.
        UsageError: a setting, a file or the judge is unusable.
        RunFault: the judge's endpoint stays down.
    """
    files = LabelFiles([labels] if isinstance(labels, str | os.PathLike) else labels)
    judge_scope = "all" if judge_scope == "uncertain" else judge_scope
    config = make_config({**settings, "judge_scope": judge_scope})
    if judge == NO_JUDGE:
        raise UsageError("judge 'none': there is no judge to measure; omit it to measure the detectors")
    await anyio.to_thread.run_sync(files.check, abandon_on_cancel=True)
    offline = judge is None or judge == HEURISTIC_JUDGE  # to measure it is to measure the detectors
    kept: list[Disagreement] = []
    count = _Count(
        files, _reads(None if offline else judge_scope), on_disagreement or kept.append, on_progress
    )
    under_test: JudgeUnderTest | None = None
    if offline:
        async for labelled in files.rows():
            count.add(labelled, found_by_detectors(labelled.row))
            await checkpoint()
    else:
        loop = asyncio.get_running_loop()

        def warn(line: str) -> None:
            if on_warning is not None:
                loop.call_soon_threadsafe(on_warning, line)

        asked = await anyio.to_thread.run_sync(make_judge, judge, config, warn)
        if asked is None:
            raise UsageError(f"judge {judge!r} is nobody")
        try:
            under_test = await _Session(asked, judge_scope, config.workers_judge, count).measure(files)
        finally:
            with anyio.CancelScope(shield=True):
                await asked.close()
                await checkpoint()  # the last warnings come before the end
    return count.report(under_test).replace(disagreements=kept)


def _reads(scope: JudgeScope | None) -> tuple[Section, ...]:
    """Return the measured parts; a judge has no forbidden categories, which stay with the rules in a run."""
    if scope is None:
        return SECTIONS
    return ("rubric",) if scope == "m5" else tuple(name for name in SECTIONS if name != "forbidden")


class _Count:
    """Counts of a measurement."""

    def __init__(
        self,
        files: LabelFiles,
        reads: Sequence[Section],
        on_disagreement: OnDisagreement,
        on_progress: OnProgress | None,
    ) -> None:
        self._stats = ValidityStats(reads, files.categories)
        self._files = files
        self._total = sum(file.rows for file in files.files)
        self._done = 0
        self._on_disagreement = on_disagreement
        self._on_progress = on_progress

    def add(self, labelled: _Labelled, found: Found | None) -> None:
        """Count one reply with what was found in it; with None it is in no figure."""
        if found is not None:
            for disagreement in self._stats.add(labelled.row, found, labelled.place):
                self._on_disagreement(disagreement)
        self._done += 1
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)

    def report(self, under_test: JudgeUnderTest | None) -> ValidityReport:
        """Return the validity report."""
        return ValidityReport(
            measured=under_test.name if under_test is not None else DETECTORS,
            memfin_version=__version__,
            files=self._files.files,
            rows=self._total,
            risk_tags=self._stats.risk_tags(),
            contradiction=self._stats.contradiction(),
            compliance=self._stats.compliance(),
            forbidden=self._stats.forbidden(),
            rubric=self._stats.rubric(),
            unknown=self._stats.unknown(),
            judge=under_test,
            lexicon_hashes=lexicon_hashes() if under_test is None else {},
        )


class _Session:
    """Measurement of a judge: several replies at a time, counted in the order of the files."""

    def __init__(self, judge: DialogJudge, scope: JudgeScope, workers: int, count: _Count) -> None:
        self._judge = judge
        self._scope: JudgeScope = scope
        self._free = anyio.Semaphore(workers)
        self._lead = LEAD * workers
        self._count = count
        self._votes = ReplyVoteStats()
        self._asked = 0
        self._failed = 0
        self._failures: list[UnjudgedReply] = []

    async def measure(self, files: LabelFiles) -> JudgeUnderTest:
        """Judge everything; raises `RunFault` when the endpoint is down."""
        try:
            await self._judge_all(files)
        except BaseExceptionGroup as failures:
            problem = foremost(failures)
            if not isinstance(problem, EndpointDown):
                raise problem from failures
            raise RunFault(
                f"judge {self._judge.name}: {problem}; what it has answered is in its cache, "
                "and the same command asks for the rest"
            ) from problem
        judge = self._judge
        stats = judge.cache_counts() if isinstance(judge, RecordingJudge) else None
        return JudgeUnderTest(
            name=judge.name,
            scope=self._scope,
            asked=self._asked,
            failed=self._failed,
            failures=self._failures,
            stats=None if stats is None else self._votes.statistics(stats, []),
        )

    async def _judge_all(self, files: LabelFiles) -> None:
        """Judge replies as workers become free, and count each after all before it."""
        begun: deque[tuple[_Labelled, asyncio.Task[JudgeResult[Verdict] | None]]] = deque()
        async with asyncio.TaskGroup() as group:
            async for labelled in files.rows():
                await self._free.acquire()
                begun.append((labelled, group.create_task(self._ask(labelled.row))))
                while begun and (begun[0][1].done() or len(begun) >= self._lead):
                    first, asking = begun.popleft()
                    self._add(first, await asking)
            for labelled, asking in begun:
                self._add(labelled, await asking)

    async def _ask(self, row: LabelledReply) -> JudgeResult[Verdict] | None:
        try:
            request = judge_request(row, self._scope)
            if request is None:
                return None
            result = await judge_result(self._judge, request)
        finally:
            self._free.release()
        self._asked += 1
        self._votes.add(request, result)
        return result

    def _add(self, labelled: _Labelled, result: JudgeResult[Verdict] | None) -> None:
        outcome = result.outcome if result is not None else None
        found = None
        if isinstance(outcome, JudgeFailure):
            self._failed += 1
            if len(self._failures) < MAX_FAILURES:
                (file, line), reply = labelled.place, labelled.row.id
                self._failures.append(UnjudgedReply(id=reply, file=file, line=line, reason=outcome.reason))
        elif outcome is not None:
            found = found_by_judge(labelled.row, outcome, self._scope)
        self._count.add(labelled, found)
