"""Agreement of the content detectors with labelled replies: ``validity.py LABELS.jsonl...``."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from memfin.scoring.compliance import SEVERE_CATEGORIES
from memfin.scoring.content import read_content

LISTED = SEVERE_CATEGORIES[:4]
LABELS = ("compliant", "minor_violation", "severe_violation")


def f1(count: Counter[str]) -> float:
    """Return the F1 of counted agreements; 0.0 when there is nothing to find and nothing was found."""
    whole = 2 * count["tp"] + count["fp"] + count["fn"]
    return 2 * count["tp"] / whole if whole else 0.0


def outcome(expected: bool, got: bool) -> str:
    """Name the cell of the confusion table."""
    return ("tp" if got else "fn") if expected else ("fp" if got else "tn")


def compare(expected: dict[str, bool], got: list[str], table: dict[str, Counter[str]], where: str) -> None:
    """Count agreement and print each disagreement."""
    for name, truth in expected.items():
        cell = outcome(truth, name in got)
        table.setdefault(name, Counter())[cell] += 1
        if cell in ("fp", "fn"):
            print(cell, name, where)


def main() -> None:
    """Print F1 a tag, of the labels and categories, and the accuracy of rubric items."""
    rows: list[dict[str, Any]] = [
        json.loads(line)
        for name in sys.argv[1:]
        for line in Path(name).read_bytes().split(b"\n")
        if line.strip()
    ]
    tags: dict[str, Counter[str]] = {}
    items: dict[str, Counter[str]] = {}
    categories: dict[str, Counter[str]] = {}
    labels: dict[str, Counter[str]] = {}
    for row in rows:
        reading = read_content(row["text"], user_text=row.get("user_text", ""))
        compare(row.get("risk_tags", {}), reading.risk_tags, tags, row["id"])
        compare(row.get("rubric", {}), reading.rubric_items, items, row["id"])
        if "forbidden_hits" in row:
            expected = {name: name in row["forbidden_hits"] for name in LISTED}
            compare(expected, reading.categories, categories, row["id"])
        if "compliance" in row:
            expected = {name: name == row["compliance"] for name in LABELS}
            compare(expected, [reading.compliance], labels, row["id"])
    for name, count in tags.items():
        print(f"{name:30} F1 {f1(count):.3f}  {dict(count)}")
    print(f"{'risk tags, micro':30} F1 {f1(sum(tags.values(), Counter())):.3f}")
    if labels:
        print(f"{'compliance, macro':30} F1 {sum(map(f1, labels.values())) / len(labels):.3f}")
    print(f"{'forbidden, micro':30} F1 {f1(sum(categories.values(), Counter())):.3f}")
    for name, count in items.items():
        print(f"{name:24} accuracy {(count['tp'] + count['tn']) / count.total():.3f}  {dict(count)}")
    if items:
        right = sum(count["tp"] + count["tn"] for count in items.values())
        print(f"{'rubric':30} accuracy {right / sum(count.total() for count in items.values()):.3f}")


if __name__ == "__main__":
    main()
