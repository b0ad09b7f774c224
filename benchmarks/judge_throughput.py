"""Throughput over the wire: what the gate and the chat client add to a server that takes 50 ms.

The server and every measurement run in processes of their own. The ideal is a pool that never
waits for anything but the server; the floor is plain aiohttp with a semaphore, without limits,
retries, bounds or checks.

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
import time
from collections.abc import Awaitable, Callable
from typing import Any

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
    {"score": 4, "rubric_items": ["信息依据"], "reason": "依据充分" * 20}, ensure_ascii=False
)


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


async def ours(port: int, calls: int) -> dict[str, float]:
    """Measure gate and client."""
    from memfin.wire import CallGate, ChatAnswer, ChatClient, ChatRequest, Endpoint  # noqa: PLC0415 - the floor

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


def in_process(kind: str, port: str, calls: int) -> dict[str, float]:
    """Run one measurement in a fresh process."""
    words = [sys.executable, __file__, "--one", kind, port, str(calls)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure_all(calls: int) -> list[str]:
    """Print the table and return what is over its bound."""
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with server:
        assert server.stdout is not None  # noqa: S101 - it is piped
        port = server.stdout.readline().strip()
        results = {kind: in_process(kind, port, calls) for kind in ("memfin", "floor")}
        server.communicate("")
    ideal = calls / WORKERS * LATENCY
    print(f"{calls} calls, {WORKERS} workers, {LATENCY * 1000:.0f} ms a call, {os.cpu_count()} cores")
    print(
        f"{'':8} {'wall s':>8} {'ideal s':>8} {'share':>7} {'CPU ms a call':>14} {'peak MiB':>9} {'grows':>6}"
    )
    for kind, result in results.items():
        print(
            f"{kind:8} {result['wall']:8.2f} {ideal:8.2f} {ideal / result['wall']:7.1%} "
            f"{result['cpu'] / calls * 1000:14.2f} {result['peak']:9.1f} "
            f"{result['peak'] - result['early']:6.1f}"
        )
    share = ideal / results["memfin"]["wall"]
    growth = results["memfin"]["peak"] - results["memfin"]["early"]
    missed = []
    if share < LEAST_SHARE:
        missed.append(f"share of ideal: {share:.1%}, at least {LEAST_SHARE:.0%}")
    if growth > MOST_GROWTH_MIB:
        missed.append(f"growth of memory: {growth:.1f} MiB, at most {MOST_GROWTH_MIB:.0f}")
    return missed


def main() -> None:
    """Measure everything and print a table; with ``--check`` exit 1 where a bound is not held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=CALLS, help="how many calls to make")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bound is not held")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.one:
        kind, port, calls = options.one
        print(json.dumps(asyncio.run((ours if kind == "memfin" else floor)(int(port), int(calls)))))
        return
    missed = measure_all(options.calls)
    for line in missed:
        print(f"over its bound: {line}")
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
