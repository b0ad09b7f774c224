"""What a user sees of a run in progress."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from typing import Any

import pytest

from memfin.cli import output as progress
from memfin.cli.output import Counts, ProgressView, progress_view
from memfin.contracts import (
    DialogDone,
    DialogStarted,
    JudgeDone,
    MetricsDone,
    ProgressEvent,
    RunFinished,
    RunInterrupted,
    RunResumed,
    RunStarted,
    SoakLimits,
    TurnDone,
    Warned,
)
from memfin.contracts.soak import (
    Distribution,
    Drift,
    ProcessSample,
    SoakEpoch,
    SoakErrors,
    SoakSummary,
)
from memfin.errors import UsageError

BASE: dict[str, Any] = {"ts": "2024-01-01T00:00:00Z", "run_id": "r"}

COUNTERS: dict[str, Any] = {f"{name}_dialogs": 0 for name in ("total", "valid", "skipped", "failed")} | {
    "total_turn_pairs": 0
}


def started(dialogs: int | None = 4) -> ProgressEvent:
    return RunStarted(**BASE, dataset_path="d.jsonl", dialogs=dialogs)


def opened(dialog: str = "d", turns: int = 2) -> ProgressEvent:
    return DialogStarted(**BASE, dialog_id=dialog, dataset_index=1, turns=turns)


def turn(dialog: str = "d", status: Any = "ok") -> ProgressEvent:
    return TurnDone(**BASE, dialog_id=dialog, turn_pair_id=1, turn_status=status)


def judged(dialog: str = "d", count: int = 2, failed: int = 0) -> ProgressEvent:
    return JudgeDone(**BASE, dialog_id=dialog, judged=count, failed=failed)


def done(dialog: str = "d") -> ProgressEvent:
    return DialogDone(**BASE, dialog_id=dialog, status="ok", turns=2)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)  # type: ignore[attr-defined]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def standing(*events: ProgressEvent) -> Counts:
    counted = Counts()
    for event in events:
        counted.count(event)
    return counted


def test_events_are_counted() -> None:
    now = standing(started(), opened(), turn(), turn(status="error"), turn(status="timeout"), done())
    assert (now.total, now.turns, now.dialogs, now.errors) == (4, 3, 1, 2)


def test_judgements_that_failed_are_errors() -> None:
    assert standing(judged(count=1, failed=2)).errors == 2


def test_the_judge_queue_holds_answered_turns_of_dialogues_that_are_not_judged() -> None:
    events = [turn("a"), turn("a"), turn("a", "error"), turn("b")]
    assert standing(*events).judge_queue == 3
    assert standing(*events, judged("a")).judge_queue == 1
    # not every turn has a rubric
    assert standing(*events, judged("a", count=1), done("b")).judge_queue == 0


@pytest.mark.parametrize(("judge", "shown"), [(None, 0), ("none", 0), ("heuristic", 0), ("openai:m", 1)])
def test_a_local_judge_has_no_queue(judge: str | None, shown: int) -> None:
    now = Counts(judge=judge)
    now.count(turn())
    now.count(judged(count=1))
    assert now.line().count("judge queue 0") == shown


def test_the_total_is_what_was_done_once_the_run_has_ended() -> None:
    now = standing(started(4), *map(done, "abc"), RunFinished(**BASE, **COUNTERS))
    assert now.line() == "dialogues 3/3  errors 0  eta 0:00:00"


def test_a_start_that_fails_is_not_announced() -> None:
    stream = io.StringIO()
    with suppress(UsageError), ProgressView(stream, "plain") as view:
        view.on_event(started())
        view.on_event(opened())
        raise UsageError
    assert stream.getvalue() == ""


def test_other_events_change_nothing() -> None:
    before = vars(standing(turn()))
    now = standing(turn(), MetricsDone(**BASE, turn_rows=5), Warned(**BASE, message="m"))
    assert {**vars(now), "_start": 0} == {**before, "_start": 0}


@pytest.mark.parametrize(
    ("total", "finished", "elapsed", "eta"),
    [
        (None, 2, 10.0, "-:--:--"),
        (0, 0, 10.0, "-:--:--"),
        (10, 0, 10.0, "-:--:--"),
        (10, 5, 10.0, "0:00:10"),
        (10, 10, 10.0, "0:00:00"),
        (10, 11, 10.0, "0:00:00"),
        (1000, 1, 100.0, "27:45:00"),
        (3, 1, 61.5, "0:02:03"),
    ],
)
def test_the_time_that_is_left_follows_the_pace(
    clock: Clock, total: int | None, finished: int, elapsed: float, eta: str
) -> None:
    now = standing(started(total))
    for number in range(finished):
        now.count(done(str(number)))
    clock.now += elapsed
    assert now.eta() == eta


def test_plain_lines_come_every_few_seconds_and_at_the_end(clock: Clock) -> None:
    stream = io.StringIO()
    with ProgressView(stream, "plain", judge="openai:m") as view:
        view.on_event(started())
        view.on_event(opened())
        clock.now += progress.INTERVAL - 0.1
        view.on_event(turn())
        clock.now += 0.2
        view.on_event(turn())
        view.on_event(judged())
        clock.now += 5
        view.on_event(done())
    assert stream.getvalue().splitlines() == [
        "memfin: run r started",
        "memfin: dialogues 0/4  turns 2  judge queue 2  errors 0  eta -:--:--",
        "memfin: dialogues 1/4  turns 2  judge queue 0  errors 0  eta 0:00:30",
        "memfin: dialogues 1/4  turns 2  judge queue 0  errors 0  eta 0:00:30",
    ]


def test_a_total_that_is_not_known_is_a_question_mark() -> None:
    stream = io.StringIO()
    with ProgressView(stream, "plain") as view:
        view.on_event(started(None))
    assert "dialogues 0/?" in stream.getvalue()


def test_the_quiet_view_shows_warnings_only() -> None:
    stream = io.StringIO()
    with ProgressView(stream, "quiet") as view:
        for event in (started(), opened(), turn(), done()):
            view.on_event(event)
        assert stream.getvalue() == ""
        view.on_event(Warned(**BASE, message="look", dialog_id="d"))
    assert stream.getvalue() == "memfin: warning: look (dialogue d)\n"


def quiet_lines(*events: ProgressEvent) -> list[str]:
    stream = io.StringIO()
    with ProgressView(stream, "quiet") as view:
        for event in events:
            view.on_event(event)
    return stream.getvalue().splitlines()


def test_an_interruption_is_reported_once_by_whoever_ends_the_run() -> None:
    assert quiet_lines(RunInterrupted(**BASE, reason="signal"), turn(status="error")) == []


def test_the_view_fits_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert progress_view(quiet=False).progress is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert progress_view(quiet=False).progress is not None
    assert progress_view(quiet=True).progress is None


def test_a_terminal_shows_bars_and_warnings() -> None:
    program = """
        from memfin.cli.output import progress_view
        from memfin.contracts import *

        base = {"ts": "t", "run_id": "r"}
        with progress_view(quiet=False) as view:
            view.on_event(RunStarted(**base, dataset_path="d", dialogs=4))
            view.on_event(DialogStarted(**base, dialog_id="d", dataset_index=1, turns=3))
            view.on_event(TurnDone(**base, dialog_id="d", turn_pair_id=1, turn_status="ok"))
            view.on_event(TurnDone(**base, dialog_id="d", turn_pair_id=2, turn_status="error"))
            view.on_event(Warned(**base, message="agent [bold]x[/bold] is slow"))
            view.on_event(DialogDone(**base, dialog_id="d", status="ok", turns=3))
        print("data", end="")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    shown, data = on_a_terminal(command)
    assert data == b"data"  # stdout is for data alone
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert "agent [bold]x[/bold] is slow" in plain
    last = plain.rstrip().splitlines()[-1]
    assert re.search(r"dialogues .*1/4 turns 2  errors 1  eta \d:\d\d:\d\d", last)


