"""Sessions of a client: one after another, side by side with other clients, with what their agents carry."""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from memfin.agents.builtin import BuiltinAgent
from memfin.agents.http.protocol import openapi_document
from memfin.contracts import ProgressEvent, Warned
from memfin.dataset import read_entries
from memfin.errors import RunStopped
from memfin.journal import DIALOG_TRACE
from memfin.journal.checkpoints import TURNS
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.scale.merge import merge_shards
from memfin.sessions import ClientSessions, DatasetIndex
from memfin.validation import validate_path, validate_run
from tests.support import LONG, dialog, read_jsonl, write_jsonl

SUMMARY = "metrics_summary.json"
FACT = {"id": "loss", "value": "12%", "told_at": 1, "kind": "percent"}


class Carrying:
    """Answers from all that the client has said in any session, and hands it on."""

    held: dict[str, list[str]]  # dialogues by client, in the order in which they were begun

    def __init__(self, session: Any, observer: Any) -> None:
        self._session, self._observer = session, observer
        self._heard: list[str] = msgspec.json.decode(session.carried) if session.carried else []
        self.held[session.user_id].append(session.dialog_id)

    async def reply(self, user_text: str) -> str:
        for _ in range(random.randrange(3)):
            await checkpoint()
        self._heard.append(user_text)
        self._observer.recall(short_term_context="\n".join(self._heard[:-1]), query=user_text)
        self._observer.memory(items=[{"content": each} for each in self._heard])
        return f"{len(self._heard)}：市场存在不确定性，仅供参考。"

    def carry(self) -> bytes:
        return msgspec.json.encode(self._heard)


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Carrying, "held", defaultdict(list), raising=False)
    Storing.store.clear()


def sessions(users: int, each: int, turns: int = 2) -> list[dict[str, Any]]:
    """Return dialogues of clients, a session of everybody after another."""
    return [
        dialog(f"u{user}s{index}", turns, user_id=f"u{user}")
        for index in range(each)
        for user in range(users)
    ]


def plan(folder: Path, agent: Any = Carrying, name: str = "runs", **settings: Any) -> RunPlan:
    defaults: dict[str, Any] = {"run_id": "r", "fsync_interval": 0, "workers_dialog": 2}
    return make_plan(folder / "data.jsonl", agent=agent, runs_dir=folder / name, **defaults | settings)


async def run(made: RunPlan) -> list[str]:
    """Run a plan and return its warnings."""
    events: list[ProgressEvent] = []
    await Run(made, events.append).run()
    return [event.message for event in events if isinstance(event, Warned)]


def traces(folder: Path, name: str = "runs/r") -> dict[str, dict[str, Any]]:
    return {trace["dialog_id"]: trace for trace in read_jsonl(folder / name / DIALOG_TRACE)}


def order(path: Path, lines: Sequence[dict[str, Any]], limit: int | None = None) -> list[list[str]]:
    """Return the dialogues of a dataset as they go to the replayers."""
    write_jsonl(path, lines)
    with path.open("rb") as file:
        batches = ClientSessions(file, limit).batches(read_entries(file, limit), file)
        return [[entry.dialog_id for entry in batch] for batch in batches]


