"""Live pages over HTTP: streams of events, interrupted and resumed runs, limits, vendored files."""

import hashlib
import re
import sqlite3
import time
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from memfin.contracts import EvalSummary
from memfin.contracts.reading import read_json
from memfin.journal import COMMITS, layout
from memfin.journal.commits import CommitRecord, decode_line
from memfin.report.reader import MANIFEST
from memfin.web.view import live
from memfin.web.view.index import Indexes
from memfin.web.view.live import LiveRun
from tests.commands import run_command
from tests.support import dataset
from tests.web.live_runs import HOSTILE, stepped_run
from tests.web.view_runs import Viewer, viewing


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL", 0.1)


VENDOR = files("memfin") / "data" / "templates" / "view" / "vendor"


def test_vendored_files_are_those_that_were_recorded() -> None:
    recorded = {each["name"]: each for each in tomllib.loads((VENDOR / "vendored.toml").read_text())["files"]}
    found = {each.name for each in VENDOR.iterdir() if each.name.endswith(".js")}
    assert recorded.keys() == found
    for name, each in recorded.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == each["sha256"]
        licence = each["licence"].partition(", ")[2]
        assert "Permission to use" in (VENDOR / licence).read_text()


@asynccontextmanager
async def stream(viewer: Viewer, path: str = "/runs/r/events") -> AsyncIterator[AsyncIterator[str]]:
    """Yield the messages of a stream, the events of which are before their data."""
    async with viewer.client.get(viewer.url + path) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"

        async def messages() -> AsyncIterator[str]:
            lines: list[str] = []
            async for line in response.content:
                if line != b"\n":
                    lines.append(line.decode().rstrip("\n").removeprefix("data: "))
                elif lines:
                    yield "\n".join(lines)
                    lines.clear()

        yield messages()


async def until(messages: AsyncIterator[str], *words: str) -> str:
    """Return the first message with some words."""
    with anyio.fail_after(30):
        async for message in messages:
            if all(word in message for word in words):
                return message
    raise AssertionError(words)


async def appears(path: Path) -> None:
    with anyio.fail_after(30):
        while not await anyio.Path(path).is_file():  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.02)


async def test_a_stream_follows_a_run_over_a_kill_and_a_resume_to_its_end(tmp_path: Path) -> None:
    with stepped_run(tmp_path) as run:
        await appears(run.path / MANIFEST)
        async with viewing(tmp_path / "runs", tmp_path) as viewer, stream(viewer) as messages:
            await until(messages, "in progress", "0 of 6")
            run.answer(3)
            message = await until(messages, "3 of 6", "per minute", "Remaining time")
            assert "dialogs/d0002#t1" in message
            assert escape(HOSTILE).replace("&#x27;", "&#39;") in message
            assert "<script" not in message
            assert "running, 3 of 6</span>" in (await viewer.get("/")).text
            run.kill()
            message = await until(messages, "interrupted")
            assert "memfin resume runs/r" in message
            assert "Remaining time" not in message
            page = (await viewer.get("/runs/r")).text
            assert "interrupted" in page
            assert "3 of 6" in page
            assert "interrupted</span>" in (await viewer.get("/")).text
            assert (await viewer.get("/runs/r/dialogs/d0002")).status == 200
            run.resume()
            await until(messages, "in progress", "3 of 6")
            run.answer(3)
            assert 'href="/runs/r"' in await until(messages, "The run has finished.")
            await until(messages, "event: end")
        async with viewing(tmp_path / "runs", tmp_path) as viewer, stream(viewer) as messages:
            await until(messages, "The run has finished.")


async def test_a_stream_shows_the_epochs_of_a_soak_as_they_end(tmp_path: Path) -> None:
    with stepped_run(tmp_path, 2, ("soak", "--epochs", "3")) as run:
        await appears(run.path / "soak_summary.json")
        async with viewing(tmp_path / "runs", tmp_path) as viewer, stream(viewer) as messages:
            await until(messages, "in progress", "0 of 3")
            run.answer(2)
            message = await until(messages, "1 of 3", '<th scope="col">1</th>')
            assert re.search(r"M4 .*</th><td>[0-9.]+ %</td></tr>", message)
            assert "running, 1 of 3</span>" in (await viewer.get("/")).text
            run.kill()
            await until(messages, "interrupted", "memfin resume runs/r")
            assert "interrupted</span>" in (await viewer.get("/")).text
            run.resume()
            run.answer(2)
            await until(messages, "2 of 3", '<th scope="col">2</th><th scope="col">1</th>')
            run.answer(2)
            await until(messages, "The run has finished.")


async def test_streams_end_at_once_with_the_server_and_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 2)
    with stepped_run(tmp_path) as run:
        await appears(run.path / MANIFEST)
        async with viewing(tmp_path / "runs", tmp_path) as viewer:
            async with stream(viewer) as first, stream(viewer) as second:
                await until(first, "in progress")
                await until(second, "in progress")
                refused = await viewer.get("/runs/r/events")
                assert refused.status == 503
                assert "2 pages are live" in refused.text
            with anyio.fail_after(10):  # they have been closed
                while (await head(viewer)) == 503:  # noqa: ASYNC110 - the server looks once a second
                    await anyio.sleep(0.1)
            async with stream(viewer) as last:
                await until(last, "in progress")
                begun = time.monotonic()
                await viewer.stop()
                assert time.monotonic() - begun < 1


