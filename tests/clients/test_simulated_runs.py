"""Runs with simulated clients: who contents them, what interruptions change, and who is charged."""

from pathlib import Path
from typing import Any, ClassVar

import anyio
import msgspec
import pytest

import memfin
from memfin.actors.dialogs import traces_of_run
from memfin.agents.replay import ReplayOptions, replay_dialog
from memfin.clients.wording import Brief, SimulatedClient
from memfin.contracts import DialogTrace
from memfin.dataset import normalize_dialog
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from memfin.scale.merge import merge_shards
from memfin.scoring.rows import score_dialog
from memfin.sessions import DatasetIndex
from memfin.validation import validate_path, validate_run
from tests.clients.test_simulated_clients import make_sheet
from tests.support import dialog, read_jsonl, write_jsonl

SUMMARY = "metrics_summary.json"
PROFILE = dialog("d")["profile_gt"]


def line(name: str, language: str = "en", number: int = 0, **more: Any) -> dict[str, Any]:
    sheet = msgspec.to_builtins(make_sheet(language, number))
    return {"dialog_id": name, "profile_gt": PROFILE, "client": sheet, **more}


LINES = [line(f"{language}{number}", language, number) for language in ("en", "zh") for number in range(3)]
LINES += [line(f"session{number}", number=number, user_id="ada") for number in range(3)]


class Adviser:
    """Asks for the loss until it has heard all that counts, and advises; keeps all that it hears.

    It hangs once there are no more ``answers``.
    """

    answers: ClassVar[list[None]] = [None] * 1000
    hung: ClassVar[anyio.Event]

    def __init__(self, session: Any, observer: Any) -> None:
        sheet = next(each["client"] for each in LINES if each["dialog_id"] == session.dialog_id)
        self._values = [
            tell["fact"]["value"] for tell in sheet["tells"] if tell["fact"]["id"] in sheet["uses"]
        ]
        self._answer, self._observer = sheet["answers"][0], observer
        self.heard = ""

    async def reply(self, user_text: str) -> str:
        if not self.answers:
            self.hung.set()
            await anyio.sleep_forever()
        self.answers.pop()
        self.heard += user_text
        if all(value in self.heard for value in self._values):
            return f"{'; '.join(self._values)}: {self._answer}."
        return "What loss? 亏损多少?"


class Keeping(Adviser):
    def snapshot(self) -> bytes:
        return self.heard.encode()

    def restore(self, state: bytes) -> None:
        self.heard = state.decode()


async def silent(user_text: str) -> str:
    del user_text
    return ""


async def refusing(user_text: str) -> str:
    del user_text
    return "抱歉，我无法提供建议。Sorry, I can not help with that."


async def evading(user_text: str, history: list[dict[str, str]]) -> str:
    del user_text
    return "Let me think." if history else "What loss? 亏损多少?"


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"client": "simulated", "runs_dir": folder, "run_id": "r", "workers_score": 0, **more}


def held(run: Path) -> list[dict[str, Any]]:
    """Return the traces without what a clock or the order of dialogues decides."""
    traces = sorted(read_jsonl(run / "dialog_trace.jsonl"), key=lambda trace: trace["dataset_index"])
    for trace in traces:
        del trace["worker_id"], trace["session_id"], trace["user_id"]  # sessions may be held again
        for turn in trace["turns"]:
            del turn["latency_ms"]
    return traces


@pytest.mark.parametrize(
    ("agent", "contented"), [(silent, 0.0), (refusing, 0.0), ("echo", 0.0), (Adviser, 1.0)]
)
async def test_only_an_agent_that_does_its_job_contents_clients(
    tmp_path: Path, agent: Any, contented: float
) -> None:
    results = await memfin.evaluate(LINES, agent=agent, report=True, **settings(tmp_path))
    metric = results.summary.metrics["client"]
    assert metric.micro == {"success": contented, "simulator_errors": 0.0}
    assert metric.counts["success_total"] == metric.counts["eligible_count"] == len(LINES)
    assert "success" in metric.ci95
    assert "## Simulated clients" in (tmp_path / "r" / "report.md").read_text("utf-8")
    assert list(validate_run(tmp_path / "r")) == []
    for trace in held(tmp_path / "r"):
        assert trace["client"]["success"] is bool(contented)
        assert len(trace["turns"]) <= LINES[0]["client"]["patience"]
        assert "debt" not in trace["client"]["told"]


async def test_facts_are_told_when_the_client_tells_them_and_recorded_runs_score_alike(
    tmp_path: Path,
) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [{**each, "turns": dialog("d")["turns"]} for each in LINES])
    live = (await memfin.evaluate(data, agent=evading, **settings(tmp_path))).summary
    assert live.metrics["memory"].micro["used"] == 0
    assert live.metrics["memory"].counts["used_total"] > 0
    plan = make_rescore_plan(tmp_path / "r/dialog_trace.jsonl", data, tmp_path / "again", workers_score=0)
    assert (await Run(plan).run()).metrics == live.metrics
    for _, of_trace in traces_of_run(tmp_path / "r/dialog_trace.jsonl", DatasetIndex(data)):
        assert of_trace is not None
        told = {fact.id: fact.told_at for fact in of_trace.facts}
        assert told == {"loss": 2, "horizon": 3, "debt": None}


