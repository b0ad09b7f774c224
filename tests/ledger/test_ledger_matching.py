"""Values in free text: every form of a value in every frame, in Chinese and English."""

from itertools import product
from pathlib import Path

import pytest

from memfin.contracts import AnswerKind
from memfin.ledger.matching import abstains, gives, mentions
from tests.support import read_jsonl

FORMS: dict[AnswerKind, list[tuple[str, ...]]] = {
    "percent": [
        ("20%", "百分之二十", "两成", "20 percent", "twenty percent"),
        ("35%", "三成五", "35 percent"),
    ],
    "amount": [("30万元", "300,000元", "300000元", "三十万元"), ("$300k", "$300,000", "300,000 dollars")],
    "duration": [("3年", "三年", "36个月", "three years", "36 months"), ("18个月", "18 months", "一年半")],
    "date": [("2026-03-05", "2026年3月5日", "March 5, 2026")],
    "name": [("星辰稳健基金", "「星辰稳健基金」"), ("Maple Fund", "maple fund")],
}
OTHER = {"percent": "47%", "amount": "71万元", "duration": "9年", "date": "2031-11-09", "name": "海棠"}
GIVING = ["{}", "您的情况是{}。", "您之前告诉过我是{}。", "不是{other}，而是{}。", "We go by {}.",
          "之前是{other}，现在是{}。", "It is not {other}, it is {}."]  # fmt: skip
NOT_GIVING = ["不是{}，是{other}。", "之前是{}，现在是{other}。", "{}已取消。", "It is not {}.",
              "It used to be {}.", "{}已改为{other}。", "Previously {}, now it is {other}."]  # fmt: skip
CASES = [
    (kind, value, form)
    for kind, groups in FORMS.items()
    for group in groups
    for value, form in product(group, group)
]


@pytest.mark.parametrize("kind", FORMS)
def test_forms_in_frames(kind: AnswerKind) -> None:
    for of, value, form in CASES:
        for frame in GIVING if of == kind else ():
            text = frame.format(form, other=OTHER[kind])
            assert gives(text, value, kind), (text, value)
        for frame in NOT_GIVING if of == kind else ():
            text = frame.format(form, other=OTHER[kind])
            assert not gives(text, value, kind), (text, value)
            assert mentions(text, value, kind), (text, value)


@pytest.mark.parametrize(
    ("text", "value", "kind", "given"),
    [
        ("从20%改为10%", "10%", "percent", True),
        ("从20%改为10%", "20%", "percent", False),
        ("lowered from 20% to 10%", "20%", "percent", False),
        ("不能超过20%", "20%", "percent", True),
        ("you cannot lose more than 20%", "20%", "percent", True),
        ("it must not fall by more than 20%", "20%", "percent", True),
        ("we do not go by 20%", "20%", "percent", False),
        ("120%", "20%", "percent", False),
        ("有三个孩子", "3", "number", True),
        ("你有4个孩子", "3", "number", False),
        ("your annual review", "Ann", "name", False),
        ("是的", "yes", "yes_no", True),
        ("没有", "yes", "yes_no", False),
        ("Sorry, I cannot answer that.", "yes", "yes_no", False),
        ("您说过不要邮币卡，含有它的组合不适合。", "邮币卡", "name", True),
        ("要看的是有没有邮币卡。", "邮币卡", "name", True),
        ("这里没有邮币卡。", "邮币卡", "name", False),
        ("您打算2029年6月买房，钱要提前变成现金。", "2029年6月", "date", True),
    ],
)
def test_single_cases(text: str, value: str, kind: AnswerKind, given: bool) -> None:
    assert gives(text, value, kind) is given


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("您没有告诉过我。", True),
        ("I don't have that on record.", True),
        ("已按您的要求删除。", True),
        ("You haven't told me your limit.", True),
        ("您的上限是20%。", False),
        ("I'd keep equity below 20%, as you asked.", False),
    ],
)
def test_abstention(text: str, found: bool) -> None:
    assert abstains(text, "我的上限是多少？") is found


@pytest.mark.parametrize(("half", "exact"), [("read", 0.95), ("held", 0.82)])
def test_exactness_on_labelled_replies(half: str, exact: float) -> None:
    rows = [
        row for row in read_jsonl(Path(__file__).with_name("matching_labels.jsonl")) if row["half"] == half
    ]
    right = 0
    for row in rows:
        found = gives(row["reply"], row["value"], row["kind"], (), row["question"])
        abstained = abstains(row["reply"], row["question"])
        right += (found, abstained) == (row["label"] == "gives", row["label"] == "abstains")
    assert len(rows) >= 100
    assert right / len(rows) >= exact
