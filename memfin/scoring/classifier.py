"""Linear classifier of sentences over character n-grams, with integer weights.

The weights are trained by ``tools/train_detectors.py`` and ship as ``memfin/data/detectors/weights.bin``. A
sentence scores, for each label, the label's bias and the weights of the n-grams that it holds, each counted
once. Integer sums give the same result on every machine. `SCALE` units are one unit of log odds.

Reading every sentence of a long reply with all n-grams would cost more than all other detectors together. A
draft of a few thousand n-grams therefore reads it first, all labels at once, and tells for each label which
sentences are worth it.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
from ahocorasick_rs import AhoCorasick

from memfin.scoring.lexicon import read_bytes

SCALE: Final = 32
MIN_GRAM: Final = 2
MAX_GRAM: Final = 4
MAX_SENTENCE: Final = 600
"""Characters of a sentence that are read."""
_LANE: Final = 16
"""Bits of one label in the sums of the draft."""
_HALF: Final = 1 << (_LANE - 1)
_MASK: Final = (1 << _LANE) - 1
_FEW: Final = 8
"""Sentences of a reply that are all read, without a draft."""
_MOST_SUMMED: Final = 64
"""N-grams of a sentence that the draft sums as they come, one that is repeated as often as it stands there."""
_MOST_READ: Final = 8
"""Sentences of a longer reply that are read for one label."""
_MORE: Final = 255
_OFFSET: Final = itemgetter(1)


class Weights(msgspec.Struct, frozen=True):
    """The file of weights.

    ``grams`` are all n-grams. Each label has a bias, a threshold, and n-grams of its own: their rising
    ``numbers`` as steps from one to the next (a byte each; 255 stands for 255 more) and one signed byte for
    each in ``weights``. The draft has its own n-grams with one signed byte for each label, and a threshold for
    each label that a sentence must reach to be read for it.
    """

    grams: list[str]
    labels: list[str]
    bias: list[int]
    thresholds: list[int]
    numbers: list[bytes]
    weights: list[bytes]
    draft_grams: list[str] = []
    draft_weights: list[bytes] = []
    draft_thresholds: list[int] = []


class Draft(NamedTuple):
    """A sentence's number and its sums for all labels, side by side in one integer."""

    number: int
    total: int


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
        self._grams: Final = weights.grams
        self._automaton: Final = AhoCorasick(weights.grams)
        self._weights: Final = {
            label: _dense(len(weights.grams), numbers, values)
            for label, numbers, values in zip(weights.labels, weights.numbers, weights.weights, strict=True)
        }
        # One integer for each n-gram of the draft holds its weights for all labels side by side. A lane begins
        # such that its highest bit is set as soon as its sum reaches the label's threshold.
        self._shifts: Final = {label: _LANE * number for number, label in enumerate(weights.labels)}
        self._reached: Final = _packed(_HALF for _ in weights.labels)
        self._draft: Final = AhoCorasick(weights.draft_grams)
        self._packed: Final = [_packed(memoryview(row).cast("b")) for row in weights.draft_weights]
        self._start: Final = _packed(_HALF - threshold for threshold in weights.draft_thresholds)

    def draft(self, text: str, bounds: Sequence[tuple[int, int]]) -> list[Draft]:
        """Return the sentences that are worth reading for some label, with their sums; of a few all of them.

        Args:
            text: The text in normal form.
            bounds: Half-open offsets of its sentences, in order and without overlaps.
        """
        if len(bounds) <= _FEW:
            return [Draft(number, self._reached) for number in range(len(bounds))]
        found = sorted(self._draft.find_matches_as_indexes(text, overlapping=True), key=_OFFSET)
        starts = [start for _, start, _ in found]
        values = list(map(self._packed.__getitem__, [index for index, _, _ in found]))
        drafts = []
        first, start, reached = 0, self._start, self._reached
        for number, (_, end) in enumerate(bounds):
            last = bisect_left(starts, end, first)
            if first < last:
                if last - first <= _MOST_SUMMED:
                    total = sum(values[first:last], start)
                else:  # each n-gram once, so that a text that repeats itself stays within the lanes
                    total = sum(map(self._packed.__getitem__, {index for index, _, _ in found[first:last]}), start)
                if total & reached:
                    drafts.append(Draft(number, total))
                first = last
        return drafts

    def best(self, label: str, drafts: Iterable[Draft]) -> list[int]:
        """Return the numbers of the sentences that the draft finds most worth reading for a label, best first."""
        shift = self._shifts[label]
        reached = [(-(each.total >> shift & _MASK), each.number) for each in drafts if each.total >> shift & _HALF]
        return [number for _, number in sorted(reached)[:_MOST_READ]]

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


def _dense(count: int, steps: bytes, values: bytes) -> memoryview:
    """Return one signed byte for each of ``count`` n-grams, 0 for those that a label has not."""
    row = bytearray(count)
    number, left = 0, iter(values)
    for step in steps:
        number += step
        if step < _MORE:
            row[number] = next(left)
    return memoryview(row).cast("b")


def _packed(values: Iterable[int]) -> int:
    """Return small numbers side by side in one integer."""
    return sum(value << (_LANE * number) for number, value in enumerate(values))


@cache
def load_classifier() -> Classifier:
    """Return the classifier with the weights that ship with the package, read once per process."""
    return Classifier(msgspec.msgpack.decode(read_bytes("weights.bin"), type=Weights))
