"""Krippendorff's alpha against the worked examples of its author, and the verdict of a panel."""

import itertools
import random

import pytest

from memfin.contracts import JudgeRequest, Verdict, Vote
from memfin.contracts.base import ComplianceLabel
from memfin.judges.protocol import CacheCounts
from memfin.judges.reply_grading import ReplyGrading
from memfin.judges.stats import Coincidences, Level, ReplyVoteStats

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), sections A to D.
FOUR_OBSERVERS = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
BINARY = ("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
NOMINAL = ("a a b b d c c c e d d a", "b a b b b c c c e d d d")


def units(observers: tuple[str, ...]) -> list[list[str]]:
    return [
        [value for value in votes if value != "."]
        for votes in zip(*(line.split() for line in observers), strict=True)
    ]


@pytest.mark.parametrize(
    ("observers", "level", "alpha", "pairable"),
    [
        (BINARY, "nominal", 0.095, 10),
        (NOMINAL, "nominal", 0.692, 12),
        (FOUR_OBSERVERS, "nominal", 0.743, 11),
        (FOUR_OBSERVERS, "interval", 0.849, 11),
    ],
)
def test_alpha_of_the_published_examples(
    observers: tuple[str, ...], level: Level, alpha: float, pairable: int
) -> None:
    counted = Coincidences[str](level)
    for votes in units(observers):
        counted.add(votes)
    found = counted.agreement()
    assert found is not None
    assert found.alpha == pytest.approx(alpha, abs=0.0005)
    assert (found.units, found.level) == (pairable, level)


def test_alpha_is_the_same_in_every_order() -> None:
    given = units(FOUR_OBSERVERS)
    found = set()
    for seed in range(20):
        shuffled = given[:]
        random.Random(seed).shuffle(shuffled)
        counted = Coincidences[str]("interval")
        for votes in shuffled:
            counted.add(votes[::-1] if seed % 2 else votes)
        found.add(counted.agreement())
    assert len(found) == 1


def test_alpha_is_undefined_where_all_votes_are_alike_and_nothing_where_there_are_none() -> None:
    counted = Coincidences[float]("interval")
    assert counted.agreement() is None
    counted.add([3.0])
    assert counted.agreement() is None
    counted.add([3.0, 3.0])
    found = counted.agreement()
    assert found is not None
    assert (found.alpha, found.observed, found.units) == (None, 1.0, 1)


def test_votes_that_always_differ_are_worse_than_chance() -> None:
    counted = Coincidences[str]("nominal")
    for _ in range(10):
        counted.add(["yes", "no"])
    found = counted.agreement()
    assert found is not None
    assert found.observed == 0.0
    assert found.alpha is not None
    assert found.alpha < 0


REQUEST = JudgeRequest(
    dialog_id="d",
    turn_pair_id=1,
    language="zh",
    user_text="",
    reply="",
    rubric_required=["a", "b"],
    constraints=["x", "y"],
)


def vote(
    score: float,
    items: list[str] | None = None,
    label: ComplianceLabel = "compliant",
    conflicts: list[str] | None = None,
    tags: list[str] | None = None,
    reason: str = "",
) -> Verdict:
    return Verdict(
        score=score,
        rubric_items=items or [],
        compliance=label,
        contradicted_constraints=conflicts or [],
        risk_tags=tags or [],
        reason=reason,
    )


def test_a_single_vote_is_the_verdict() -> None:
    only = vote(3.0, ["b"], reason="r")
    assert ReplyGrading().combined(REQUEST, [only]) is only


def test_the_score_is_the_median_and_the_spread_is_recorded() -> None:
    panel = ReplyGrading().combined(REQUEST, [vote(5, reason="high"), vote(1), vote(4, reason="middle")])
    assert (panel.score, panel.spread, panel.reason) == (4.0, 4.0, "middle")
    assert ReplyGrading().combined(REQUEST, [vote(2), vote(3)]).score == 2.5


def test_items_and_tags_take_more_than_half_and_conflicts_half() -> None:
    panel = ReplyGrading().combined(
        REQUEST,
        [
            vote(3, ["b", "a"], conflicts=["y", "x"], tags=["fx_risk", "credit_risk"]),
            vote(3, ["b"], conflicts=["x"], tags=["credit_risk"]),
            vote(3, ["b", "a"], tags=["credit_risk"]),
            vote(3, [], tags=["fx_risk"]),
        ],
    )
    assert panel.rubric_items == ["b"]
    assert panel.risk_tags == ["credit_risk"]
    assert panel.contradicted_constraints == ["x"]


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (["compliant", "compliant", "severe_violation"], "compliant"),
        (["compliant", "minor_violation"], "minor_violation"),
        (["compliant", "minor_violation", "severe_violation"], "severe_violation"),
        (["minor_violation", "severe_violation", "minor_violation"], "minor_violation"),
    ],
)
def test_the_label_is_the_most_frequent_one_and_the_worst_of_equals(
    labels: list[ComplianceLabel], label: ComplianceLabel
) -> None:
    for order in itertools.permutations(labels):
        assert ReplyGrading().combined(REQUEST, [vote(3, label=each) for each in order]).compliance == label


def test_the_verdict_does_not_depend_on_the_order_of_sets() -> None:
    votes = [vote(3, ["b", "a"], conflicts=["y", "x"]), vote(3, ["a", "b"], conflicts=["x", "y"])]
    panel = ReplyGrading().combined(REQUEST, votes)
    assert (panel.rubric_items, panel.contradicted_constraints) == (["a", "b"], ["x", "y"])


def test_the_panel_sums_agreement_by_kind() -> None:
    panel = ReplyVoteStats()

    def add(*verdicts: Verdict) -> None:
        votes = [Vote[Verdict](prompt_hash="", attempts=1, verdict=each) for each in verdicts]
        panel.add_panel(REQUEST.rubric_required, REQUEST.constraints, votes)

    add(vote(3))
    stats = panel.statistics(CacheCounts())
    assert (stats.agreement, stats.spread_mean, stats.spread_max) == ({}, None, None)
    add(vote(3, ["a"]), vote(5, ["a"]))
    add(vote(1, []), vote(1, ["a", "b"], label="severe_violation", tags=["fx_risk"]))
    stats = panel.statistics(CacheCounts())
    found = stats.agreement
    assert (stats.spread_mean, stats.spread_max) == (1.0, 2.0)
    assert {kind: value.units for kind, value in found.items()} == {
        "score": 2,
        "rubric": 4,
        "contradiction": 4,
        "risk": 38,
        "compliance": 2,
    }
    assert (found["rubric"].observed, found["compliance"].observed) == (0.5, 0.5)
    assert found["contradiction"].alpha is None
