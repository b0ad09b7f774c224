"""The classifier of sentences: its weights, its scores side by side in one integer, and their explanation."""

from importlib.resources import files

import pytest

from memfin.scoring.classifier import MAX_HELD, SCALE, Classifier, Weights, load_classifier
from memfin.scoring.compliance import SEVERE_CATEGORIES
from memfin.scoring.contradiction import ADVISES, PRACTICES
from memfin.scoring.lexicon import lexicon_hashes
from memfin.scoring.risk import CANONICAL_TAGS, DETECTED_TAGS
from memfin.scoring.rubric import RUBRIC_ITEMS

SHIPPED = load_classifier()
SMALL = Classifier(
    Weights(
        grams=["波动", "净值", "不", " a "],
        labels=["x", "y"],
        bias=[-5, 1],
        thresholds=[0, 3],
        numbers=[bytes([0, 1, 1, 1]), bytes([1, 1])],
        weights=[bytes([10, 3, 256 - 7, 1]), bytes([2, 2])],
    )
)


def margins(classifier: Classifier, text: str, label: str) -> int:
    """Return the margin of a text that is one sentence."""
    return classifier.margin(label, classifier.read(text, [(0, len(text))]).sums[0])


def test_the_shipped_weights_know_every_label() -> None:
    tags = DETECTED_TAGS.intersection(CANONICAL_TAGS)
    taken_up = {f"{ADVISES}:{term}" for term in PRACTICES}
    assert {*tags, *SEVERE_CATEGORIES, *RUBRIC_ITEMS, ADVISES, *taken_up} <= {*SHIPPED.labels}


def test_the_detectors_are_small() -> None:
    directory = files("memfin") / "data" / "detectors"
    assert sum(len((directory / name).read_bytes()) for name in lexicon_hashes()) <= 1_600_000
    assert "weights.bin" in lexicon_hashes()


@pytest.mark.parametrize(
    ("label", "says", "does_not"),
    [
        ("volatility_risk", "基金净值可能出现较大波动", "请告诉我你的期限"),
        ("保本保收益", "这款产品到期连本带息一分都不会少你的", "你好,请问想了解什么?"),
        (ADVISES, "我建议你拿出一成买入私募基金", "私募基金是向合格投资者募集的"),
        (f"{ADVISES}:leverage", "我建议你融资买入沪深300etf,放大收益", "信用卡的账单日是每月五号"),
    ],
)
def test_a_sentence_that_says_it_scores_above_one_that_does_not(label: str, says: str, does_not: str) -> None:
    assert margins(SHIPPED, says, label) > 0 > margins(SHIPPED, does_not, label)


def test_a_score_is_the_bias_and_the_weight_of_each_ngram_once() -> None:
    text = "净值波动波动不 a b"
    assert margins(SMALL, text, "x") == -5 + 10 + 3 - 7 + 1
    assert margins(SMALL, text, "y") == 1 + 2 + 2 - 3
    assert (margins(SMALL, "别的", "x"), margins(SMALL, "别的", "y")) == (-5, 1 - 3)


def test_sentences_are_read_apart_and_ngrams_across_their_bounds_are_not_seen() -> None:
    reading = SMALL.read("净值波动", [(0, 1), (1, 4)])
    assert [SMALL.margin("x", total) for total in reading.sums] == [-5, -5 + 10]


def test_sentences_near_the_threshold_are_named_best_first() -> None:
    text = "波动了。净值波动。别的。"
    assert SMALL.read(text, [(0, 4), (4, 9), (9, 12)]).near == {"x": [1, 0, 2], "y": [1, 0, 2]}
    far = Classifier(Weights(["波动"], ["x"], [-2 * SCALE], [0], [bytes([0])], [bytes([SCALE])]))
    assert far.read(text, [(0, 4), (4, 9), (9, 12)]).near == {"x": [0, 1]}


def test_an_explanation_names_the_strongest_ngrams() -> None:
    assert SMALL.explain("x", "净值波动波动不 a b") == ("波动", "净值", "a")
    assert SMALL.explain("x", "净值波动波动不 a b", most=1) == ("波动",)


def test_only_the_first_ngrams_of_a_sentence_are_summed() -> None:
    assert margins(SMALL, "不" * MAX_HELD + "净值波动", "x") == -5 - 7
    assert margins(SMALL, "不" * (MAX_HELD - 1) + "净值波动", "x") == -5 - 7 + 3


def test_the_largest_sums_stay_within_their_lanes() -> None:
    grams = [chr(0x4E00 + number) * 2 for number in range(2 * MAX_HELD)]
    every = bytes([0, *[1] * (len(grams) - 1)])
    for weight in (127, -127):
        values = bytes([weight % 256]) * len(grams)
        strong = Classifier(Weights(grams, ["x", "y"], [0, 0], [0, 0], [every, every], [values, values]))
        total = weight * MAX_HELD
        assert (margins(strong, "".join(grams), "x"), margins(strong, "".join(grams), "y")) == (total, total)


def test_numbers_of_ngrams_may_lie_far_apart() -> None:
    grams = [f"{number:04d}" for number in range(600)]
    far = Classifier(Weights(grams, ["x"], [0], [0], [bytes([2, 255, 255, 50])], [bytes([1, 7])]))
    assert [margins(far, gram, "x") for gram in ("0002", "0562", "0003", "0257")] == [1, 7, 0, 0]
