"""Speed of the whole pipeline: the time per turn that MemFin adds to what an agent takes.

Every measurement runs in a process of its own. Beside it stand, from the same run of this script, a plain
asyncio floor (the same turns with one JSON line per dialogue, no contract, no metric) and scoring alone
(the detectors on the same replies, in one process): look at the ratios, not at single times.

    python benchmarks/pipeline.py            all measurements, a table on stdout
    python benchmarks/pipeline.py --quick    smaller sizes, for a first look
    python benchmarks/pipeline.py --check    exit 1 where a bound is not held
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

TURNS = 13
LATENCY = 0.05
MAX_OVER_SCORING = 1.5
MAX_MIB = 160
MAX_GROWTH = 1.2
MAX_LONG_OVER_SHORT = 1.3
MIN_SHARE = 0.9
"""The bounds that ``--check`` holds the figures to, on a machine that does nothing else."""

LONG_REPLIES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "labels" / "long_dev.jsonl"
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


def long_texts() -> list[str]:
    """Return long Markdown replies as models write them."""
    return [json.loads(line)["text"] for line in LONG_REPLIES.read_text("utf-8").split("\n") if line]


class ShortAgent:
    """Answers at once, each time with another reply of 600 characters."""

    count = 0

    def __init__(self, session: Any, observer: Any) -> None:
        del session, observer

    async def reply(self, user_text: str) -> str:
        """Return the next reply."""
        del user_text
        ShortAgent.count += 1
        return reply_text(ShortAgent.count)


class LongAgent(ShortAgent):
    """Answers at once, with long Markdown replies in turn."""

    texts: Sequence[str] = ()

    async def reply(self, user_text: str) -> str:
        """Return the next reply."""
        del user_text
        LongAgent.texts = LongAgent.texts or long_texts()
        ShortAgent.count += 1
        return LongAgent.texts[ShortAgent.count % len(LongAgent.texts)]


class SlowAgent(ShortAgent):
    """Answers after 50 ms."""

    async def reply(self, user_text: str) -> str:
        """Return the next reply, later."""
        await asyncio.sleep(LATENCY)
        return await super().reply(user_text)


AGENTS: dict[str, type[ShortAgent]] = {"short": ShortAgent, "long": LongAgent, "slow": SlowAgent}


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


def memory_mib(pid: int) -> float:
    """Return the memory of a process and its descendants in MiB; shared pages count once (Linux)."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return sum(one.memory_full_info().pss for one in family) / 2**20


def pipeline(agent: str, dialogs: int, turns: int, workers: int) -> float:
    """Run one evaluation and return its wall seconds."""
    import anyio  # noqa: PLC0415 - the floor must not pay for it

    import memfin  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "bench.jsonl"
        write_dataset(dataset, dialogs, turns)

        async def main() -> float:
            await memfin.evaluate(dataset, agent=ShortAgent, runs_dir=folder, run_id="warm", limit=1)
            start = time.perf_counter()
            await memfin.evaluate(
                dataset, agent=AGENTS[agent], runs_dir=folder, run_id="bench", workers_dialog=workers
            )
            return time.perf_counter() - start

        return anyio.run(main)


def scoring(agent: str, dialogs: int, turns: int, workers: int) -> float:
    """Score the same replies one after another and return the wall seconds."""
    from memfin.agents.observer import Observed  # noqa: PLC0415 - the floor must not pay for it
    from memfin.agents.replay import build_turn_trace  # noqa: PLC0415 - as above
    from memfin.dataset import align_turn_pairs, read_entries  # noqa: PLC0415 - as above
    from memfin.scoring.rows import DialogScorer  # noqa: PLC0415 - as above

    del workers
    texts = long_texts() if agent == "long" else [reply_text(n) for n in range(dialogs * turns)]
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "bench.jsonl"
        write_dataset(dataset, 1, 1)
        with dataset.open("rb") as lines:
            dialog = next(entry.dialog for entry in read_entries(lines) if entry.dialog is not None)
    pair, scorer = align_turn_pairs(dialog)[0], DialogScorer(dialog, run_id="bench")
    traces = [build_turn_trace(pair, text, Observed(), 1.0) for text in texts]
    scorer.row(traces[0])
    start = time.perf_counter()
    for number in range(dialogs * turns):
        scorer.row(traces[number % len(traces)])
    return time.perf_counter() - start