def on_a_terminal(command: list[str]) -> tuple[str, bytes]:
    """Return what the command shows on a terminal as stderr, and what it writes to stdout."""
    controller, terminal = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    shown = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=env) as process:
        os.close(terminal)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if not select.select([controller], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(controller, 65536)
            except OSError:  # how Linux says that the terminal's other side is closed
                break
            if not piece:
                break
            shown += piece
        assert process.stdout is not None
        data = process.stdout.read()
    os.close(controller)
    assert process.returncode == 0, shown.decode()
    return shown.decode(), data


def test_skipped_lines_are_named_up_to_a_bound() -> None:
    skipped = [
        DialogDone(
            **BASE,
            dialog_id=f"line_{index}",
            status="skipped",
            turns=0,
            dataset_index=index,
            skip_reason="missing_turns",
            error="$.turns: the list is empty",
        )
        for index in range(1, 31)
    ]
    lines = quiet_lines(started(), *skipped)
    assert lines[0].endswith(":1: skipped, missing_turns: $.turns: the list is empty")
    assert len(lines) == 21
    assert "more lines are skipped" in lines[-1]


def test_a_run_that_goes_on_tells_how_far_it_is() -> None:
    stream = io.StringIO()
    resumed = RunResumed(**BASE, dialogs_done=3, replays_done=2, dialogs_begun=1, dialogs=9)
    with ProgressView(stream, "plain") as view:
        view.on_event(resumed)
    line = "memfin: resuming run r: 3 dialogues done, 2 answered but not scored, 1 partly answered"
    assert stream.getvalue().splitlines()[0] == line


def test_the_line_of_an_epoch_names_all_that_drifts() -> None:
    steady = Drift(first=1.0, last=1.0, mean=1.0, min=1.0, max=1.0, epochs=9)
    drifts = steady.replace(drifting=True)
    summary = SoakSummary(
        run_id="s",
        state="running",
        started_at=BASE["ts"],
        updated_at=BASE["ts"],
        memfin_version="0",
        limits=SoakLimits(epochs=9),
        metrics={"m3.coverage": drifts, "m3.macro.coverage": drifts, "m5.score": steady},
        operation={"error_rate": drifts, "turn_latency_p50_ms": drifts, "tasks": steady},
    )
    epoch = SoakEpoch(
        run_id="s",
        epoch=9,
        epoch_run_id="s.000009",
        process=1,
        started_at=BASE["ts"],
        ended_at=BASE["ts"],
        wall_seconds=1.0,
        dialogs=1,
        turns=3,
        metrics={},
        turn_latency_ms=Distribution(),
        loop_lag_ms=Distribution(),
        errors=SoakErrors(),
        resources=ProcessSample(),
        peak=ProcessSample(),
    )
    line = progress.epoch_line(epoch, summary)
    assert line.endswith("; drifting: m3.coverage, error_rate, turn_latency_p50_ms")
