"""How often literals occur: counted, bounded by their rarest piece, and small for what was not counted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memfin.scoring.patterns.frequencies import Pieces, count, rate

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("rarer", "commoner"),
    [
        ("血本无归", "风险"),
        ("违约", "违"),
        ("银行", "银"),
        ("颗粒", "基金"),
        ("volatile", "you"),
        ("your money", "you"),
        ("600", "60"),
        ("-先", "-"),
        ("三成", "成"),
        ("risk", " "),
        ("颗粒归仓", "颗粒"),
        ("bumblebee", "bumble"),
    ],
)
def test_the_rarer_literal_has_the_lower_rate(rarer: str, commoner: str) -> None:
    assert rate(rarer) < rate(commoner)


def test_a_piece_is_no_rarer_than_the_whole() -> None:
    assert rate("动性") >= rate("流动性")
    assert rate("yo") >= rate("you")


def test_counts_are_of_all_pieces_that_are_frequent_enough() -> None:
    pieces = count(["甲乙甲乙", "甲乙"], longest=2, rarest=2, share=1.0)
    assert pieces == Pieces(6, 2, 2, 1.0, {"乙": 3, "甲": 3, "甲乙": 3})
    assert list(pieces.counts) == ["乙", "甲", "甲乙"]


def test_a_rate_is_that_of_the_rarest_piece_in_600_characters() -> None:
    pieces = Pieces(6000, 2, 5, 1.0, {"甲": 40, "乙": 30, "甲乙": 20, "乙丙": 10})
    assert pieces.rate("甲") == 4.0
    assert pieces.rate("甲乙丙") == 1.0
    assert 0 < pieces.rate("丙丁戊") < pieces.rate("丙丁") < 0.5


def test_the_script_counts_what_assistants_say_and_each_text_once(tmp_path: Path) -> None:
    said = "净值会有波动，请量力而行，不要着急。"
    rows = [
        {"text": said},
        {"turns": [{"role": "user", "text": "问" * 20}, {"role": "assistant", "text": said}]},
        {"turns": [{"assistant_text": "keep it slow and steady"}]},
    ]
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", "utf-8")
    script = ROOT / "scripts" / "frequencies.py"
    made = subprocess.run([sys.executable, script, path], capture_output=True, check=True).stdout
    found = json.loads(made)
    assert found["chinese"]["characters"] == len(said)
    assert found["english"]["characters"] == len("keep it slow and steady")
    assert found["english"]["counts"] == {}
