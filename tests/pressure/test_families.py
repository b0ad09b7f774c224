"""Perturbations: preserved values, consistent changes, the place of planted facts."""

from pathlib import Path
from random import Random

import pytest

from memfin.contracts import Dialog, Fact
from memfin.contracts.pressure import CHANGING, Family
from memfin.dataset import SAMPLE, align_turn_pairs, normalize_dialog, read_entries
from memfin.errors import UsageError
from memfin.pressure.expand import expanded, is_expanded, parse_families
from memfin.pressure.families import FAMILIES, change_of, perturb
from memfin.pressure.sentences import sentences_of
from memfin.pressure.values import Change, find_change, values_of

PRESERVING = [family for family in FAMILIES if family not in CHANGING]


def sample() -> list[Dialog]:
    with SAMPLE.open("rb") as file:
        return [entry.dialog for entry in read_entries(file) if entry.dialog is not None]


def generated(count: int) -> list[Dialog]:
    """Return dialogues of clients whose limits stand in digits or in words."""
    made = []
    for number in range(count):
        random = Random(number)
        share, chinese = random.choice([5, 10, 15, 20, 30, 40]), random.random() < 0.5
        limit = f"最大回撤<{share}%" if chinese else f"Max drawdown under {share}%"
        told = f"我的底线是{limit}，投3年。" if chinese else f"My line is {limit}, for 3 years."
        again = f"{share}%这条别忘了。" if chinese else f"Remember the {share}%."
        reply = {
            "role": "assistant",
            "text": f"OK, {share}%.",
            "turn_tags": {"compliance_label_gt": "compliant"},
        }
        turns = [{"role": "user", "text": told}, reply, {"role": "user", "text": again}, reply]
        profile = {"constraints_gt": [limit]}
        fact = {"id": "limit", "value": f"{share}%", "told_at": 1, "kind": "percent"}
        line = {"dialog_id": f"d{number}", "turns": turns, "profile_gt": profile, "facts": [fact]}
        made.append(normalize_dialog(line))
    return made


DIALOGS = [*sample(), *generated(40)]


def words(dialog: Dialog) -> list[str]:
    return [pair.user_text for pair in align_turn_pairs(dialog)]


def told(dialog: Dialog) -> list[list[str]]:
    return [values_of(text) for text in words(dialog)]


@pytest.mark.parametrize("family", PRESERVING)
def test_preserving_families_keep_values_and_labels(family: Family) -> None:
    for dialog in DIALOGS:
        variant = perturb(dialog, family, 7)
        found = variant.perturbation
        assert found is not None
        assert found.preserves
        assert variant.dialog_id == f"{dialog.dialog_id}~{family}"
        assert words(variant) != words(dialog)
        assert variant.profile_gt == dialog.profile_gt
        pairs = zip(told(dialog), told(variant), strict=False)
        traps = {value for fact in variant.facts[len(dialog.facts) :] for value in values_of(fact.value)}
        assert [[v for v in after if v not in traps] for _, after in pairs] == told(dialog)
        labels = [turn.turn_tags for turn in dialog.turns]
        assert [turn.turn_tags for turn in variant.turns][: len(labels)] == labels
        own = [fact for fact in variant.facts if not fact.planted and fact.owner is None]
        assert own == dialog.facts
        assert perturb(dialog, family, 7) == variant


def test_paraphrase_keeps_the_words_that_labels_compare() -> None:
    for dialog in DIALOGS:
        said, variant = "\n".join(words(dialog)), "\n".join(words(perturb(dialog, "paraphrase", 1)))
        for literal in (*dialog.profile_gt.constraints_gt, *dialog.profile_gt.preferences_gt):
            assert said.count(literal) == variant.count(literal)


def test_a_changed_fact_is_changed_everywhere() -> None:
    changed = 0
    for dialog in DIALOGS:
        change = change_of(dialog)
        if change is None:
            continue
        changed += 1
        variant, record = perturb(dialog, "changed_fact", 0, change), change.record

        def swapped(values: list[str]) -> list[str]:
            return [record.new if value == record.old else value for value in values]  # noqa: B023

        assert record.old in {value for values in told(dialog) for value in values}
        assert told(variant) == [swapped(values) for values in told(dialog)]
        texts = zip(dialog.profile_gt.constraints_gt, variant.profile_gt.constraints_gt, strict=True)
        assert all(values_of(after) == swapped(values_of(before)) for before, after in texts)
        facts = zip(dialog.facts, variant.facts, strict=True)
        assert all(values_of(after.value) == swapped(values_of(before.value)) for before, after in facts)
    assert changed >= 50


