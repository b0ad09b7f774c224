"""Agents with one fault each in runs over invented clients: the stage that is blamed, turn by turn."""

from pathlib import Path
from typing import Any

import pytest

import memfin
from tests.ledger import client_lives
from tests.ledger.client_lives import Faultless, clients
from tests.support import length, read_jsonl

USERS = length(4, 200)
Turn = tuple[str, int]

FAULTS = [
    (client_lives.ForgetsAtThreeSessions, "overwritten"),
    (client_lives.NeverUpdates, "not_updated"),
    (client_lives.KeepsRevoked, "not_forgotten"),
    (client_lives.MissesSome, "not_stored"),
    (client_lives.Believes, "believed"),
    (client_lives.ConfusesPeople, "leaked"),
    (client_lives.Leaks, "leaked"),
    (client_lives.RecallsNothing, "not_retrieved"),
    (client_lives.Ignores, "not_used"),
    (client_lives.Invents, "invented"),
]


async def run(agent: Any, folder: Path, **more: Any) -> tuple[dict[Turn, str], dict[Turn, dict[str, Any]]]:
    """Return the replies and the rows of a run, by session and turn."""
    rows = [*clients(USERS)]
    await memfin.evaluate(
        rows, agent=agent, judge="none", runs_dir=folder, run_id=agent.__name__, workers_dialog=1, **more
    )
    here = folder / agent.__name__
    replies = {
        (trace["dialog_id"], turn["turn_pair_id"]): turn["pred_assistant_text"]
        for trace in read_jsonl(here / "dialog_trace.jsonl")
        for turn in trace["turns"]
    }
    found = {(row["dialog_id"], row["turn_pair_id"]): row for row in read_jsonl(here / "turn_eval.jsonl")}
    return replies, found


def blamed(row: dict[str, Any]) -> set[str]:
    return {fact["stage"] for fact in row["facts"] if fact.get("stage")}


async def test_each_fault_is_blamed_on_its_stage_and_the_faultless_twin_on_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_lives.Leaks, "shared", {}, raising=False)
    replies, rows = await run(Faultless, tmp_path)
    assert not [row for row in rows.values() if blamed(row)]
    needed = [fact for row in rows.values() for fact in row["facts"] if fact["needed"]]
    assert all(fact["used"] if fact["state"] == "active" else fact["abstained"] for fact in needed)
    assert {fact["state"] for fact in needed} == {"active", "withdrawn", "expired", "untold"}
    assert all(probe["correct"] for row in rows.values() for probe in row.get("probes") or ())
    for agent, stage in FAULTS:
        others, found = await run(agent, tmp_path, probes="none")
        faults = {turn for turn, reply in replies.items() if others[turn] != reply}
        right = [turn for turn in faults if blamed(found[turn]) == {stage}]
        wrong = [turn for turn, row in found.items() if turn not in faults and blamed(row)]
        assert len(faults) >= USERS // 2
        assert len(right) >= 0.99 * len(faults), [
            (turn, others[turn], found[turn]["facts"]) for turn in faults if blamed(found[turn]) != {stage}
        ][:3]
        assert len(wrong) <= 0.01 * len(faults), [
            (turn, others[turn], found[turn]["facts"]) for turn in wrong
        ][:3]
