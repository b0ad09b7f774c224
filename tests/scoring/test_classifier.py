"""The classifier of sentences: its weights, and that its scores are whole numbers that layout cannot move."""

from importlib.resources import files

import pytest

from memfin.scoring.classifier import MAX_GRAM, MAX_SENTENCE, Classifier, Weights, load_classifier, squeeze
from memfin.scoring.compliance import SEVERE_CATEGORIES
from memfin.scoring.contradiction import ADVISES
from memfin.scoring.lexicon import lexicon_hashes
from memfin.scoring.risk import CANONICAL_TAGS, DETECTED_TAGS

CLASSIFIER = load_classifier()
SMALL = Weights(
    grams=["波动", "净值", "不", " a "],
    labels=["x", "y"],
    bias=[-5, 1],
    thresholds=[0, 3],
    weights=[bytes([10, 3, 256 - 7, 1]), bytes([0, 2, 2, 0])],
    gates=["波动", "净"],
    gate_labels=[1, 2],
)


def test_the_shipped_weights_know_every_label() -> None:
    assert set(CLASSIFIER.bits) == set(CLASSIFIER.thresholds)
    assert set(CLASSIFIER.bits) >= {*DETECTED_TAGS.intersection(CANONICAL_TAGS), *SEVERE_CATEGORIES, ADVISES}
    assert len(set(CLASSIFIER.bits.values())) == len(CLASSIFIER.bits)


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
    for label in CLASSIFIER.bits:
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


def test_gates_name_places_and_labels_in_order() -> None:
    assert Classifier(SMALL).candidates("净值波动") == [(0, 2), (2, 1)]
    assert Classifier(SMALL).candidates("别的") == []


def test_only_the_head_of_a_sentence_is_read() -> None:
    assert MAX_GRAM == 4
    assert len(squeeze("长" * 5000)) == MAX_SENTENCE
    assert CLASSIFIER.grams("，" * 5000 + "净值会波动") == CLASSIFIER.grams("，" * 5000)
