"""Linear classifier of sentences over character n-grams, with integer weights.

The weights are trained by ``tools/train_detectors.py`` and ship as
``memfin/data/detectors/weights.bin``. A sentence scores the sum of the weights of the n-grams it
holds, each counted once, plus the label's bias. Integer sums give the same result on every machine.
`SCALE` units are one unit of log odds.
"""

from collections.abc import Collection
from functools import cache
from typing import Final, NamedTuple

import msgspec
from ahocorasick_rs import AhoCorasick

from memfin.scoring.lexicon import read_bytes

SCALE: Final = 32
MIN_GRAM: Final = 2
MAX_GRAM: Final = 4
MAX_SENTENCE: Final = 600
"""Characters of a sentence that are read."""


class Weights(msgspec.Struct, frozen=True):
    """The file of weights.

    ``grams`` are the n-grams; for every label there are a bias, a threshold and one signed byte per
    n-gram. ``gates`` are n-grams of which a sentence must hold one to be scored at all for the labels
    whose bits are set in ``gate_labels``.
    """

    grams: list[str]
    labels: list[str]
    bias: list[int]
    thresholds: list[int]
    weights: list[bytes]
    gates: list[str] = []
    gate_labels: list[int] = []


class Explanation(NamedTuple):
    """The n-grams that speak most for a label in a sentence, strongest first."""

    grams: tuple[str, ...]


def squeeze(sentence: str) -> str:
    """Return a sentence with every run of blanks as one: the form that n-grams are taken from."""
    return " ".join(sentence[:MAX_SENTENCE].split())


class Classifier:
    """Scores of sentences for every label."""

    def __init__(self, weights: Weights) -> None:
        self.thresholds: Final = dict(zip(weights.labels, weights.thresholds, strict=True))
        self._bias: Final = dict(zip(weights.labels, weights.bias, strict=True))
        self._weights: Final = {
            label: memoryview(values).cast("b")
            for label, values in zip(weights.labels, weights.weights, strict=True)
        }
        self._grams: Final = weights.grams
        self._automaton: Final = AhoCorasick(weights.grams)
        self.bits: Final = {label: 1 << number for number, label in enumerate(weights.labels)}
        self._gates: Final = AhoCorasick(weights.gates)
        self._gate_labels: Final = weights.gate_labels

    def candidates(self, text: str) -> list[tuple[int, int]]:
        """Return the places of gate n-grams in a text, in order, each with the bits of its labels."""
        labels = self._gate_labels
        found = self._gates.find_matches_as_indexes(text, overlapping=True)
        return [(start, labels[index]) for index, start, _ in found]

    def grams(self, sentence: str) -> Collection[int]:
        """Return the numbers of the known n-grams in a sentence; `score` takes them."""
        found = self._automaton.find_matches_as_indexes(squeeze(sentence), overlapping=True)
        return {index for index, _, _ in found}

    def score(self, label: str, grams: Collection[int]) -> int:
        """Return the score of a label, above its threshold where the classifier says yes."""
        return self._bias[label] + sum(map(self._weights[label].__getitem__, grams))

    def explain(self, label: str, grams: Collection[int], most: int = 3) -> Explanation:
        """Return the n-grams that speak most for a label, none inside a stronger one."""
        weights = self._weights[label]
        chosen: list[str] = []
        for index in sorted(grams, key=lambda each: (-weights[each], self._grams[each])):
            gram = self._grams[index].strip()
            if weights[index] <= 0 or len(chosen) == most:
                break
            if gram and not any(gram in other or other in gram for other in chosen):
                chosen.append(gram)
        return Explanation(tuple(chosen))


@cache
def load_classifier() -> Classifier:
    """Return the classifier with the weights that ship with the package, read once per process."""
    return Classifier(msgspec.msgpack.decode(read_bytes("weights.bin"), type=Weights))
