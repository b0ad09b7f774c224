"""Train the sentence classifier: ``python tools/train_detectors.py``.

Reads the labelled sentences of ``tools/training`` and the labelled replies of
``tests/fixtures/labels`` and writes ``memfin/data/detectors/weights.bin``. Deterministic: the same
data gives the same bytes. scikit-learn is needed here and nowhere else (``pip install --group
train``).
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from memfin.scoring.classifier import MAX_GRAM, MIN_GRAM, SCALE, Weights, squeeze
from memfin.scoring.constraint_texts import parse_constraints
from memfin.scoring.contradiction import ruled_out_terms
from memfin.scoring.risk import CANONICAL_TAGS
from memfin.scoring.vocabulary import term_finder
from memfin.text.document import Document

ROOT = Path(__file__).resolve().parents[1]
TRAINING = ROOT / "tools" / "training"
FIXTURES = ROOT / "tests" / "fixtures" / "labels"
OUTPUT = ROOT / "memfin" / "data" / "detectors" / "weights.bin"

TAGS = [tag for tag in CANONICAL_TAGS if tag != "risk_disclosure_present"]
SEVERE = ["保本保收益", "明确买入指令", "确定性预测涨跌", "代客操作", "内幕信息"]
MINOR = ["夸大宣传", "产品推介", "隐去不利"]
ADVISES = "advises"
LABELS = [*TAGS, *SEVERE, *MINOR, ADVISES]
# Examples of the rubric train nothing: its elements are read by rules alone.
MIN_SUPPORT = 3
"""Sentences that must hold an n-gram for it to be a feature."""
SPARSITY, CONDUCT_SPARSITY = 1.0, 20.0
"""Inverse strength of the L1 penalty that chooses the n-grams, for risk tags and for conduct."""
STRENGTH, CONDUCT_STRENGTH = 0.7, 2.0
"""Inverse strength of the L2 penalty that sets their weights."""
MAX_WEIGHT = 127
SMALLEST = 2
"""Weights below this, in units of 1/SCALE, are set to zero; n-grams without any weight left are dropped."""

MIN_GATE = 2
GATE_WEIGHT = 6
GATE_COVER = 0.94
"""A gate's characters and weight, at least, and the share of the positive sentences that gates must hold."""

Labels = dict[str, int]


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def sentences_of(row: dict[str, Any], placed: dict[str, list[list[int]]]) -> Iterator[tuple[str, Labels]]:
    """Yield the sentences of a labelled reply with the labels that are known of each."""
    document = Document(row["text"])
    known: Labels = {
        tag: int(value) for tag, value in (row.get("risk_tags") or {}).items() if value is not None
    }
    compliance = row.get("compliance")
    if compliance is not None:
        known |= dict.fromkeys(SEVERE, int(compliance == "severe_violation"))
        known |= dict.fromkeys(MINOR, int(compliance != "compliant"))
    ruled_out = ruled_out_mentions(document, row) if row.get("contradiction") is not None else {}
    positive = {label for label, value in known.items() if value}
    for start, end in document.bounds:
        span = document.source_span(start, end)
        labels: Labels = {}
        for label, value in known.items():
            name = "无明确风险提示" if label in ("产品推介", "隐去不利") else label
            places = placed.get(name, ())
            here = any(first < span[1] and span[0] < last for first, last in places)
            if not value:
                labels[label] = 0
            elif here and name == label:
                labels[label] = 1
            elif places and not here and label in positive:
                labels[label] = 0
        if (start, end) in ruled_out:
            labels[ADVISES] = ruled_out[start, end]
        yield squeeze(document.text[start:end]), labels


def ruled_out_mentions(document: Document, row: dict[str, Any]) -> dict[tuple[int, int], int]:
    """Return the sentences that name what the client rules out, and whether they advise it.

    Where nothing is contradicted none of them does. Where something is, the only sentence of a reply
    that names something ruled out advises it; of several it is not known which.
    """
    terms = frozenset().union(
        *(ruled_out_terms(each) for text in row["constraints"] for each in parse_constraints(text))
    )
    if not terms:
        return {}
    places = {
        document.sentence_at(m.start) for m in term_finder().find(document.text) if terms.intersection(m.ids)
    }
    if not row["contradiction"]:
        return dict.fromkeys(places, 0)
    return dict.fromkeys(places, 1) if len(places) == 1 and len(row["constraints"]) == 1 else {}


def training_data(files: Iterable[str]) -> tuple[list[str], list[Labels], list[str]]:
    """Return distinct sentences, the labels known of each, and where each is from."""
    merged: dict[str, Labels] = defaultdict(dict)
    source: dict[str, str] = {}
    for row in read_jsonl(TRAINING / "examples.jsonl"):
        if row["label"] in LABELS:
            text = squeeze(Document(row["text"]).text)
            merged[text][row["label"]] = max(row["is"], merged[text].get(row["label"], 0))
            source.setdefault(text, "examples")
    placements = {row["id"]: row["spans"] for row in read_jsonl(TRAINING / "placements.jsonl")}
    for name in files:
        for row in read_jsonl(FIXTURES / f"{name}.jsonl"):
            for text, labels in sentences_of(row, placements.get(row["id"], {})):
                for label, value in labels.items():
                    merged[text][label] = max(value, merged[text].get(label, 0))
                source.setdefault(text, name)
    texts = sorted(text for text in merged if text)
    return texts, [merged[text] for text in texts], [source[text] for text in texts]


