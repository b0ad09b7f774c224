"""Time of the offline detectors per reply, on one core.

``detectors.py [REPLIES.jsonl...]`` reads labelled replies (by default the project's long Markdown
replies), times all detectors on each with its constraints, and prints the time by length and kind of
text in one run: real-like replies, 600 characters of prose and of dense figures, and repeated texts of
growing length, whose times must grow with them.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.detectors import read_content
from memfin.scoring.statements import Analysis

LABELS = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "labels"
CONSTRAINTS = ["不使用杠杆", "最大回撤<10%", "保留20%现金应急", "单一资产仓位不超过30%"]
ROUNDS = 7
SHORT = 600
LENGTHS = (10_000, 100_000, 1_000_000)
REPEATED = {
    "prose": "市场存在不确定性，净值可能出现波动，请结合自身风险承受能力谨慎决策。",
    "figures": "沪深300占35%、债券占12.5%-20%、现金8万元，",
    "brackets": "（（（",
    "quotes": "“基金”",
    "negations": "不不不",
    "emoji": "📈✅",
    "English": "You could buy 20% of it, if I were you. ",
    "tables": "| 现金 | 20% |\n",
}


def read(text: str, checker: ConstraintChecker) -> None:
    """Run all detectors over a reply."""
    analysis = Analysis(text)
    read_content(analysis)
    checker.check(analysis)


def best(work: Callable[[], None], rounds: int = ROUNDS) -> float:
    """Return the shortest time of several rounds in microseconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times) * 1e6


def timed(name: str, replies: Sequence[tuple[str, ConstraintChecker]]) -> float:
    """Print and return the time per reply of a list of replies."""

    def work() -> None:
        for text, checker in replies:
            read(text, checker)

    took = best(work) / len(replies)
    length = statistics.mean(len(text) for text, _ in replies)
    print(f"{name:34s} {len(replies):5d} replies of {length:7.0f} characters  {took:9.0f} us each")
    return took


def long_replies(names: Iterable[str]) -> list[tuple[str, ConstraintChecker]]:
    """Return the replies of the files with checkers of up to four of their constraints."""
    paths = [Path(name) for name in names] or [LABELS / "long_dev.jsonl", LABELS / "long_heldout.jsonl"]
    rows = [json.loads(line) for path in paths for line in path.read_text("utf-8").split("\n") if line]
    return [(row["text"], ConstraintChecker((row.get("constraints") or CONSTRAINTS)[:4])) for row in rows]


def main() -> None:
    """Print the times."""
    checker = ConstraintChecker(CONSTRAINTS)
    replies = long_replies(sys.argv[1:])
    timed("replies with their constraints", replies)
    whole = "".join(text.replace("\n", "") for text, _ in replies)
    prose = [(whole[low : low + SHORT], checker) for low in range(0, min(len(whole), 60_000) - SHORT, SHORT)]
    plain = timed("600 characters", prose)
    figures = REPEATED["figures"] * SHORT
    dense = timed("600 characters of figures", [(figures[:SHORT], checker)])
    print(f"dense figures against prose: {dense / plain:.1f}")
    for name, unit in REPEATED.items():
        texts = [(unit * (length // len(unit) + 1))[:length] for length in LENGTHS]
        times = [best(partial(read, text, checker), rounds=1) / 1e6 for text in texts]
        columns = zip(LENGTHS, times, strict=True)
        print(f"{name:12s}" + "".join(f"{length:>12,}: {took:8.3f} s" for length, took in columns))


if __name__ == "__main__":
    main()
