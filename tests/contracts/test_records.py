"""Records stand for the seed's typed dictionaries: item access, ``get``, ``keys``, ``replace``."""

import inspect
from typing import get_args

import msgspec
import pytest

import memfin.contracts
from memfin.contracts import (
    ANY_RISK_TAG,
    Dialog,
    DialogTrace,
    Difficulty,
    ProfileTruth,
    Record,
    SourceHits,
    met_risk_tags,
)
from memfin.contracts.reading import InvalidRecord, canonical_difficulty, convert, decode
from tests.support import each_case

TRACE = DialogTrace(
    trace_version="v1", run_id="r", dialog_id="d", dataset_index=1, dialog_status="ok", valid_dialog=True
)
STRUCTS = [
    value
    for _, value in inspect.getmembers(memfin.contracts, inspect.isclass)
    if issubclass(value, Record) and value is not Record
]


def test_get_answers_as_that_of_a_dictionary() -> None:
    hits = SourceHits(profile=2)
    assert hits.get("profile") == hits["profile"] == 2
    assert hits.get("profile", 7) == 2
    assert hits.get("nothing") is None
    assert hits.get("nothing", 7) == 7


def test_get_knows_only_fields() -> None:
    for name in ("keys", "get", "replace", "__class__", "__struct_fields__"):
        assert SourceHits().get(name, "absent") == "absent"


def test_get_gives_the_default_for_a_field_that_was_left_out() -> None:
    truth = ProfileTruth(risk_level_gt="稳健")
    assert TRACE.get("profile_gt") is None
    assert TRACE.get("history_mode", "free") == "free"
    assert TRACE.get("skip_reason", "x") is None
    assert TRACE.replace(profile_gt=truth).get("profile_gt") is truth


@each_case("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_no_field_hides_a_method(struct: type[Record]) -> None:
    methods = {name for name in vars(Record) if callable(getattr(Record, name))}
    assert {"get", "keys", "replace"} <= methods
    assert methods.isdisjoint(struct.__struct_fields__)
    for name in ("get", "keys", "replace"):
        assert getattr(struct, name) is getattr(Record, name)


@pytest.mark.parametrize(
    ("required", "predicted", "met"),
    [
        (["a", "b", "a"], ["a"], ["a"]),
        (["b", ANY_RISK_TAG], {"c"}, [ANY_RISK_TAG]),
        (["b", ANY_RISK_TAG], (), []),
        ([], ["a"], []),
    ],
)
def test_any_risk_tag_meets_the_general_one(
    required: list[str], predicted: list[str], met: list[str]
) -> None:
    assert met_risk_tags(required, predicted) == met


@each_case(
    ("given", "meant"),
    [("easy", "easy"), ("medium", "medium"), ("med", "medium"), ("hard", "hard")]
    + [(other, None) for other in ("extreme", "", None, 3, ["easy"])],
)
def test_difficulties(given: object, meant: str | None) -> None:
    assert canonical_difficulty(given) == meant


def test_every_difficulty_of_the_contract_is_known() -> None:
    assert [canonical_difficulty(name) for name in get_args(Difficulty)] == list(get_args(Difficulty))


def test_the_difficulty_of_a_trace_is_one_of_three_and_med_is_read() -> None:
    plain = msgspec.to_builtins(TRACE)
    old = msgspec.json.encode({**plain, "difficulty": "med", "turns": "x"})
    with pytest.raises(InvalidRecord, match=r"^\$\.turns: "):
        decode(old, DialogTrace)
    assert decode(msgspec.json.encode({**plain, "difficulty": "med"}), DialogTrace).difficulty == "medium"
    with pytest.raises(InvalidRecord, match=r"^\$\.difficulty: .*extreme"):
        decode(msgspec.json.encode({**plain, "difficulty": "extreme"}), DialogTrace)
    with pytest.raises(InvalidRecord, match=r"^\$\.difficulty: "):
        convert({"dialog_id": "d", "profile_gt": {}, "turns": [], "difficulty": "med"}, Dialog)