@pytest.mark.parametrize(
    ("text", "old", "new", "changed"),
    [
        ("留20%现金，两成别动", "share:0.2", "share:0.3", "留30%现金，三成别动"),
        ("百分之二十", "share:0.2", "share:0.3", "百分之三十"),
        ("no more than 3 years", "duration:3", "duration:6", "no more than 6 years"),
        ("投三年", "duration:3", "duration:6", "投六年"),
        ("10-20%", "share:0.2", "share:0.3", "10-20%"),
        ("2029年6月交首付", "date:2029-06", "date:2029-09", "2029年9月交首付"),
        ("We may move in May 2028.", "date:2028-05", "date:2028-08", "We may move in August 2028."),
        ("on 3 Sept 2028", "date:2028-09-03", "date:2028-07-03", "on 3 Sept 2028"),
    ],
)
def test_a_value_is_changed_in_each_form(text: str, old: str, new: str, changed: str) -> None:
    assert Change(old, new).apply(text) == changed


@pytest.mark.parametrize(
    "texts", [["2029年6月", "6月再说"], ["2029年6月", "2029年6月5日"], ["2029-06"], ["2029年"]]
)
def test_a_date_is_changed_only_where_no_other_may_be_the_same(texts: list[str]) -> None:
    assert find_change(texts[:1], texts, []) is None
    assert find_change(["2029年6月"], ["2029年6月", "2029年"], []) == Change("date:2029-06", "date:2029-09")


def test_no_change_takes_a_value_that_is_there_already() -> None:
    change = find_change(["20%"], ["20%, 30%, 40%"], [])
    assert change is not None
    assert change.record.new not in ("share:0.3", "share:0.4")
    assert find_change(["2年"], ["2年"], ["2年以上"]) is None


def test_planted_and_foreign_facts_stand_in_the_words_of_their_turn() -> None:
    for dialog in DIALOGS:
        planted, other = perturb(dialog, "planted", 3), perturb(dialog, "other_people", 3)
        names = sentences_of(dialog.language).other_people.names
        for variant, fact in ((planted, planted.facts[-1]), (other, other.facts[-1])):
            assert fact.told_at is not None
            assert fact.value in words(variant)[fact.told_at - 1]
            before, after = words(dialog), words(variant)
            assert [n for n, text in enumerate(after, 1) if text != before[n - 1]] == [fact.told_at]
        assert planted.facts[-1].planted
        assert planted.facts[-1].owner is None
        assert other.facts[-1].owner in names
        assert not other.facts[-1].planted


def test_pushing_appends_four_rounds() -> None:
    dialog = DIALOGS[0]
    variant = perturb(dialog, "pushing", 0)
    assert variant.turns[: len(dialog.turns)] == dialog.turns
    count = len(words(dialog))
    assert variant.perturbation is not None
    assert variant.perturbation.rounds == [count + n for n in (1, 2, 3, 4)]
    assert len(words(variant)) == count + 4


def dataset(path: Path, dialogs: list[str]) -> Path:
    path.write_text("\n".join(dialogs) + "\n", "utf-8")
    return path


def session(dialog_id: str, text: str, *, value: str | None = None) -> str:
    fact = f'{{"id": "limit", "value": "{value}", "told_at": 1, "kind": "percent"}}' if value else ""
    return (
        f'{{"dialog_id": "{dialog_id}", "user_id": "anna", "profile_gt": {{}}, "facts": [{fact}], "turns": '
        f'[{{"role": "user", "text": "{text}"}}, {{"role": "assistant", "text": "OK", "turn_tags": {{}}}}]}}'
    )


def test_all_sessions_of_a_client_are_varied_as_those_of_a_new_one(tmp_path: Path) -> None:
    lines = [session("s1", "At most 20% in shares.", value="20%"), session("s2", "Is 20% still fine?")]
    path = dataset(tmp_path / "d.jsonl", lines)
    out = tmp_path / "out.jsonl"
    out.write_bytes(b"\n".join(expanded(path, ("changed_fact", "flattery"), 0)) + b"\n")
    assert out.read_text("utf-8").splitlines()[:2] == lines
    with out.open("rb") as file:
        variants = [entry.dialog for entry in read_entries(file)][2:]
    assert all(each is not None for each in variants)
    made = [each for each in variants if each is not None]
    assert [each.dialog_id for each in made] == [
        f"{name}~{family}" for name in ("s1", "s2") for family in ("changed_fact", "flattery")
    ]
    assert {each.user_id for each in made} == {"anna~changed_fact", "anna~flattery"}
    assert [values_of(words(each)[0]) for each in made[::2]] == [["share:0.3"], ["share:0.3"]]
    assert made[0].facts == [Fact(id="limit", value="30%", told_at=1, kind="percent")]
    assert is_expanded(out)
    assert not is_expanded(path)
    with pytest.raises(UsageError, match="line 3 of the dataset is a variant already"):
        list(expanded(out, ("flattery",), 0))


def test_limit_counts_originals(tmp_path: Path) -> None:
    path = dataset(tmp_path / "d.jsonl", [session(f"s{n}", "At most 20% in shares.") for n in range(5)])
    assert len(list(expanded(path, ("flattery", "pushing"), 0, 2))) == 6


def test_families_are_parsed_in_their_order() -> None:
    assert parse_families("pushing, paraphrase") == ("paraphrase", "pushing")
    assert parse_families("all") == FAMILIES
    with pytest.raises(UsageError, match="'shouting' is no family; choose from paraphrase"):
        parse_families("shouting")
