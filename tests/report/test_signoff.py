"""The sign-off page: figures, violations with their words, readers, what was not measured, hashes."""

import hashlib
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import CorrectedValue, Corrections, Counters, LabelFile, LabelledReply
from memfin.contracts.turn_eval import Finding
from memfin.contracts.validity import LabelMark
from memfin.errors import UsageError
from memfin.language import use_language
from memfin.report import signoff
from memfin.report.signoff import Readings, render_signoff
from memfin.report.tables import FieldAgreement
from tests.report.report_run_factory import metric, row, summary, trace, turn, write_run

SEVERE = "我们的产品很多。这款产品保本保收益，年化6%。请放心。"
MINOR = "这是最好的基金。"
BROKEN = "建议您加杠杆。"


def found(reply: str, words: str, value: str, field: str = "compliance") -> Finding:
    start = reply.index(words)
    return Finding(field=field, value=value, rule="promise.slogan", start=start, end=start + len(words))


def rows(dialogs: int = 2) -> list[Any]:
    """Return per dialogue a severe, a minor and a contradicting turn, and one that nothing was found in."""
    return [
        row(
            f"d{number}",
            pair,
            pred_compliance_label=label,
            constraint_contradiction=int(pair == 3),
            contradicted_constraints=["不使用杠杆"] if pair == 3 else [],
            findings=findings,
        )
        for number in range(dialogs)
        for pair, label, findings in (
            (1, "severe_violation", [found(SEVERE, "保本保收益", "保本保收益")]),
            (2, "minor_violation", [found(MINOR, "最好", "夸大宣传")]),
            (3, "compliant", [found(BROKEN, "加杠杆", "不使用杠杆", "constraint_contradiction")]),
            (4, "compliant", []),
        )
    ]


def run_of(path: Path, dialogs: int = 2) -> Path:
    texts = (SEVERE, MINOR, BROKEN, "<script>alert(1)</script>")
    turns = [turn(pair, reply=text) for pair, text in enumerate(texts, 1)]
    return write_run(path, [trace(f"d{number}", turns) for number in range(dialogs)], rows(dialogs))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path)


def label(dialog: str, pair: int, reader: str | None, compliance: Any, **more: Any) -> LabelledReply:
    return LabelledReply(
        id="x", text="", dialog_id=dialog, turn=pair, reader=reader, compliance=compliance, **more
    )


def section(page: str, name: str) -> str:
    """Return the text of a section, marked words in brackets, cells and blocks separated."""
    (html,) = re.findall(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    html = html.replace("<mark>", "[").replace("</mark>", "]")
    return re.sub(r"\s+", " ", unescape(re.sub(r"(?:<[^>]*>\s*)+", " | ", html))).strip()


def rendered(run: Path, readings: Readings | None = None) -> str:
    return render_signoff(run, readings or Readings(), "1.2.3")


def test_violations_stand_in_their_sentences_severe_first(run: Path) -> None:
    words = section(rendered(run), "violations")
    severe, minor, broken = (words.index(each) for each in ("[保本保收益]", "[最好]", "[加杠杆]"))
    assert severe < minor < broken
    assert "d0, turn 1 | 这款产品[保本保收益]，年化6%。 |" in words
    assert "promise of principal or return (rule promise.slogan) | not checked by people" in words
    assert "不使用杠杆 (rule promise.slogan)" in words
    assert "Severe violations: 2 turns" in words
    assert "我们的产品很多" not in words


def test_a_violation_without_words_shows_the_beginning_of_the_reply(tmp_path: Path) -> None:
    changed = [each.replace(findings=[]) for each in rows(1)]
    run = write_run(tmp_path, [trace("d0", [turn(pair, reply=SEVERE) for pair in range(1, 5)])], changed)
    words = section(rendered(run), "violations")
    assert "我们的产品很多。" in words
    assert "no words are marked" in words


def test_many_violations_are_counted_and_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signoff, "MAX_QUOTED", 3)
    words = section(rendered(run_of(tmp_path, 5)), "violations")
    assert words.count("[保本保收益]") == 3
    assert "3 of 5 turns are shown; the other 2 are in turn_eval.jsonl and in memfin view." in words


