"""The light hint behind a result: to whom, in which words, and at most once in 24 hours."""

from datetime import timedelta
from typing import Any

from memfin.memory.slices import Material, assemble, plan_reads
from memfin.memory.suggestions import PAUSE, TEXTS, hint_for, hint_text
from tests.memory.stored_contexts import ALL, NOW, PROFILE
from tests.support import each_case

SECOND = timedelta(seconds=1)


@each_case(
    ("state", "preferred", "hint"),
    [
        ("active", False, "set_preferences"),
        ("active", True, None),
        ("revoked", False, "renew_consent"),
        ("revoked", True, "renew_consent"),
        ("brand_new", False, None),
        ("incomplete", False, None),
    ],
)
def test_hints_are_for_those_they_help(state: Any, preferred: bool, hint: str | None) -> None:
    assert hint_for(state, None, NOW, preferred=preferred) == hint


@each_case("state", ["active", "revoked"])
@each_case(
    ("later", "due"),
    [
        (timedelta(0), False),
        (timedelta(hours=24) - SECOND, False),
        (timedelta(hours=24), True),
        (timedelta(hours=24) + SECOND, True),
        (-SECOND, False),
    ],
    ids=["at once", "a second early", "on time", "a second late", "clock set back"],
)
def test_no_hint_comes_again_within_24_hours(state: Any, later: timedelta, due: bool) -> None:
    assert (hint_for(state, NOW, NOW + later, preferred=False) is not None) == due
    assert timedelta(hours=24) == PAUSE


def test_hints_speak_the_language_of_the_result() -> None:
    chinese = assemble(plan_reads("snapshot", ALL), Material(profile=PROFILE))
    nobody = assemble(plan_reads("snapshot", None), Material())
    for hint, texts in TEXTS.items():
        assert hint_text(hint, chinese) == texts["zh"]
        assert hint_text(hint, nobody) == texts["en"]
