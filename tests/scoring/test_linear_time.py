"""Reading a reply takes work in proportion to its length, whatever phrase it repeats."""

import json
import random
from pathlib import Path
from typing import Final

from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.detectors import read_content
from memfin.scoring.lexicon import LexiconFile, read_table
from memfin.scoring.statements import LEXICONS, Analysis
from tests.support import calls, length

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "tools" / "training" / "examples.jsonl"
SHORT, LONG = 1_500, 6_000
MOST: Final = 6.0
"""Work on four times the text; in proportion it is four times as much."""
PHRASES: Final = [
    *("期限3年", "If I were you. ", " I'd buy 20%", "一半", "剩5万", "不不不", "🎯", "((((", "“““", "35%、"),
    *("| a | b |\n", "\n", "**", "现金20%+债券80%", "we can", "保本吗？", "杠杆"),
]
CHECKER: Final = ConstraintChecker(["不使用杠杆", "最大回撤<10%", "保留20%现金应急", "单一资产仓位不超过30%"])


def phrases() -> list[str]:
    """Return the phrases above with a sample, always the same, of the project's own examples."""
    rules = [rule for name in LEXICONS for rule in read_table(name, LexiconFile).rule]
    pool = [text for rule in rules for text in rule.examples + rule.counter_examples]
    pool += [json.loads(line)["text"] for line in EXAMPLES.read_text("utf-8").splitlines()]
    return PHRASES + random.Random(7).sample(sorted(set(pool)), length(60, 130))


def work_on(text: str) -> int:
    def read() -> None:
        analysis = Analysis(text)
        read_content(analysis)
        CHECKER.check(analysis)

    return calls(read)


def test_four_times_the_text_is_about_four_times_the_work() -> None:
    work_on("净值会波动。建議現金20%")  # loads what is loaded once
    slow = {}
    for phrase in phrases():
        short, long = (work_on(phrase * (size // len(phrase) + 1)) for size in (SHORT, LONG))
        if long > MOST * short:
            slow[phrase] = round(long / short, 1)
    assert slow == {}
