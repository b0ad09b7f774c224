"""The data that trains the classifier: known labels, no line twice, nothing out of the held-out replies."""

import json
from collections.abc import Iterator
from pathlib import Path

from memfin.scoring.classifier import load_classifier
from memfin.scoring.contradiction import ADVISES
from tests.support import each_case

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
