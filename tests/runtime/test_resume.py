"""Resuming: nothing committed is done again, and the end is that of a run that never stopped."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from memfin.contracts import DialogDone, JudgeRequest, ProgressEvent, RunResumed, Verdict
from memfin.errors import RunStopped, UsageError
from memfin.journal import COMMITS, DIALOG_TRACE, TURN_EVAL
from memfin.runtime.plan import RunPlan, make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.validation import validate_run
from tests.support import dialog, read_jsonl, write_jsonl

DIALOGS = 12
TURNS = 3
WORKERS = 3
SUMMARY = "metrics_summary.json"

asked: Counter[tuple[str, int]] = Counter()
judged: Counter[tuple[str, int]] = Counter()


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    asked.clear()
    judged.clear()


class Agent:
    """Answers by dialogue and turn alone; in d0002 its second turn fails, in d0005 all do."""

    broken = True
    patience: int | None = None
    """Turns that are answered before all agents fall silent."""

    def __init__(self, session: Any, observer: Any) -> None:
        self._dialog_id = session.dialog_id
        self._observer = observer
        self._turn = 0

    async def reply(self, user_text: str) -> str:
        self._turn += 1
        asked[self._dialog_id, self._turn] += 1
        await (
            checkpoint() if self.patience is None or asked.total() <= self.patience else anyio.sleep_forever()
        )
        if self.broken and (self._dialog_id == "d0005" or (self._dialog_id == "d0002" and self._turn == 2)):
            raise ValueError("this turn fails")
        self._observer.recall(short_term_context=user_text, query=user_text)
        self._observer.profile(risk_level="medium", max_acceptable_loss=0.1 + self._turn / 3)
        return f"{self._dialog_id}-{self._turn}：根据公开数据，市场存在不确定性，仅供参考。"


class Judge:
    async def judge(self, request: JudgeRequest) -> Verdict:
        judged[request.dialog_id, request.turn_pair_id] += 1
        await checkpoint()
        return Verdict(score=1 + len(request.reply) % 4, rubric_items=["信息依据"])


def data(path: Path, dialogs: int = DIALOGS) -> Path:
    """Write a dataset with two lines that are skipped."""
    objects: list[object] = [dialog(f"d{number:04}", TURNS) for number in range(dialogs)]
    objects[3:3] = [{"dialog_id": "no turns"}, dialog("d0001")]
    return write_jsonl(path, objects)


def plan(path: Path, runs: Path, **settings: Any) -> RunPlan:
    return make_plan(
        path,
        agent=Agent,
        judge=Judge,
        runs_dir=runs,
        run_id="r",
        fsync_interval=0,
        workers_dialog=WORKERS,
        **settings,
    )


def again(runs: Path, **settings: Any) -> RunPlan:
    return make_resume_plan(runs / "r", agent=Agent, judge=Judge, **settings)


async def stopped_after(made: RunPlan, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the plan and cancel it when so many dialogues are done; it cannot come to its end before."""
    left = iter(range(number - 1))

    def show(event: ProgressEvent) -> None:
        if isinstance(event, DialogDone) and event.skip_reason is None and next(left, None) is None:
            group.cancel_scope.cancel()

    asked.clear()
    evaluation = Run(made, show)
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "patience", (number + WORKERS - 1) * TURNS)
        async with anyio.create_task_group() as group:
            group.start_soon(evaluation.run)
    assert evaluation.summary is None
    asked.clear()
    judged.clear()


async def whole(tmp_path: Path) -> bytes:
    """Return the summary of a run that nothing interrupts."""
    await Run(plan(tmp_path / "data.jsonl", tmp_path / "whole")).run()
    asked.clear()
    judged.clear()
    return (tmp_path / "whole" / "r" / SUMMARY).read_bytes()


def committed(runs: Path, kind: str) -> set[str]:
    log = runs / "r" / COMMITS
    records = read_jsonl(log) if log.exists() else []
    return {record["dialog_id"] for record in records if record["kind"] == kind}


def once_each(runs: Path) -> None:
    """Hold the files against the data: every dialogue and turn stands there once."""
    traces = read_jsonl(runs / "r" / DIALOG_TRACE)
    assert sorted(trace["dataset_index"] for trace in traces) == list(range(1, DIALOGS + 3))
    rows = Counter((row["dialog_id"], row["turn_pair_id"]) for row in read_jsonl(runs / "r" / TURN_EVAL))
    assert rows == {(f"d{number:04}", turn): 1 for number in range(DIALOGS) for turn in range(1, TURNS + 1)}
    assert list(validate_run(runs / "r")) == []


