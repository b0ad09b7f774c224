"""Probes find the share of what an agent remembers that reports nothing."""

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.agents.observer import TurnObserver
from memfin.agents.protocol import Session
from memfin.dataset import CLIENTS
from tests.support import LONG, read_jsonl

Row = dict[str, Any]

ROWS: list[Row] = [json.loads(line) for line in CLIENTS.read_text("utf-8").splitlines()]
FACTS: dict[str, Row] = {fact["id"]: fact for row in ROWS for fact in row["facts"]}
SESSIONS: dict[str, Row] = {row["dialog_id"]: row for row in ROWS}


def root(fact: Row) -> str:
    while fact.get("replaces"):
        fact = FACTS[fact["replaces"]]
    return str(fact["id"])


def told(row: Row, turn: int) -> list[Row]:
    return [fact for fact in row["facts"] if fact.get("told_at") == turn]


def keeps(user: str, fact: Row) -> bool:
    return hashlib.sha256(f"{user} {fact['id']}".encode()).digest()[0] < 160


def is_over(fact: Row, now: str) -> bool:
    return bool(fact.get("until")) and now[:10] > fact["until"]


class Partial:
    """Agent that keeps a share of the facts, and says so only when it is asked."""

    def __init__(self, session: Session, observer: TurnObserver) -> None:
        del observer
        self.row = SESSIONS[session.dialog_id]
        self.known: dict[str, str] = json.loads(session.carried or b"{}")

    def reply(self, text: str) -> str:
        heard = [turn for turn, each in enumerate(self.row["turns"][::2], 1) if each["text"] == text]
        for fact in told(self.row, heard[0]) if heard else ():
            if keeps(self.row["user_id"], fact):
                self.known[root(fact)] = fact["id"]
        asked = [probe.get("fact") for probe in self.row["probes"] if probe["question"] == text]
        if not asked:
            return "..."
        name = asked[0] and self.known.get(root(FACTS[asked[0]]))
        fact = FACTS[name] if name else {"value": ""}
        chinese = self.row["language"] == "zh"
        if not fact["value"] or is_over(fact, self.row["session_time"]):
            return "这个我不知道，您没有告诉过我。" if chinese else "I don't know, you have not told me that."
        return f"您说的是{fact['value']}。" if chinese else f"You told me {fact['value']}."

    def carry(self) -> bytes:
        return json.dumps(self.known).encode()


class Kept(Partial):
    """The same with a state."""

    def snapshot(self) -> bytes:
        return self.carry()

    def restore(self, state: bytes) -> None:
        self.known = json.loads(state)


def truth(rows: list[Row]) -> dict[str, bool]:
    """Return for each probe whether an agent that keeps its share answers it rightly."""
    known: dict[str, dict[str, str]] = defaultdict(dict)
    right: dict[str, dict[str, str]] = defaultdict(dict)
    correct = {}
    for row in rows:
        user = row["user_id"]
        for turn in range(1, len(row["turns"]) // 2 + 1):
            for fact in told(row, turn):
                if keeps(user, fact):
                    known[user][root(fact)] = fact["id"]
                if not fact.get("planted"):
                    right[user][root(fact)] = fact["id"]
            for probe in row["probes"]:
                if probe["after"] == turn:
                    name = root(FACTS[probe["fact"]]) if probe.get("fact") else ""
                    values = [
                        "" if is_over(fact, row["session_time"]) else fact["value"]
                        for each in (known, right)
                        for fact in [FACTS.get(each[user].get(name, ""), {"value": ""})]
                    ]
                    correct[probe["id"]] = values[0] == values[1]
    return correct


@pytest.mark.parametrize(("agent", "fork"), [(Partial, "replay"), (Kept, "snapshot")])
async def test_the_share_of_correct_probes_is_that_of_what_is_remembered(
    agent: Any, fork: Any, tmp_path: Path
) -> None:
    users = list(dict.fromkeys(row["user_id"] for row in ROWS))
    chosen = users if LONG else users[:6] + users[-6:]
    rows = [row for row in ROWS if row["user_id"] in chosen]
    await memfin.evaluate(rows, agent=agent, probe_fork=fork, runs_dir=tmp_path, run_id="r")
    readings = {
        each["probe"]: each
        for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
        for each in row.get("probes", ())
    }
    expected = truth(rows)
    assert readings.keys() == expected.keys()
    assert 0.3 < sum(expected.values()) / len(expected) < 0.95
    wrong = [each for name, each in readings.items() if each["correct"] is not expected[name]]
    share = sum(each["correct"] for each in readings.values()) / len(readings)
    assert abs(share - sum(expected.values()) / len(expected)) <= 0.02, wrong
