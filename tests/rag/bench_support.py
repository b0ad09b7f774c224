"""What the tests of benchmark runs share: a small benchmark, and systems made on the spot."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

DOCUMENT = """<!-- page 1 -->
问：张三一共付了多少钱？
答：他分两次付了42000元，日期是2020年8月30日。

<!-- page 2 -->
问：钱用在哪里？
答：具体用在哪里都忘记了。
"""


def fact(name: str, amount: int = 42000, **changes: Any) -> dict[str, Any]:
    """Return a fact question whose right answer is an amount."""
    return {
        "id": name,
        "type": "fact_exact",
        "question": f"{name}：张三一共付了多少钱？",
        "expected": {"amount_total": amount},
        "required_evidence": [{"page": 1, "must_include": "42000元"}],
        "metadata": {"difficulty": "easy", "category": "monetary", "tags": ["金额"]},
        **changes,
    }


def gap(name: str) -> dict[str, Any]:
    """Return a question that the document does not settle."""
    return {
        "id": name,
        "type": "conflict_gap",
        "question": f"{name}：钱用在哪里？",
        "should_abstain": True,
        "required_quote": "都忘记了",
        "evidence_location": {"page": 2},
    }


def evidence(name: str) -> dict[str, Any]:
    """Return a question for a set of evidence."""
    return {
        "id": name,
        "type": "evidence_set",
        "question": f"{name}：哪些话说明付了钱？",
        "expected": {"evidence_count_min": 1},
        "required_evidence": [{"page": 1, "must_include": "42000元"}],
    }


def benchmark(path: Path, questions: list[dict[str, Any]], *, document: str | None = DOCUMENT) -> Path:
    """Write a benchmark directory and return its path."""
    (path / "questions").mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"benchmark_type": "fact_exact", "questions": questions}
    if document is not None:
        content["document"] = "record.md"
        (path / "record.md").write_text(document, "utf-8")
    (path / "questions" / "all.json").write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return path


def mixed(path: Path, facts: int = 10) -> Path:
    """Write a benchmark of all three types."""
    return benchmark(path, [*(fact(f"f{number:02}") for number in range(facts)), gap("g1"), evidence("e1")])


RIGHT = {
    "answer": "一共42000元。",
    "amount": 42000,
    "citation": [{"page": 1, "quote": "分两次付了42000元"}],
    "evidence": [{"page": 1, "text": "他分两次付了42000元"}],
}


class Counting:
    """Answers every question as `RIGHT` does, and counts them; the ids in ``wrong`` get another amount.

    ``broken`` names questions on which it raises; after ``patience`` answers it falls silent.
    """

    def __init__(self, *, wrong: str = "", broken: str = "", patience: int | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self.wrong = wrong.split()
        self.broken = broken.split()
        self.patience = patience

    async def query(self, question: str) -> dict[str, Any]:
        name = question.partition("：")[0]
        self.asked[name] += 1
        if self.patience is not None and self.asked.total() > self.patience:
            await anyio.sleep_forever()
        await checkpoint()
        if name in self.broken:
            raise ValueError(f"cannot answer {name}")
        if name in self.wrong:
            return {**RIGHT, "answer": "一共7元。", "amount": 7}
        return dict(RIGHT)
