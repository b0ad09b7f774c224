"""The cache of answers: whole entries or none, shared by processes, never believed blindly."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from memfin.judges.cache import AnswerCache, CachedAnswer, CacheMode, cache_key

KEY = cache_key({"prompt": "p"})
ANSWER = CachedAnswer(raw_answer='{"score": 4}', response_format="json_schema", prompt_tokens=3)


def cache(path: Path, mode: CacheMode = "write", told: list[str] | None = None) -> AnswerCache:
    return AnswerCache(path, mode, (told if told is not None else []).append)


def as_it_is(answer: CachedAnswer) -> CachedAnswer:
    return answer


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*") if path.is_file()]


async def test_what_is_kept_is_found_by_another_run(tmp_path: Path) -> None:
    first = cache(tmp_path)
    assert await first.claim(KEY, as_it_is) is None
    first.keep(KEY, ANSWER)
    first.release(KEY)
    assert await first.claim(KEY, as_it_is) == ANSWER
    await first.close()
    second = cache(tmp_path, "read")
    assert await second.claim(KEY, as_it_is) == ANSWER
    assert (second.hits, second.misses, first.hits, first.misses) == (1, 0, 1, 1)
    assert files(tmp_path) == [f"{KEY}.json"]


async def test_the_modes_read_and_write_what_they_say(tmp_path: Path) -> None:
    reading = cache(tmp_path, "read")
    reading.keep(KEY, ANSWER)
    assert files(tmp_path) == []
    writing = cache(tmp_path)
    writing.keep(KEY, ANSWER)
    await writing.close()
    off = cache(tmp_path, "off")
    assert await off.claim(KEY, as_it_is) is None
    off.release(KEY)
    assert (off.hits, off.misses) == (0, 0)


def test_the_key_depends_on_every_part_and_on_no_order() -> None:
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})
    assert len({cache_key({"a": 1}), cache_key({"a": 2}), cache_key({"b": 1}), cache_key({})}) == 4


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-7],
        lambda data: data.replace(b"4", b"5"),
        lambda data: data.replace(b"json_schema", b"text"),
        lambda data: b"\xff\xfe" + data,
        lambda data: b"[" * 100_000,
        lambda data: b"null",
    ],
)
async def test_a_damaged_entry_is_told_once_ignored_and_replaced(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    told: list[str] = []
    kept = cache(tmp_path, told=told)
    kept.keep(KEY, ANSWER)
    await kept.close()
    path = tmp_path / KEY[:2] / f"{KEY}.json"
    path.write_bytes(spoil(path.read_bytes()))
    for _ in range(2):
        assert await kept.claim(KEY, as_it_is) is None
        kept.release(KEY)
    assert (kept.hits, kept.misses, kept.damaged) == (0, 2, 2)
    assert len(told) == 1
    assert str(path) in told[0]
    kept.keep(KEY, ANSWER)
    await kept.close()
    assert await kept.claim(KEY, as_it_is) == ANSWER


async def test_an_entry_under_another_key_is_not_believed(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    kept.keep(KEY, ANSWER)
    await kept.close()
    other = cache_key({"prompt": "other"})
    (tmp_path / other[:2]).mkdir()
    (tmp_path / KEY[:2] / f"{KEY}.json").rename(tmp_path / other[:2] / f"{other}.json")
    assert await kept.claim(other, as_it_is) is None
    assert kept.damaged == 1


async def test_a_place_that_cannot_be_written_costs_a_warning_and_nothing_else(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "file").write_text("")
    kept = cache(tmp_path / "file", told=told)
    for _ in range(3):
        assert await kept.claim(KEY, as_it_is) is None
        kept.keep(KEY, ANSWER)
        await kept.close()
        kept.release(KEY)
    assert sum("cannot be written" in line for line in told) == 1
    assert len(told) == len(set(told))


async def test_one_question_asked_by_many_at_once_is_found_out_once(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    paid = 0

    async def ask() -> None:
        nonlocal paid
        if await kept.claim(KEY, as_it_is) is None:
            paid += 1
            await asyncio.sleep(0)
            kept.keep(KEY, ANSWER)
            kept.release(KEY)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask)
    assert (paid, kept.hits, kept.misses) == (1, 19, 1)


async def test_when_the_one_who_asks_fails_the_next_one_asks(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    asked = []

    async def ask(number: int) -> None:
        if await kept.claim(KEY, as_it_is) is None:
            asked.append(number)
            await asyncio.sleep(0)
            kept.release(KEY)

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(ask, number)
    assert sorted(asked) == [0, 1, 2]


WRITER = """
import asyncio, sys
from pathlib import Path
from memfin.judges.cache import AnswerCache, CachedAnswer, cache_key
async def main():
    cache = AnswerCache(Path(sys.argv[1]), "write", lambda line: sys.exit(line))
    for number in range(60):
        key = cache_key({"n": number})
        found = await cache.claim(key, lambda answer: answer)
        if found is None:
            answer = CachedAnswer(raw_answer=f"answer {number} " + "x" * 5000, response_format="text")
            cache.keep(key, answer)
            cache.release(key)
        else:
            assert found.raw_answer.startswith(f"answer {number} "), found
    await cache.close()
    assert cache.damaged == 0
