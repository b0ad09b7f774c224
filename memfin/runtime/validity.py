"""Measures detectors or a judge against labelled replies (spec section 8, ``validity``)."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

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
from memfin.judges.protocol import EndpointDown, JudgeResult, RecordingJudge, judge_result
from memfin.judges.stats import ReplyVoteStats
from memfin.runtime.judging import JudgeLike, make_judge
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
"""Things wrong with the labels that are named."""

MAX_FAILURES: Final = 20
"""Failed judgements that the report names."""

LEAD: Final = 4
"""Replies a worker that are judged before an earlier one is."""

_BATCH_CHARACTERS: Final = 1_000_000
_BATCH_ROWS: Final = 64

OnDisagreement = Callable[[Disagreement], object]
OnNotice = Callable[[str], object]
OnProgress = Callable[[int, int], object]
"""Takes how many replies are done, and of how many."""


class InvalidLabels(UsageError):  # noqa: N818 - names what was read, as the other errors do
    """The files are no labelled replies; ``findings`` say where and why, up to `MAX_FINDINGS`."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = findings
        more = f" ({len(findings)} findings)" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{more}")


class _Labelled(NamedTuple):
    place: Place
    row: LabelledReply


class _Labels:
    """Files of labelled replies; `check` reads them once through before anything is measured."""

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
        """Check every line, and learn what has to be known of the whole before the first is counted.

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

    def batches(self) -> Iterator[list[_Labelled]]:
        """Yield the replies in lists of bounded size."""
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
    on_notice: OnNotice | None = None,
    **settings: Any,
) -> ValidityReport:
    """Measure the detectors, or a judge, against labelled replies.

    Args:
        labels: a JSONL file of labelled replies, or several.
        judge: a reference as for ``--judge`` or a judge factory; None and ``heuristic`` measure the
            offline detectors.
        judge_scope: what the judge reads; ``m5`` is the rubric alone, ``uncertain`` the same as ``all``.
        on_disagreement: called with each disagreement, in the order of the files. The report then
            holds none, so that memory does not grow with them.
        on_progress: called with how many replies are done and how many there are.
        on_notice: called with what the judge has to say meanwhile, one line each time.
        settings: the other fields of `memfin.contracts.RunConfig` that speak of the judge, such as
            ``judge_rpm`` and ``workers_judge``.

    A judgement that fails is in no figure; the report counts them.

    Raises:
        InvalidLabels: a line is no labelled reply, stands twice, or contradicts itself.
        UsageError: a setting, a file or the judge is unusable.
        RunFault: the judge's endpoint went away for good.
    """
    files = _Labels([labels] if isinstance(labels, str | os.PathLike) else labels)
    judge_scope = "all" if judge_scope == "uncertain" else judge_scope
    config = make_config({**settings, "judge_scope": judge_scope})
    if judge == NO_JUDGE:
        raise UsageError("judge 'none': there is nobody to measure; leave it out to measure the detectors")
    await anyio.to_thread.run_sync(files.check, abandon_on_cancel=True)
    offline = judge is None or judge == HEURISTIC_JUDGE  # to measure it is to measure the detectors
    kept: list[Disagreement] = []
    count = _Count(
        files, _reads(None if offline else judge_scope), on_disagreement or kept.append, on_progress
    )
    under_test: JudgeUnderTest | None = None
    if offline:
        await _detect(files, count)
    else:
        loop = asyncio.get_running_loop()

        def warn(line: str) -> None:
            if on_notice is not None:
                loop.call_soon_threadsafe(on_notice, line)

        asked = await anyio.to_thread.run_sync(make_judge, judge, config, warn)
        if asked is None:
            raise UsageError(f"judge {judge!r} is nobody")
        session = _Session(asked, judge_scope, config.workers_judge, count)
        try:
            under_test = await session.measure(files)
        finally:
            with anyio.CancelScope(shield=True):
                await asked.close()
                await checkpoint()  # the last warnings come before the end
    return count.report(under_test).replace(disagreements=kept)


def _reads(scope: JudgeScope | None) -> tuple[Section, ...]:
    """Return what is measured; forbidden categories are not a judge's, they stay with the rules in a run."""
    if scope is None:
        return SECTIONS
    return ("rubric",) if scope == "m5" else tuple(name for name in SECTIONS if name != "forbidden")