@pytest.mark.parametrize("number", range(1, DIALOGS - WORKERS + 1))
async def test_an_interrupted_run_ends_as_if_nothing_had_happened(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(tmp_path / "data.jsonl")
    expected = await whole(tmp_path)
    await stopped_after(plan(tmp_path / "data.jsonl", tmp_path), number, monkeypatch)
    replays, judgements = committed(tmp_path, "replay"), committed(tmp_path, "judged")
    assert number <= len(judgements) <= len(replays) < DIALOGS + 1
    events: list[ProgressEvent] = []
    await Run(again(tmp_path), events.append).run()
    assert (tmp_path / "r" / SUMMARY).read_bytes() == expected
    assert not {dialog_id for dialog_id, _ in asked} & (replays - {"d0001"})
    assert not {dialog_id for dialog_id, _ in judged} & (judgements - {"d0001"})
    assert max(asked.values(), default=1) == max(judged.values(), default=1) == 1
    first = events[0]
    assert isinstance(first, RunResumed)
    assert first.dialogs_done >= len(judgements)
    once_each(tmp_path)


MOST_ROUNDS = 60


async def test_a_run_that_is_stopped_again_and_again_comes_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(tmp_path / "data.jsonl")
    expected = await whole(tmp_path)
    await stopped_after(plan(tmp_path / "data.jsonl", tmp_path), 1, monkeypatch)
    rounds = 0
    while (done := len(read_jsonl(tmp_path / "r" / DIALOG_TRACE))) < DIALOGS + 2 - WORKERS:
        await stopped_after(again(tmp_path), 1, monkeypatch)
        rounds += 1
        assert (
            len(read_jsonl(tmp_path / "r" / DIALOG_TRACE)) >= done
        )  # a slow disk commits nothing in a round
        assert rounds < MOST_ROUNDS
    assert rounds >= 2
    await Run(again(tmp_path)).run()
    assert (tmp_path / "r" / SUMMARY).read_bytes() == expected
    once_each(tmp_path)


async def test_replays_whose_judge_never_answered_are_judged_and_not_asked_again(tmp_path: Path) -> None:
    data(tmp_path / "data.jsonl")
    expected = await whole(tmp_path)

    class Silent:
        async def judge(self, request: JudgeRequest) -> Verdict:
            await anyio.sleep_forever()
            raise AssertionError(request)

    made = make_plan(
        tmp_path / "data.jsonl", agent=Agent, judge=Silent, runs_dir=tmp_path, run_id="r", fsync_interval=0
    )
    async with anyio.create_task_group() as group:
        group.start_soon(Run(made).run)
        while len(committed(tmp_path, "replay")) < 3:  # noqa: ASYNC110 - the disk sets no event
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    replays = committed(tmp_path, "replay")
    asked.clear()
    with pytest.raises(UsageError, match="not as it was when the run began: judge; start a new run"):
        again(tmp_path)
    await Run(again(tmp_path, force=True)).run()
    assert not {dialog_id for dialog_id, _ in asked} & (replays - {"d0001"})
    assert judged["d0000", 1] == 1
    found, there = ((tmp_path / runs / "r" / SUMMARY).read_bytes() for runs in (".", "whole"))
    assert msgspec.json.decode(found)["metrics"] == msgspec.json.decode(there)["metrics"]
    assert there == expected
    once_each(tmp_path)


async def test_a_run_that_is_complete_is_summed_up_again(tmp_path: Path) -> None:
    data(tmp_path / "data.jsonl")
    await Run(plan(tmp_path / "data.jsonl", tmp_path)).run()
    artifacts = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    asked.clear()
    judged.clear()
    (tmp_path / "r" / SUMMARY).unlink()
    await Run(again(tmp_path)).run()
    assert not asked
    assert not judged
    for name in (SUMMARY, "config.json", DIALOG_TRACE, TURN_EVAL, COMMITS):
        assert (tmp_path / "r" / name).read_bytes() == artifacts[name], name
    started = [
        msgspec.json.decode(content)["started_at"]
        for content in (artifacts["run_manifest.json"], (tmp_path / "r" / "run_manifest.json").read_bytes())
    ]
    assert started[0] == started[1]


async def test_failed_and_partial_dialogues_are_replayed_again_when_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(tmp_path / "data.jsonl")
    await Run(plan(tmp_path / "data.jsonl", tmp_path)).run()
    monkeypatch.setattr(Agent, "broken", False)
    expected = await whole(tmp_path)
    await Run(again(tmp_path)).run()
    assert not asked
    await Run(again(tmp_path, retry_failed=True)).run()
    assert {dialog_id for dialog_id, _ in asked} == {"d0002", "d0005"}
    assert {dialog_id for dialog_id, _ in judged} == {"d0002", "d0005"}
    assert (tmp_path / "r" / SUMMARY).read_bytes() == expected
    assert not (tmp_path / "r" / ".rewrite").exists()
    once_each(tmp_path)


async def test_failed_judgements_are_made_again_when_that_is_wanted_and_no_agent_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Agent, "broken", False)
    data(tmp_path / "data.jsonl")
    expected = await whole(tmp_path)
    failing = {("d0001", 2), ("d0004", 1), ("d0004", 3)}
    sound = Judge.judge

    async def judge(self: Judge, request: JudgeRequest) -> Verdict:
        if (request.dialog_id, request.turn_pair_id) in failing:
            raise ValueError("no verdict on this one")
        return await sound(self, request)

    monkeypatch.setattr(Judge, "judge", judge)
    await Run(plan(tmp_path / "data.jsonl", tmp_path)).run()
    monkeypatch.setattr(Judge, "judge", sound)
    asked.clear()
    judged.clear()
    await Run(again(tmp_path)).run()
    assert not judged
    assert (tmp_path / "r" / SUMMARY).read_bytes() != expected
    traces = (tmp_path / "r" / DIALOG_TRACE).read_bytes()
    await Run(again(tmp_path, retry_failed=True)).run()
    assert not asked
    assert judged == dict.fromkeys(failing, 1)  # the other verdicts of these dialogues are in the cache
    assert (tmp_path / "r" / DIALOG_TRACE).read_bytes() == traces
    assert (tmp_path / "r" / SUMMARY).read_bytes() == expected
    once_each(tmp_path)