asyncio.run(main())
"""


def test_several_processes_share_one_cache(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(root)},
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors.decode()
    assert len(files(tmp_path)) == 60
    assert all(name.endswith(".json") for name in files(tmp_path))


async def test_several_caches_of_one_process_share_one_directory(tmp_path: Path) -> None:
    told: list[str] = []
    keys = [cache_key({"n": number}) for number in range(200)]
    caches = [cache(tmp_path, told=told) for _ in range(6)]
    for key in keys:
        for each in caches:
            each.keep(key, ANSWER)
    async with anyio.create_task_group() as group:
        for each in caches:
            group.start_soon(each.close)
    assert told == []
    assert sorted(files(tmp_path)) == sorted(f"{key}.json" for key in keys)


@pytest.mark.parametrize("kind", ["pipe", "directory", "link_to_pipe"])
async def test_what_is_no_regular_file_is_a_damaged_entry_and_blocks_nothing(
    tmp_path: Path, kind: str
) -> None:
    notices: list[str] = []
    kept = cache(tmp_path / "cache", told=notices)
    path = tmp_path / "cache" / "ab" / "abc.json"
    path.parent.mkdir(parents=True)
    if kind == "directory":
        path.mkdir()
    else:
        pipe = path if kind == "pipe" else tmp_path / "pipe"
        os.mkfifo(pipe)
        if pipe != path:
            path.symlink_to(pipe)
    with anyio.fail_after(30):
        assert await kept.claim("abc", as_it_is) is None
    kept.release("abc")
    assert (kept.misses, kept.damaged) == (1, 1)
    assert "is not a regular file" in notices[0]
    await kept.close()


async def test_a_file_system_that_hangs_is_given_up_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = threading.Event()

    def hang(*_: object) -> None:
        back.wait(60)

    notices: list[str] = []
    kept = AnswerCache(tmp_path / "cache", "write", notices.append, wait=0.05)
    monkeypatch.setattr(kept, "_read", hang)
    monkeypatch.setattr(kept, "_write", hang)
    with anyio.fail_after(30):
        for key in ("ab1", "ab2", "ab1"):
            assert await kept.claim(key, as_it_is) is None
            kept.keep(key, ANSWER)
            kept.release(key)
        await kept.close()
    back.set()
    assert kept.misses == 3
    assert [line for line in notices if "has not answered for 0.05 s" in line] == notices[:1] == notices


async def test_a_file_system_that_hangs_on_writing_ends_no_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = threading.Event()
    notices: list[str] = []
    kept = AnswerCache(tmp_path / "cache", "write", notices.append, wait=0.05)
    monkeypatch.setattr(kept, "_write", lambda key, answer: back.wait(60))
    with anyio.fail_after(30):
        assert await kept.claim("ab1", as_it_is) is None
        kept.keep("ab1", ANSWER)
        kept.release("ab1")
        await kept.close()
    back.set()
    assert len(notices) == 1


def test_a_hanging_file_system_does_not_keep_the_process(tmp_path: Path) -> None:
    code = """
import asyncio, sys, time
from pathlib import Path
from memfin.judges.cache import AnswerCache
async def main():
    cache = AnswerCache(Path(sys.argv[1]), "write", print, wait=0.05)
    cache._read = lambda key: time.sleep(3600)
    assert await cache.claim("ab1", lambda answer: answer) is None
    await cache.close()
asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=False,
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