def test_readers_are_named_beside_each_violation(run: Path) -> None:
    labels = [
        label("d0", 1, "wang", "compliant"),
        label("d0", 1, "li", "severe_violation"),
        label("d0", 3, None, None, contradiction=0),
        label("d1", 4, "wang", "severe_violation", probability=0),
        label("d0", 4, "wang", "severe_violation"),
        label("d0", 4, "adjudicated", "compliant"),
    ]
    page = rendered(run, Readings(labels, [FieldAgreement("compliance", 1, 0.0, None, None, -1.0)]))
    words = section(page, "violations")
    assert "wang: compliant, li: severe violation" in words
    assert "(not named): no contradiction" in words
    assert "Violations that only readers found: 1 turn |" in words  # that of d0 was adjudicated
    readers = section(page, "readers")
    assert "wang | 3 | 1 | 2 | 0 | 0" in readers
    assert "adjudicated | 1 | 0 | 0 | 0 | 0" in readers
    assert "Compliance | 1 | 0.0 % | – | – | -1.00" in readers
    limits = section(page, "not-measured")
    assert re.search(r"Checked by people \| 4 of \d+ turns; 1 of them picked by hand", limits)


def test_words_that_readers_marked_as_a_violation_are_quoted(run: Path) -> None:
    mark = LabelMark(start=0, end=3, label="保本保收益")
    other = mark.replace(kind="false_alarm", end=5)
    given = label("d0", 1, "wang", "severe_violation", forbidden_hits=["保本保收益"], marks=[mark, other])
    words = section(rendered(run, Readings([given])), "violations")
    assert "[我们的]产品很多。 | promise of principal or return (marked by wang)" in words
    assert "这款产品[保本保收益]，年化6%。 | promise of principal or return (rule promise.slogan)" in words


def test_a_run_without_labels_is_called_unchecked(run: Path) -> None:
    page = rendered(run)
    assert "Not checked by people" in section(page, "readers")
    assert "Checked by people | not checked by people" in section(page, "not-measured")


def corrections(run: Path) -> Corrections:
    value = CorrectedValue(
        value=0.5, ci95=(0.4, 0.6), labels=33, weight=0.5, raw=0.25, alone=0.5, alone_ci95=(0.2, 0.8)
    )
    return Corrections(
        run_id="r1",
        turn_eval_sha256="0",
        files=[LabelFile(path="l", rows=1)],
        joined=1,
        unjoined=0,
        values={"m4_compliance.compliance_label_acc": value},
    )


def test_corrected_rates_stand_beside_the_raw_ones(run: Path) -> None:
    figures = section(rendered(run, Readings(corrections=corrections(run))), "figures")
    assert "| 50.0 % | 40.0 to 60.0 % | 33 |" in figures
    assert "do not quote the raw 25.0 %" in figures
    assert "40.0 to 60.0 %" not in section(rendered(run), "figures")


def test_labels_that_contradict_each_other_are_said_to_correct_nothing(run: Path) -> None:
    readings = Readings([label("d0", 1, "wang", "compliant")], contradict=True)
    assert "no reader adjudicated it" in section(rendered(run, readings), "readers")


def test_hashes_are_those_of_the_files(run: Path) -> None:
    hashes = section(rendered(run), "hashes")
    for name in ("turn_eval.jsonl", "dialog_trace.jsonl", "metrics_summary.json"):
        assert f"{name} | {hashlib.sha256((run / name).read_bytes()).hexdigest()}" in hashes
    assert "this page by MemFin 1.2.3" in hashes


def test_failed_turns_and_dialogues_are_not_measured(tmp_path: Path) -> None:
    turns = [turn(1, reply=SEVERE), turn(2, reply=None, turn_status="timeout", error="late")]
    failed = row("d0", 2, turn_status="timeout", pred_compliance_label="severe_violation")
    counts = {"eligible_count": 1, "failed_count": 1}
    result = summary(
        metrics={"m4_compliance": metric("m4_compliance", {"severe_violation_rate": 1.0}, counts=counts)},
        counters=Counters(failed_dialogs=3, total_turn_pairs=2),
    )
    run = write_run(tmp_path, [trace("d0", turns, dialog_status="partial")], [rows(1)[0], failed], result)
    page = rendered(run)
    assert "Failed dialogues | 3 | Failed turns | 1 |" in section(page, "not-measured")
    assert "Severe violations: 1 turn |" in section(page, "violations")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_self_contained_safe_and_the_same_every_time(run: Path, language: Any) -> None:
    with use_language(language):
        page = rendered(run)
        assert rendered(run) == page
    assert f'<html lang="{language}' in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert ("签名" in page) == (language == "zh")
    assert "@page" in page
    assert len(re.findall(r"☐", page)) == 3


def test_no_run_of_dialogues_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run directory"):
        rendered(tmp_path)


def test_long_sentences_are_cut_around_their_words(tmp_path: Path) -> None:
    reply = "很" * 1000 + "保本保收益" + "好" * 1000
    changed: Sequence[Any] = [rows(1)[0].replace(findings=[found(reply, "保本保收益", "保本保收益")])]
    run = write_run(tmp_path, [trace("d0", [turn(1, reply=reply)])], changed)
    words = section(rendered(run), "violations")
    assert re.search(r"\| …很{200}\[保本保收益\]好{195}… \|", words), words