class _Count:
    """Everything counted so far."""

    def __init__(
        self,
        files: _Labels,
        reads: Sequence[Section],
        on_disagreement: OnDisagreement,
        on_progress: OnProgress | None,
    ) -> None:
        self.tally = ValidityStats(reads, files.categories)
        self._files = files
        self._total = sum(file.rows for file in files.files)
        self._done = 0
        self._on_disagreement = on_disagreement
        self._on_progress = on_progress

    def add(self, labelled: _Labelled, found: Found) -> None:
        """Count one reply with what was found in it."""
        for disagreement in self.tally.add(labelled.row, found, labelled.place):
            self._on_disagreement(disagreement)

    def done(self) -> None:
        """Count one reply as finished, with a finding or without."""
        self._done += 1
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)

    def report(self, under_test: JudgeUnderTest | None) -> ValidityReport:
        """Return the figures."""
        return ValidityReport(
            measured=under_test.name if under_test is not None else DETECTORS,
            memfin_version=__version__,
            files=self._files.files,
            rows=self._total,
            risk_tags=self.tally.risk_tags(),
            contradiction=self.tally.contradiction(),
            compliance=self.tally.compliance(),
            forbidden=self.tally.forbidden(),
            rubric=self.tally.rubric(),
            unknown=self.tally.unknown(),
            judge=under_test,
            lexicon_hashes=lexicon_hashes() if under_test is None else {},
        )


async def _detect(files: _Labels, count: _Count) -> None:
    batches = files.batches()
    while (batch := await anyio.to_thread.run_sync(next, batches, None)) is not None:
        for labelled in batch:
            count.add(labelled, found_by_detectors(labelled.row))
            count.done()
            await checkpoint()


class _Session:
    """A judge at work on labelled replies: several at a time, counted in the order of the files."""

    def __init__(self, judge: DialogJudge, scope: JudgeScope, workers: int, count: _Count) -> None:
        self._judge = judge
        self._scope: JudgeScope = scope
        self._workers = workers
        self._count = count
        self._tally = ReplyVoteStats()
        self._asked = 0
        self._failed = 0
        self._failures: list[UnjudgedReply] = []
        self._open = anyio.Semaphore(LEAD * workers)
        self._waiting: dict[int, tuple[_Labelled, JudgeResult[Verdict] | None]] = {}
        self._next = 0

    async def measure(self, files: _Labels) -> JudgeUnderTest:
        """Judge everything; raises `RunFault` when the endpoint is down."""
        send, receive = anyio.create_memory_object_stream[tuple[int, _Labelled]](0)
        try:
            async with anyio.create_task_group() as group:
                for number in range(self._workers):
                    group.start_soon(self._work, receive.clone(), name=f"judge-{number}")
                receive.close()
                group.start_soon(self._feed, files, send, name="labels")
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
            stats=None if stats is None else self._tally.statistics(stats, []),
        )

    async def _feed(self, files: _Labels, work: MemoryObjectSendStream[tuple[int, _Labelled]]) -> None:
        async with work:
            batches = files.batches()
            number = 0
            while (batch := await anyio.to_thread.run_sync(next, batches, None)) is not None:
                for labelled in batch:
                    await self._open.acquire()
                    await work.send((number, labelled))
                    number += 1

    async def _work(self, work: MemoryObjectReceiveStream[tuple[int, _Labelled]]) -> None:
        async with work:
            async for number, labelled in work:
                self._finished(number, labelled, await self._ask(labelled.row))

    async def _ask(self, row: LabelledReply) -> JudgeResult[Verdict] | None:
        request = judge_request(row, self._scope)
        if request is None:
            return None
        ruled = await judge_result(self._judge, request)
        self._asked += 1
        self._tally.add(request, ruled)
        return ruled

    def _finished(self, number: int, labelled: _Labelled, ruled: JudgeResult[Verdict] | None) -> None:
        """Keep an answer until all before it are counted."""
        self._waiting[number] = labelled, ruled
        while self._next in self._waiting:
            self._add(*self._waiting.pop(self._next))
            self._next += 1
            self._open.release()

    def _add(self, labelled: _Labelled, ruled: JudgeResult[Verdict] | None) -> None:
        outcome = ruled.outcome if ruled is not None else None
        if isinstance(outcome, JudgeFailure):
            self._failed += 1
            if len(self._failures) < MAX_FAILURES:
                self._failures.append(
                    UnjudgedReply(
                        id=labelled.row.id,
                        file=labelled.place.file,
                        line=labelled.place.line,
                        reason=outcome.reason,
                    )
                )
        elif outcome is not None:
            self._count.add(labelled, found_by_judge(labelled.row, outcome, self._scope))
        self._count.done()