async def test_an_interrupted_dialogue_asks_a_users_judge_for_no_verdict_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Agent, "broken", False)
    data(tmp_path / "data.jsonl")
    judged.clear()
    sound = Judge.judge

    async def judge(self: Judge, request: JudgeRequest) -> Verdict:
        if request.turn_pair_id < TURNS:
            return await sound(self, request)
        while len(list((tmp_path / ".judge_cache").rglob("*.json"))) < TURNS - 1:  # noqa: ASYNC110
            await anyio.sleep(0.01)  # the disk sets no event
        run.cancel("the test")
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(Judge, "judge", judge)
    run = Run(plan(tmp_path / "data.jsonl", tmp_path, limit=1, workers_judge=TURNS))
    with anyio.fail_after(60), pytest.raises(RunStopped):
        await run.run()
    assert committed(tmp_path, "judged") == set()
    monkeypatch.setattr(Judge, "judge", sound)
    await Run(again(tmp_path)).run()
    assert judged == {("d0000", turn): 1 for turn in range(1, TURNS + 1)}


async def test_what_is_replayed_again_is_judged_again_and_so_is_what_else_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(tmp_path / "data.jsonl")

    async def judge(self: Judge, request: JudgeRequest) -> Verdict:
        raise ValueError("none at all")

    with monkeypatch.context() as patch:
        patch.setattr(Judge, "judge", judge)
        await Run(plan(tmp_path / "data.jsonl", tmp_path)).run()
    monkeypatch.setattr(Agent, "broken", False)
    expected = await whole(tmp_path)
    await Run(again(tmp_path, retry_failed=True)).run()
    assert {dialog_id for dialog_id, _ in asked} == {"d0002", "d0005"}
    assert len(judged) == DIALOGS * TURNS
    assert max(judged.values()) == 1
    assert (tmp_path / "r" / SUMMARY).read_bytes() == expected
    once_each(tmp_path)


