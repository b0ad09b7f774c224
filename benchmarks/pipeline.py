"""Overhead of the whole pipeline: how much MemFin adds to what an agent takes.

Every measurement runs in a process of its own, so that peak memory is its own too, and beside a
plain asyncio floor: the same turns with one JSON line each, no contract, no metric. Figures to
look at are ratios and milliseconds a turn, not single absolute times.

    python benchmarks/pipeline.py            all measurements, a table on stdout
    python benchmarks/pipeline.py --quick    smaller sizes, for a first look
    python benchmarks/pipeline.py --check    exit 1 where a bound is not held
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TURNS = 13
LATENCY = 0.05
MOST_MS = 0.25
MOST_MIB = 80
MOST_GROWTH = 1.2
MOST_LONG_OVER_SHORT = 1.3
LEAST_SHARE = 0.95
"""The bounds that ``--check`` holds the figures to, on a machine that does nothing else."""

SENTENCES = (
    "从大类资产看，债券的票息提供了组合的基础收益，权益部分决定了长期的弹性",
    "结合您的稳健偏好与最大回撤的约束，权益仓位不宜过高，现金要留足应急所需",
    "需要提醒的是，市场存在不确定性，净值会有波动，过去的表现并不代表将来",
    "具体可以分三步来做：先核对期限，再确定各类资产的比例，最后按季度复盘",
    "费用同样重要，管理费与托管费每年都会从净值里扣除，长期差别相当可观",
    "如果利率上行，久期较长的债券价格会回落，信用资质较弱的主体也可能违约",
    "宽基指数基金分散程度较高，适合作为长期配置的一部分，但短期仍会起伏",
    "以上内容仅供参考，不构成投资建议，请根据自身的风险承受能力独立决定",
)
LENGTH = 600


def reply_text(number: int) -> str:
    """Return a Chinese reply of 600 characters that no other number gives."""
    parts: list[str] = []
    length, index = 0, number
    while length < LENGTH:
        sentence = f"{SENTENCES[index * 7 % len(SENTENCES)]}（第{number}-{index}项）。"
        parts.append(sentence)
        length += len(sentence)
        index += 1 + number % 3
    return "".join(parts)[:LENGTH]


class ZeroAgent:
    """Answers at once, each time with another reply."""

    count = 0

    def __init__(self, session: Any, observer: Any) -> None:
        del session, observer

    async def reply(self, user_text: str) -> str:
        """Return the next reply."""
        del user_text
        ZeroAgent.count += 1
        return reply_text(ZeroAgent.count)


class SlowAgent(ZeroAgent):
    """Answers after 50 ms."""

    async def reply(self, user_text: str) -> str:
        """Return the next reply, later."""
        await asyncio.sleep(LATENCY)
        return await super().reply(user_text)


def write_dataset(path: Path, dialogs: int, turns: int) -> None:
    """Write dialogues whose turns require keys, risk tags, a label and rubric items."""
    tags = {
        "memory_required_keys_gt": [
            "profile_gt.risk_level_gt",
            "profile_gt.constraints_gt[0]",
            "history_turn_index:1",
        ],
        "risk_disclosure_required_gt": ["波动风险", "市场不确定性"],
        "compliance_label_gt": "compliant",
        "explainability_rubric_gt": ["信息依据", "与画像匹配", "边界声明"],
    }
    with path.open("w", encoding="utf-8") as file:
        for number in range(dialogs):
            dialog: dict[str, Any] = {
                "dialog_id": f"bench-{number}",
                "scenario_type": "资产配置",
                "difficulty": "medium",
                "language": "zh",
                "profile_gt": {
                    "risk_level_gt": "稳健",
                    "horizon_gt": "2年以上",
                    "liquidity_need_gt": "中",
                    "constraints_gt": [
                        "最大回撤<10%",
                        "不使用杠杆",
                        "保留20%现金应急",
                        "单一资产仓位不超过30%",
                    ],
                    "preferences_gt": ["宽基指数基金"],
                },
                "turns": [],
            }
            for turn in range(turns):
                user = f"第{turn + 1}个问题：我是稳健型，最大回撤<10%，这笔{number}号资金怎么安排比较合适？"
                dialog["turns"] += [
                    {"role": "user", "text": user, "turn_tags": None},
                    {"role": "assistant", "text": reply_text(number)[:200], "turn_tags": tags},
                ]
            file.write(json.dumps(dialog, ensure_ascii=False) + "\n")


def peak_mib() -> float:
    """Return this process's peak resident memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(dialogs: int, turns: int, workers: int, *, slow: bool) -> dict[str, float]:
    """Run one evaluation and return wall seconds and peak memory."""
    import anyio  # noqa: PLC0415 - the floor must not pay for it

    import memfin  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "bench.jsonl"
        write_dataset(dataset, dialogs, turns)

        async def main() -> float:
            await memfin.evaluate(dataset, agent=ZeroAgent, runs_dir=folder, run_id="warm", limit=1)
            start = time.perf_counter()
            await memfin.evaluate(
                dataset,
                agent=SlowAgent if slow else ZeroAgent,
                runs_dir=folder,
                run_id="bench",
                workers_dialog=workers,
            )
            return time.perf_counter() - start

        wall = anyio.run(main)
    return {"wall": wall, "peak": peak_mib()}


