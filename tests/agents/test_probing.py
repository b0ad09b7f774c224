"""Probes: copies answer them, and the conversation does not notice."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import memfin
from memfin.agents.http import application
from memfin.agents.observer import TurnObserver
from memfin.agents.openai import OpenAIAgents
from memfin.agents.protocol import AgentSettings, Session
from memfin.agents.replay import ReplayOptions, replay_dialog
from memfin.client.endpoint import Endpoint
from memfin.contracts import Dialog, DialogCheckpoint, DialogTrace, ForkKind, Probe, ProbeFork
from memfin.contracts.reading import Line
from memfin.dataset import normalize_dialog
from memfin.ledger.scoring import with_memory
from memfin.scoring.rows import score_dialog
from memfin.validation.rules import DatasetRules
from tests.agents.test_snapshots import without_times
from tests.support import dialog, read_jsonl

PROBES = [Probe(id="p1", after=2, question="q1"), Probe(id="p2", after=2, question="q2")]
PROBES += [Probe(id="p3", after=4, question="q3")]
TALK = normalize_dialog(dialog("d", 4)).replace(probes=PROBES)


class Hashing:
    """Agent whose replies depend on all that it has heard."""

    def __init__(self, session: Session, observer: TurnObserver) -> None:
        self.heard: list[str] = []
        self.user = session.user_id
        self.observer = observer

    def reply(self, text: str) -> str:
        if text == "q2" and self.fails:
            raise ValueError("no")
        self.heard.append(text)
        self.observer.recall(query=text, short_term_context=str(len(self.heard)))
        return f"{len(self.heard)} {hashlib.sha256(repr(self.heard).encode()).hexdigest()}"

    fails = False


class Keeping(Hashing):
    """The same with a state."""

    def snapshot(self) -> bytes:
        return msgspec.json.encode(self.heard)

    def restore(self, state: bytes) -> None:
        self.heard = msgspec.json.decode(state)


class Failing(Keeping):
    fails = True


async def traced(factory: Any, talk: Dialog = TALK, **options: Any) -> DialogTrace:
    replay = await replay_dialog(talk, 1, factory, ReplayOptions(run_id="r", **options))
    return replay.trace


def answers(trace: DialogTrace) -> list[tuple[str, str]]:
    assert trace.probes is not msgspec.UNSET
    return [(each.probe_id, (each.answer or each.status).split()[0]) for each in trace.probes]


@pytest.mark.parametrize(
    ("factory", "fork", "used", "counts"),
    [
        (Hashing, "auto", "replay", "335"),
        (Keeping, "auto", "snapshot", "335"),
        (Keeping, "replay", "replay", "335"),
        (Keeping, "session", "session", "111"),
    ],
)
async def test_copies_answer_and_the_conversation_stays_as_it_is(
    factory: Any, fork: str, used: ForkKind, counts: str
) -> None:
    probed, plain = await traced(factory, probe_fork=fork), await traced(factory, probes="none")
    assert plain.probes is msgspec.UNSET
    assert probed.probes is not msgspec.UNSET
    assert without_times(probed.replace(probes=msgspec.UNSET)) == without_times(plain)
    assert answers(probed) == list(zip(("p1", "p2", "p3"), counts, strict=True))
    assert {each.fork for each in probed.probes} == {used}
    assert [each.recall["short_term_context"] for each in probed.probes if each.recall] == list(counts)


async def test_failed_probes_are_recorded_as_failed() -> None:
    assert answers(await traced(Failing)) == [("p1", "3"), ("p2", "error"), ("p3", "5")]
    assert answers(await traced(Hashing, probe_fork="snapshot")) == [(f"p{n}", "error") for n in (1, 2, 3)]


async def test_a_probe_after_the_end_is_recorded_as_failed() -> None:
    late = Probe(id="late", after=5, question="q")
    trace = await traced(Hashing, TALK.replace(probes=[late, *PROBES[:1]]))
    assert answers(trace) == [("p1", "3"), ("late", "error")]
    assert isinstance(trace.probes, list)
    assert trace.probes[1].error == "not asked: the session ends with turn pair 4"
    talk = TALK.replace(probes=[late])
    rows = with_memory(talk, trace, score_dialog(talk, trace))
    assert [[each.outcome for each in row.get("probes")] for row in rows] == [[], [], [], ["failed"]]
    line = {**dialog("d", 4), "probes": [msgspec.to_builtins(late)]}
    read = Line(1, msgspec.json.encode(line))
    found = list(DatasetRules().violations(read, line, [], Dialog))
    assert [each.steps for each in found] == [("probes", 0, "after")]


async def test_a_dialogue_that_goes_on_does_not_ask_its_probes_again() -> None:
    kept: list[DialogCheckpoint] = []

    async def keep(begun: DialogCheckpoint) -> None:
        kept.append(begun)

    options = ReplayOptions(run_id="r")
    whole = (await replay_dialog(TALK, 1, Keeping, options, on_begun=keep)).trace
    assert [len(begun.probes) for begun in kept] == [0, 2, 2, 3]
    for begun in kept:
        rest = (await replay_dialog(TALK, 1, Keeping, options, begun=begun)).trace
        assert answers(rest) == answers(whole)
        assert isinstance(rest.probes, list)
        assert rest.probes[: len(begun.probes)] == begun.probes


async def test_a_replayed_copy_hears_the_sessions_before_as_another_user() -> None:
    opened: list[Session] = []

    def factory(session: Session, observer: TurnObserver) -> Hashing:
        opened.append(session)
        return Hashing(session, observer)

    earlier = normalize_dialog(dialog("e", 2)).replace(user_id="u")
    talk = TALK.replace(user_id="u", probes=PROBES[:1])
    await replay_dialog(talk, 1, factory, ReplayOptions(run_id="r"), earlier=[(earlier, factory)])
    assert [each.dialog_id for each in opened] == ["d", "e", "d"]
    assert opened[1].user_id == opened[2].user_id != opened[0].user_id


@pytest.mark.parametrize(
    ("fork", "counts", "probed", "users"), [("replay", "1234", "24", 3), ("session", "1346", "25", 1)]
)
async def test_probes_of_sessions_with_an_agent_server(
    fork: ProbeFork, counts: str, probed: str, users: int, tmp_path: Path
) -> None:
    memory: dict[str, list[str]] = {}

    def stored(session: Session, observer: TurnObserver) -> Hashing:
        agent = Hashing(session, observer)
        agent.heard = memory.setdefault(session.user_id, [])
        return agent

    lines = [dialog(name, 2, user_id="u") for name in ("d1", "d2")]
    for line in lines:
        line["probes"] = [{"id": line["dialog_id"], "after": 1, "question": "q"}]
    async with TestServer(application(stored)) as server:
        url = str(server.make_url("/")).rstrip("/")
        await memfin.evaluate(lines, agent=url, probe_fork=fork, runs_dir=tmp_path, run_id="r")
    told = sorted(read_jsonl(tmp_path / "r/dialog_trace.jsonl"), key=lambda each: each["dialog_id"])
    assert [turn["pred_assistant_text"][0] for each in told for turn in each["turns"]] == [*counts]
    assert [probe["answer"][0] for each in told for probe in each["probes"]] == [*probed]
    assert len(memory) == users


@pytest.mark.parametrize(
    ("options", "counts", "users"),
    [
        ({"probe_fork": "replay"}, "335", 4),
        ({"probe_fork": "session"}, "347", 1),
        ({"probes": "none"}, "", 1),
    ],
)
async def test_probes_of_a_model_with_memory_on_its_server(options: Any, counts: str, users: int) -> None:
    memory: dict[str, int] = {}

    async def chat(request: web.Request) -> web.Response:
        user = (await request.json())["user"]
        memory[user] = memory.get(user, 0) + 1
        message = {"role": "assistant", "content": str(memory[user])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"model": "m", "choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    settings = AgentSettings(system="none", history="none", user="{user_id}")
    async with TestServer(app) as server:
        agents = OpenAIAgents.from_settings("m", settings, Endpoint(str(server.make_url("/v1"))))
        trace = await traced(agents, **options)
        await agents.close()
    assert len(memory) == users
    if not counts:
        assert trace.probes is msgspec.UNSET
        assert [*memory.values()] == [4]
        return
    assert answers(trace) == list(zip(("p1", "p2", "p3"), counts, strict=True))
