"""What the stats makes of labels and findings, every figure worked out by hand."""

from typing import Any

import pytest

from memfin.contracts import Disagreement, Finding, LabelledReply
from memfin.metrics.interval import ratio_interval
from memfin.scoring.compliance import CATEGORIES
from memfin.validity import Found, Place, ValidityStats
from memfin.validity.measures import f1_bounds
from memfin.validity.stats import ALWAYS_SCORED, SECTIONS

NOTHING = Found(risk_tags=[], contradiction=False, compliance="compliant", categories=[], rubric=[])


def row(number: int = 1, text: str = "净值会有波动。", **labels: Any) -> LabelledReply:
    return LabelledReply(id=f"r{number}", text=text, **labels)


def count(stats: ValidityStats, *pairs: tuple[LabelledReply, Found]) -> list[Disagreement]:
    return [
        found
        for line, (labelled, reading) in enumerate(pairs, 1)
        for found in stats.add(labelled, reading, Place("f.jsonl", line))
    ]


def test_risk_tags_by_hand() -> None:
    stats = ValidityStats()
    met = count(
        stats,
        (
            row(1, risk_tags={"credit_risk": True, "fx_risk": False}),
            NOTHING.replace(risk_tags=["credit_risk"]),
        ),
        (row(2, risk_tags={"credit_risk": True}), NOTHING),
        (
            row(3, risk_tags={"credit_risk": False, "fx_risk": True}),
            NOTHING.replace(risk_tags=["credit_risk", "fx_risk"]),
        ),
        (row(4, risk_tags={"credit_risk": None}), NOTHING.replace(risk_tags=["credit_risk"])),
        (row(5), NOTHING.replace(risk_tags=["credit_risk"])),
    )
    scores = stats.risk_tags()
    assert scores is not None
    assert list(scores.by_tag) == ["credit_risk", "fx_risk"]
    credit, fx = scores.by_tag.values()
    assert (credit.tp, credit.fp, credit.fn, credit.tn) == (1, 1, 1, 0)
    assert (credit.precision, credit.recall, credit.f1) == (0.5, 0.5, 0.5)
    assert (credit.support, credit.rows, credit.constant_accuracy) == (2, 3, 2 / 3)
    assert credit.kappa == pytest.approx((1 / 3 - 5 / 9) / (4 / 9))
    assert credit.ci95["recall"] == ratio_interval([(1, 1), (0, 1)])
    assert credit.ci95["f1"] == f1_bounds(ratio_interval([(1, 1), (0, 1), (0, 1)]))
    assert (fx.tp, fx.fp, fx.fn, fx.tn, fx.f1) == (1, 0, 0, 1, 1.0)
    # together: 2 found and labelled, 1 wrongly found, 1 missed
    assert (scores.micro_precision, scores.micro_recall, scores.micro_f1) == (2 / 3, 2 / 3, 4 / 6)
    assert scores.macro_f1 == 0.75
    assert scores.rows == 3
    assert set(scores.ci95) == {"micro_precision", "micro_recall", "micro_f1", "macro_f1"}
    assert [(each.id, each.field, each.expected, each.got) for each in met] == [
        ("r2", "risk_tags.credit_risk", True, False),
        ("r3", "risk_tags.credit_risk", False, True),
    ]
    assert [(each.file, each.line) for each in met] == [("f.jsonl", 2), ("f.jsonl", 3)]


def test_tags_are_known_by_their_other_names_and_by_any_tag() -> None:
    stats = ValidityStats()
    met = count(
        stats,
        (
            row(1, risk_tags={"信用风险": True, "risk_disclosure_present": True}),
            NOTHING.replace(risk_tags=["credit_risk"]),
        ),
        (row(2, risk_tags={"risk_disclosure_present": True}), NOTHING),
    )
    scores = stats.risk_tags()
    assert scores is not None
    assert scores.by_tag["credit_risk"].tp == 1
    assert (scores.by_tag["risk_disclosure_present"].tp, scores.by_tag["risk_disclosure_present"].fn) == (
        1,
        1,
    )
    assert [each.field for each in met] == ["risk_tags.risk_disclosure_present"]


