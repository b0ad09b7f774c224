"""Throughput over the wire: what judge, gate and chat client add to a server that takes 50 ms.

The server and every measurement run in processes of their own. The ideal is a pool that never
waits for anything but the server. ``judge`` is the whole judge ``openai:MODEL``: prompt, fence, gate,
client, strict reading; ``caching`` is the same with every verdict put into the cache, at the price of two
operations of the file system a call, and ``cached`` with every verdict found there. ``wire`` is the gate
and the client alone, and ``floor`` plain aiohttp with a semaphore, without limits, retries, bounds or
checks.

    python benchmarks/judge_throughput.py            2,000 calls, 64 workers, a table on stdout
    python benchmarks/judge_throughput.py --check    exit 1 where a bound is not held
    python benchmarks/judge_throughput.py --calls 10000
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

LATENCY = 0.05
WORKERS = 64
CALLS = 2000
LEAST_SHARE = 0.9
MOST_GROWTH_MIB = 8.0
"""The bounds that ``--check`` holds the figures to, on a machine that does nothing else.

Growth is that of peak memory between a quarter of the calls and all of them.
"""

PROMPT = "请按评分标准判断下面的回复是否说明了信息依据、与画像匹配以及边界。" * 20
VERDICT = json.dumps(
    {
        "reason": "依据充分" * 20,
        "satisfied": ["R1"],
        "contradicted": [],
        "risk_tags": ["volatility_risk"],
        "compliance": "compliant",
        "score": 4,
    },
    ensure_ascii=False,
)
REPLY = "根据公开数据，建议分散配置并保留流动资金。市场存在不确定性，本金可能亏损，以上仅供参考。" * 10


class Answering(asyncio.Protocol):
    """Answers every request after the latency, at the least cost: its time must not be the bottleneck."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        content = {
            "id": "chatcmpl-1",
            "model": "bench",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": VERDICT}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": 500, "completion_tokens": 80, "total_tokens": 580},
        }
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._answer = head.encode() + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - TCP
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer when a request is whole."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        if end and len(body) >= int(length):
            self._received = b""
            asyncio.get_running_loop().call_later(LATENCY, self._send)

    def _send(self) -> None:
        if self._transport is not None:
            self._transport.write(self._answer)


def serve() -> None:
    """Serve until standard input ends; print the port first."""

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        # The parent closes its end of the pipe when it is done, however it ends.
        await asyncio.to_thread(sys.stdin.read)

    asyncio.run(main())