async def head(viewer: Viewer) -> int:
    async with viewer.client.get(f"{viewer.url}/runs/r/events") as response:
        return response.status


async def test_a_stream_of_no_run_is_not_found(tmp_path: Path) -> None:
    async with viewing(tmp_path, tmp_path) as viewer:
        assert (await viewer.get("/runs/none/events")).status == 404


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    source = dataset(folder / "dialogs.jsonl", 12)
    assert run_command("run", source, "--run-id", "r", "--quiet", cwd=folder).returncode == 0
    return folder / "runs" / "r"


def reader(run: Path) -> LiveRun:
    names = (COMMITS, layout.DIALOG_TRACE, layout.TURN_EVAL, "config.json")
    return LiveRun({name: run / name for name in names}, run.parent / "logs" / f"progress_{run.name}.jsonl")


def test_values_of_committed_rows_are_those_of_the_summary(finished: Path) -> None:
    snapshot = reader(finished).read()
    summary = read_json(finished / "metrics_summary.json", EvalSummary)
    del summary.metrics["m2_profile_accuracy"]
    assert snapshot.metrics == summary.metrics
    assert (snapshot.state, snapshot.done, snapshot.total, snapshot.turns) == ("finished", 12, 12, 36)


TABLES = (
    "SELECT * FROM dialogs ORDER BY id",
    "SELECT * FROM turns ORDER BY id",
    "SELECT rowid, * FROM texts ORDER BY rowid",
    "SELECT * FROM votes ORDER BY turn, start",
    "SELECT f.kind, f.value, m.turn FROM members m JOIN facets f ON f.id = m.facet ORDER BY 1, 2, 3",
    "SELECT value FROM meta WHERE key = 'unreadable'",
)


def test_an_index_that_grew_is_the_one_that_is_built_at_once(finished: Path, tmp_path: Path) -> None:
    run, spare = tmp_path / "r", tmp_path / "spare"
    run.mkdir()
    spare.mkdir()
    names = (COMMITS, layout.DIALOG_TRACE, layout.TURN_EVAL)
    log = (finished / COMMITS).read_bytes().splitlines(keepends=True)
    written = {name: run / name for name in names}

    def write(lines: list[bytes], beyond: int) -> None:
        ends = {part.file: part.offset + part.length for line in lines for part in decoded(line).parts}
        for name in names[1:]:
            (run / name).write_bytes((finished / name).read_bytes()[: ends.get(name, 0) + beyond])
        (run / COMMITS).write_bytes(b"".join(lines) + log[-1][:beyond][:50])

    def opened(folder: Path) -> list[list[Any]]:
        with closing(Indexes(folder).open(written)) as index:
            return [[tuple(row) for row in index._all(table, [])] for table in TABLES]

    def mark() -> bool:
        """Mark the index, and return True if it was marked before."""
        (path,) = spare.glob("*.sqlite")
        with closing(sqlite3.connect(path)) as db, db:
            return not db.execute("INSERT OR IGNORE INTO meta VALUES ('mark', '')").rowcount

    for count, beyond, grows in (
        *((3, 0, False), (3, 40, True), (10, 9000, True), (11, 0, True)),
        *((9, 9000, False), (len(log) - 1, 0, True), (len(log), 0, True)),
    ):
        write(log[:count], beyond)
        (fresh := tmp_path / f"{count}-{beyond}").mkdir()
        expected = opened(fresh)
        if count == len(log) - 1:  # what was read is not read again
            with written[layout.TURN_EVAL].open("r+b") as file:
                file.write(b"x")
        assert opened(spare) == expected
        assert mark() == grows
    written["metrics_summary.json"] = run / "metrics_summary.json"
    (run / "metrics_summary.json").write_bytes(b"{}")
    grown = opened(spare)
    assert (run / ".view.sqlite").is_file()
    (run / ".view.sqlite").unlink()
    (fresh := tmp_path / "last").mkdir()
    assert grown == opened(fresh)
    assert [len(table) for table in grown[:2]] == [12, 36]


def decoded(line: bytes) -> CommitRecord:
    record = decode_line(line)
    assert record is not None
    return record


def test_a_file_that_was_written_anew_is_read_again(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "r"
    run.mkdir()
    log = (finished / COMMITS).read_bytes().splitlines(keepends=True)
    for name in (layout.DIALOG_TRACE, layout.TURN_EVAL):
        (run / name).write_bytes((finished / name).read_bytes())

    def cut(lines: int, torn: bytes = b"") -> None:
        (run / COMMITS).write_bytes(b"".join(log[:lines]) + torn)

    cut(9)
    following = reader(run)
    for change in ((15, log[15][:40]), (16, b""), (7, b""), (len(log), b"")):
        following.read()
        cut(*change)
        following._until = 0.0
        assert following.read()._replace(last="") == reader(run).read()
    assert following.read().done == 12