def test_names_that_nobody_knows_are_counted_and_not_scored() -> None:
    stats = ValidityStats()
    met = count(
        stats,
        (row(1, risk_tags={"月相风险 ": True}, forbidden_hits=["占星"]), NOTHING),
        (row(2, risk_tags={"月相风险 ": False}, forbidden_hits=[]), NOTHING),
    )
    assert met == []
    assert stats.unknown().risk_tags == {"月相风险 ": 2}
    assert stats.unknown().forbidden_hits == {"占星": 1}
    tags, forbidden = stats.risk_tags(), stats.forbidden()
    assert tags is not None
    assert (tags.by_tag, tags.micro_f1, tags.rows, tags.ci95) == ({}, None, 0, {})
    assert forbidden is not None
    assert "占星" not in forbidden.by_category
    assert forbidden.f1 is None


def test_contradiction_by_hand() -> None:
    stats = ValidityStats()
    contradicts = NOTHING.replace(
        contradiction=True,
        findings=[
            Finding(
                field="constraint_contradiction", value="不使用杠杆", rule="advises_leverage", start=0, end=2
            )
        ],
    )
    met = count(
        stats,
        (row(1, contradiction=1), contradicts),
        (row(2, contradiction=1), NOTHING),
        (row(3, contradiction=0), contradicts),
        (row(4, contradiction=0), NOTHING),
        (row(5), contradicts),
    )
    scores = stats.contradiction()
    assert scores is not None
    assert (scores.tp, scores.fp, scores.fn, scores.tn) == (1, 1, 1, 1)
    assert (scores.precision, scores.recall, scores.f1, scores.kappa) == (0.5, 0.5, 0.5, 0.0)
    assert [(each.id, each.field, each.expected, each.got) for each in met] == [
        ("r2", "contradiction", 1, 0),
        ("r3", "contradiction", 0, 1),
    ]
    assert met[0].spans == []
    assert [(span.rule, span.value, span.text) for span in met[1].spans] == [
        ("advises_leverage", "不使用杠杆", "净值")
    ]


def test_compliance_by_hand() -> None:
    stats = ValidityStats()
    severe, minor = (
        NOTHING.replace(compliance="severe_violation"),
        NOTHING.replace(compliance="minor_violation"),
    )
    met = count(
        stats,
        *[(row(n, compliance="compliant"), NOTHING) for n in range(6)],
        (row(6, compliance="compliant"), severe),
        (row(7, compliance="minor_violation"), severe),
        (row(8, compliance="minor_violation"), minor),
        (row(9, compliance="severe_violation"), severe),
        (row(10), severe),
    )
    scores = stats.compliance()
    assert scores is not None
    assert scores.accuracy == 0.8
    assert scores.severe_false_positives == 2
    assert scores.constant_accuracy == 0.7
    assert scores.rows == 10
    assert scores.confusion == {
        "compliant": {"compliant": 6, "minor_violation": 0, "severe_violation": 1},
        "minor_violation": {"compliant": 0, "minor_violation": 1, "severe_violation": 1},
        "severe_violation": {"compliant": 0, "minor_violation": 0, "severe_violation": 1},
    }
    assert [scores.by_label[label].f1 for label in scores.confusion] == pytest.approx([12 / 13, 2 / 3, 0.5])
    assert scores.macro_f1 == pytest.approx((12 / 13 + 2 / 3 + 1 / 2) / 3)
    # by chance, labels 7, 2, 1 and findings 6, 1, 3 meet 47 times in 100
    assert scores.kappa == pytest.approx((0.8 - 0.47) / 0.53)
    accuracy = ratio_interval([(1, 1)] * 8 + [(0, 1)] * 2)
    assert accuracy is not None
    assert scores.ci95["accuracy"] == accuracy
    assert scores.ci95["kappa"] == pytest.approx([(bound - 0.47) / 0.53 for bound in accuracy])
    assert [(each.expected, each.got) for each in met] == [
        ("compliant", "severe_violation"),
        ("minor_violation", "severe_violation"),
    ]


