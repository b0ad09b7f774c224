"""The plan of the scan that ships: it is of the lexicons at hand, and nothing depends on its being there."""

from pathlib import Path

import pytest

import memfin
from memfin.scoring.content import LEXICONS
from memfin.scoring.lexicons import scan_plan
from memfin.scoring.lexicons.lexicon import load_lexicon
from memfin.scoring.lexicons.scan_plan import planned, written
from memfin.scoring.lexicons.scanner import Scanner
from memfin.scoring.offers.turns import TABLE, patterns
from memfin.scoring.patterns.files import lexicon_hashes
from memfin.scoring.text.language import analyze

KEPT = Path(memfin.__file__).parent / "data" / "scan_plan.json"
REPLY = "本产品保本保息，市场有风险，净值会波动。第一步：留足六个月应急金。"


def fired(scanner: Scanner) -> list[str]:
    return [match.rule.id for match in scanner.scan(analyze(REPLY))]


def test_the_plan_that_ships_is_current() -> None:
    assert KEPT.read_text("utf-8") == written(LEXICONS, {TABLE: patterns()}), "run make generated"


def test_the_plan_that_ships_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def worked_out(name: str) -> scan_plan.LexiconPlan:
        pytest.fail(f"the plan of {name} was made anew")

    monkeypatch.setattr(scan_plan, "work_out", worked_out)
    assert planned(LEXICONS).keys() == set(LEXICONS)


@pytest.mark.parametrize("file", ["compliance.toml", "words.toml"])
def test_a_lexicon_that_was_changed_since_is_planned_anew(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def worked_out(name: str) -> scan_plan.LexiconPlan:
        made.append(name)
        return {}

    monkeypatch.setattr(scan_plan, "work_out", worked_out)
    monkeypatch.setattr(scan_plan, "lexicon_hashes", lambda: {**lexicon_hashes(), file: "other"})
    plans = planned(LEXICONS)
    assert made == (["compliance"] if file == "compliance.toml" else list(LEXICONS))
    assert [name for name, plan in plans.items() if not plan] == made


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"made_of": 1}', b"\xff"])
def test_without_the_plan_the_scan_finds_the_same(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_plan = fired(Scanner(["rubric"]))
    path = tmp_path / "scan_plan.json"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(scan_plan, "_PLAN", path)
    assert fired(Scanner(["rubric"])) == with_plan != []


def test_every_rule_is_planned() -> None:
    for name, plan in planned(LEXICONS).items():
        assert list(plan) == [entry.id for entry in load_lexicon(name).rule]
        assert all(
            alternatives and all(each.literals for each in alternatives) for alternatives in plan.values()
        )
