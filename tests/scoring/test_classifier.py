"""The classifier of sentences: its weights, and that its scores are whole numbers that layout cannot move."""

from importlib.resources import files

import pytest

from memfin.scoring.classifier import MAX_GRAM, MAX_SENTENCE, Classifier, Weights, load_classifier, squeeze
from memfin.scoring.compliance import SEVERE_CATEGORIES
from memfin.scoring.contradiction import ADVISES, PRACTICES
from memfin.scoring.lexicon import lexicon_hashes
from memfin.scoring.risk import CANONICAL_TAGS, DETECTED_TAGS
from memfin.scoring.rubric import RUBRIC_ITEMS

CLASSIFIER = load_classifier()
LABELS = tuple(CLASSIFIER.thresholds)
SMALL = Weights(
    grams=["波动", "净值", "不", " a "],
    labels=["x", "y"],
    bias=[-5, 1],
    thresholds=[0, 3],
    numbers=[bytes([0, 1, 1, 1]), bytes([1, 1])],
    weights=[bytes([10, 3, 256 - 7, 1]), bytes([2, 2])],
    draft_grams=["波动", "净", "跌"],
    draft_weights=[bytes([5, 0]), bytes([2, 9]), bytes([256 - 4, 1])],
    draft_thresholds=[4, 9],
)
NINE = [(start, start + 5) for start in range(0, 45, 5)]
"""Bounds of more sentences than are all read."""


def test_the_shipped_weights_know_every_label() -> None:
    tags = DETECTED_TAGS.intersection(CANONICAL_TAGS)
    taken_up = {f"{ADVISES}:{term}" for term in PRACTICES}
    assert {*tags, *SEVERE_CATEGORIES, *RUBRIC_ITEMS, ADVISES, *taken_up} <= {*LABELS}


def test_the_detectors_are_small() -> None:
    directory = files("memfin") / "data" / "detectors"
    assert sum(len((directory / name).read_bytes()) for name in lexicon_hashes()) <= 1_600_000
    assert "weights.bin" in lexicon_hashes()


@pytest.mark.parametrize(
    ("label", "says", "does_not"),
    [
        ("volatility_risk", "基金净值可能出现较大波动", "请告诉我您的期限"),
        ("保本保收益", "这款产品到期连本带息一分都不会少您的", "您好，请问想了解什么？"),
        (ADVISES, "建议您买入私募基金", "私募基金是向合格投资者募集的"),
    ],
)
def test_a_sentence_that_says_it_scores_above_one_that_does_not(label: str, says: str, does_not: str) -> None:
    high, low = (CLASSIFIER.score(label, CLASSIFIER.grams(text)) for text in (says, does_not))
    assert isinstance(high, int)
    assert high > CLASSIFIER.thresholds[label] > low


@pytest.mark.parametrize("text", ["净值 会波动。", "Prices can fall sharply."])
def test_the_score_is_the_same_whatever_the_blanks(text: str) -> None:
    loose = "  " + text.replace(" ", " \n  ") + "  "
    assert squeeze(loose) == text
    for label in LABELS:
        assert CLASSIFIER.score(label, CLASSIFIER.grams(loose)) == CLASSIFIER.score(
            label, CLASSIFIER.grams(text)
        )


def test_a_score_is_the_bias_and_the_weight_of_each_gram_once() -> None:
    small = Classifier(SMALL)
    grams = small.grams("净值波动波动不 a b")
    assert (small.score("x", grams), small.score("y", grams)) == (-5 + 10 + 3 - 7 + 1, 1 + 2 + 2)
    assert (small.score("x", ()), small.score("y", ())) == (-5, 1)
    assert small.explain("x", grams).grams == ("波动", "净值", "a")
    assert small.explain("x", grams, most=1).grams == ("波动",)


def reading(text: str, bounds: list[tuple[int, int]] = NINE) -> dict[str, list[int]]:
    """Return what the small classifier would read of sentences of five characters."""
    return Classifier(SMALL).worth_reading(text, bounds)


def test_the_draft_names_the_sentences_of_a_long_reply_best_first() -> None:
    text = "价波动啊。" + "净值波动。" + "没有什么。" + "波动跌了。" + "没有什么。" * 5
    assert reading(text) == {"x": [1, 0], "y": [1]}
    assert reading("没有什么。" * 9) == {}


def test_a_short_reply_is_read_whole() -> None:
    assert reading("没有什么。" * 2, NINE[:2]) == {"x": [0, 1], "y": [0, 1]}


def test_the_draft_counts_a_repeated_ngram_once_where_many_stand_in_one_sentence() -> None:
    bounds = [(0, 4000), *((start, start + 1) for start in range(4000, 4010))]
    assert reading("跌波动" * 1333 + "。" + "了" * 10, bounds) == {}
    assert reading("净波动" * 1333 + "。" + "了" * 10, bounds) == {"x": [0], "y": [0]}


def test_numbers_of_ngrams_may_lie_far_apart() -> None:
    grams = [f"{number:04d}" for number in range(600)]
    far = Weights(grams, ["x"], [0], [0], [bytes([2, 255, 255, 50])], [bytes([1, 7])])
    small = Classifier(far)
    assert (small.score("x", {2}), small.score("x", {562}), small.score("x", {3, 257, 599})) == (1, 7, 0)


def test_only_the_head_of_a_sentence_is_read() -> None:
    assert MAX_GRAM == 4
    assert len(squeeze("长" * 5000)) == MAX_SENTENCE
    assert CLASSIFIER.grams("，" * 5000 + "净值会波动") == CLASSIFIER.grams("，" * 5000)
