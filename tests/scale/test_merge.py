"""Merging of shards: the run of one process to the byte; what is refused; merges that are killed."""

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import memfin
from memfin.contracts import Dialog, DialogDone, EvalSummary, RunManifest, RunStats, TurnEvalRow, TurnTrace
from memfin.contracts.reading import read_json
from memfin.errors import RunFault, RunStopped, UsageError
from memfin.journal.disk import Disk
from memfin.journal.lock import RunLock
from memfin.journal.recovery import examine
from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.run import Run
from memfin.scale.merge import MERGE, merge_shards
from memfin.validation import validate_run
from tests.client.faulty_server import FaultyServer
from tests.commands import run_command
from tests.journal.journal_disks import FaultyDisk
from tests.judges.scripted_judge import verdict
from tests.support import dialog, each_case, length, read_jsonl, write_jsonl

SUMMARY = "metrics_summary.json"
ROWS = ("dialog_trace.jsonl", "turn_eval.jsonl", "judgements.jsonl")
WORKERS = ("workers_dialog", "workers_judge")
TIMED = ("latency_ms", "worker_id", "session_id")
"""Fields of rows that are different in every run."""


class Fee(memfin.TurnMetric):
    """Replies that mention fees."""

    name = "fee"
    version = "1"
    value = "mention_rate"

    def measure(self, dialog: Dialog, turn: TurnTrace, row: TurnEvalRow) -> bool:
        return "费用" in str(turn.pred_assistant_text)


class Failing:
    """Answers; one dialogue gets no agent, in others a turn fails or takes too long."""

    def __init__(self, session: Any, observer: Any) -> None:
        if session.dialog_id == "d0002":
            raise ValueError("no agent for this one")
        self._observer = observer
        self._dialog_id = session.dialog_id
        self._turn = 0

    async def reply(self, user_text: str) -> memfin.AgentReply:
        self._turn += 1
        if self._turn == 2 and self._dialog_id == "d0003":
            raise ValueError("this turn fails")
        if self._turn == 2 and self._dialog_id == "d0004":
            await anyio.sleep_forever()
        self._observer.profile(risk_level="medium", investment_horizon="long")
        hint = "本金可能亏损。" if self._turn % 2 else "费用较低，不使用杠杆。"
        text = f"{self._dialog_id}-{self._turn}：根据公开数据，{hint}仅供参考。"
        return memfin.AgentReply(text=text, usage={"model": "tiny", "calls": 1, "prompt_tokens": self._turn})


class NoAgent:
    def __init__(self, session: Any, observer: Any) -> None:
        raise ValueError("the key is missing")


class Moody(FaultyServer):
    """A judge whose verdicts depend on the order of what it is shown, and that refuses to read one reply."""

    def __init__(self) -> None:
        super().__init__(responder=self._judged, usage=(100, 20))

    @staticmethod
    def _judged(body: dict[str, Any]) -> str:
        said = body["messages"][-1]["content"]
        return json.dumps(json.loads(verdict(body)) | {"score": 1 + said.index("<untrusted reply") % 5})

    async def _answer(self, request: Any, body: dict[str, Any], fault: str | None) -> Any:
        refused = "d0006-2" in body["messages"][-1]["content"]
        return await super()._answer(request, body, "400" if refused else fault)


