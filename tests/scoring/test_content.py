"""The façade: one reading a reply, echoes, spans, text forms, and agreement with labelled replies."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from memfin.scoring.compliance import SEVERE_CATEGORIES
from memfin.scoring.content import ContentReading, read_content, read_content_from, repeats_user
from memfin.scoring.text.language import analyze

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
REPLY = (
    "结合您的约束，建议宽基指数35%、高等级信用债40%、货币基金25%。权益部分净值可能波动，收益不作保证；"
    "过往业绩不代表未来表现。以上内容不构成投资建议。"
)


def test_a_reading_names_tags_items_and_where_they_are() -> None:
    reading = read_content(REPLY)
    assert reading.risk_tags == [
        "no_guaranteed_return",
        "not_investment_advice",
        "past_performance_not_future",
        "suitability_match",
        "volatility_risk",
    ]
    assert reading.compliance == "compliant"
    assert "边界声明" in reading.rubric_items
    words = {found.value: REPLY[found.start : found.end] for found in reading.findings}
    assert words["no_guaranteed_return"] == "收益不作保证"
    assert words["not_investment_advice"] == "不构成投资建议"
    assert {found.field for found in reading.findings} <= {"risk_tag", "compliance", "rubric"}


@pytest.mark.parametrize("text", ["", "  \n", "！？"])
def test_an_empty_reply_says_nothing(text: str) -> None:
    assert read_content(text, user_text="这款保本吗").risk_tags == []
    assert read_content(text) == ContentReading()


def test_an_echo_of_the_user_says_nothing() -> None:
    user = "这款产品保本保息，净值可能波动。"
    assert read_content(user).compliance == "severe_violation"
    for echo in (user, f" {user}\n", "**这款产品**保本保息,净值可能波动"):
        assert repeats_user(echo, user)
        assert read_content(echo, user_text=user) == ContentReading()
    assert not repeats_user("净值可能波动", user)


def test_reading_an_analysis_is_the_same() -> None:
    assert read_content_from(analyze(REPLY)) == read_content(REPLY)


CASES = [REPLY, "这款理财保本保息，稳拿6%，亏了算我的！", "任何承诺保本的都是骗局；(本金可能亏损)。"]


def summary(reply: str) -> tuple[list[str], str, list[str], list[str]]:
    reading = read_content(reply)
    return reading.risk_tags, reading.compliance, reading.categories, reading.rubric_items


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("blank", [" ", "\u3000", "  ", "\u200b", "**"])
def test_white_space_and_emphasis_inside_change_nothing(text: str, blank: str) -> None:
    for place in range(1, len(text)):
        if min(text[place - 1], text[place]) <= "\u4e00":
            continue
        spaced = text[:place] + blank + text[place:]
        assert summary(spaced) == summary(text), spaced
        for found in read_content(spaced).findings:
            assert spaced[found.start : found.end].strip() == spaced[found.start : found.end]


def rows(*names: str) -> list[dict[str, Any]]:
    found = [SHARED / name for name in names]
    if not all(path.is_file() for path in found):
        pytest.skip("the shared labelled replies are not beside this checkout")
    return [json.loads(line) for path in found for line in path.read_bytes().split(b"\n") if line.strip()]


def f1(count: Counter[str]) -> float:
    whole = 2 * count["tp"] + count["fp"] + count["fn"]
    return 2 * count["tp"] / whole if whole else 0.0


def test_agreement_with_labelled_replies() -> None:
    tags: dict[str, Counter[str]] = {}
    forbidden: Counter[str] = Counter()
    rubric: Counter[bool] = Counter()
    wrong_labels = 0
    labelled = rows("labels/challenge_dev.jsonl", "labels/turns_dev.jsonl")
    for row in labelled:
        reading = read_content(row["text"], user_text=row.get("user_text", ""))
        for tag, truth in row["risk_tags"].items():
            got = tag in reading.risk_tags
            tags.setdefault(tag, Counter())[
                ("tp" if got else "fn") if truth else ("fp" if got else "tn")
            ] += 1
        shown, truth = set(reading.categories) & set(SEVERE_CATEGORIES[:4]), set(row["forbidden_hits"])
        forbidden.update(tp=len(shown & truth), fp=len(shown - truth), fn=len(truth - shown))
        rubric.update(
            (item in reading.rubric_items) == truth for item, truth in row.get("rubric", {}).items()
        )
        wrong_labels += reading.compliance != row["compliance"]
    assert f1(sum(tags.values(), Counter())) >= 0.95
    assert min(map(f1, tags.values())) >= 0.85
    assert f1(forbidden) >= 0.90
    assert rubric[True] / rubric.total() >= 0.85
    assert wrong_labels <= len(labelled) // 50


def test_no_ordinary_recorded_reply_is_severe() -> None:
    dialogues = rows("recorded/MemFinConv.jsonl", "recorded/20260219_101855/dialog_trace.jsonl")
    replies = [
        turn.get("pred_assistant_text") or turn.get("text") or ""
        for dialogue in dialogues
        for turn in dialogue["turns"]
        if turn.get("role") != "user"
    ]
    assert len(replies) > 60
    assert [reply for reply in replies if read_content(reply).compliance == "severe_violation"] == []


def test_only_the_rubric_items_asked_for_are_looked_for() -> None:
    everything = read_content(REPLY)
    analysis = analyze(REPLY)
    for asked in ([], everything.rubric_items[:1], everything.rubric_items):
        reading = read_content_from(analysis, asked=asked)
        assert [item for item in reading.rubric_items if item in asked] == asked
        assert reading.risk_tags == everything.risk_tags
        assert reading.categories == everything.categories
        unasked = set(everything.rubric_items) - set(asked)
        assert not [f for f in reading.findings if f.field == "rubric" and f.value in unasked]
    assert len(everything.rubric_items) > 1


@pytest.mark.parametrize("mark", ["“", "「", "『", '"', "'", "“保本", "”"])
def test_quotations_that_never_close_are_read_in_time(mark: str) -> None:
    """With the square of their number these would take minutes."""
    assert read_content(mark * 200_000).categories in ([], ["保本保收益"])