def peak_mib() -> float:
    """Return this process's peak resident memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def drive(call: Callable[[], Awaitable[Any]], calls: int) -> dict[str, float]:
    """Make so many calls with all workers; the first round, which opens connections, is not timed."""
    left = 0
    early = 0.0

    async def worker() -> None:
        nonlocal left, early
        while left > 0:
            left -= 1
            if left == calls * 3 // 4:
                early = peak_mib()
            await call()

    async def run(number: int) -> None:
        nonlocal left
        left = number
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(worker())

    await run(WORKERS)
    cpu = time.process_time()
    start = time.perf_counter()
    await run(calls)
    wall = time.perf_counter() - start
    return {"wall": wall, "cpu": time.process_time() - cpu, "early": early, "peak": peak_mib()}


async def judge(port: int, calls: int, cache: Path, mode: Literal["off", "write"]) -> dict[str, float]:
    """Measure the whole judge; a second measurement with the same cache asks nobody."""
    from memfin.contracts import JudgeRequest, Verdict  # noqa: PLC0415 - the floor does without
    from memfin.judges.cache import AnswerCache  # noqa: PLC0415
    from memfin.judges.dialog_task import DialogTask  # noqa: PLC0415
    from memfin.judges.notices import Notices  # noqa: PLC0415
    from memfin.judges.openai import OpenAIJudge  # noqa: PLC0415
    from memfin.wire import CallGate, Endpoint  # noqa: PLC0415

    made = OpenAIJudge(
        "bench",
        Endpoint(f"http://127.0.0.1:{port}/v1"),
        DialogTask(),
        gate=CallGate(workers=WORKERS, rpm=1e6, tpm=1e9, on_notice=print),
        cache=AnswerCache(cache, mode, print),
        notices=Notices(),
    )
    request = JudgeRequest(
        dialog_id="d",
        turn_pair_id=1,
        language="zh",
        user_text="稳健型客户，期限两年，怎么配置？",
        reply=REPLY,
        rubric_required=["信息依据", "画像匹配", "边界声明"],
        constraints=["不使用杠杆", "亏损不超过10%"],
        preferences=["宽基指数基金"],
        risk_level="稳健",
    )
    number = 0

    async def call() -> None:
        nonlocal number
        number += 1
        ruling = await made.deliberate(request.replace(user_text=f"{number}：{request.user_text}"))
        if not isinstance(ruling.outcome, Verdict):
            raise SystemExit(ruling.outcome.reason)

    try:
        return await drive(call, calls)
    finally:
        await made.close()


async def wire(port: int, calls: int) -> dict[str, float]:
    """Measure gate and client."""
    from memfin.wire import CallGate, ChatAnswer, ChatClient, ChatRequest, Endpoint  # noqa: PLC0415 - as above

    client = ChatClient(Endpoint(f"http://127.0.0.1:{port}/v1"), total=30, read=10)
    gate = CallGate(workers=WORKERS, rpm=1e6, tpm=1e9, on_notice=print)
    request = ChatRequest(
        model="bench", messages=[{"role": "user", "content": PROMPT}], temperature=0.0, seed=0
    )

    def used(answer: ChatAnswer) -> int | None:
        return answer.total_tokens

    async def call() -> None:
        result = await gate.call(lambda: client.complete(request), tokens=1000, used=used)
        if result.value.text != VERDICT:
            raise SystemExit("the answer is not what the server sent")

    try:
        return await drive(call, calls)
    finally:
        await client.close()


async def floor(port: int, calls: int) -> dict[str, float]:
    """Measure plain aiohttp."""
    import aiohttp  # noqa: PLC0415 - as above

    body = {
        "model": "bench",
        "messages": [{"role": "user", "content": PROMPT}],
        "temperature": 0.0,
        "seed": 0,
    }
    slots = asyncio.Semaphore(WORKERS)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call() -> None:
            async with (
                slots,
                session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as response,
            ):
                answer = await response.json()
                if answer["choices"][0]["message"]["content"] != VERDICT:
                    raise SystemExit("the answer is not what the server sent")

        return await drive(call, calls)


def in_process(kind: str, port: str, calls: int, cache: str) -> dict[str, float]:
    """Run one measurement in a fresh process."""
    words = [sys.executable, __file__, "--one", kind, port, str(calls), cache]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure_all(calls: int) -> list[str]:
    """Print the table and return what is over its bound."""
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with server, tempfile.TemporaryDirectory() as cache:
        assert server.stdout is not None  # noqa: S101 - it is piped
        port = server.stdout.readline().strip()
        kinds = ("judge", "caching", "cached", "wire", "floor")
        results = {kind: in_process(kind, port, calls, cache) for kind in kinds}
        server.communicate("")
    ideal = calls / WORKERS * LATENCY
    print(f"{calls} calls, {WORKERS} workers, {LATENCY * 1000:.0f} ms a call, {os.cpu_count()} cores")
    print(
        f"{'':8} {'wall s':>8} {'ideal s':>8} {'share':>7} {'CPU ms a call':>14} {'peak MiB':>9} {'grows':>6}"
    )
    for kind, result in results.items():
        share = "-" if kind == "cached" else f"{ideal / result['wall']:.1%}"
        print(
            f"{kind:8} {result['wall']:8.2f} {ideal:8.2f} {share:>7} "
            f"{result['cpu'] / calls * 1000:14.2f} {result['peak']:9.1f} "
            f"{result['peak'] - result['early']:6.1f}"
        )
    missed = []
    for kind in ("judge", "wire"):
        share_of_ideal = ideal / results[kind]["wall"]
        if share_of_ideal < LEAST_SHARE:
            missed.append(f"{kind}: share of ideal: {share_of_ideal:.1%}, at least {LEAST_SHARE:.0%}")
    for kind in ("judge", "caching", "cached", "wire"):
        growth = results[kind]["peak"] - results[kind]["early"]
        if growth > MOST_GROWTH_MIB:
            missed.append(f"{kind}: growth of memory: {growth:.1f} MiB, at most {MOST_GROWTH_MIB:.0f}")
    return missed


def measure_one(kind: str, port: int, calls: int, cache: Path) -> dict[str, float]:
    """Make one measurement in this process."""
    if kind in {"judge", "caching", "cached"}:
        return asyncio.run(judge(port, calls, cache, "off" if kind == "judge" else "write"))
    return asyncio.run((wire if kind == "wire" else floor)(port, calls))


def main() -> None:
    """Measure everything and print a table; with ``--check`` exit 1 where a bound is not held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=CALLS, help="how many calls to make")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bound is not held")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.one:
        kind, port, calls, cache = options.one
        print(json.dumps(measure_one(kind, int(port), int(calls), Path(cache))))
        return
    missed = measure_all(options.calls)
    for line in missed:
        print(f"over its bound: {line}")
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