async def test_a_changed_dataset_is_refused_and_what_is_insisted_on_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(tmp_path / "data.jsonl")
    await stopped_after(plan(tmp_path / "data.jsonl", tmp_path, notes="mine"), 4, monkeypatch)
    objects = read_jsonl(tmp_path / "data.jsonl")
    objects[-1]["blueprint"] = {"forbidden_list": ["保本保收益"]}
    write_jsonl(tmp_path / "data.jsonl", objects)
    with pytest.raises(UsageError) as refused:
        again(tmp_path)
    assert str(refused.value) == (
        f"run {tmp_path / 'r'}: not as it was when the run began: dataset_sha256; start a new run, "
        "or mix both with --force"
    )
    events: list[ProgressEvent] = []
    summary = await Run(again(tmp_path, force=True), events.append).run()
    assert isinstance(events[0], RunResumed)
    assert events[0].changed == ["dataset_sha256"]
    manifest, config = (
        msgspec.json.decode((tmp_path / "r" / name).read_bytes())
        for name in ("run_manifest.json", "config.json")
    )
    assert manifest["notes"] == "mine; resumed with --force, changed since it began: dataset_sha256"
    assert config["config_fingerprint"] == summary.config_fingerprint
    once_each(tmp_path)
    again(tmp_path)  # what it is made of is known now


@pytest.mark.parametrize("change", ["shorter", "another order", "another text"])
async def test_a_dataset_that_lacks_what_is_committed_is_refused_even_by_force(
    tmp_path: Path, change: str
) -> None:
    data(tmp_path / "data.jsonl")
    await Run(plan(tmp_path / "data.jsonl", tmp_path)).run()
    objects = read_jsonl(tmp_path / "data.jsonl")
    if change == "shorter":
        problem = r"has become shorter: 2 dialogues that the run has committed are not in it"
        objects = objects[:-2]
    else:
        problem = r"line 1 is not the dialogue 'd0000' that the run has committed for it"
        if change == "another order":
            objects.reverse()
        else:
            objects[0]["turns"][0]["text"] = "another question"
    write_jsonl(tmp_path / "data.jsonl", objects)
    rows = (tmp_path / "r" / TURN_EVAL).read_bytes()
    with pytest.raises(UsageError, match=problem):
        await Run(again(tmp_path, force=True)).run()
    assert (tmp_path / "r" / TURN_EVAL).read_bytes() == rows
    events = read_jsonl(tmp_path / "logs" / "progress_r.jsonl")
    assert events[-1]["event"] == "run_interrupted"


async def test_only_one_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data(tmp_path / "data.jsonl")
    await stopped_after(plan(tmp_path / "data.jsonl", tmp_path), 2, monkeypatch)
    refusals: list[str] = []

    async def contend() -> None:
        try:
            await Run(again(tmp_path)).run()
        except UsageError as problem:
            refusals.append(str(problem))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(contend)
    assert len(refusals) == 2
    assert all("is in use by" in refusal for refusal in refusals)
    once_each(tmp_path)


async def test_what_cannot_be_resumed_is_refused_with_one_line(tmp_path: Path) -> None:
    def refusal(path: Path) -> str:
        with pytest.raises(UsageError) as refused:
            make_resume_plan(path)
        assert len(str(refused.value).splitlines()) == 1
        return str(refused.value).removeprefix(f"run {path}: ")

    data(tmp_path / "data.jsonl")
    await Run(plan(tmp_path / "data.jsonl", tmp_path)).run()
    assert refusal(tmp_path / "no") == "no such directory"
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty").startswith("has no commits.log")
    (tmp_path / "empty" / COMMITS).touch()
    assert refusal(tmp_path / "empty") == (
        "has no config.json: it ended before it began; memfin run --run-id empty takes its place"
    )
    shard = tmp_path / "s.shards" / "1-of-3"
    shard.mkdir(parents=True)
    assert "memfin merge makes one run of all" in refusal(shard.parent)
    (shard / COMMITS).touch()
    assert refusal(shard).endswith("; memfin run --run-id s --shard 1/3 takes its place")
    rescored = make_rescore_plan(tmp_path / "r" / DIALOG_TRACE, tmp_path / "data.jsonl", tmp_path / "scored")
    await Run(rescored).run()
    assert refusal(tmp_path / "scored") == "was made by memfin score; score again into a new directory"
    (tmp_path / "r" / "config.json").write_bytes(b"{}")
    with pytest.raises(UsageError, match=r"config\.json is not as it was written"):
        again(tmp_path)