def floor(dialogs: int, turns: int, workers: int, *, slow: bool) -> dict[str, float]:
    """Replay the same dialogues with plain asyncio tasks, one JSON line a dialogue."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "bench.jsonl"
        write_dataset(dataset, dialogs, turns)
        agent = (SlowAgent if slow else ZeroAgent)(None, None)

        async def main() -> float:
            gate = asyncio.Semaphore(workers)
            start = time.perf_counter()

            async def replay(line: str) -> None:
                async with gate:
                    dialog = json.loads(line)
                    replies = [await agent.reply(turn["text"]) for turn in dialog["turns"][::2]]
                out.write(
                    json.dumps({"dialog_id": dialog["dialog_id"], "replies": replies}, ensure_ascii=False)
                    + "\n"
                )

            with (
                dataset.open(encoding="utf-8") as lines,
                (Path(folder) / "out").open("w", encoding="utf-8") as out,
            ):
                await asyncio.gather(*(replay(line) for line in lines))
            return time.perf_counter() - start

        wall = asyncio.run(main())
    return {"wall": wall, "peak": peak_mib()}


def in_process(kind: str, dialogs: int, turns: int, workers: int, *, slow: bool = False) -> dict[str, float]:
    """Run one measurement in a fresh process."""
    words = [sys.executable, __file__, "--one", kind, str(dialogs), str(turns), str(workers), str(int(slow))]
    result: dict[str, float] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    return result


def main() -> None:
    """Measure everything and print a table; with ``--check`` exit 1 where a bound is not held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--check", action="store_true", help="exit 1 where a bound is not held")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, dialogs, turns, workers, slow = options.one
        run = measure if kind == "memfin" else floor
        print(json.dumps(run(int(dialogs), int(turns), int(workers), slow=bool(int(slow)))))
        return
    missed = measure_all((50, 200) if options.quick else (50, 200, 1000))
    for line in missed:
        print(f"over its bound: {line}")
    if options.check and missed:
        sys.exit(1)


def measure_all(sizes: Sequence[int]) -> list[str]:
    """Print the table and return what is over its bound."""
    print(f"{'measurement':44} {'memfin':>12} {'floor':>12} {'peak MiB':>9}")
    per_turn: list[float] = []
    missed: list[str] = []
    for dialogs in sizes:
        ours = in_process("memfin", dialogs, TURNS, 4)
        theirs = in_process("floor", dialogs, TURNS, 4)
        per_turn.append(ours["wall"] / dialogs / TURNS * 1000)
        name = f"{dialogs} dialogues of {TURNS} turns, ms a turn"
        plain = theirs["wall"] / dialogs / TURNS * 1000
        print(f"{name:44} {per_turn[-1]:12.3f} {plain:12.3f} {ours['peak']:9.1f}")
        if per_turn[-1] > MOST_MS:
            missed.append(f"{name}: {per_turn[-1]:.3f}, at most {MOST_MS}")
        if ours["peak"] > MOST_MIB:
            missed.append(f"{name}: peak {ours['peak']:.1f} MiB, at most {MOST_MIB}")
    growth = per_turn[-1] / per_turn[0]
    print(f"{'most over fewest dialogues, ratio':44} {growth:12.2f}")
    if growth > MOST_GROWTH:
        missed.append(f"cost a turn grows with the number of dialogues: {growth:.2f}, at most {MOST_GROWTH}")
    ours = in_process("memfin", 10, 400, 4)
    theirs = in_process("floor", 10, 400, 4)
    long_turn = ours["wall"] / 4000 * 1000
    print(
        f"{'10 dialogues of 400 turns, ms a turn':44} {long_turn:12.3f} "
        f"{theirs['wall'] / 4000 * 1000:12.3f} {ours['peak']:9.1f}"
    )
    ratio = long_turn / per_turn[1]
    print(f"{'long over short dialogues, ratio':44} {ratio:12.2f}")
    if ratio > MOST_LONG_OVER_SHORT:
        missed.append(f"cost a turn grows with the dialogue: {ratio:.2f}, at most {MOST_LONG_OVER_SHORT}")
    ideal = TURNS * 4 * LATENCY
    ours = in_process("memfin", 256, TURNS, 64, slow=True)
    theirs = in_process("floor", 256, TURNS, 64, slow=True)
    share = ideal / ours["wall"]
    name = "50 ms agent, 64 workers, share of ideal"
    print(f"{name:44} {share:12.1%} {ideal / theirs['wall']:12.1%} {ours['peak']:9.1f}")
    if share < LEAST_SHARE:
        missed.append(f"{name}: {share:.1%}, at least {LEAST_SHARE:.0%}")
    return missed


if __name__ == "__main__":
    main()
