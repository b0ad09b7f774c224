"""The page on validity names what a report holds, and its figures are those of the rules."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from memfin.contracts import BinaryScores, Disagreement, LabelledReply, LabelSpan, ValidityReport
from tests.commands import run_command
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "validity.md"
REFERENCE = ROOT / "docs" / "measuring-validity.md"
LABELS = ROOT / ".." / "shared" / "data" / "labels"
FILES = [LABELS / "turns_dev.jsonl", LABELS / "challenge_dev.jsonl"]
MOST_APART = 0.02
"""The page need not follow every small change of a rule."""

FIGURE = re.compile(r"^\| `?([^|`]+?)`? \| [\d of]+ \| (\d\.\d+) \| (\d\.\d+) \| (\d\.\d+) \|$", re.MULTILINE)


def figures() -> dict[str, tuple[float, ...]]:
    return {name: tuple(map(float, rest)) for name, *rest in FIGURE.findall(PAGE.read_text("utf-8"))}


def measured(report: dict[str, Any]) -> Iterator[tuple[str, tuple[float, ...]]]:
    tags = report["risk_tags"]
    yield "risk tags, micro", (tags["micro_precision"], tags["micro_recall"], tags["micro_f1"])
    parts = {
        "contradiction": report["contradiction"],
        **tags["by_tag"],
        **report["compliance"]["by_label"],
        **report["forbidden"]["by_category"],
        **report["rubric"]["by_item"],
    }
    for name, scores in parts.items():
        if name != "compliant":
            yield name, (scores["precision"], scores["recall"], scores["f1"])


@pytest.mark.skipif(not all(path.exists() for path in FILES), reason="no development labels beside us")
def test_the_figures_are_those_of_the_rules() -> None:
    report = json.loads(run_command("validity", *FILES, "--json", cwd=ROOT).stdout)
    found, told = dict(measured(report)), figures()
    assert told.keys() == found.keys()
    for name, values in found.items():
        assert told[name] == pytest.approx(values, abs=MOST_APART), name
    accuracy = re.search(r"together: accuracy ([\d.]+)", PAGE.read_text("utf-8"))
    assert accuracy is not None
    assert float(accuracy[1]) == pytest.approx(report["rubric"]["accuracy"], abs=MOST_APART)


def test_the_fields_of_a_labelled_reply_are_told() -> None:
    table = REFERENCE.read_text("utf-8").partition("| field | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(LabelledReply.__struct_fields__)


def test_the_keys_of_the_report_are_told() -> None:
    text = REFERENCE.read_text("utf-8").partition("| key | holds |")[2]
    table, _, after = text.partition("\n\n")
    keys = [
        name
        for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    ]
    assert set(keys) == set(ValidityReport.__struct_fields__)
    last = table.rstrip().splitlines()[-1]
    assert set(re.findall(r"`(\w+)`", last)) - {"disagreements"} == set(Disagreement.__struct_fields__)
    binary = set(BinaryScores.__struct_fields__) - {"tp", "fp", "fn", "tn"}
    for name in (*binary, *LabelSpan.__struct_fields__):
        assert f"`{name}`" in after.partition("\n## ")[0], name


def test_the_page_says_that_the_authors_have_read_the_labels() -> None:
    assert "authors of the rules have read these replies" in PAGE.read_text("utf-8")