def a_dataset(path: Path, dialogs: int = 9) -> Path:
    """Write dialogues with two broken lines, a blank one, a duplicate, and two dialogues of one user."""
    users: dict[int, dict[str, Any]] = {1: {"user_id": "anna"}, 6: {"user_id": "anna"}}
    lines: list[Any] = [dialog(f"d{number:04}", **users.get(number, {})) for number in range(dialogs)]
    lines[3:3] = ["not an object", lines[1]]
    write_jsonl(path, lines)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n{broken\n")
    return path


async def run(
    data: Any, runs: Path, shard: str | None = None, *, stop_after: int | None = None, **settings: Any
) -> Path:
    """Evaluate the dataset or a shard of it; with ``stop_after`` it is stopped then and resumed."""
    given: dict[str, Any] = {"agent": Failing, "runs_dir": runs, "run_id": "r"}
    plan = make_plan(data, shard=shard, **given | settings)
    if stop_after is None:
        await Run(plan).run()
        return plan.directory
    left = iter(range(stop_after - 1))
    cut = Run(
        plan, lambda event: cut.stop("x") if isinstance(event, DialogDone) and next(left, -1) < 0 else None
    )
    with pytest.raises(RunStopped):
        await cut.run()
    await Run(make_resume_plan(plan.directory, agent=given["agent"])).run()
    return plan.directory


async def shards_of(data: Any, runs: Path, count: int, **settings: Any) -> Path:
    for index in range(count):
        await run(data, runs, f"{index}/{count}", **settings)
    return runs / "r.shards"


def rows(directory: Path) -> dict[str, list[Any]]:
    """Return all rows without what is different in every run."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: timeless(each) for name, each in value.items() if name not in TIMED}
        return [timeless(each) for each in value] if isinstance(value, list) else value

    return {name: timeless(read_jsonl(directory / name)) for name in ROWS if (directory / name).exists()}


def stats(directory: Path) -> dict[str, Any]:
    """Return the statistics without times and stages."""
    found = dict(read_json(directory / "run_stats.json", RunStats))
    return {name: found[name] for name in found if name not in ("wall_seconds", "turn_latency_ms", "actors")}


@pytest.mark.anyio
async def test_the_merged_run_is_that_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = a_dataset(tmp_path / "data.jsonl")
    settings: dict[str, Any] = {
        "judge": "openai:m",
        "judge_votes": 2,
        "judge_cache": "off",
        "turn_retries": 0,
        "turn_timeout": 1.0,
        "metrics": [Fee],
        "trace_version": "v1.1",
    }
    async with Moody() as server:
        monkeypatch.setenv("MEMFIN_JUDGE_BASE_URL", server.base_url)
        monkeypatch.setattr("memfin.scale.merge.GROUP", 5000)
        one = await run(data, tmp_path / "one", workers_dialog=1, **settings)
        merged = []
        for count in (2, 8):
            runs = tmp_path / str(count)
            for index in range(count):
                cut = 1 if (index, count) == (1, 2) else None
                await run(data, runs, f"{index}/{count}", stop_after=cut, **settings)
            merged.append(merge_shards([runs / "r.shards"], runs / "r"))
    summary = (one / SUMMARY).read_bytes()
    metrics = read_json(one / SUMMARY, EvalSummary).metrics
    assert metrics["fee"].micro["mention_rate"] == 6 / 22  # the rest of the test is about something
    whole = stats(one)
    assert whole["dialogs_by_status"] == {"failed": 1, "ok": 6, "partial": 2, "skipped": 3}
    assert whole["turns_by_status"] == {"error": 4, "ok": 22, "timeout": 1}
    assert whole["judge_failures"] == 1
    for directory in merged:
        assert (directory / SUMMARY).read_bytes() == summary
        assert stats(directory) == whole
        assert [*validate_run(directory)] == []
        assert examine(Disk(), directory).cuts == ()
        assert read_jsonl(directory / "dialog_trace.jsonl") == sorted(
            read_jsonl(directory / "dialog_trace.jsonl"), key=lambda trace: trace["dataset_index"]
        )
    assert rows(merged[0]) == rows(merged[1])
    for name, lines in rows(one).items():  # in the order in which they were done
        assert sorted(map(str, lines)) == sorted(map(str, rows(merged[0])[name]))
    controls = [json.loads((directory / "judge_controls.json").read_bytes()) for directory in (one, *merged)]
    assert controls[0] == controls[1] == controls[2]
    config, single = (json.loads((each / "config.json").read_bytes()) for each in (merged[0], one))
    assert [config["settings"].pop(name) for name in WORKERS] == [2 * 4, 2 * 2]
    assert [read_json(merged[0] / "run_manifest.json", RunManifest)[name] for name in WORKERS] == [8, 4]
    for name in (*WORKERS, "runs_dir"):
        single["settings"].pop(name)
    del config["settings"]["runs_dir"]
    assert config == single


@pytest.mark.anyio
async def test_shards_without_a_dialogue_are_merged(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "data.jsonl", [dialog("d0000"), "nothing", dialog("d0001")])
    one = await run(data, tmp_path / "one", agent="oracle", limit=2)
    shards = await shards_of(data, tmp_path, 5, agent="oracle", limit=2)
    merged = merge_shards([shards], tmp_path / "r")
    assert (merged / SUMMARY).read_bytes() == (one / SUMMARY).read_bytes()
    assert [*validate_run(merged)] == []


@pytest.mark.anyio
async def test_a_dataset_of_objects_is_kept_in_the_merged_run(tmp_path: Path) -> None:
    objects = [dialog("d0000"), dialog("d0001"), dialog("d0003")]
    shards = await shards_of(objects, tmp_path, 2)
    merged = merge_shards([shards / "1-of-2", shards / "0-of-2"], tmp_path / "r")
    shutil.rmtree(shards)
    assert read_jsonl(merged / "dataset.jsonl") == objects
    found = (merged / SUMMARY).read_bytes()
    await Run(make_resume_plan(merged)).run()
    assert (merged / SUMMARY).read_bytes() == found
    shutil.rmtree(merged)
    assert (await run(objects, tmp_path) / SUMMARY).read_bytes() == found


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a dataset both shards of a run of it, and some shards of others."""
    place = tmp_path_factory.mktemp("shards")
    data = a_dataset(place / "data.jsonl", 5)

    async def make() -> None:
        await shards_of(data, place, 2, agent="oracle")
        await run(data, place / "gated", "1/2", agent="oracle", fail_on_error=1)
        await run(data, place / "seeded", "1/2", agent="oracle", seed=1)
        await run(data, place / "three", "1/3", agent="oracle")
        await run(data, place / "named", "1/2", agent="oracle", run_id="other")
        await run(data, place / "whole", agent="oracle")

    anyio.run(make)
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that."""
    shutil.copytree(template, tmp_path / "copy")
    for config in (tmp_path / "copy").rglob("config.json"):
        assert str(template / "data.jsonl") in config.read_text()  # the dataset that is read
    monkeypatch.chdir(tmp_path / "copy")
    return Path()


FIRST, SECOND = Path("r.shards/0-of-2"), Path("r.shards/1-of-2")


def refusal(shards: list[Path], out: Path = Path("r")) -> str:
    """Return the line with which a merge is refused, which leaves nothing behind."""
    before = sorted(Path().rglob("*"))
    with pytest.raises(UsageError) as refused:
        merge_shards(shards, out)
    assert sorted(Path().rglob("*")) == before
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


@pytest.mark.usefixtures("place")
def test_what_is_not_all_of_one_run_is_refused() -> None:
    shutil.copytree(SECOND, "again")
    cases: dict[str, list[Path]] = {
        "shard 1/2 is missing; give the run directories of all 2 shards": [FIRST],
        "shard 0/2: r.shards/0-of-2 is given twice": [FIRST, SECOND, FIRST],
        "shard 1/2: is given as r.shards/1-of-2 and as again; keep one": [FIRST, SECOND, Path("again")],
        "three/r.shards/1-of-3: is shard 1/3, r.shards/0-of-2 is shard 0/2; give the shards of one run": [
            FIRST,
            Path("three/r.shards"),
        ],
        "named/other.shards/1-of-2: is of run 'other', r.shards/0-of-2 of 'r'; give the shards of one run": [
            FIRST,
            Path("named/other.shards/1-of-2"),
        ],
        "shards 0/2 and 1/2: have different seed; a run has one": [FIRST, Path("seeded/r.shards")],
        "shards 0/2 and 1/2: have different fail_on_error; a run has one": [FIRST, Path("gated/r.shards")],
        "run whole/r: is no shard of a run (memfin run --shard K/N)": [Path("whole/r")],
        "whole: holds no run that has begun; give the run directories of shards": [Path("whole")],
        "run nowhere: no such directory": [FIRST, Path("nowhere")],
        "no shard is given; name the run directories of all shards": [],
    }
    assert [refusal(shards) for shards in cases.values()] == [*cases]


def change(path: Path, edit: Callable[[bytes], bytes]) -> None:
    path.write_bytes(edit(path.read_bytes()))


def flipped(data: bytes) -> bytes:
    return data[:900] + bytes([data[900] ^ 1]) + data[901:]


def unended(data: bytes) -> bytes:
    return json.dumps(json.loads(data) | {"ended_at": None}).encode()


@each_case(
    ("name", "edit", "message"),
    [
        (
            "turn_eval.jsonl",
            flipped,
            "turn_eval.jsonl: offset 0: judged of dialogue 'd000",
        ),
        (
            "dialog_trace.jsonl",
            flipped,
            "dialog_trace.jsonl: offset ",
        ),
        ("turn_eval.jsonl", lambda data: data[:-5], "turn_eval.jsonl: offset "),
        ("turn_eval.jsonl", lambda data: data + b"x", "bytes were never committed; memfin resume"),
        ("commits.log", flipped, "commits.log: offset "),
        ("commits.log", lambda data: data[:-9], "memfin resume"),
        ("config.json", lambda data: data.replace(b'"seed": 0', b'"seed": 9', 1), "config.json is not as it"),
        ("run_manifest.json", unended, "shard 0/2 is not finished; memfin resume r.shards/0-of-2 goes on"),
        ("run_stats.json", None, "shard 0/2 is not finished; memfin resume r.shards/0-of-2 goes on with it"),
        ("run_manifest.json", None, "r.shards/0-of-2: holds no run that has begun"),
        ("labels.jsonl", b"", "shard 0/2: r.shards/0-of-2/labels.jsonl was made for a part of the run"),
    ],
)
def test_a_shard_that_is_not_sound_is_refused(
    name: str, edit: Any, message: str, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(tmp_path)
    shutil.copytree(template, tmp_path)
    monkeypatch.chdir(tmp_path)
    path = FIRST / name
    if edit is None:
        path.unlink()
    elif edit == b"":
        path.touch()
    else:
        change(path, edit)
    assert message in refusal([FIRST, SECOND])


@pytest.mark.usefixtures("place")
def test_a_shard_in_use_is_refused() -> None:
    lock = RunLock(SECOND, Disk())
    lock.acquire()
    try:
        assert refusal([FIRST, SECOND]) == (
            "shard 1/2: r.shards/1-of-2 is in use by another process; wait for it to end"
        )
    finally:
        lock.release()
    assert merge_shards([FIRST, SECOND], Path("r")) == Path("r")


@pytest.mark.anyio
async def test_what_the_shards_depend_on_must_be_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = a_dataset(tmp_path / "data.jsonl", 2)
    (tmp_path / "own.py").write_text(
        "import memfin\nclass Own(memfin.TurnMetric):\n    name, version = 'own', '1'\n"
        "    def measure(self, dialog, turn, row):\n        return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    shards = await shards_of(data, tmp_path, 2, agent="oracle", metrics=["own:Own"])
    monkeypatch.chdir(tmp_path)
    change(data, lambda content: content + b"\n")
    assert "not as it was when they ran: dataset_sha256" in refusal([shards], tmp_path / "r")
    change(data, lambda content: content[:-1])
    monkeypatch.setattr("memfin.scale.merge.__version__", "9")
    assert "not as it was when they ran: memfin_version" in refusal([shards], tmp_path / "r")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own")
    assert "metric 'own:Own'" in refusal([shards], tmp_path / "r")


@pytest.mark.usefixtures("place")
def test_what_exists_is_left_alone_but_a_finished_merge_is_one() -> None:
    merged = merge_shards([Path("r.shards")], Path("r"))
    first = {path.name: path.stat().st_mtime_ns for path in merged.iterdir()}
    assert merge_shards([SECOND, FIRST], Path("r")) == merged
    assert {path.name: path.stat().st_mtime_ns for path in merged.iterdir()} == first
    (merged / MERGE).unlink()
    exists = "exists already and is no merge of these shards; choose another --out"
    assert refusal([FIRST, SECOND]) == f"r: {exists}"
    assert refusal([FIRST, SECOND], Path("whole")) == f"whole: {exists}"


@pytest.mark.usefixtures("place")
def test_one_process_merges_at_a_time() -> None:
    work = Path(".r.merging")
    work.mkdir()
    lock = RunLock(work, Disk())
    lock.acquire()
    try:
        assert "is in use by process" in refusal([FIRST, SECOND])
    finally:
        lock.release()
    merge_shards([FIRST, SECOND], Path("r"))
    assert not work.exists()


@pytest.mark.usefixtures("place")
def test_a_merge_of_other_shards_is_not_taken_over() -> None:
    work = Path(".r.merging")
    work.mkdir()
    (work / ".lock").touch()
    (work / MERGE).write_text('{"run_id":"r","config_fingerprint":"x","commits":{"0/2":"y","1/2":"z"}}')
    assert refusal([FIRST, SECOND]) == (
        ".r.merging: holds an unfinished merge of other shards; remove it, or choose another --out"
    )


@pytest.mark.usefixtures("place")
def test_a_fault_leaves_nothing_and_the_same_command_merges() -> None:
    expected = Path("whole/r", SUMMARY).read_bytes()
    kinds = frozenset({"open", "write", "fsync", "replace", "mkdir"})
    number, failed = 1, "for a start"
    while failed:
        disk = FaultyDisk(number, kinds=kinds, half=True)
        with suppress(RunFault):
            merge_shards([FIRST, SECOND], Path("r"), disk=disk)
        failed, number = disk.failed, number + 3
        assert not disk.opened
        assert not Path(".r.merging").exists()
        if Path("r").exists():
            assert Path("r", SUMMARY).read_bytes() == expected
            shutil.rmtree("r")  # where a step failed, it was that of synchronising its name
    assert number > 25


@pytest.mark.usefixtures("place")
def test_a_merge_that_was_killed_at_any_step_begins_again(template: Path) -> None:
    script = """
        import os, signal, shutil, sys
        from pathlib import Path
        from memfin.journal.disk import Disk
        from memfin.scale.merge import merge_shards

        class Deadly(Disk):
            left = 0
        def deadly(name):
            real = getattr(Disk, name)
            def method(self, *args, **kwargs):
                self.left -= 1
                if self.left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(self, *args, **kwargs)
            return method
        for name in ("open", "write", "fsync", "replace", "mkdir", "unlink"):
            setattr(Deadly, name, deadly(name))

        def merge(step):
            disk = Deadly()
            disk.left = step
            merge_shards([Path("r.shards")], Path("r"), disk=disk)

        step, killed = 0, True
        while killed:
            step += int(sys.argv[2])
            if not (child := os.fork()):
                merge(step)
                os._exit(0)
            killed = os.waitpid(child, 0)[1] == signal.SIGKILL
            if step % 4 == 1:  # sometimes two are killed one after the other
                continue
            there = Path("r").exists()
            assert not there or Path("r/metrics_summary.json").exists()
            merge(0)
            assert Path("r/metrics_summary.json").read_bytes() == Path(sys.argv[1]).read_bytes(), step
            assert not Path(".r.merging").exists(), step
            shutil.rmtree("r")
        print(step)
    """
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(script),
            str(template / "whole" / "r" / SUMMARY),
            str(length(5, 1)),
        ],
        env={"PYTHONPATH": str(Path(memfin.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert int(done.stdout) > 40


@pytest.mark.usefixtures("place")
def test_the_command_merges_reports_and_applies_the_gates() -> None:
    done = run_command("merge", "r.shards", "--junit", "junit.xml", "--github")
    assert done.returncode == 0, done.stderr
    assert "4 dialogues" not in done.stdout
    assert "5 dialogues" in done.stdout
    assert "report: r/report.html" in done.stdout
    assert Path("r/report.html").is_file()
    assert "d0004" in Path("junit.xml").read_text()
    again = run_command("merge", str(FIRST), str(SECOND), "--json")
    assert again.stdout.encode() == Path("whole/r", SUMMARY).read_bytes()
    other = run_command("merge", str(FIRST), "whole/r")
    assert (other.returncode, other.stderr) == (
        2,
        "memfin: --out: is needed where the shards are not together in a directory RUN_ID.shards\n",
    )


@pytest.mark.usefixtures("place")
def test_the_command_uploads_the_merged_run() -> None:
    pytest.importorskip("fsspec", reason="the extra memfin[upload] is not installed")
    done = run_command("merge", "r.shards", "--quiet", "--upload", "store")
    assert done.returncode == 0, done.stderr
    assert Path("store", "r", SUMMARY).read_bytes() == Path("r", SUMMARY).read_bytes()


@pytest.mark.anyio
async def test_gates_are_those_of_the_whole_run(tmp_path: Path) -> None:
    data = a_dataset(tmp_path / "data.jsonl")
    await shards_of(data, tmp_path, 2, turn_timeout=1.0, fail_on_error=1)
    done = run_command("merge", str(tmp_path / "r.shards"), "--quiet")
    assert done.returncode == 1
    assert "5 of 27 turns failed; the most frequent reason, 3 times: " in done.stderr
    assert done.stderr.splitlines()[-1].startswith("memfin: --fail-on-error 1: 5 of 27 turns")
    await Run(make_resume_plan(tmp_path / "r", agent=Failing)).run()
    await Run(make_rescore_plan(tmp_path / "r" / ROWS[0], data, tmp_path / "scored")).run()


@pytest.mark.anyio
async def test_a_run_without_an_agent_is_told_by_the_merge(tmp_path: Path) -> None:
    await shards_of(a_dataset(tmp_path / "data.jsonl", 3), tmp_path, 2, agent=NoAgent)
    done = run_command("merge", str(tmp_path / "r.shards"), "--quiet")
    assert done.returncode == 2
    assert "no turn of the 3 dialogues was answered: " in done.stderr
    assert "the key is missing" in done.stderr
