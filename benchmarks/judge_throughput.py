"""Throughput over the wire: what judge, gate and chat client add to a server that takes 50 ms.

The server and every measurement run in processes of their own. The ideal is a pool that never waits for
anything but the server: 2,000 calls are 32 rounds of 64, the last one not full. Each measurement is made
three times, by turns, and the fastest counts: what else a machine does only adds. ``pool`` is the actor
of a run: it takes scored dialogues, has their turns judged and hands them on with their verdicts.
``judge`` is the judge ``openai:MODEL`` that it asks: prompt, fence, gate, client, strict reading;
``caching`` is the same with every verdict put into the cache, at the price of two operations of the file
system a call, and ``cached`` with every verdict found there. ``wire`` is the gate and the client alone,
and ``floor`` plain aiohttp with a semaphore, without limits, retries, bounds or checks.

    python benchmarks/judge_throughput.py            2,000 calls, 64 workers, a table on stdout
    python benchmarks/judge_throughput.py --check    exit 1 where a bound is not held
    python benchmarks/judge_throughput.py --calls 10000
"""

import argparse
import asyncio
import gc
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from memfin.actors.dialogs import DialogResult
    from memfin.contracts import JudgeRequest, Verdict
    from memfin.judges.openai import OpenAIJudge

SERVER = Path(__file__).with_name("chat_server.py")
LATENCY = 0.05
WORKERS = 64
CALLS = 2000
TURNS = 8
ROUNDS = 3
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


