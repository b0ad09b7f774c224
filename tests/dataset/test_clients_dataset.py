"""The promises of the shipped clients: facts, probes and replies agree, by logic of this file's own."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from memfin.contracts.ledger import AnswerKind, Fact, Probe
from memfin.dataset import CLIENTS, named_dataset, normalize_dialog
from memfin.rag.extraction.answers import recognize_abstention
from memfin.scoring.keys import resolve_memory_required_key
from tests.support import each_case

ROOT = Path(__file__).parents[2]
CHINESE = re.compile(r"[一-鿿]")
LEVELS = ("risk_level", "liquidity_need")
"""Facts of one short word, which means something else in other sentences."""

Row = dict[str, Any]

ROWS: list[Row] = [json.loads(line) for line in CLIENTS.read_text("utf-8").splitlines()]
USERS: dict[str, list[Row]] = {}
for each_row in ROWS:
    USERS.setdefault(each_row["user_id"], []).append(each_row)
each_user = each_case("user", USERS)
each_session = each_case("row", ROWS)


class Moment(NamedTuple):
    """A turn pair with the facts that were told up to it; ``now`` is the day."""

    row: Row
    turn: int
    now: str
    user: str
    reply: str
    tags: Row
    told: dict[str, tuple[Fact, int]]

    def holds(self, fact: Fact) -> bool:
        """Return True if the fact is neither replaced, nor withdrawn, nor past its last day."""
        replaced = any(other.replaces == fact.id for other, _ in self.told.values())
        return not (replaced or fact.planted or (fact.until is not None and fact.until < self.now))


def says(text: str, value: str) -> bool:
    """Return True if the value occurs as a whole: 6% is not in 16%, nor "no" in "not"."""
    if value.casefold() not in text.casefold():
        return False
    edge = r"(?<![\d.,A-Za-z])" if value[0].isascii() else r"(?<!\d)"
    end = r"(?![A-Za-z])" if value[-1].isalpha() and value[-1].isascii() else r"(?!\d|\.\d)"
    return re.search(edge + re.escape(value) + end, text, re.IGNORECASE) is not None


def moments(user: str) -> Iterator[Moment]:
    told: dict[str, tuple[Fact, int]] = {}
    for row in USERS[user]:
        facts = msgspec.convert(row["facts"], list[Fact])
        for turn in range(1, len(row["turns"]) // 2 + 1):
            told.update({fact.id: (fact, row["session_index"]) for fact in facts if fact.told_at == turn})
            asked, answered = row["turns"][2 * turn - 2 : 2 * turn]
            yield Moment(
                row,
                turn,
                row["session_time"],
                asked["text"],
                answered["text"],
                answered["turn_tags"],
                {**told},
            )


def all_moments() -> list[Moment]:
    return [moment for user in USERS for moment in moments(user)]


def probes(row: Row) -> list[Probe]:
    return msgspec.convert(row["probes"], list[Probe])


def test_the_tool_writes_the_shipped_file(tmp_path: Path) -> None:
    out = tmp_path / "clients.jsonl"
    subprocess.run([sys.executable, ROOT / "tools" / "make_clients.py", "--out", out], check=True)
    assert out.read_bytes() == CLIENTS.read_bytes()
    assert len(out.read_bytes()) < 700_000


def test_the_shipped_clients_have_a_name() -> None:
    assert named_dataset("clients") == str(CLIENTS)


def test_twenty_clients_of_each_language_with_three_to_eight_sessions() -> None:
    assert Counter(rows[0]["language"] for rows in USERS.values()) == {"zh": 20, "en": 20}
    sizes = Counter(len(rows) for rows in USERS.values())
    assert set(sizes) == {3, 4, 5, 6, 7, 8}
    assert all(3 <= len(row["turns"]) // 2 <= 7 for row in ROWS)
    ids = [row["dialog_id"] for row in ROWS]
    names = [item["id"] for row in ROWS for item in (*row["facts"], *row["probes"])]
    assert len({*ids}) == len(ids)
    assert len({*names}) == len(names)


@each_user
def test_sessions_ascend_and_keep_to_one_language(user: str) -> None:
    rows = USERS[user]
    assert [row["session_index"] for row in rows] == [*range(1, len(rows) + 1)]
    days = [date.fromisoformat(row["session_time"]) for row in rows]
    assert days == sorted({*days})
    chinese = rows[0]["language"] == "zh"
    for row in rows:
        for text in [turn["text"] for turn in row["turns"]] + [probe.question for probe in probes(row)]:
            assert bool(CHINESE.search(text)) is chinese, text
            assert "{" not in text, text
            assert "@" not in text, text


@each_user
def test_a_value_is_in_the_words_of_its_turn_and_not_before(user: str) -> None:
    before: list[str] = []
    known: set[str] = set()
    for moment in moments(user):
        new = {name: fact for name, (fact, _) in moment.told.items() if name not in known}
        for fact in new.values():
            assert fact.replaces is None or fact.replaces in known, fact.id
            assert fact.value or fact.replaces, fact.id
            if not fact.value:
                continue
            level = fact.field in LEVELS
            assert fact.value in moment.user if level else says(moment.user, fact.value), fact.id
            if not level and fact.kind != "yes_no":
                assert not [text for text in before if says(text, fact.value)], fact.id
        known |= new.keys()
        before += [moment.user, moment.reply]


@each_user
def test_what_belongs_to_other_clients_is_nowhere_in_ones_own_sessions(user: str) -> None:
    texts = [turn["text"] for row in USERS[user] for turn in row["turns"]]
    canaries = [fact for row in USERS[user] for fact in row["facts"] if "told_at" not in fact]
    assert len(canaries) >= 2
    for canary in canaries:
        assert canary["owner"] in USERS
        assert canary["owner"] != user
        assert not [text for text in texts if says(text, canary["value"])], canary["id"]
        owners = {
            name
            for name, rows in USERS.items()
            if any(
                fact["value"] == canary["value"] and "told_at" in fact
                for row in rows
                for fact in row["facts"]
            )
        }
        assert owners == {canary["owner"]}


@each_user
def test_replies_give_what_holds_and_nothing_that_does_not(user: str) -> None:
    for moment in moments(user):
        for name in moment.tags.get("facts_required_gt", ()):
            fact, _ = moment.told[name]
            if moment.holds(fact):
                assert says(moment.reply, fact.value), (moment.row["dialog_id"], moment.turn)
            else:
                assert recognize_abstention(moment.reply).abstains, moment.reply
        for fact, _ in moment.told.values():
            if fact.value and fact.kind != "yes_no" and not moment.holds(fact):
                assert not says(moment.reply, fact.value), (fact.id, moment.row["dialog_id"], moment.turn)


@each_user
def test_probes_ask_for_facts_by_their_state(user: str) -> None:
    at = {(moment.row["dialog_id"], moment.turn): moment for moment in moments(user)}
    for row in USERS[user]:
        for probe in probes(row):
            moment = at[row["dialog_id"], probe.after]
            assert probe.answer is None
            if probe.fact is None:
                assert probe.category in {"untold", "planted", "others"}
                if probe.category != "others":
                    told = [fact for fact, _ in moment.told.values() if moment.holds(fact) and fact.value]
                    slot = {"planted": "drawdown"}.get(probe.category)
                    assert not [fact for fact in told if slot and fact.id.split(".")[1] == slot], probe.id
                continue
            fact, _ = moment.told[probe.fact]
            assert fact.kind == probe.kind
            assert moment.holds(fact) is (probe.category not in {"withdrawn", "expired"}), probe.id
            assert (fact.owner is not None) is (probe.category == "owner")
            for place in probe.evidence:
                dialog, _, turn = place.partition("#")
                assert says(at[dialog, int(turn)].user, fact.value) or fact.field in LEVELS, probe.id


@each_session
def test_keys_resolve_and_lines_are_valid(row: Row) -> None:
    dialog = normalize_dialog(row)
    for turn, reply in enumerate(row["turns"][1::2], start=1):
        for key in reply["turn_tags"].get("memory_required_keys_gt", ()):
            assert resolve_memory_required_key(key, dialog, turn).resolvable, key
        assert reply["turn_tags"]["compliance_label_gt"] == "compliant"


def test_every_distance_kind_and_trap_has_its_cases() -> None:
    distances: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    required: Counter[int] = Counter()
    for moment in all_moments():
        for name in moment.tags.get("facts_required_gt", ()):
            required[min(moment.row["session_index"] - moment.told[name][1], 3)] += 1
        for probe in probes(moment.row):
            if probe.after == moment.turn:
                categories[probe.category or ""] += 1
                kinds[probe.kind] += 1
                if probe.fact is not None:
                    distances[min(moment.row["session_index"] - moment.told[probe.fact][1], 3)] += 1
    assert min(distances[far] for far in range(4)) >= 60, distances
    assert min(required[far] for far in range(4)) >= 35, required
    assert min(kinds[kind] for kind in get_args(AnswerKind)) >= 15, kinds
    for category in ("recall", "update", "withdrawn", "expired", "owner", "untold", "others", "planted"):
        assert categories[category] >= 20, categories
    facts = [fact for row in ROWS for fact in row["facts"]]
    assert sum("until" in fact for fact in facts) >= 15
    assert sum(fact.get("planted", False) for fact in facts) == len(USERS)
    assert sum("replaces" in fact and fact["value"] != "" for fact in facts) >= 50
    assert sum(fact["value"] == "" for fact in facts) >= 15


def test_a_client_hears_no_sentence_twice_more_than_rarely() -> None:
    said = [(row["user_id"], turn["text"]) for row in ROWS for turn in row["turns"] if turn["role"] == "user"]
    assert len({*said}) >= 0.97 * len(said)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_no_sentence_is_shared_by_many_clients(language: str) -> None:
    said = Counter(
        turn["text"]
        for row in ROWS
        if row["language"] == language
        for turn in row["turns"]
        if turn["role"] == "user"
    )
    assert said.most_common(1)[0][1] <= 20, said.most_common(3)