def train(texts: list[str], labels: list[Labels], ordinary: Sequence[bool]) -> Weights:
    """Fit one logistic regression per label and round it to integers.

    An L1 penalty chooses a few hundred n-grams, whose weights an L2 penalty then sets. Few n-grams make a
    reply cheap to score, and alarm less on long ordinary replies than all of them do.
    """
    vectorizer = CountVectorizer(
        analyzer="char", ngram_range=(MIN_GRAM, MAX_GRAM), binary=True, min_df=MIN_SUPPORT, lowercase=False
    )
    features = vectorizer.fit_transform(texts).tocsc()
    names = vectorizer.get_feature_names_out()
    columns, biases = [], []
    gates: dict[str, int] = defaultdict(int)
    for number, label in enumerate(LABELS):
        known = np.array([row for row, each in enumerate(labels) if label in each])
        truth = np.array([labels[row][label] for row in known])
        sparsity, strength = (SPARSITY, STRENGTH) if label in TAGS else (CONDUCT_SPARSITY, CONDUCT_STRENGTH)
        chosen = np.flatnonzero(regression(sparsity, chooses=True).fit(features[known], truth).coef_[0])
        model = regression(strength)
        model.fit(features[known][:, chosen], truth)
        rounded = np.zeros(len(names), np.int8)
        rounded[chosen] = np.clip(np.rint(model.coef_[0] * SCALE), -MAX_WEIGHT, MAX_WEIGHT)
        rounded[np.abs(rounded) < SMALLEST] = 0
        bias = round(float(model.intercept_[0]) * SCALE)
        columns.append(rounded)
        biases.append(bias)
        speaks = features[known] @ rounded.astype(np.int64) + bias > threshold_of(label)
        for gate in gates_of(
            features, names, rounded, known[speaks & (truth == 1)], np.flatnonzero(ordinary)
        ):
            gates[gate] |= 1 << number
    table = np.stack(columns)
    kept = np.flatnonzero(np.abs(table).max(axis=0) > 0)
    order = kept[np.argsort(names[kept], kind="stable")]
    return Weights(
        grams=[str(gram) for gram in names[order]],
        labels=LABELS,
        bias=biases,
        thresholds=[threshold_of(label) for label in LABELS],
        weights=[table[row][order].tobytes() for row in range(len(LABELS))],
        gates=sorted(gates),
        gate_labels=[gates[gate] for gate in sorted(gates)],
    )


def regression(strength: float, *, chooses: bool = False) -> Any:
    """Return a logistic regression to be fitted; one that ``chooses`` leaves most weights at zero."""
    return LogisticRegression(
        C=strength, l1_ratio=int(chooses), max_iter=400, solver="liblinear", random_state=0
    )


def threshold_of(label: str) -> int:
    """Return the score above which the classifier says yes: even odds, or stricter for conduct."""
    return 0 if label in TAGS else SCALE


def gates_of(features: Any, names: Any, weights: Any, positives: Any, ordinary: Any) -> Iterator[str]:
    """Yield n-grams that together stand in nearly all sentences that speak for a label, and in few others.

    Greedy: each one is the n-gram that covers most of what is left for every sentence of ordinary
    replies that holds it.
    """
    long_enough = np.array([len(name.strip()) >= MIN_GATE for name in names])
    allowed = np.flatnonzero((weights >= GATE_WEIGHT) & long_enough)
    if not len(allowed) or not len(positives):
        return
    held = features[positives][:, allowed].tocsc()
    elsewhere = np.asarray(features[ordinary][:, allowed].sum(axis=0)).ravel()
    open_rows = np.ones(len(positives))
    while open_rows.sum() > (1 - GATE_COVER) * len(positives):
        gain = held.T @ open_rows
        best = int(np.argmax(gain / (elsewhere + 2.0)))
        if gain[best] == 0:
            return
        yield str(names[allowed[best]])
        open_rows[held[:, best].indices] = 0


def main() -> None:
    """Train, write the weights and say how many there are."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--files", nargs="*", default=[path.stem for path in sorted(FIXTURES.glob("*_dev.jsonl"))]
    )
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    texts, labels, sources = training_data(arguments.files)
    weights = train(texts, labels, [source.startswith("long") for source in sources])
    data = msgspec.msgpack.encode(weights)
    arguments.out.write_bytes(data)
    print(f"{len(texts)} sentences, {len(weights.grams)} n-grams, {len(data)} bytes -> {arguments.out}")


if __name__ == "__main__":
    main()
