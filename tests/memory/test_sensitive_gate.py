from random import Random

import msgspec
import pytest

from memfin.contracts.memory import ContextFields, Feedback, UserContext
from memfin.memory.errors import InvalidInput, SensitiveInput
from memfin.memory.sensitive import Finding, find_sensitive, findings_within, refuse_sensitive
from tests.memory import sensitive_values as values
from tests.support import each_case

MOBILE = "13912345678"


def test_a_finding_holds_no_text() -> None:
    found = find_sensitive(f"请打{MOBILE}")
    assert found == (Finding(kind="phone", rule="cn_mobile", start=2, end=13),)
    assert MOBILE not in repr(found)
    assert MOBILE not in msgspec.json.encode(found).decode()


def test_the_refusal_names_kind_and_field_and_never_the_value() -> None:
    said = ContextFields(user_focus_reason="想换工作", constraints=["不加杠杆", f"发到{MOBILE}或a@qq.com"])
    with pytest.raises(SensitiveInput) as refused:
        refuse_sensitive(said, "user_supplied_context")
    assert str(refused.value) == (
        "user_supplied_context.constraints[1]: holds sensitive data (phone, email), which is never saved;"
        " leave it out"
    )
    assert refused.value.details == {
        "field": "user_supplied_context.constraints[1]",
        "kinds": ["phone", "email"],
    }
    assert MOBILE not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_text_without_anything_sensitive_passes() -> None:
    refuse_sensitive("我想每月定投2000元到510300")
    refuse_sensitive(
        {"asset": "SOL", "horizon": "2年以上", "weights": [0.6, 3.2546727685726395], "n": None, "ok": True}
    )
    refuse_sensitive(msgspec.UNSET)
    assert find_sensitive("") == ()
    assert find_sensitive("\u200b") == ()


@each_case(
    ("value", "field"),
    [
        (MOBILE, "text"),
        ({"a": {"b": ["x", MOBILE]}}, "text.a.b[1]"),
        ({"phone": int(MOBILE)}, "text.phone"),
        ({"phone": float(MOBILE)}, "text.phone"),
        ({MOBILE: "x"}, "text.*"),
        ({f"号{MOBILE}": 1}, "text.*"),
        ({"not a name!": MOBILE}, "text.*"),
        (MOBILE.encode(), "text"),
        ((MOBILE,), "text[0]"),
        ({MOBILE}, "text[0]"),
        (["139", "1234", "5678"], "text"),
    ],
    ids=[
        "text",
        "nested",
        "int",
        "float",
        "name",
        "part_of_name",
        "odd_name",
        "bytes",
        "tuple",
        "set",
        "spread",
    ],
)
def test_sensitive_input_is_found_wherever_it_stands(value: object, field: str) -> None:
    with pytest.raises(SensitiveInput) as refused:
        refuse_sensitive(value)
    assert refused.value.details["field"] == field
    assert MOBILE not in str(refused.value)


def test_every_text_of_a_record_is_searched() -> None:
    feedback = msgspec.convert(
        {
            "feedback_id": "fb_1",
            "related_object_ref": "snapshot:snap_1",
            "cognition_object": {"asset": "SOL", "owner": "li@qq.com"},
            "rating": "thumbs_up",
            "created_at": "2026-01-01T00:00:00Z",
            "comment": f"卡{values.card(Random(1))}",
        },
        Feedback,
    )
    assert [(each.field, each.kind) for each in findings_within(feedback)] == [
        ("cognition_object.owner", "email"),
        ("comment", "bank_card"),
    ]


def test_ids_and_times_of_records_are_not_taken_for_identifiers() -> None:
    context = msgspec.convert(
        {
            "context_id": "ctx_20261122T050752Z_a1b2c3",
            "user_id": "u_1",
            "scope": "task",
            "created_at": "2026-11-22T05:07:52.123456Z",
            "updated_at": "2026-11-22T05:07:52.123456Z",
        },
        UserContext,
    )
    assert list(findings_within(context)) == []


def test_the_answer_depends_on_the_text_alone() -> None:
    # No parameter could carry a user, a profile or a setting (memory design §7.2).
    assert find_sensitive.__code__.co_varnames[: find_sensitive.__code__.co_argcount] == ("text",)


def test_the_widest_of_nested_findings_is_kept() -> None:
    found = find_sensitive(f"{MOBILE}@139.com")
    assert [each.kind for each in found] == ["email"]


def test_data_nested_without_end_is_refused() -> None:
    value: object = MOBILE
    for _ in range(5000):
        value = [value]
    with pytest.raises(InvalidInput, match="nested more than 64 deep"):
        refuse_sensitive(value)