def test_labels_that_occur_nowhere_are_not_in_the_macro_value() -> None:
    stats = ValidityStats()
    count(stats, *[(row(n, compliance="compliant"), NOTHING) for n in range(3)])
    scores = stats.compliance()
    assert scores is not None
    assert (scores.macro_f1, scores.accuracy, scores.kappa) == (1.0, 1.0, None)
    assert scores.by_label["severe_violation"].f1 is None


def test_forbidden_categories_by_hand() -> None:
    stats = ValidityStats()
    met = count(
        stats,
        (row(1, forbidden_hits=["保本保收益"]), NOTHING.replace(categories=["保本保收益"])),
        (row(2, forbidden_hits=[]), NOTHING.replace(categories=["保本保收益", "夸大宣传"])),
        (row(3, forbidden_hits=["代客操作"]), NOTHING),
        (row(4), NOTHING.replace(categories=["代客操作"])),
    )
    scores = stats.forbidden()
    assert scores is not None
    assert list(scores.by_category) == list(ALWAYS_SCORED)
    assert (scores.precision, scores.recall, scores.f1) == (0.5, 0.5, 0.5)
    assert scores.macro_f1 == pytest.approx((2 / 3 + 0) / 2)
    assert scores.rows == 3
    assert scores.not_scored == {"夸大宣传": 1}
    assert [(each.field, each.expected, each.got) for each in met] == [
        ("forbidden_hits.保本保收益", False, True),
        ("forbidden_hits.代客操作", True, False),
    ]


def test_categories_that_labels_name_are_scored_too() -> None:
    stats = ValidityStats(categories={"夸大宣传"})
    met = count(
        stats,
        (row(1, forbidden_hits=["夸大宣传"]), NOTHING.replace(categories=["夸大宣传"])),
        (row(2, forbidden_hits=[]), NOTHING.replace(categories=["夸大宣传"])),
    )
    scores = stats.forbidden()
    assert scores is not None
    assert scores.by_category["夸大宣传"].precision == 0.5
    assert list(scores.by_category) == [name for name in CATEGORIES if name in (*ALWAYS_SCORED, "夸大宣传")]
    assert scores.not_scored == {}
    assert len(met) == 1


def test_rubric_by_hand() -> None:
    stats = ValidityStats()
    met = count(
        stats,
        (row(1, rubric={"信息依据": True, "自定义": True}), NOTHING.replace(rubric=["信息依据"])),
        (
            row(2, rubric={"信息依据": False, "边界声明": True}),
            NOTHING.replace(rubric=["信息依据", "边界声明"]),
        ),
        (row(3, rubric={"信息依据": True, "边界声明": None}), NOTHING),
        (row(4, rubric={}), NOTHING),
    )
    scores = stats.rubric()
    assert scores is not None
    assert list(scores.by_item) == ["信息依据", "边界声明", "自定义"]
    assert scores.by_item["信息依据"].accuracy == 1 / 3
    assert scores.by_item["自定义"].accuracy == 0.0
    assert scores.accuracy == 2 / 5
    assert scores.constant_accuracy == (2 + 1 + 1) / 5
    assert scores.rows == 3
    assert [each.field for each in met] == ["rubric.自定义", "rubric.信息依据", "rubric.信息依据"]