def test_sessions_stand_by_their_index_and_those_without_after_the_one_before_them(tmp_path: Path) -> None:
    def one(name: str, index: int | None = None, user: str = "u") -> dict[str, Any]:
        return dialog(name, 1, user_id=user, session_index=index)

    lines = [one("a", 7), one("b"), one("c", 2), one("x", user="v"), dialog("lone", 1), one("d"), one("e", 7)]
    path = tmp_path / "data.jsonl"
    assert order(path, lines) == [["c", "d", "a", "b", "e"], ["x"], ["lone"]]
    assert order(path, lines, limit=3) == [["c", "a", "b"]]
    twice = [one("c", 1), one("c", 2), {**one("bad"), "turns": []}, one("z")]
    assert order(path, twice) == [["c", "z"], ["c"], ["bad"]]
    path.write_bytes(b"\xef\xbb\xbf\n" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    index = DatasetIndex(path)
    assert (last := index.get("z")) is not None
    assert (last.session_index, [each.dialog_id for each in last.earlier]) == (2, ["c"])


def test_earlier_sessions_are_filled_in_with_their_facts(tmp_path: Path) -> None:
    first = dialog("one", 1, user_id="u", session_time="2026-01-01", facts=[FACT])
    path = write_jsonl(tmp_path / "d.jsonl", [dialog("two", 1, user_id="u", session_index=5), first])
    assert (found := DatasetIndex(path).get("two")) is not None
    assert found.session_index == 1  # "one", without an index, stands after it
    assert (found := DatasetIndex(path).get("one")) is not None
    assert [(each.dialog_id, each.session_index, each.facts) for each in found.earlier] == [("two", 1, [])]
    assert found.facts[0].value == "12%"


def test_validate_names_contradictions_of_sessions(tmp_path: Path) -> None:
    lines = [
        dialog("a", 1, user_id="u", session_index=1, session_time="2026-02-01"),
        dialog("b", 1, user_id="u", session_index=1, session_time="2026-02-01T08:00"),
        dialog("c", 1, user_id="u", session_index=2, session_time="2026-01-31"),
        dialog("d", 1, user_id="v", session_time="2026-01-01"),
        dialog("e", 1, session_index=3),
    ]
    path = write_jsonl(tmp_path / "d.jsonl", lines)
    found = [str(each).partition(".jsonl:")[2] for each in validate_path(path)]
    assert found == [
        "2: $.session_index: 1 stands on line 1 too; a run keeps to the order of the lines",
        (
            "3: $.session_time: goes back in the order of the sessions: 2026-01-31 comes after "
            "2026-02-01T08:00 (lines 3 and 2)"
        ),
        "5: $.session_index: without user_id, so that the dialogue is no session",
    ]


@pytest.mark.parametrize("workers", [1, 8])
async def test_any_number_of_workers_gives_the_same_bytes(tmp_path: Path, workers: int) -> None:
    write_jsonl(tmp_path / "data.jsonl", [*sessions(5, 3), dialog("lone", 2)])
    await run(plan(tmp_path))
    Carrying.held.clear()
    assert await run(plan(tmp_path, name="other", workers_dialog=workers)) == []
    assert (tmp_path / "other/r" / SUMMARY).read_bytes() == (tmp_path / "runs/r" / SUMMARY).read_bytes()
    assert Carrying.held == {
        **{f"eval_client_r_u{user}": [f"u{user}s{index}" for index in range(3)] for user in range(5)},
        "eval_user_r_lone": ["lone"],
    }
    replies = [turn["pred_assistant_text"][0] for turn in traces(tmp_path, "other/r")["u3s2"]["turns"]]
    assert replies == ["5", "6"]
    lone = traces(tmp_path, "other/r")["lone"]
    assert not lone.keys() & {"client_id", "session_index", "session_time", "stored_before"}
    assert list(validate_run(tmp_path / "other/r")) == []


async def test_two_shards_give_the_same_bytes(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data.jsonl", sessions(6, 3))
    await run(plan(tmp_path))
    for shard in ("0/2", "1/2"):
        await run(plan(tmp_path, name="parts", shard=shard))
    await anyio.to_thread.run_sync(merge_shards, [tmp_path / "parts/r.shards"], tmp_path / "parts/r")
    assert (tmp_path / "parts/r" / SUMMARY).read_bytes() == (tmp_path / "runs/r" / SUMMARY).read_bytes()


async def test_sessions_are_scored_again_as_they_stood_below_the_limit(tmp_path: Path) -> None:
    first = dialog("a", 1, user_id="u", session_index=2, facts=[{**FACT, "value": "第1个问题"}])
    probes = [{"id": "p", "after": 1, "question": "?", "fact": "loss"}]
    lines = [first, dialog("b", 1, user_id="u", session_index=3, probes=probes)]
    later = dialog("c", 1, user_id="u", session_index=1)
    data = write_jsonl(tmp_path / "data.jsonl", [*lines, later])
    await run(plan(tmp_path, limit=2))
    again = Run(make_rescore_plan(tmp_path / "runs/r" / DIALOG_TRACE, data, tmp_path / "again"))
    await again.run()
    rows, scored = (read_jsonl(tmp_path / each / "turn_eval.jsonl") for each in ("runs/r", "again"))
    assert scored == rows
    assert [row["session_index"] for row in rows] == [1, 2]


async def test_clients_are_side_by_side(tmp_path: Path) -> None:
    reached = {"u0": anyio.Event(), "u1": anyio.Event()}

    class Waiting(Carrying):
        """The first session of each waits for the second one of nobody, but for the first of the other."""

        async def reply(self, user_text: str) -> str:
            user, other = self._session.user_id[-2:], {"u0": "u1", "u1": "u0"}
            reached[user].set()
            await reached[other[user]].wait()
            return await super().reply(user_text)

    write_jsonl(tmp_path / "data.jsonl", sessions(2, 2))
    with anyio.fail_after(20):
        await run(plan(tmp_path, Waiting))
    assert {trace["dialog_status"] for trace in traces(tmp_path).values()} == {"ok"}


async def test_traces_tell_the_session_and_what_the_store_held_before(tmp_path: Path) -> None:
    lines = sessions(1, 3)
    lines[0] |= {"facts": [{**FACT, "value": "第1个问题"}], "session_time": "2026-01-05"}
    lines[1] |= {"facts": [{**FACT, "id": "none", "value": "从未说过"}], "session_time": "2026-02-05"}
    write_jsonl(tmp_path / "data.jsonl", lines)
    seen: list[tuple[int | None, str | None]] = []

    class Looking(Carrying):
        def __init__(self, session: Any, observer: Any) -> None:
            super().__init__(session, observer)
            seen.append((session.session_index, session.now))

    await run(plan(tmp_path, Looking))
    told = traces(tmp_path)
    names = ("client_id", "session_index", "session_time", "stored_before")
    assert [[told[name].get(each) for each in names] for name in ("u0s0", "u0s1", "u0s2")] == [
        ["u0", 1, "2026-01-05", None],
        ["u0", 2, "2026-02-05", ["loss"]],
        ["u0", 3, None, ["loss"]],
    ]
    assert seen == [(1, "2026-01-05"), (2, "2026-02-05"), (3, None)]


async def test_a_session_that_fails_does_not_stop_the_later_ones(tmp_path: Path) -> None:
    class Failing(Carrying):
        def __init__(self, session: Any, observer: Any) -> None:
            super().__init__(session, observer)
            if session.session_index == 2:
                raise ValueError("no")

        def carry(self) -> bytes:
            return "text" if self._session.session_index == 3 else super().carry()  # type: ignore[return-value]

    write_jsonl(tmp_path / "data.jsonl", sessions(1, 4))
    warned = await run(plan(tmp_path, Failing))
    told = traces(tmp_path)
    assert [told[f"u0s{index}"]["dialog_status"] for index in range(4)] == ["ok", "failed", "ok", "ok"]
    assert [told[f"u0s{index}"]["turns"][0]["pred_assistant_text"] for index in (0, 2, 3)] == [
        f"{number}：市场存在不确定性，仅供参考。" for number in (1, 3, 3)
    ]
    assert [message.partition("began with: ")[2] for message in warned] == [
        "agent could not be created: ValueError: no",
        "carry returned an object of type str; expected bytes",
    ]


class Storing(Carrying):
    """Keeps its memory in a store of the process, by user id."""

    carry = None  # type: ignore[assignment]
    store: ClassVar[dict[str, list[str]]] = {}

    def __init__(self, session: Any, observer: Any) -> None:
        super().__init__(session, observer)
        self._heard = self.store.setdefault(session.user_id, [])


@pytest.mark.parametrize("agent", [Carrying, Storing])
@pytest.mark.parametrize("place", ["u0s0:1", "u0s0:2", "u0s1:1", "u0s1:2"])
async def test_a_run_that_is_stopped_within_a_client_goes_on(tmp_path: Path, agent: Any, place: str) -> None:
    write_jsonl(tmp_path / "data.jsonl", sessions(1, 3))
    runs: list[Run[Any]] = []

    class Stopping(agent):  # type: ignore[misc]
        async def reply(self, user_text: str) -> str:
            said: str = await super().reply(user_text)
            self.turn = getattr(self, "turn", 0) + 1
            if runs and place == f"{self._session.dialog_id}:{self.turn}":
                runs[0].stop("test")
            return said

    await run(plan(tmp_path, Stopping, name="whole"))
    runs.append(Run(plan(tmp_path, Stopping)))
    Storing.store.clear()
    with pytest.raises(RunStopped):
        await runs[0].run()
    done = {f"u0s{index}" for index in range(2) if f"u0s{index}:2" <= place}
    again = agent is Storing and bool(done)
    assert set(traces(tmp_path)) == done
    Carrying.held.clear()
    Storing.store.clear()  # as it would be in another process
    runs.clear()
    warned = await run(make_resume_plan(tmp_path / "runs/r", agent=Stopping))
    assert (tmp_path / "runs/r" / SUMMARY).read_bytes() == (tmp_path / "whole/r" / SUMMARY).read_bytes()
    (user,) = Carrying.held
    assert (user == "eval_client_r_u0") == (agent is Carrying and bool(done))
    assert ["held again for its memory" in message for message in warned] == [True] * again
    assert done.isdisjoint(Carrying.held[user]) != again
    assert not (tmp_path / "runs/r" / TURNS).exists()


async def test_the_built_in_agent_knows_the_client_from_earlier_sessions(tmp_path: Path) -> None:
    words = ["我是稳健型，最大能亏10%。", "您好。", "你记得我的风险承受能力吗？"]
    lines = [dialog(f"s{index}", 1, user_id="u") for index in range(3)]
    for line, text in zip(lines, words, strict=True):
        line["turns"][0]["text"] = text
    write_jsonl(tmp_path / "data.jsonl", lines)
    await run(plan(tmp_path, BuiltinAgent))
    last = traces(tmp_path)["s2"]["turns"][0]
    assert last["recall"]["short_term_turns"] == []
    assert last["profile_snapshot"]["risk_level"] == "medium"
    assert "稳健" in last["pred_assistant_text"]
    assert last["recall"]["items"][0]["session_id"] == "session_r_s0"


def test_what_is_carried_does_not_go_over_the_wire() -> None:
    assert "carried" not in openapi_document()["components"]["schemas"]["Session"]["properties"]


def test_memory_does_not_grow_with_the_clients(tmp_path: Path) -> None:
    import tracemalloc  # noqa: PLC0415 - measures this test alone

    def peak(users: int) -> int:
        path = write_jsonl(tmp_path / f"{users}.jsonl", sessions(users, 2, 3))
        tracemalloc.start()
        with path.open("rb") as file:
            found = ClientSessions(file)
            assert sum(len(batch) for batch in found.batches(read_entries(file), file)) == 2 * users
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    few, many = (5_000, 10_000) if LONG else (200, 400)
    each = (peak(many) - peak(few)) / (many - few)
    assert each < 1_500  # bytes for a client: ids and places; its dialogues are 3,000 and more
