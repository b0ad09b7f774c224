"""Linear classifier of sentences over character n-grams, with integer weights.

The weights are trained by ``tools/train_detectors.py`` and ship as ``memfin/data/detectors/weights.bin``. A
sentence scores, for each label, the label's bias and the weights of the n-grams that it holds, each counted
once. Integer sums give the same result on every machine. `SCALE` units are one unit of log odds.

One Aho-Corasick pass finds the n-grams of a text. The scores of all labels are summed at once: one integer
for each n-gram holds its weights side by side in lanes of `_LANE` bits, raised by `_RAISED` to be positive.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, compress
from typing import Final, NamedTuple

import msgspec
from ahocorasick_rs import AhoCorasick

from memfin.scoring.lexicon import read_bytes

SCALE: Final = 32
MIN_GRAM: Final = 2
MAX_GRAM: Final = 4
MAX_SENTENCE: Final = 600
"""Characters of a sentence that are learnt from."""
MAX_HELD: Final = 250
"""N-grams of a sentence that are summed, from its beginning: their sum fits into a lane."""
_LANE: Final = 16
_RAISED: Final = 128
_HALF: Final = 1 << (_LANE - 1)
_MASK: Final = (1 << _LANE) - 1
_MORE: Final = 255


class Weights(msgspec.Struct, frozen=True):
    """The file of weights.

    ``grams`` are all n-grams. Each label has a bias, a threshold, and n-grams of its own: their rising
    ``numbers`` as steps from one to the next (a byte each; 255 stands for 255 more) and one signed byte for
    each in ``weights``.
    """

    grams: list[str]
    labels: list[str]
    bias: list[int]
    thresholds: list[int]
    numbers: list[bytes]
    weights: list[bytes]


class SentenceScores(NamedTuple):
    """The scores of a text's sentences.

    Attributes:
        sums: The scores of each sentence for all labels, side by side in one integer; `Classifier.margin`
            takes them apart.
        near: For each label the numbers of the sentences that score at most `SCALE` below its threshold,
            best first.
    """

    sums: list[int]
    near: dict[str, list[int]]


class Classifier:
    """Scores of sentences for every label."""

    def __init__(self, weights: Weights) -> None:
        self._file: Final = weights
        self._lanes: Final = {label: _LANE * number for number, label in enumerate(weights.labels)}
        self._automaton: Final = AhoCorasick(weights.grams)
        self._packed: Final = self._side_by_side()
        # A lane begins such that its highest bit tells whether the score is near the label's threshold.
        starts = zip(weights.bias, weights.thresholds, strict=True)
        self._start: Final = _in_lanes(_HALF + SCALE + bias - threshold for bias, threshold in starts)
        self._near: Final = _in_lanes(_HALF for _ in weights.labels)
        self._raised: Final = _in_lanes(_RAISED for _ in weights.labels)

    @property
    def labels(self) -> list[str]:
        """The names of all labels."""
        return self._file.labels

    def _weights(self, label: str) -> Iterator[tuple[int, int]]:
        """Return the numbers of a label's n-grams with their weights."""
        column = self.labels.index(label)
        steps = self._file.numbers[column]
        numbers = compress(accumulate(steps), map(_MORE.__gt__, steps))
        return zip(numbers, memoryview(self._file.weights[column]).cast("b"), strict=True)

    def _side_by_side(self) -> list[int]:
        """Return for each n-gram one integer with its weights for all labels."""
        count, width = len(self._file.grams), _LANE // 8 * len(self.labels)
        table = bytearray(count * width)
        for column, label in enumerate(self.labels):
            row = bytearray([_RAISED]) * count
            for number, weight in self._weights(label):
                row[number] = _RAISED + weight
            table[_LANE // 8 * column :: width] = row
        return [int.from_bytes(table[at : at + width], "little") for at in range(0, len(table), width)]

    def read(self, text: str, bounds: Sequence[tuple[int, int]]) -> SentenceScores:
        """Return the scores of the sentences of a text.

        Args:
            text: The text in normal form.
            bounds: Half-open offsets of its sentences, in order and without overlaps.
        """
        found = self._automaton.find_matches_as_indexes(text, overlapping=True)
        ends = [end for _, _, end in found]  # rising
        packed, near, beginning = self._packed, self._near, self._start
        sums: list[int] = []
        ranked: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, (start, end) in enumerate(bounds):
            first = bisect_right(ends, start)
            last = bisect_right(ends, end, first, min(len(ends), first + MAX_HELD))
            held = {index for index, begin, _ in found[first:last] if begin >= start}
            total = sum(map(packed.__getitem__, held), beginning) - len(held) * self._raised
            sums.append(total)
            reached = total & near
            while reached:
                lane = (reached & -reached).bit_length() - _LANE
                ranked[lane].append((-(total >> lane & _MASK), number))
                reached &= reached - 1
        names = {lane: label for label, lane in self._lanes.items()}
        return SentenceScores(
            sums, {names[lane]: [number for _, number in sorted(each)] for lane, each in ranked.items()}
        )

    def margin(self, label: str, total: int) -> int:
        """Return how far a sentence's score for a label is above the threshold, from the sentence's sum."""
        return (total >> self._lanes[label] & _MASK) - _HALF - SCALE

    def explain(self, label: str, sentence: str, most: int = 3) -> tuple[str, ...]:
        """Return the n-grams that speak most for a label in a sentence, none inside a stronger one."""
        weights, grams = self._by_number(label), self._file.grams
        found = {index for index, _, _ in self._automaton.find_matches_as_indexes(sentence, overlapping=True)}
        chosen: list[str] = []
        for index in sorted(found, key=lambda each: (-weights.get(each, 0), grams[each])):
            gram = grams[index].strip()
            if weights.get(index, 0) <= 0 or len(chosen) == most:
                break
            if gram and not any(gram in other or other in gram for other in chosen):
                chosen.append(gram)
        return tuple(chosen)

    @cache  # noqa: B019 - there is one classifier in a process
    def _by_number(self, label: str) -> dict[int, int]:
        return dict(self._weights(label))


def _in_lanes(values: Iterable[int]) -> int:
    """Return small numbers in the lanes of one integer."""
    return sum(value << (_LANE * number) for number, value in enumerate(values))


@cache
def load_classifier() -> Classifier:
    """Return the classifier with the weights that ship with the package, read once per process."""
    return Classifier(msgspec.msgpack.decode(read_bytes("weights.bin"), type=Weights))