@pytest.mark.parametrize("agent", [Adviser, Keeping])
@pytest.mark.parametrize("after", [4, 22])
async def test_an_interrupted_run_goes_on_as_if_it_never_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: Any, after: int
) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", LINES)
    whole = settings(tmp_path / "whole", workers_dialog=1, fsync_interval=0)
    await memfin.evaluate(data, agent=agent, **whole)
    hung = anyio.Event()
    monkeypatch.setattr(Adviser, "hung", hung, raising=False)
    monkeypatch.setattr(Adviser, "answers", [None] * after)
    halved = settings(tmp_path / "parted", workers_dialog=1, fsync_interval=0)
    async with memfin.Evaluation(data, agent=agent, **halved) as parted:
        await hung.wait()
        await parted.stop(within=0.5)
    answers = [None] * 1000
    monkeypatch.setattr(Adviser, "answers", answers)
    await memfin.Evaluation.resume(tmp_path / "parted/r", agent=agent).complete()
    first, second = tmp_path / "whole/r", tmp_path / "parted/r"
    assert (second / SUMMARY).read_bytes() == (first / SUMMARY).read_bytes()
    assert held(second) == held(first)
    asked = after + 1000 - len(answers)
    assert (asked == sum(len(trace["turns"]) for trace in held(first))) is (agent is Keeping)


async def test_two_shards_give_the_same_bytes(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", LINES)
    await memfin.evaluate(data, agent=Adviser, **settings(tmp_path))
    for shard in ("0/2", "1/2"):
        await memfin.evaluate(data, agent=Adviser, **settings(tmp_path / "parts", shard=shard))
    merge_shards([tmp_path / "parts/r.shards"], tmp_path / "parts/r")
    assert (tmp_path / "parts/r" / SUMMARY).read_bytes() == (tmp_path / "r" / SUMMARY).read_bytes()


async def test_what_the_simulator_invents_is_charged_to_it() -> None:
    async def invents(brief: Brief) -> str:
        return f"{brief.words} I also own 45%."

    state = MetricsState()
    for model in (None, invents):
        held_by = normalize_dialog(LINES[0])
        assert held_by.client is not None
        replay = await replay_dialog(
            held_by,
            1,
            Adviser,
            ReplayOptions(run_id="r"),
            client=SimulatedClient(held_by.client, "en0", 0, model),
        )
        trace = msgspec.convert(msgspec.to_builtins(replay.trace.replace(dialog_id=f"d{model}")), DialogTrace)
        charged = [turn.get("simulator_errors") for turn in trace.turns]
        assert charged == [None if model is None else ["invents 45%"]] * len(trace.turns)
        state.add_rows(score_dialog(held_by, trace))
    result = state.results()["client"]
    assert result.micro == {"success": 1.0, "simulator_errors": 0.5}
    assert (result.counts["success_total"], result.counts["simulator_errors_total"]) == (2, 2)


async def test_a_dialogue_with_words_that_do_not_fit_the_sheet_does_not_count() -> None:
    held_by = normalize_dialog(LINES[0])
    assert held_by.client is not None
    client = SimulatedClient(held_by.client, "en0", 0)
    replay = await replay_dialog(held_by, 1, Adviser, ReplayOptions(run_id="r"), client=client)
    first, *others = replay.trace.turns
    heard = [first.replace(user_text=f"{first.user_text} I also own 45%."), *others]
    outcome = client.outcome(heard)
    assert (client.outcome(replay.trace.turns).misspoken, outcome.misspoken) == ([], [1])
    state = MetricsState()
    state.add_rows(score_dialog(held_by, replay.trace.replace(turns=heard, client=outcome)))
    assert state.results()["client"].counts["success_total"] == 0


async def test_probes_are_asked_as_far_as_the_dialogue_goes(tmp_path: Path) -> None:
    probes = [{"id": f"p{after}", "after": after, "question": "?", "fact": "loss"} for after in (2, 7)]
    data = [{**each, "probes": probes} for each in LINES]
    await memfin.evaluate(data, agent=Adviser, **settings(tmp_path))
    for trace in held(tmp_path / "r"):
        assert [(each["probe_id"], each["status"]) for each in trace["probes"]] == [("p2", "ok")]


@pytest.mark.parametrize(
    ("lines", "more", "problem"),
    [
        (
            [*LINES, dialog("d")],
            {},
            "line 10 of the dataset has no client's sheet; add it, or use --client scripted",
        ),
        (LINES, {"client": "scripted"}, "line 1 of the dataset has a client's sheet but no turns"),
        (LINES, {"history": "forced"}, "not together with --history forced"),
        (LINES, {"perturb": "flattery"}, "not together with --perturb"),
        (LINES, {"agent": "oracle"}, "not together with the agent oracle"),
    ],
)
async def test_what_a_client_can_not_hold_is_refused(
    tmp_path: Path, lines: Any, more: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        await memfin.evaluate(lines, **settings(tmp_path, **more))


def test_a_sheet_that_makes_no_sense_costs_its_line(tmp_path: Path) -> None:
    bad = line("bad")
    bad["client"]["uses"] = ["loss", "debt"]
    wrong = line("wrong", turns=[])
    wrong["client"]["tells"][0]["how"] = "sometimes"
    path = write_jsonl(tmp_path / "d.jsonl", [LINES[0], bad, wrong])
    assert [str(each).partition(".jsonl:")[2] for each in validate_path(path)] == [
        "2: $: $.client: fact debt is needed but can not be told in 8 turns (skip_reason invalid_session)",
        "3: $: $.client.tells[0].how: Invalid enum value 'sometimes' (skip_reason invalid_session)",
    ]


async def test_a_dialogue_with_turns_and_a_sheet_is_scripted_by_default(tmp_path: Path) -> None:
    both = dialog("d", 2)
    with_sheet = {**both, "client": LINES[0]["client"]}
    for name, data in (("a", both), ("b", with_sheet)):
        await memfin.evaluate([data], agent="echo", runs_dir=tmp_path / name, run_id="r", workers_score=0)
    assert held(tmp_path / "a/r") == held(tmp_path / "b/r")
    assert "client" not in held(tmp_path / "a/r")[0]
