"""The report for people: what the tables and the lines of disagreements show."""

import io

from rich.console import Console

from memfin.contracts import Disagreement, LabelledReply, LabelSpan
from memfin.contracts.validity import ValidityReport
from memfin.validity import Found, Place, ValidityStats
from memfin.validity.table import disagreement_text, tables


def printed(report: ValidityReport, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width)
    for table in tables(report):
        console.print(table, highlight=False)
    return out.getvalue()


def report(stats: ValidityStats) -> ValidityReport:
    return ValidityReport(
        measured="detectors",
        memfin_version="0",
        files=[],
        rows=1,
        risk_tags=stats.risk_tags(),
        contradiction=stats.contradiction(),
        compliance=stats.compliance(),
        forbidden=stats.forbidden(),
        rubric=stats.rubric(),
    )


def full() -> ValidityStats:
    stats = ValidityStats()
    found = Found(
        risk_tags=["past_performance_not_future"],
        contradiction=False,
        compliance="severe_violation",
        categories=["保本保收益", "夸大宣传"],
        rubric=["信息依据"],
    )
    for number, label in enumerate(("compliant", "severe_violation", "severe_violation")):
        row = LabelledReply(
            id=str(number),
            text="x",
            risk_tags={"past_performance_not_future": number > 0, "volatility_risk": number > 1},
            contradiction=1 if number else 0,
            compliance="compliant" if label == "compliant" else "severe_violation",
            forbidden_hits=["保本保收益"],
            rubric={"信息依据": number < 2, "与画像匹配": False},
        )
        stats.add(row, found, Place("f", number + 1))
    return stats


def test_every_part_has_its_table() -> None:
    lines = printed(report(full())).splitlines()
    text = "\n".join(lines)
    for title in ("Risk tags", "Contradicted constraints", "Compliance", "Forbidden categories", "Rubric"):
        assert title in text
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    assert rows["past_performance_not_future"][:3] == ["0.667", "1.000", "0.800"]
    assert rows["past_performance_not_future"][-2:] == ["2", "3"]
    assert rows["volatility_risk"][:3] == ["-", "0.000", "0.000"]
    assert rows["contradiction"][:3] == ["-", "0.000", "0.000"]
    assert "wrongly called severe: 1" in " ".join(text.split())
    assert rows["保本保收益"][:3] == ["1.000", "1.000", "1.000"]
    assert "夸大宣传 (3)" in text
    assert rows["信息依据"][0] == "0.667"


def test_the_confusion_shows_labels_in_rows() -> None:
    lines = printed(report(full())).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Labelled (rows)"))
    confusion = [line.split() for line in lines[start + 3 : start + 6]]
    assert confusion == [
        ["compliant", "0", "0", "1"],
        ["minor_violation", "0", "0", "0"],
        ["severe_violation", "0", "0", "2"],
    ]


def test_tables_fit_a_narrow_terminal_without_breaking_names() -> None:
    lines = printed(report(full())).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("past_performance_not_future ") for line in lines)


def test_parts_without_labels_are_left_out() -> None:
    assert printed(report(ValidityStats())) == ""
    assert printed(report(ValidityStats(["rubric"]))) == ""


def test_a_disagreement_shows_where_what_and_why() -> None:
    found = Disagreement(
        id="r\x1b[1m1",
        field="contradiction",
        expected=0,
        got=1,
        spans=[
            LabelSpan(field="f", value="v", rule="a.rule", start=3, end=5, text="杠杆", context="…加杠杆\n吧")
        ],
        file="labels.jsonl",
        line=7,
    )
    assert disagreement_text(found).splitlines() == [
        "labels.jsonl:7 r⟨U+001B⟩[1m1",
        "  contradiction: labelled no, found yes",
        "    a.rule [3:5] '杠杆' in '…加杠杆 吧'",
    ]


def test_a_judge_gives_its_reason() -> None:
    found = Disagreement(
        id="r",
        field="compliance",
        expected="compliant",
        got="minor_violation",
        spans=[],
        file="f",
        line=1,
        reason="too\nbold",
    )
    assert disagreement_text(found).splitlines()[1:] == [
        "  compliance: labelled compliant, found minor_violation",
        "    judge: too bold",
    ]
