"""Limiter and client together against a server on loopback: what the server sees, and what comes out."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from memfin.client.chat import ChatClient
from memfin.client.endpoint import Endpoint
from memfin.client.errors import RequestError
from memfin.client.limiter import CallLimiter
from memfin.client.messages import ChatAnswer, ChatRequest
from tests.client.faulty_server import SLOW, TRANSIENT, FaultyServer
from tests.support import length

SECONDS = float(length(6, 20))
WORKERS = 64
ON_TIME = 0.04
"""Seconds by which the loop may be late for a measurement to tell anything about the limiter."""


def question(number: int) -> ChatRequest:
    return ChatRequest(model="m", messages=[{"role": "user", "content": f"question {number}"}])


def answer(body: dict[str, Any]) -> str:
    return f"answer to {body['messages'][-1]['content']}: {hash_of(body)}"


def hash_of(body: dict[str, Any]) -> int:
    return sum(ord(character) * 31**index for index, character in enumerate(body["messages"][-1]["content"]))


def used(value: ChatAnswer) -> int | None:
    return value.total_tokens


@asynccontextmanager
async def asked(server: FaultyServer, limiter: CallLimiter) -> AsyncIterator[Callable[[int], Any]]:
    """Yield what asks one question through the limiter; a refusal is no answer here, as for a judge."""
    client = ChatClient(Endpoint(server.base_url), total=1.0, read=0.4)

    async def attempt(number: int) -> ChatAnswer:
        value = await client.complete(question(number))
        if value.refusal is not None:
            raise RequestError("refusal", value.refusal, tokens=value.total_tokens)
        return value

    async def ask(number: int) -> str:
        result = await limiter.call(lambda: attempt(number), tokens=40, used=used)
        return result.value.text

    try:
        yield ask
    finally:
        await client.close()


class Seen(NamedTuple):
    """What a server saw: when requests came, and how late the loop was at worst."""

    times: list[float]
    latest: float


async def load(limiter: CallLimiter, usage: tuple[int, int]) -> Seen:
    """Keep 64 workers busy for the whole time; return what the server saw."""
    late = 0.0

    async def watch() -> None:
        nonlocal late
        clock = asyncio.get_running_loop().time
        while True:
            before = clock()
            await asyncio.sleep(0.01)
            late = max(late, clock() - before - 0.01)

    async with FaultyServer(latency=0.05, usage=usage) as server, asked(server, limiter) as ask:

        async def worker(number: int) -> None:
            while True:
                await ask(number)

        with anyio.move_on_after(SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                for number in range(WORKERS):
                    group.start_soon(worker, number)
        return Seen([arrival.at for arrival in server.arrivals], late)


def max_within(times: list[float], period: float) -> int:
    return max(sum(first <= at <= first + period for at in times) for first in times)


async def test_the_server_never_sees_more_than_the_limit_in_any_second() -> None:
    """600 requests a minute, and beside it 60,000 tokens a minute at 100 a call: ten a second each."""
    notices: list[str] = []
    by_requests = by_tokens = Seen([], 0.0)
    for _ in range(3):
        requests = CallLimiter(workers=WORKERS, rpm=600, on_warning=notices.append)
        tokens = CallLimiter(workers=WORKERS, tpm=60_000, on_warning=notices.append)
        by_requests, by_tokens = await asyncio.gather(load(requests, (10, 5)), load(tokens, (60, 40)))
        if max(by_requests.latest, by_tokens.latest) <= ON_TIME:
            break  # a loop that others kept from running says when it woke, not when requests came
    assert notices == []
    assert max_within(by_requests.times, 1.0) <= 10
    assert len(by_requests.times) >= 0.9 * SECONDS * 10
    # The estimate was 40: what was under way before the first answer came was taken for cheaper.
    settled = [at for at in by_tokens.times if at > by_tokens.times[0] + 1.0]
    assert max_within(settled, 1.0) * 100 <= 1000
    assert max_within(by_tokens.times, 1.0) * 100 <= 1400
    assert len(by_tokens.times) * 100 >= 0.9 * SECONDS * 1000


async def outcomes_of(server: FaultyServer, calls: int) -> tuple[dict[int, str], Counter[str]]:
    """Ask so many questions with 24 workers; return the answers and the failures by kind."""
    answers: dict[int, str] = {}
    failures: Counter[str] = Counter()
    limiter = CallLimiter(workers=24, on_warning=lambda _: None, max_pause=0.02, draw=lambda: 0.02)
    numbers = iter(range(calls))
    async with server, asked(server, limiter) as ask:

        async def worker() -> None:
            for number in numbers:
                try:
                    answers[number] = await ask(number)
                except RequestError as problem:
                    failures[problem.kind] += 1

        async with anyio.create_task_group() as group:
            for _ in range(24):
                group.start_soon(worker)
    return answers, failures


async def test_what_comes_out_of_a_faulty_server_is_what_comes_out_of_a_sound_one() -> None:
    calls = length(300, 600)
    sound, none = await outcomes_of(FaultyServer(responder=answer), calls)
    assert len(sound) == calls
    assert not none
    faults = [*TRANSIENT, *SLOW] * length(3, 6)
    script = faults + [None] * round(len(faults) / 0.3 * 0.7)
    random.Random(5).shuffle(script)
    faulty_server = FaultyServer(script=script, share=0.3, faults=faults, responder=answer)
    faulty, failed = await outcomes_of(faulty_server, calls)
    assert set(faulty_server.fault_counts()) == {*TRANSIENT, *SLOW}
    assert {number: sound[number] for number in faulty} == faulty
    # Nothing is lost: every call has an answer or a counted failure with its reason.
    assert len(faulty) + failed.total() == calls
    assert len(faulty) >= 0.97 * calls
    met = sum(faulty_server.fault_counts().values())
    assert 0.25 * len(faulty_server.arrivals) < met < 0.35 * len(faulty_server.arrivals)


async def test_a_server_that_is_down_for_a_while_loses_no_call() -> None:
    answers: list[str] = []
    notices: list[str] = []
    limiter = CallLimiter(workers=4, on_warning=notices.append, name="judge", draw=lambda: 0.0)
    async with FaultyServer(script=["503"] * 8, responder=answer) as server, asked(server, limiter) as ask:

        async def one(number: int) -> None:
            answers.append(await ask(number))

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(one, number)
    assert len(answers) == 10
    assert notices[0] == (
        f"judge is down ({server_of(notices[0])}: HTTP 503: this is fault 503); calls wait, next try in 1 s"
    )
    assert notices[-1] == "judge answers again; calls continue"


def server_of(notice: str) -> str:
    return notice.partition("(")[2].partition(": HTTP")[0]


async def test_a_dead_endpoint_ends_in_counted_failures() -> None:
    notices: list[str] = []
    failures: Counter[str] = Counter()
    async with FaultyServer() as server:
        base_url = server.base_url
    limiter = CallLimiter(workers=8, on_warning=notices.append, max_down=0.5, draw=lambda: 0.0)
    client = ChatClient(Endpoint(base_url), total=5, read=5)

    async def one(number: int) -> None:
        try:
            await limiter.call(lambda: client.complete(question(number)))
        except RequestError as problem:
            failures[problem.kind] += 1

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(one, number)
    await client.close()
    assert failures.total() == 50
    assert failures["unavailable"] > 0
    assert "s and is given up" in notices[-1]