def peak_mib() -> float:
    """Return this process's peak resident memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(
    run: Callable[[int, Callable[[int], None]], Awaitable[None]], calls: int
) -> dict[str, float]:
    """Measure a run of so many calls; it is to tell how many are left.

    What starting up costs is not timed: the first round, which opens connections, and the collection of
    what imports have left, which otherwise comes at some moment soon afterwards.
    """
    early = 0.0

    def note(left: int) -> None:
        nonlocal early
        if early == 0.0 and left <= calls * 3 // 4:
            early = peak_mib()

    await run(WORKERS, lambda _: None)
    gc.collect()
    cpu = time.process_time()
    start = time.perf_counter()
    await run(calls, note)
    wall = time.perf_counter() - start
    return {"wall": wall, "cpu": time.process_time() - cpu, "early": early, "peak": peak_mib()}


async def drive(call: Callable[[], Awaitable[Any]], calls: int) -> dict[str, float]:
    """Measure so many calls, made by all workers."""

    async def run(left: int, note: Callable[[int], None]) -> None:
        async def worker() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                note(left)
                await call()

        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(worker())

    return await measure(run, calls)


def openai_judge(
    port: int, cache: Path, mode: Literal["off", "write"]
) -> "OpenAIJudge[JudgeRequest, Verdict]":
    """Return the judge, as a run has it."""
    from memfin.client.endpoint import Endpoint  # noqa: PLC0415
    from memfin.client.limiter import CallLimiter  # noqa: PLC0415
    from memfin.judges import JudgeSetup  # noqa: PLC0415 - the floor does without
    from memfin.judges.openai import OpenAIJudge  # noqa: PLC0415
    from memfin.judges.reply_grading import ReplyGrading  # noqa: PLC0415

    return OpenAIJudge(
        "bench",
        Endpoint(f"http://127.0.0.1:{port}/v1", "BENCH_KEY", environ={"BENCH_KEY": "sk-0123456789abcdef"}),
        ReplyGrading(),
        JudgeSetup(
            gate=CallLimiter(workers=WORKERS, rpm=1e6, tpm=1e9, on_warning=print),
            cache=mode,
            cache_dir=cache,
            warn=print,
        ),
    )


async def judge(port: int, calls: int, cache: Path, mode: Literal["off", "write"]) -> dict[str, float]:
    """Measure the whole judge; a second measurement with the same cache asks nobody."""
    from memfin.contracts import JudgeRequest, Verdict  # noqa: PLC0415 - the floor does without

    made = openai_judge(port, cache, mode)
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
        result = await made.deliberate(request.replace(user_text=f"{number}：{request.user_text}"))
        if not isinstance(result.outcome, Verdict):
            raise SystemExit(result.outcome.reason)

    try:
        return await drive(call, calls)
    finally:
        await made.close()


def dialogs(number: int) -> "list[DialogResult]":
    """Return so many dialogues as the scorer hands them to the judges."""
    from memfin.actors.dialogs import DialogResult  # noqa: PLC0415 - as above
    from memfin.contracts import Dialog, DialogTrace, ProfileTruth, TurnTags, TurnTrace  # noqa: PLC0415
    from memfin.scoring.verdicts import unscored_row  # noqa: PLC0415

    truth = ProfileTruth(constraints_gt=["不使用杠杆", "亏损不超过10%"], preferences_gt=["宽基指数基金"])
    made = []
    for index in range(1, number + 1):
        turns = [
            TurnTrace(
                turn_pair_id=place,
                user_turn_abs_idx=2 * place - 2,
                gt_assistant_abs_idx=2 * place - 1,
                user_text=f"{index}.{place}：稳健型客户，期限两年，怎么配置？",
                gt_assistant_text=REPLY,
                gt_turn_tags=TurnTags(),
                turn_status="ok",
                pred_assistant_text=REPLY,
            )
            for place in range(1, TURNS + 1)
        ]
        trace = DialogTrace(
            trace_version="v1",
            run_id="bench",
            dialog_id=f"d{index}",
            dataset_index=index,
            dialog_status="ok",
            valid_dialog=True,
            turns=turns,
        )
        rubric = ["信息依据", "画像匹配", "边界声明"]
        rows = [
            unscored_row("bench", trace.dialog_id, turn, "").replace(eligible_m5=True, rubric_required=rubric)
            for turn in turns
        ]
        dialog = Dialog(dialog_id=trace.dialog_id, profile_gt=truth, turns=[], language="zh")
        made.append(DialogResult(trace=trace, dialog=dialog, recorded=True, rows=rows))
    return made


async def pool(port: int, calls: int, cache: Path) -> dict[str, float]:
    """Measure the actor: dialogues of `TURNS` turns wait for it, and somebody takes what it hands on."""
    from memfin.actors.channels import Wires  # noqa: PLC0415
    from memfin.actors.dialog_scoring import DialogJudging  # noqa: PLC0415
    from memfin.actors.dialogs import DialogResult, DialogTask  # noqa: PLC0415
    from memfin.actors.judge_pool import JudgePool  # noqa: PLC0415
    from memfin.actors.messages import WarningBoard  # noqa: PLC0415
    from memfin.journal import RunDirectory  # noqa: PLC0415

    made = openai_judge(port, cache, "off")
    rounds = [dialogs(calls // TURNS), dialogs(WORKERS // TURNS)]

    async def run(number: int, note: Callable[[int], None]) -> None:
        waiting = rounds.pop()
        wires = Wires[DialogTask, DialogResult, DialogResult](
            "bench", RunDirectory(cache, cache / "log"), WarningBoard(), room=len(waiting)
        )
        feed, judged, told = wires.scored.sender(), wires.commits.receiver(), wires.events.receiver()
        actor = JudgePool(made, DialogJudging("bench", made.name, "m5"), WORKERS, wires)
        wires.close()
        async with asyncio.TaskGroup() as group, judged, told:
            group.create_task(actor.supervised())
            with feed:
                for each in waiting:
                    feed.send_nowait(each)
            async for message in judged:
                if message.completed is None or message.completed.judge_failures:
                    raise SystemExit("a judgement is missing")
                number -= TURNS
                note(number)

    try:
        return await measure(run, calls)
    finally:
        await made.close()


async def wire(port: int, calls: int) -> dict[str, float]:
    """Measure gate and client."""
    from memfin.client.chat import ChatClient  # noqa: PLC0415 - as above
    from memfin.client.endpoint import Endpoint  # noqa: PLC0415 - as above
    from memfin.client.limiter import CallLimiter  # noqa: PLC0415 - as above
    from memfin.client.messages import ChatAnswer, ChatRequest  # noqa: PLC0415 - as above

    client = ChatClient(Endpoint(f"http://127.0.0.1:{port}/v1"), total=30, read=10)
    gate = CallLimiter(workers=WORKERS, rpm=1e6, tpm=1e9, on_warning=print)
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
        [sys.executable, SERVER, str(LATENCY), VERDICT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with server, tempfile.TemporaryDirectory() as cache:
        assert server.stdout is not None  # noqa: S101 - it is piped
        port = server.stdout.readline().strip()
        kinds = ("pool", "judge", "caching", "cached", "wire", "floor")
        rounds = [
            {kind: in_process(kind, port, calls, f"{cache}/{number}") for kind in kinds}
            for number in range(ROUNDS)
        ]
        server.communicate("")
    results = {kind: min((each[kind] for each in rounds), key=lambda made: made["wall"]) for kind in kinds}
    ideal = math.ceil(calls / WORKERS) * LATENCY
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
    for kind in ("pool", "judge", "wire"):
        share_of_ideal = ideal / results[kind]["wall"]
        if share_of_ideal < LEAST_SHARE:
            missed.append(f"{kind}: share of ideal: {share_of_ideal:.1%}, at least {LEAST_SHARE:.0%}")
    for kind in ("pool", "judge", "caching", "cached", "wire"):
        growth = results[kind]["peak"] - results[kind]["early"]
        if growth > MOST_GROWTH_MIB:
            missed.append(f"{kind}: growth of memory: {growth:.1f} MiB, at most {MOST_GROWTH_MIB:.0f}")
    return missed


def measure_one(kind: str, port: int, calls: int, cache: Path) -> dict[str, float]:
    """Make one measurement in this process."""
    if kind == "pool":
        return asyncio.run(pool(port, calls, cache))
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
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, port, calls, cache = options.one
        print(json.dumps(measure_one(kind, int(port), int(calls), Path(cache))))
        return
    missed = measure_all(options.calls + -options.calls % TURNS)
    for line in missed:
        print(f"over its bound: {line}")
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
