"""Train the sentence classifier: ``python tools/train_detectors.py``.

Reads the labelled sentences of ``tools/training`` and the labelled replies of ``tests/fixtures/labels`` and
writes ``memfin/data/detectors/weights.bin``. ``--labels`` adds files of ``memfin label``. Deterministic: the
same data gives the same bytes.
scikit-learn is needed here and nowhere else (``pip install --group train``).

Each label is a logistic regression over character n-grams that are weighted by their log-count ratio (Wang
and Manning 2012, "Baselines and Bigrams"), which does better on short texts than n-grams that all count
alike.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from label_files import SettledReply, Spans, settled_replies

try:
    import numpy as np
    from scipy.sparse import diags
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing.name} is not installed: pip install --group train") from None

from memfin.errors import UsageError
from memfin.scoring.classifier import MAX_GRAM, MAX_SENTENCE, MIN_GRAM, SCALE, Weights
from memfin.scoring.constraint_texts import parse_constraints
from memfin.scoring.contradiction import ADVISES, PRACTICES, ruled_out_terms
from memfin.scoring.risk import CANONICAL_TAGS
from memfin.scoring.rubric import RUBRIC_ITEMS
from memfin.scoring.vocabulary import term_finder
from memfin.text.document import Document

ROOT = Path(__file__).resolve().parents[1]
TRAINING = ROOT / "tools" / "training"
FIXTURES = ROOT / "tests" / "fixtures" / "labels"
OUTPUT = ROOT / "memfin" / "data" / "detectors" / "weights.bin"

TAGS = [tag for tag in CANONICAL_TAGS if tag != "risk_disclosure_present"]
SEVERE = ["保本保收益", "明确买入指令", "确定性预测涨跌", "代客操作", "内幕信息"]
MINOR = ["夸大宣传", "产品推介", "隐去不利"]
TAKEN_UP = [f"{ADVISES}:{practice}" for practice in PRACTICES]
LABELS = [*TAGS, *SEVERE, *MINOR, *RUBRIC_ITEMS, ADVISES, *TAKEN_UP]
JUDGED = {
    "risk": TAGS,
    "volatility": ["volatility_risk", "no_guaranteed_return", "past_performance_not_future"],
    "outlook": [
        *("market_uncertainty", "suitability_match"),
        *("credit_risk", "liquidity_risk", "interest_rate_risk"),
    ],
    "severe": SEVERE,
    "minor": MINOR,
    "conduct": [*SEVERE, *MINOR],
    "rubric": list(RUBRIC_ITEMS),
    "advises": [ADVISES],
    "practices": [ADVISES, *TAKEN_UP],
}
"""The labels that the sentences of a file are judged for, by the first part of its name; what a line does not
name among them is false."""

MIN_SUPPORT = 5
"""Sentences that must hold an n-gram for it to be a feature."""
SMOOTHING = 1.0
STRENGTH = 0.2
"""Inverse strength of the L2 penalty."""
MAX_WEIGHT = 127
SMALLEST = 4
"""Weight, in units of 1/SCALE, that an n-gram must have for one of the labels."""
THRESHOLDS = {
    **dict.fromkeys(TAGS, -0.1),
    **dict.fromkeys(SEVERE, 0.2),
    "信息依据": -0.8,
    "风险收益平衡": -1.0,
    "与画像匹配": -0.3,
    "方案比较维度": 1.0,
    "可执行步骤": -1.0,
    "边界声明": -1.0,
}
"""Log odds above which the classifier says yes, where not even odds. They held on authors left out."""

Labels = dict[str, int]


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def sentences_of(row: dict[str, Any], placed: Spans) -> Iterator[tuple[str, Labels]]:
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
            elif places and not here:
                labels[label] = 0
        if (start, end) in ruled_out:
            labels[ADVISES] = ruled_out[start, end]
        yield document.text[start:end][:MAX_SENTENCE], labels


def refuted_sentences(reply: SettledReply) -> Iterator[tuple[str, Labels]]:
    """Yield the sentences of false alarms, in which a label is not shown."""
    document = Document(reply.row["text"])
    for start, end in document.bounds:
        first, last = document.source_span(start, end)
        no = {
            label: 0
            for label, places in reply.refuted.items()
            if label in LABELS and any(low < last and first < high for low, high in places)
        }
        if no:
            yield document.text[start:end][:MAX_SENTENCE], no


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


def labelled_sentences() -> Iterator[tuple[str, Labels]]:
    """Yield the sentences of ``tools/training`` with their labels."""
    for row in read_jsonl(TRAINING / "examples.jsonl"):
        if row["label"] in LABELS:
            yield row["text"], {row["label"]: row["is"]}
    for path in sorted((TRAINING / "sentences").glob("*.jsonl")):
        judged = JUDGED[path.name.split(".")[0]]
        for row in read_jsonl(path):
            told = {f"{ADVISES}:{label}" if label in PRACTICES else label for label in row["labels"]}
            labels = {label: int(label in told) for label in judged}
            if TAKEN_UP[0] in judged:
                labels[ADVISES] = int(bool(told))
            elif ADVISES in judged and not told:
                labels |= dict.fromkeys(TAKEN_UP, 0)
            yield row["text"], labels


def training_data(
    files: Iterable[str], replies: Iterable[SettledReply] = ()
) -> tuple[list[str], list[Labels]]:
    """Return distinct sentences and the labels known of each."""
    merged: dict[str, Labels] = defaultdict(dict)

    def add(text: str, labels: Labels) -> None:
        for label, value in labels.items():
            merged[text][label] = max(value, merged[text].get(label, 0))

    for text, labels in labelled_sentences():
        add(Document(text).text[:MAX_SENTENCE], labels)
    placements = {row["id"]: row["spans"] for row in read_jsonl(TRAINING / "placements.jsonl")}
    for name in files:
        for row in read_jsonl(FIXTURES / f"{name}.jsonl"):
            for text, labels in sentences_of(row, placements.get(row["id"], {})):
                add(text, labels)
    for reply in replies:
        for text, labels in (*sentences_of(reply.row, reply.shown), *refuted_sentences(reply)):
            add(text, labels)
    texts = sorted(text for text, labels in merged.items() if text and labels)
    return texts, [merged[text] for text in texts]


class Label:
    """One label's model over all n-grams: what is known of it, and the weights once it is fitted."""

    def __init__(self, name: str, features: Any, labels: list[Labels]) -> None:
        known = np.array([row for row, each in enumerate(labels) if name in each])
        self.truth = np.array([labels[row][name] for row in known])
        self.features = features[known]
        self.threshold = round(THRESHOLDS.get(name, 0.0) * SCALE)
        self.ratios = self._ratios()

    def _ratios(self) -> Any:
        """Return the log-count ratio of every n-gram: how much more often it stands where the label holds."""
        with_label = np.asarray(self.features[self.truth == 1].sum(0)).ravel() + SMOOTHING
        without = np.asarray(self.features[self.truth == 0].sum(0)).ravel() + SMOOTHING
        return np.log((with_label / with_label.sum()) / (without / without.sum()))

    def fit(self) -> None:
        """Fit the weights of all n-grams and round them; those that come to nothing are dropped."""
        model = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=0, max_iter=400)
        model.fit(self.features @ diags(self.ratios), self.truth)
        weights = np.rint(model.coef_[0] * self.ratios * SCALE)
        self.chosen = np.flatnonzero(weights)
        self.weights = np.clip(weights[self.chosen], -MAX_WEIGHT, MAX_WEIGHT).astype(np.int8)
        self.bias = round(float(model.intercept_[0]) * SCALE)


