"""Scoring of a dialogue's turns as a job, and the process for such jobs.

Frames go over standard input and output: eight bytes of length, then JSON. A job brings one frame for each
of its turns, as soon as the turn is scored, after an empty one for each user's detector that begins; the
first empty frame of all means that the process is ready. JSON carries all parts of a job exactly, integers
of any size included, since they come from JSON.
"""

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import IO, Final

import msgspec

from memfin.contracts import Dialog, HistoryMode, Record, TraceVersion, TurnEvalRow, TurnTrace
from memfin.errors import UsageError
from memfin.sandbox.references import describe
from memfin.scoring.rows import DialogScorer, TagTable, no_callback, prepare_scoring
from memfin.scoring.user_detectors import TAG_MAPPER, TagMapper, load_detector
from memfin.scoring.verdicts import unscored_row

LENGTH: Final = 8
"""Bytes of a frame's length."""

END_GRACE: Final = 1.0
"""Seconds after the end of standard input in which the process ends in order."""


class ScoringJob(Record):
    """Turns of a dialogue that are to be scored, and the settings that their rows depend on.

    The first ``done`` turns are scored already; ``failed`` are the errors of users' detectors that failed
    on the next one. ``detectors`` are references by name, ``tag_mapper`` is one.
    """

    run_id: str
    dialog: Dialog
    turns: list[TurnTrace]
    trace_version: TraceVersion
    history: HistoryMode
    score_chars: int
    tag_map: dict[str, str] = {}
    done: int = 0
    tag_mapper: str | None = None
    forbidden_patterns: dict[str, list[str]] = {}
    detectors: dict[str, str] = {}
    failed: dict[str, str] = {}

    def unscored(self, turn: TurnTrace, reason: str) -> TurnEvalRow:
        """Return the row of a turn of the job that could not be scored."""
        return unscored_row(self.run_id, self.dialog.dialog_id, turn, reason, self.trace_version)


def score_job(job: ScoringJob, begin: Callable[[], None] = no_callback) -> Iterator[TurnEvalRow]:
    """Yield the row of each turn of a job that is not done, without what only the end of the dialogue tells.

    ``begin`` is called before each user's detector of each turn.
    Replies are hostile text and rules may be wrong: a rule that fails costs its turn, not the run.
    """
    scorer, defect = None, ""
    mapper = None if job.tag_mapper is None else TagMapper(job.tag_map, job.tag_mapper)
    tags: TagTable = mapper or job.tag_map
    try:
        scorer = DialogScorer(
            job.dialog,
            run_id=job.run_id,
            trace_version=job.trace_version,
            history_mode=job.history,
            score_chars=job.score_chars,
            risk_tag_mapper=tags,
            forbidden_patterns=job.forbidden_patterns,
            detectors=job.detectors,
        )
    except Exception as problem:  # noqa: BLE001 - see above
        defect = describe(problem)
    for place, turn in enumerate(job.turns[job.done :], job.done):
        if scorer is None:
            yield job.unscored(turn, defect)
            continue
        try:
            without = job.failed if place == job.done else {}
            row = scorer.row(turn, job.turns[:place], without=without, begin=begin)
        except Exception as problem:  # noqa: BLE001 - see above
            row = job.unscored(turn, describe(problem))
        if mapper is not None and (error := mapper.take_error()) is not None:
            row = row.replace(detector_errors={**row.get("detector_errors", {}), TAG_MAPPER: error})
        yield row


def write_frame(pipe: IO[bytes], payload: bytes) -> None:
    """Write one frame and flush."""
    pipe.write(len(payload).to_bytes(LENGTH, "big"))
    pipe.write(payload)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """Return the payload of the next frame, or None where the pipe ends."""
    length = pipe.read(LENGTH)
    size = int.from_bytes(length, "big")
    payload = pipe.read(size)
    return payload if len(length) == LENGTH and len(payload) == size else None


def main(*detectors: str) -> None:
    """Score the jobs that come over standard input until it ends; ``detectors`` are users', by reference.

    The process ends with it even while a turn is scored: whoever waited for the row has gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    jobs, rows = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)  # nothing that prints may spoil the frames
    prepare_scoring()
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)  # nobody reads on once the process is ready
    for reference in detectors:
        with suppress(UsageError):  # the rows will say so
            load_detector(reference)
    write_frame(rows, b"")
    received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(jobs, received), daemon=True).start()
    decoder, encoder = msgspec.json.Decoder(ScoringJob), msgspec.json.Encoder()
    while (payload := received.get()) is not None:
        for row in score_job(decoder.decode(payload), partial(write_frame, rows, b"")):
            write_frame(rows, encoder.encode(row))


def _receive(jobs: IO[bytes], received: "queue.SimpleQueue[bytes | None]") -> None:
    """Hand the jobs on; once they end, end the process, in order where it is idle."""
    while (payload := read_frame(jobs)) is not None:
        received.put(payload)
    received.put(None)
    threading.main_thread().join(END_GRACE)
    os._exit(0)
