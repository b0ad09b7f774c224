"""Agreement of the content detectors with labelled replies: ``validity.py LABELS.jsonl...``."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from memfin.scoring.compliance import SEVERE_CATEGORIES
from memfin.scoring.content import read_content


def f1(true_positives: int, false_positives: int, false_negatives: int) -> float:
    whole = 2 * true_positives + false_positives + false_negatives
    return 2 * true_positives / whole if whole else 0.0


def main() -> None:
    rows: list[dict[str, Any]] = [
        json.loads(line) for name in sys.argv[1:] for line in Path(name).read_bytes().split(b"\n") if line.strip()
    ]
    tags: dict[str, Counter[str]] = {}
    items: dict[str, Counter[str]] = {}
    forbidden: Counter[str] = Counter()
    labels: Counter[tuple[str, str]] = Counter()
    for row in rows:
        reading = read_content(row["text"], user_text=row.get("user_text", ""))
        for expected, got, table in (
            (row.get("risk_tags", {}), reading.risk_tags, tags),
            (row.get("rubric", {}), reading.rubric_items, items),
        ):
            for name, truth in expected.items():
                kind = ("tp" if name in got else "fn") if truth else ("fp" if name in got else "tn")
                table.setdefault(name, Counter())[kind] += 1
                if kind in ("fp", "fn"):
                    print(f"{kind} {name} {row['id']}")
        if "forbidden_hits" in row:
            shown, truth = set(reading.categories) & set(SEVERE_CATEGORIES[:4]), set(row["forbidden_hits"])
            forbidden.update(tp=len(shown & truth), fp=len(shown - truth), fn=len(truth - shown))
        if "compliance" in row:
            labels[row["compliance"], reading.compliance] += 1
            if row["compliance"] != reading.compliance:
                print(f"label {row['id']} expected {row['compliance']} got {reading.compliance}")
    total: Counter[str] = Counter()
    for name, count in tags.items():
        total.update(count)
        print(f"{name:30} F1 {f1(count['tp'], count['fp'], count['fn']):.3f}  {dict(count)}")
    print(f"{'risk tags, micro':30} F1 {f1(total['tp'], total['fp'], total['fn']):.3f}")
    classes = sorted({label for pair in labels for label in pair})
    scores = [
        f1(
            labels[name, name],
            sum(n for (truth, got), n in labels.items() if got == name != truth),
            sum(n for (truth, got), n in labels.items() if truth == name != got),
        )
        for name in classes
    ]
    if classes:
        print(f"{'compliance, macro':30} F1 {sum(scores) / len(scores):.3f}  {dict(zip(classes, scores, strict=True))}")
    print(f"{'forbidden':30} F1 {f1(forbidden['tp'], forbidden['fp'], forbidden['fn']):.3f}  {dict(forbidden)}")
    for name, count in items.items():
        print(f"{name:24} accuracy {(count['tp'] + count['tn']) / count.total():.3f}  {dict(count)}")
    if items:
        right = sum(count["tp"] + count["tn"] for count in items.values())
        print(f"{'rubric':30} accuracy {right / sum(count.total() for count in items.values()):.3f}")


if __name__ == "__main__":
    main()
