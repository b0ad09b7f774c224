"""Agents with one fault each: the stage that is blamed, over generated clients with sessions."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import pytest

from memfin.contracts import (
    Dialog,
    DialogTrace,
    EarlierSession,
    Fact,
    FactReading,
    MemoryEntry,
    MemoryTrace,
    ProfileTruth,
    RecallItem,
    RecallTrace,
    TurnTags,
    TurnTrace,
)
from memfin.ledger.scoring import fact_readings, stored_facts

USERS = 20
Store = dict[str, tuple[str, str, int]]  # values by topic, with what told them and in which session

TOPICS = {
    "limit": ("percent", "{}%", range(11, 40)),
    "reserve": ("amount", "{}万元", range(50, 90)),
    "horizon": ("duration", "{}年", range(3, 10)),
}


def sessions_of(user: int) -> Iterator[Dialog]:
    """Yield five sessions: facts told, the limit updated in the third, then the reserve withdrawn."""

    def fact(topic: str, change: int, told_at: int | None = 1, **fields: object) -> Fact:
        kind, form, values = TOPICS[topic]
        value = form.format(values[(user + 3 * change) % len(values)])
        plain = {"id": f"{topic}{change}", "value": value, "told_at": told_at, "kind": kind, **fields}
        return msgspec.convert(plain, Fact)

    told = [
        [fact("limit", 0), fact("reserve", 0), fact("horizon", 0)],
        [
            fact("limit", 5, None, id="other", owner="somebody"),
            fact("limit", 7, None, id="claimed", planted=True),
        ],
        [fact("limit", 1, replaces="limit0")],
        [Fact(id="gone", value="", told_at=1, kind="amount", replaces="reserve0")],
        [],
    ]
    earlier: list[EarlierSession] = []
    for index, facts in enumerate(told):
        time = f"2026-0{index + 1}-01"
        yield Dialog(
            dialog_id=f"u{user}-{index}", user_id=f"u{user}", session_index=index, session_time=time,
            profile_gt=ProfileTruth(), turns=[], facts=facts, earlier=[*earlier],
        )  # fmt: skip
        earlier.append(
            EarlierSession(dialog_id=f"u{user}-{index}", session_index=index, session_time=time, facts=facts)
        )


class Twin:
    """An agent that keeps what its client tells it, and answers by it."""

    def __init__(self) -> None:
        self.store: Store = {}

    def listen(self, dialog: Dialog) -> None:
        for fact in dialog.facts:
            topic = "reserve" if fact.id == "gone" else fact.id.rstrip("0123456789")
            if self.takes(fact):
                self.store[topic] = (fact.value, fact.id, dialog.session_index or 0)
        self.store = {topic: entry for topic, entry in self.store.items() if entry[0]}

    def takes(self, fact: Fact) -> bool:
        return fact.id not in ("other", "claimed")

    def reply(self, topic: str) -> str:
        if not topic:
            return "好的，记下了。"
        if topic not in self.store:
            return "您没有告诉过我这一项。"
        others = (name for name in ("other", "claimed") if topic == "limit" and name in self.store)
        values = "，另外是".join(self.store[name][0] for name in (topic, *others))
        return f"按您的情况，这一项是{values}。"


class Forgets(Twin):
    def listen(self, dialog: Dialog) -> None:
        super().listen(dialog)
        now = dialog.session_index or 0
        self.store = {topic: entry for topic, entry in self.store.items() if now - entry[2] < 3}


class NeverUpdates(Twin):
    def takes(self, fact: Fact) -> bool:
        return super().takes(fact) and (fact.replaces is None or not fact.value)


class KeepsRevoked(Twin):
    def takes(self, fact: Fact) -> bool:
        return super().takes(fact) and bool(fact.value)


class Leaks(Twin):
    def takes(self, fact: Fact) -> bool:
        return fact.id != "claimed"


class Believes(Twin):
    def takes(self, fact: Fact) -> bool:
        return fact.id != "other"


class Ignores(Twin):
    def reply(self, topic: str) -> str:
        return "建议保持分散配置。" if topic in self.store else super().reply(topic)


class NeverStores(Twin):
    def takes(self, fact: Fact) -> bool:
        return super().takes(fact) and fact.id != "horizon0"


class NeverRecalls(Ignores):
    recalls = False


def readings(agent: Twin, user: int) -> Iterator[FactReading]:
    stored: list[str] = []
    required = {"limit": "limit0", "reserve": "reserve0", "horizon": "horizon0"}
    for dialog in sessions_of(user):
        agent.listen(dialog)
        turns = []
        for place, topic in enumerate(("", *TOPICS), 1):
            contents = [f"{name}: {entry[0]}" for name, entry in agent.store.items()]
            recalled = contents if getattr(agent, "recalls", True) else []
            turns.append(
                TurnTrace(
                    turn_pair_id=place, user_turn_abs_idx=0, gt_assistant_abs_idx=1,
                    user_text="请按我的情况安排。",
                    gt_assistant_text="",
                    gt_turn_tags=TurnTags(facts_required_gt=[required[topic]] if topic else []),
                    turn_status="ok", pred_assistant_text=agent.reply(topic),
                    recall=RecallTrace(items=[RecallItem(content=each) for each in recalled]),
                    memory=MemoryTrace(items=[MemoryEntry(content=each) for each in contents]),
                )
            )  # fmt: skip
        trace = DialogTrace(
            trace_version="v1.1", run_id="r", dialog_id=dialog.dialog_id, dataset_index=0, dialog_status="ok",
            valid_dialog=True, turns=turns, stored_before=stored,
        )  # fmt: skip
        for of_turn in fact_readings(dialog, trace):
            yield from of_turn
        stored = stored_facts(dialog, trace)


CASES = [
    (Forgets, "overwritten"),
    (NeverUpdates, "not_updated"),
    (KeepsRevoked, "not_forgotten"),
    (Leaks, "leaked"),
    (Believes, "believed"),
    (Ignores, "not_used"),
    (NeverStores, "not_stored"),
    (NeverRecalls, "not_retrieved"),
]


def test_faultless_agent_is_blamed_for_nothing() -> None:
    found = [each for user in range(USERS) for each in readings(Twin(), user)]
    assert not [each for each in found if each.stage is not None]
    assert all(each.used for each in found if each.state == "active")
    assert all(each.abstained for each in found if each.state == "withdrawn")


@pytest.mark.parametrize(("agent", "stage"), CASES)
def test_fault_is_blamed_on_its_stage(agent: Callable[[], Twin], stage: str) -> None:
    found = [each for user in range(USERS) for each in readings(agent(), user)]
    stages: Counter[str] = Counter(each.stage for each in found if each.stage is not None)
    assert stages[stage] >= USERS
    assert stages[stage] >= 0.99 * stages.total(), stages
