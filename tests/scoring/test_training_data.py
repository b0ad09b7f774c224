"""The data that trains the classifier: known labels, no line twice, nothing out of the held-out replies."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfin.errors import UsageError
from memfin.scoring.classifier import load_classifier
from memfin.scoring.contradiction import ADVISES
from tests.support import each_case, write_jsonl

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tools" / "training" / "sentences").glob("*.jsonl"))
HELD_OUT = sorted((ROOT / "tests" / "fixtures" / "labels").glob("*_heldout.jsonl"))
LONG_ENOUGH = 16
"""Characters from which a sentence in two places is no coincidence."""


def lines(path: Path) -> Iterator[dict[str, object]]:
    for line in path.read_text("utf-8").split("\n"):
        if line:
            yield json.loads(line)


@each_case("path", FILES, ids=lambda path: path.stem)
def test_every_line_has_a_text_and_known_labels(path: Path) -> None:
    known = {label.removeprefix(f"{ADVISES}:") for label in load_classifier().labels}
    texts = []
    for row in lines(path):
        assert row.keys() == {"text", "labels"}
        assert isinstance(row["text"], str)
        assert isinstance(row["labels"], list)
        assert known.issuperset(row["labels"])
        texts.append(row["text"])
    assert len(texts) == len(set(texts)) > 400


def test_no_sentence_is_out_of_a_held_out_reply() -> None:
    replies = "\n".join(str(row["text"]) for path in HELD_OUT for row in lines(path))
    sentences = {str(row["text"]) for path in FILES for row in lines(path)}
    pieces = {replies[start : start + LONG_ENOUGH] for start in range(len(replies) - LONG_ENOUGH + 1)}
    assert [each for each in sentences if each[:LONG_ENOUGH] in pieces and each in replies] == []


def settled(*paths: Path) -> list[Any]:
    """Return what ``tools/train_detectors.py`` reads of label files; the rest of it needs scikit-learn."""
    spec = importlib.util.spec_from_file_location("label_files", ROOT / "tools" / "label_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.settled_replies(paths))


def test_label_files_train_with_what_readers_agree_on(tmp_path: Path) -> None:
    base = {
        "text": "净值会波动。保本。",
        "dialog_id": "d",
        "turn": 1,
        "probability": 0,
        "constraints": ["不用杠杆"],
    }
    tags = {"volatility_risk": True, "credit_risk": False}
    marks = [
        {"start": 0, "end": 6, "label": "volatility_risk"},
        {"start": 6, "end": 9, "label": "保本保收益", "kind": "false_alarm"},
        {"start": 0, "end": 9, "label": "fx_risk", "kind": "missed"},
    ]
    ann = base | {"id": "d#1", "reader": "ann", "compliance": "compliant", "risk_tags": tags, "marks": marks}
    bob = ann | {
        "reader": "bob",
        "risk_tags": tags | {"credit_risk": True},
        "contradiction": 1,
        "marks": None,
    }
    unsure = base | {
        "id": "d#2",
        "turn": 2,
        "reader": "ann",
        "compliance": "severe_violation",
        "unsure": True,
    }
    (found,) = settled(
        write_jsonl(tmp_path / "a.jsonl", [ann, bob]), write_jsonl(tmp_path / "b.jsonl", [unsure])
    )
    assert found.row == {
        "id": "d#1",
        "text": base["text"],
        "constraints": ["不用杠杆"],
        "compliance": "compliant",
        "contradiction": 1,
        "risk_tags": {"volatility_risk": True},
    }
    assert (found.shown, found.refuted) == ({"volatility_risk": [[0, 6]]}, {"保本保收益": [[6, 9]]})
    decided = [each | {"reader": "adjudicated", "compliance": "minor_violation"} for each in (bob, unsure)]
    replies = settled(write_jsonl(tmp_path / "c.jsonl", [ann, bob, unsure, *decided]))
    assert [each.row["compliance"] for each in replies] == ["minor_violation"] * 2
    assert replies[0].row["risk_tags"] == tags | {"credit_risk": True}
    with pytest.raises(UsageError, match="compliance"):
        settled(write_jsonl(tmp_path / "d.jsonl", [ann | {"compliance": "fine"}]))