def train(texts: list[str], labels: list[Labels], names: Collection[str] = LABELS) -> Weights:
    """Fit the models of some labels and return them in the form in which they ship."""
    vectorizer = CountVectorizer(
        analyzer="char", ngram_range=(MIN_GRAM, MAX_GRAM), binary=True, min_df=MIN_SUPPORT, lowercase=False
    )
    features = vectorizer.fit_transform(texts).tocsr()
    grams = vectorizer.get_feature_names_out()
    models = {name: Label(name, features, labels) for name in names}
    for name, model in models.items():
        model.fit()
        print(
            f"{name:32s} {int(model.truth.sum()):6d} of {len(model.truth):6d} sentences, "
            f"{len(model.weights):6d} n-grams"
        )
    strongest = np.zeros(len(grams), int)
    for model in models.values():
        np.maximum.at(strongest, model.chosen, np.abs(model.weights.astype(int)))
    for model in models.values():
        kept = strongest[model.chosen] >= SMALLEST
        model.chosen, model.weights = model.chosen[kept], model.weights[kept]
    used = np.flatnonzero(strongest >= SMALLEST)
    return Weights(
        grams=[str(gram) for gram in grams[used]],
        labels=list(models),
        bias=[model.bias for model in models.values()],
        thresholds=[model.threshold for model in models.values()],
        numbers=[steps(np.searchsorted(used, model.chosen)) for model in models.values()],
        weights=[model.weights.tobytes() for model in models.values()],
    )


def steps(numbers: Any) -> bytes:
    """Return rising numbers as the steps between them: a byte each, and 255 for 255 more."""
    data = bytearray()
    for step in np.diff(numbers, prepend=0):
        data += b"\xff" * (int(step) // 255) + bytes([int(step) % 255])
    return bytes(data)


def main() -> None:
    """Train, write the weights and say how many there are."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--files", nargs="*", default=[path.stem for path in sorted(FIXTURES.glob("*_dev.jsonl"))]
    )
    parser.add_argument("--labels", type=Path, action="append", default=[], help="labels.jsonl; repeatable")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    try:
        replies = list(settled_replies(arguments.labels)) if arguments.labels else []
    except UsageError as problem:
        parser.error(str(problem))
    texts, labels = training_data(arguments.files, replies)
    weights = train(texts, labels)
    data = msgspec.msgpack.encode(weights)
    arguments.out.write_bytes(data)
    print(f"{len(texts)} sentences, {len(weights.grams)} n-grams, {len(data)} bytes -> {arguments.out}")


if __name__ == "__main__":
    main()