def floor(agent: str, dialogs: int, turns: int, workers: int) -> float:
    """Replay the same dialogues with plain asyncio tasks, one JSON line per dialogue; return wall seconds."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = Path(folder) / "bench.jsonl"
        write_dataset(dataset, dialogs, turns)
        answers = AGENTS[agent](None, None)

        async def main() -> float:
            gate = asyncio.Semaphore(workers)
            start = time.perf_counter()

            async def replay(line: str) -> None:
                async with gate:
                    dialog = json.loads(line)
                    replies = [await answers.reply(turn["text"]) for turn in dialog["turns"][::2]]
                record = {"dialog_id": dialog["dialog_id"], "replies": replies}
                out.write(json.dumps(record, ensure_ascii=False) + "\n")

            with (
                dataset.open(encoding="utf-8") as lines,
                (Path(folder) / "out").open("w", encoding="utf-8") as out,
            ):
                await asyncio.gather(*(replay(line) for line in lines))
            return time.perf_counter() - start

        return asyncio.run(main())


KINDS: dict[str, Callable[[str, int, int, int], float]] = {
    "memfin": pipeline,
    "scoring": scoring,
    "floor": floor,
}


def in_process(kind: str, agent: str, dialogs: int, turns: int, workers: int = 4) -> tuple[float, float]:
    """Run one measurement in a fresh process; return milliseconds per turn and the peak memory in MiB.

    The peak is of all its processes together, looked at ten times a second.
    """
    words = [sys.executable, __file__, "--one", kind, agent, str(dialogs), str(turns), str(workers)]
    peak = 0.0
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):  # a process ended while it was looked at
                peak = max(peak, memory_mib(process.pid))
            time.sleep(0.1)
        output = process.stdout.read() if process.stdout else b""
    if process.returncode:
        sys.exit(f"{kind} {agent} failed with exit code {process.returncode}")
    return json.loads(output) / dialogs / turns * 1000, peak


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
        kind, agent, *sizes = options.one
        print(json.dumps(KINDS[kind](agent, *map(int, sizes))))
        return
    missed = measure_all((50, 200) if options.quick else (50, 200, 1000))
    for line in missed:
        print(f"over its bound: {line}")
    if options.check and missed:
        sys.exit(1)


def measure_all(sizes: Sequence[int]) -> list[str]:
    """Print the table and return what is over its bound."""
    print(f"{'milliseconds per turn':44} {'memfin':>9} {'scoring':>9} {'floor':>9} {'peak MiB':>9}")
    missed: list[str] = []

    def measured(name: str, agent: str, dialogs: int, turns: int) -> float:
        ours, peak = in_process("memfin", agent, dialogs, turns)
        alone, _ = in_process("scoring", agent, dialogs, turns)
        plain, _ = in_process("floor", agent, dialogs, turns)
        print(f"{name:44} {ours:9.3f} {alone:9.3f} {plain:9.3f} {peak:9.1f}", flush=True)
        if ours > alone * MAX_OVER_SCORING:
            missed.append(f"{name}: {ours / alone:.2f} times scoring alone, at most {MAX_OVER_SCORING}")
        if peak > MAX_MIB:
            missed.append(f"{name}: peak {peak:.1f} MiB, at most {MAX_MIB}")
        return ours

    short = [measured(f"{n} dialogues of {TURNS} turns", "short", n, TURNS) for n in sizes]
    measured(f"100 dialogues of {TURNS} long Markdown replies", "long", 100, TURNS)
    long_dialogs = measured("10 dialogues of 400 turns", "short", 10, 400)
    for name, ratio, most in (
        ("most over fewest dialogues", short[-1] / short[0], MAX_GROWTH),
        ("long over short dialogues", long_dialogs / short[1], MAX_LONG_OVER_SHORT),
    ):
        print(f"{name + ', ratio':44} {ratio:9.2f}")
        if ratio > most:
            missed.append(f"{name}: {ratio:.2f}, at most {most}")
    ideal = LATENCY / 64 * 1000
    ours, peak = in_process("memfin", "slow", 256, TURNS, 64)
    plain, _ = in_process("floor", "slow", 256, TURNS, 64)
    name = "50 ms agent, 64 workers, share of ideal"
    print(f"{name:44} {ideal / ours:9.1%} {'':9} {ideal / plain:9.1%} {peak:9.1f}")
    if ideal / ours < MIN_SHARE:
        missed.append(f"{name}: {ideal / ours:.1%}, at least {MIN_SHARE:.0%}")
    return missed


if __name__ == "__main__":
    main()
