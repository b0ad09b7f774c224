"""Cross-validation of the risk rules: the procedure, and the figures of the page."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "tests" / "fixtures" / "labels").glob("*_dev.jsonl"))
DEVELOPMENT = [
    ROOT / ".." / "shared" / "data" / "labels" / f"{name}_dev.jsonl" for name in ("turns", "challenge")
]
ROW = re.compile(
    r"^\| (development files|read rows)[^|]*\| (\d+) replies \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
    re.MULTILINE,
)
LEAST = 0.92
MOST_APART = 0.02
"""The page need not follow every small change of a rule."""


def figures_of(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "scripts/cross_validate.py", *words, "--json"],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def told() -> dict[str, tuple[float, ...]]:
    page = (ROOT / "docs" / "validity.md").read_text("utf-8")
    return {name: tuple(map(float, rest)) for name, *rest in ROW.findall(page)}


def in_order(found: dict[str, Any]) -> tuple[float, ...]:
    return tuple(found[name] for name in ("replies", "all_rules", "mean", "least"))


def test_rules_of_half_the_replies_hold_on_the_other_half() -> None:
    found = figures_of(*map(str, SHIPPED))
    assert found["mean"] >= LEAST
    assert told()["read rows"] == pytest.approx(in_order(found), abs=MOST_APART)


@pytest.mark.skipif(not all(path.exists() for path in DEVELOPMENT), reason="no development labels beside us")
def test_every_half_of_the_development_files_holds() -> None:
    found = figures_of(*map(str, DEVELOPMENT))
    assert found["least"] >= LEAST
    assert told()["development files"] == pytest.approx(in_order(found), abs=MOST_APART)


def test_a_rule_that_speaks_on_one_reply_alone_fails_on_the_other_half(tmp_path: Path) -> None:
    texts = ["净值会有波动。", "过往业绩不代表未来表现。"]
    tags = ["volatility_risk", "past_performance_not_future"]
    rows = [
        {"id": str(number), "text": text, "risk_tags": {tag: tag == own for tag in tags}}
        for number, (text, own) in enumerate(zip(texts, tags, strict=True))
    ]
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    found = figures_of(str(labels), "--rounds", "1")
    assert found["all_rules"] == 1.0
    assert found["rounds"] == [[0.0, 0.0]]
