"""Every turn of phrase against its own examples and counter-examples, and the loading of their table."""

import pytest

from memfin.errors import UsageError
from memfin.scoring.constraints.vocabulary import load_vocabulary
from memfin.scoring.contradiction import ConstraintChecker
from memfin.scoring.lexicons import scan_plan
from memfin.scoring.offers import turns
from memfin.scoring.offers.turns import TABLE, Turn, Turns, TurnTable, load_turns, patterns
from memfin.scoring.patterns.files import lexicon_hashes
from memfin.scoring.text.language import analyze

TABLED = load_turns().turn
CASES = [
    pytest.param(turn, text, speaks, id=f"{turn.id}-{text}")
    for turn in TABLED
    for speaks, texts in ((True, turn.examples), (False, turn.counter_examples))
    for text in texts
]


def unlisted(_start: int, _end: int) -> bool:
    return False


@pytest.mark.parametrize(("turn", "text", "speaks"), CASES)
def test_turn_keeps_what_its_examples_promise(turn: Turn, text: str, speaks: bool) -> None:
    found = list(Turns([turn]).advised(analyze(text), unlisted))
    assert bool(found) is speaks


@pytest.mark.parametrize("turn", TABLED, ids=lambda turn: turn.id)
def test_every_turn_has_examples_of_both_kinds_and_falls_under_a_term(turn: Turn) -> None:
    assert len(turn.examples) >= 2
    assert len(turn.counter_examples) >= 2
    assert turn.id.startswith(f"{turn.term}.")
    assert load_vocabulary().term(turn.term) is not None


def test_names_are_unique_and_no_word_is_unused() -> None:
    assert len(patterns()) == len(TABLED)
    table = load_turns()
    used = "\n".join(each for turn in table.turn for each in turn.patterns)
    used += "\n".join(each for words in table.words.values() for each in words)
    assert [word for word in table.words if f"<{word}>" not in used] == []


def test_the_rule_of_a_turn_is_that_of_its_term() -> None:
    (found,) = ConstraintChecker(["不买个股"]).check("这三家龙头公司各买一点。")
    assert found.rule == "advises_individual_stocks"


def test_a_guard_that_nobody_knows_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Turn("leverage.odd", "leverage", ["借"], [], [], guards=["nowhere"])
    monkeypatch.setattr(turns, "read_table", lambda *_: TurnTable({}, [odd]))
    load_turns.cache_clear()
    try:
        with pytest.raises(UsageError, match=r"turns\.toml: unknown guard nowhere; known: denied, no_share"):
            load_turns()
    finally:
        load_turns.cache_clear()


def test_the_signs_that_ship_are_used_where_they_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = scan_plan.planned_signs(TABLE, patterns())
    assert shipped.keys() == patterns().keys()
    assert all(shipped.values())
    made = []

    def worked_out(given: dict[str, str]) -> scan_plan.Signs:
        made.append(given)
        return {}

    monkeypatch.setattr(scan_plan, "work_out_signs", worked_out)
    assert scan_plan.planned_signs(TABLE, patterns()) == shipped
    assert made == []
    monkeypatch.setattr(scan_plan, "lexicon_hashes", lambda: {**lexicon_hashes(), f"{TABLE}.toml": "other"})
    assert scan_plan.planned_signs(TABLE, patterns()) == {}
    assert made == [patterns()]
