"""The page on validity gives the figures of the rules on replies that their authors have not read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command

ROOT = Path(__file__).resolve().parents[2]
LABELS = ROOT / "tests" / "fixtures" / "labels"
MOST_APART = 0.02
"""The page need not follow every small change of a rule."""

ROW = re.compile(r"^\| ([a-zA-Z, 0-9]+)" + r" \|(?: (0\.[0-9]{3}))?" * 4 + r" \|$", re.MULTILINE)


def measured(kind: str) -> dict[str, Any]:
    done = run_command("validity", LABELS / f"{kind}_heldout.jsonl", "--json", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return {
        "risk tags, micro F1": report["risk_tags"]["micro_f1"],
        "contradiction, F1": report["contradiction"]["f1"],
        "compliance, macro F1": report["compliance"]["macro_f1"],
        "forbidden categories, F1": report["forbidden"]["f1"],
        "rubric, accuracy": report["rubric"]["accuracy"],
    }


@pytest.mark.parametrize(("kind", "column"), [("ordinary", 1), ("hard", 2), ("cases", 3), ("long", 4)])
def test_the_figures_of_the_page_are_those_of_the_rules(kind: str, column: int) -> None:
    page = (ROOT / "docs" / "validity.md").read_text("utf-8")
    told = {row[0]: float(row[column]) for row in ROW.findall(page) if row[column]}
    found = {name: value for name, value in measured(kind).items() if value is not None}
    assert told.keys() == found.keys()
    for name, value in found.items():
        assert told[name] == pytest.approx(value, abs=MOST_APART), name


def test_the_halves_share_no_reply() -> None:
    texts = [
        json.loads(line)["text"]
        for path in sorted(LABELS.glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    assert len(texts) == len(set(texts)) == 240 + 949 + 847 + 356