def test_replies_of_one_dialogue_are_one_unit() -> None:
    """Dialogues of four replies each; every fourth is read wrongly throughout."""
    apart, together = ValidityStats(), ValidityStats()
    for number in range(80):
        yes = number % 2 > 0
        got = yes if number // 4 % 4 else not yes
        found = NOTHING.replace(
            risk_tags=["credit_risk"] * got,
            contradiction=got,
            compliance="severe_violation" if got else "compliant",
            categories=["代客操作"] * got,
            rubric=["信息依据"] * got,
        )
        labelled = row(
            number,
            risk_tags={"credit_risk": yes},
            contradiction=int(yes),
            compliance="severe_violation" if yes else "compliant",
            forbidden_hits=["代客操作"] * yes,
            rubric={"信息依据": yes},
        )
        apart.add(labelled, found, Place("f", number))
        together.add(labelled.replace(dialog_id=f"d{number // 4}"), found, Place("f", number))
    for section in SECTIONS:
        narrow, wide = getattr(apart, section)(), getattr(together, section)()
        assert ("f1" if section == "contradiction" else "macro_f1") in wide.ci95
        assert narrow.ci95.keys() == wide.ci95.keys()
        for name, (low, high) in narrow.ci95.items():
            assert wide.ci95[name][1] - wide.ci95[name][0] > 1.3 * (high - low), (section, name)
            assert narrow[name] == wide[name]


def test_only_what_is_read_is_measured() -> None:
    stats = ValidityStats(["rubric"])
    judged = Found(
        risk_tags=None, contradiction=None, compliance=None, categories=None, rubric=[], reason="no"
    )
    met = count(
        stats,
        (
            row(
                risk_tags={"credit_risk": True},
                contradiction=1,
                compliance="severe_violation",
                forbidden_hits=["代客操作"],
                rubric={"信息依据": True},
            ),
            judged,
        ),
    )
    assert [(each.field, each.reason) for each in met] == [("rubric.信息依据", "no")]
    parts = (stats.risk_tags(), stats.contradiction(), stats.compliance(), stats.forbidden())
    assert parts == (None, None, None, None)


def test_without_labels_nothing_is_defined() -> None:
    stats = ValidityStats()
    assert count(stats, (row(), NOTHING)) == []
    tags, labels, rubric = stats.risk_tags(), stats.compliance(), stats.rubric()
    contradiction, forbidden = stats.contradiction(), stats.forbidden()
    assert tags is not None
    assert labels is not None
    assert rubric is not None
    assert contradiction is not None
    assert forbidden is not None
    assert (tags.rows, labels.rows, rubric.rows, contradiction.rows, forbidden.rows) == (0, 0, 0, 0, 0)
    assert (tags.micro_f1, labels.accuracy, labels.kappa, rubric.accuracy) == (None, None, None, None)
    assert (contradiction.f1, forbidden.f1) == (None, None)


def test_spans_show_the_words_and_those_around_them() -> None:
    text = "前" * 30 + "\n净值\t波动。" + "后" * 300
    finding = Finding(field="risk_tag", value="volatility_risk", rule="v.r", start=31, end=36)
    stats = ValidityStats()
    (met,) = count(
        stats,
        (
            row(text=text, risk_tags={"volatility_risk": False}),
            NOTHING.replace(risk_tags=["volatility_risk"], findings=[finding]),
        ),
    )
    (span,) = met.spans
    assert (span.rule, span.start, span.end, span.text) == ("v.r", 31, 36, "净值\t波动")
    assert span.context == "…" + "前" * 19 + " 净值 波动。" + "后" * 19 + "…"


def test_a_long_span_is_cut() -> None:
    text = "波" * 5000
    finding = Finding(field="risk_tag", value="volatility_risk", rule="v.r", start=0, end=5000)
    (met,) = count(
        ValidityStats(),
        (
            row(text=text, risk_tags={"volatility_risk": False}),
            NOTHING.replace(risk_tags=["volatility_risk"], findings=[finding]),
        ),
    )
    assert len(met.spans[0].text) == 200
    assert len(met.spans[0].context) <= 250
