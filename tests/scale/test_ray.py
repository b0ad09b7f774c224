"""``memfin run --engine ray``: a cluster on loopback, real workers, and what kills them."""

import hashlib
import io
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from memfin.contracts import RunConfig
from memfin.contracts.settings import EngineSettings
from memfin.errors import UsageError
from memfin.journal import COMMITS
from memfin.runtime.api import run_eval_parallel
from memfin.scale import ray_tasks
from memfin.scale.archive import pack_run, unpack_run
from memfin.scale.launchers import make_launcher
from memfin.scale.ray import read_options, read_runtime_env
from memfin.scale.ray_tasks import Progress, ShardJob, ShardResult
from memfin.scale.worker import WorkerTask
from memfin.validation import validate_run
from memfin.version import __version__
from tests.commands import Command, run_command
from tests.scale.test_processes import prepare, workers
from tests.support import read_jsonl

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.2"
"""An address on loopback which Ray takes as it is: it would replace 127.0.0.1 by that of the machine."""

LONG = 240.0
"""Seconds that anything may take: Ray starts slowly, and more so on a busy machine."""

TOKEN = secrets.token_hex(16)

AGENT = """
import asyncio, os, pathlib, signal

FOLDER = pathlib.Path(os.environ.get("AGENT_FOLDER", "."))
IN_WORKER = os.getpid() == os.getsid(0)

class Agent:
    def __init__(self, session, observer):
        self.name = session.dialog_id
        self.observer = observer
        self.turn = 0

    async def reply(self, user_text):
        self.turn += 1
        self.observer.recall(short_term_context=user_text, query=user_text)
        if self.name == "d0003" and self.turn == 2:
            raise RuntimeError("this turn fails")
        if self.name == "d0004" and (FOLDER / "always").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if self.name >= "d0006" and (FOLDER / "hang").exists():
            (FOLDER / f"hanging-{os.getpid()}").touch()
            while (FOLDER / "hang").exists():
                await asyncio.sleep(0.02)
            if (FOLDER / "slow").exists():
                await asyncio.sleep(1.5)
        return f"{self.name}-{self.turn}：市场存在不确定性，仅供参考。"

def make(session, observer):
    return Agent(session, observer)
"""

OPTIONS = ("data.jsonl", "--agent", "agent_of_ray:make", "--run-id", "r", "--fsync-interval", "0")
ENGINE = ("--engine", "ray", "--engine-workers", "2")
SHARDS = Path("runs") / "r.shards"
SUMMARY = Path("runs") / "r" / "metrics_summary.json"


# Without Ray


def test_options_are_checked_before_anything_starts(tmp_path: Path) -> None:
    text = '{"num_cpus": 2, "resources": {"judge": 0.5}, "scheduling_strategy": "SPREAD"}'
    assert read_options(text) == json.loads(text)
    (tmp_path / "options.json").write_text('{"scheduling_strategy": {"node_id": "a1", "soft": true}}')
    named = read_options(str(tmp_path / "options.json"))
    assert named == {"scheduling_strategy": {"node_id": "a1", "soft": True}}
    for wrong, reason in (
        ('{"num_cpu": 2}', "num_cpu"),
        ('{"num_cpus": -1}', r"num_cpus"),
        ('{"max_retries": 9}', "known options: num_cpus, "),
        ('{"scheduling_strategy": "NEAR"}', "NEAR"),
        ("{", "--ray-options"),
        ("missing.json", "No such file"),
    ):
        with pytest.raises(UsageError, match=reason):
            read_options(wrong)
    for name, text in (
        ("e.json", '{"env_vars": {"A": "1"}}'),
        ("e.toml", "env_vars.A = '1'"),
        ("e.yml", "env_vars: {A: '1'}"),
    ):
        (tmp_path / name).write_text(text)
        assert read_runtime_env(str(tmp_path / name)) == {"env_vars": {"A": "1"}}
    for name, text, reason in (
        ("x.json", "[]", "x.json"),
        ("x.yaml", "!!python/object:os.system", "x.yaml"),
        ("x.ini", "", "end with"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=reason):
            read_runtime_env(str(tmp_path / name))


def test_a_missing_extra_and_options_of_another_engine_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'memfin\[ray\]'"):
        make_launcher(EngineSettings(engine="ray", engine_workers=2))
    with pytest.raises(UsageError, match="--ray-return: only for --engine ray"):
        make_launcher(EngineSettings(engine="processes", ray_return="archive"))


def result(tmp_path: Path, *, version: str = __version__, **changes: object) -> ShardResult:
    config = RunConfig(run_id="r", shard="0/2", dataset=str(tmp_path / "data.jsonl"))
    task = WorkerTask(
        settings=config, directory=str(tmp_path / "r.shards" / "0-of-2"), dataset_path="data.jsonl"
    )
    job = ShardJob(task=task, token="t", probe=str(tmp_path / "probe"))  # noqa: S106 - of a test
    job = job.replace(**changes)
    line = ray_tasks.run_shard(version, msgspec.json.encode(job), None, {})
    return msgspec.json.decode(line, type=ShardResult)


def test_a_node_that_lacks_what_the_command_has_says_so(tmp_path: Path) -> None:
    assert "has memfin" in str(result(tmp_path, version="0.0.1").cause)
    refused = result(tmp_path)
    assert refused.code == 2
    assert "has to be on a file system that all nodes share" in str(refused.cause)
    (tmp_path / "probe").write_text("t")
    (tmp_path / "data.jsonl").write_text("other")
    assert "is another one" in str(result(tmp_path, dataset_sha256="0").cause)
    sha256 = hashlib.sha256(b"other").hexdigest()
    assert "has no directory" in str(result(tmp_path, dataset_sha256=sha256, folder="/nowhere").cause)


def test_progress_that_nobody_takes_is_bounded() -> None:
    progress = Progress(limit=100)
    for number in range(100):
        progress.report(number, b"x" * 10, b"")
    assert [shard for shard, _, _ in progress.take()] == [*range(90, 100)]
    assert progress.take() == []


def archive(name: str, kind: bytes = tarfile.REGTYPE) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info, io.BytesIO())
    file.seek(0)
    return file


def test_archives_hold_plain_files_of_a_run_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "0-of-2"
    for wrong in (
        archive("../outside"),
        archive("/etc/outside"),
        archive("a/b"),
        archive(".lock"),
        archive("link", tarfile.SYMTYPE),
        archive("hard", tarfile.LNKTYPE),
        archive("pipe", tarfile.FIFOTYPE),
        archive("folder", tarfile.DIRTYPE),
        io.BytesIO(b"no archive"),
        archive(COMMITS + ".torn"),
    ):
        with pytest.raises(UsageError):
            unpack_run(wrong, target)
        assert list(tmp_path.iterdir()) == []
    prepare(tmp_path)
    run_eval_parallel(tmp_path / "data.jsonl", "r", agent_factory="echo", runs_dir=str(tmp_path / "runs"))
    run = tmp_path / "runs" / "r"
    size = pack_run(run, tmp_path / "run.tar")
    assert size == (tmp_path / "run.tar").stat().st_size
    target.mkdir()
    (target / "old").touch()
    with (tmp_path / "run.tar").open("rb") as packed:
        unpack_run(packed, target)
    names = {path.name for path in run.iterdir() if path.name != ".lock"}
    assert {path.name for path in target.iterdir()} == names
    (run / "turn_eval.jsonl").write_bytes((run / "turn_eval.jsonl").read_bytes().replace(b"1", b"2", 1))
    pack_run(run, tmp_path / "run.tar")
    with (tmp_path / "run.tar").open("rb") as packed, pytest.raises(UsageError, match="checksum"):
        unpack_run(packed, target)
    assert {path.name for path in target.iterdir()} == names


# With Ray


def wait_until(true: Callable[[], bool], command: Command | None = None) -> None:
    deadline = time.monotonic() + LONG
    while not true():
        assert command is None or command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def free_ports(count: int) -> list[str]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [str(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a Ray cluster of one node, with a token, whose workers find the agent."""
    pytest.importorskip("ray", reason="the extra memfin[ray] is not installed (make test-ray)")
    modules = tmp_path_factory.mktemp("modules")
    (modules / "agent_of_ray.py").write_text(AGENT, "utf-8")
    temporary = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets have short names
    port, agent, client = free_ports(3)
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"),
        *("--node-ip-address", HOST, "--port", port, "--temp-dir", temporary, "--num-cpus", "2"),
        *("--object-store-memory", str(80 << 20), "--include-dashboard", "false"),
        *("--dashboard-agent-listen-port", agent, "--ray-client-server-port", client),
        *("--min-worker-port", "0", "--max-worker-port", "0"),
    ]
    with (modules / "ray.log").open("w+b") as log:
        head = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(modules),
            # As a script's background has it, where Ray could not interrupt its tasks.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # noqa: PLW1509
            start_new_session=True,
        )
        try:
            wait_until(lambda: b"--block" in (modules / "ray.log").read_bytes() or head.poll() is not None)
            assert head.poll() is None, (modules / "ray.log").read_text()
            yield f"{HOST}:{port}"
        finally:
            left = [
                each
                for each in psutil.process_iter(["cmdline"])
                if temporary in " ".join(each.info["cmdline"] or ())
            ]
            head.terminate()
            try:
                head.wait(15)
            finally:
                for each in left:
                    if each.is_running():
                        each.kill()
                shutil.rmtree(temporary, ignore_errors=True)


def environment(*folders: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *folders))),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAY_USAGE_STATS_ENABLED": "0",
        **more,
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the summary of a run in one process."""
    folder = tmp_path_factory.mktemp("whole")
    prepare_ray(folder)
    done = memfin(folder, "run", *OPTIONS, "--workers-score", 0, "--quiet")
    assert done.returncode == 0, done.stderr
    return (folder / SUMMARY).read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with the agent and the dataset, in which no worker may be left."""
    prepare_ray(tmp_path)
    yield tmp_path
    wait_until(lambda: not workers(tmp_path))


def prepare_ray(folder: Path) -> None:
    prepare(folder)
    (folder / "agent_of_ray.py").write_text(AGENT, "utf-8")


def memfin(folder: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    return run_command(*words, cwd=folder, env=environment(folder), timeout=LONG)


def started(folder: Path, *words: object) -> tuple[Command, list[int]]:
    """Start a command and return it with the processes of its workers once all of them hang."""
    (folder / "hang").touch()
    command = Command(*words, cwd=folder, env=environment(folder))
    hanging: Callable[[], list[Path]] = lambda: list(folder.glob("hanging-*"))  # noqa: E731
    wait_until(lambda: len(hanging()) >= 2, command)
    return command, [int(path.name.rpartition("-")[2]) for path in hanging()]


def go_on(folder: Path) -> None:
    (folder / "hang").unlink()
    for path in folder.glob("hanging-*"):
        path.unlink()


def test_a_killed_ray_worker_goes_on_and_the_summary_is_that_of_one_process(
    cluster: str, folder: Path, expected: bytes
) -> None:
    options = ("--ray-address", cluster, "--ray-options", '{"num_cpus": 1}', "--keep-shards")
    rates = ("--rate-lease", "--agent-rpm", "60000")
    command, (worker, _) = started(folder, "run", *OPTIONS, *ENGINE, *options, *rates)
    os.kill(psutil.Process(worker).ppid(), signal.SIGKILL)
    go_on(folder)
    _, errors = command.communicate(LONG)
    assert command.returncode == 0, errors
    assert (folder / SUMMARY).read_bytes() == expected
    assert errors.count("its worker died; Ray has started another") == 1
    logs = [read_jsonl(path) for path in (folder / "runs" / "logs").glob("progress_r.*-of-2.jsonl")]
    assert sum(event["event"] == "run_resumed" for log in logs for event in log) == 1
    assert not list(validate_run(folder / "runs" / "r"))
    assert sorted(path.name for path in (folder / SHARDS).iterdir()) == [
        ".lock",
        "0-of-2",
        "1-of-2",
        "engine.json",
    ]


def test_ctrl_c_and_a_killed_command_leave_shards_that_go_on(
    cluster: str, folder: Path, expected: bytes
) -> None:
    command, _ = started(folder, "run", *OPTIONS, *ENGINE, "--ray-address", cluster, "--quiet")
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(LONG)
    assert command.returncode == 130, errors
    assert errors.endswith("memfin: stopped by SIGINT; memfin resume runs/r.shards goes on\n")
    wait_until(lambda: not workers(folder))
    go_on(folder)
    command, _ = started(folder, "resume", SHARDS, "--quiet")
    command.kill()
    wait_until(lambda: not workers(folder))
    command.communicate(LONG)
    go_on(folder)
    done = memfin(folder, "resume", SHARDS, "--quiet")
    assert done.returncode == 0, done.stderr
    assert (folder / SUMMARY).read_bytes() == expected


def test_a_worker_that_always_dies_leaves_its_shard_resumable(
    cluster: str, folder: Path, expected: bytes
) -> None:
    (folder / "always").touch()
    failed = memfin(folder, "run", *OPTIONS, *ENGINE, "--ray-address", cluster, "--quiet")
    assert failed.returncode == 3, failed.stderr
    assert failed.stderr.splitlines()[-1].startswith("memfin: shard "), failed.stderr
    assert "its worker was ended by SIGKILL" in failed.stderr
    (folder / "always").unlink()
    done = memfin(folder, "resume", SHARDS, "--quiet")
    assert done.returncode == 0, done.stderr
    assert (folder / SUMMARY).read_bytes() == expected


def test_archives_bring_shards_back_from_nodes_that_share_no_path(
    cluster: str, folder: Path, expected: bytes
) -> None:
    (folder / "env.json").write_text(json.dumps({"env_vars": {"AGENT_FOLDER": str(folder)}}))
    options = ("--ray-address", cluster, "--ray-return", "archive", "--ray-runtime-env", "env.json")
    (folder / "slow").touch()
    command, _ = started(folder, "run", *OPTIONS, *ENGINE, *options)
    command.send_signal(signal.SIGINT)
    go_on(folder)
    _, errors = command.communicate(LONG)
    assert command.returncode == 130, errors
    (folder / "slow").unlink()
    before = scratch()
    command, (worker, _) = started(folder, "resume", SHARDS)
    os.kill(psutil.Process(worker).ppid(), signal.SIGKILL)
    go_on(folder)
    _, errors = command.communicate(LONG)
    assert command.returncode == 0, errors
    assert (folder / SUMMARY).read_bytes() == expected
    assert not list(validate_run(folder / "runs" / "r"))
    settings = json.loads((folder / "runs" / "r" / "config.json").read_bytes())["settings"]
    assert settings["dataset"] == "data.jsonl"
    assert scratch() <= before  # what the first command had no time for is left


def scratch() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("memfin-ray-*"))


def test_what_the_cluster_refuses_is_one_line(cluster: str, folder: Path) -> None:
    for words, code, reason in (
        (("--ray-address", f"{HOST}:1"), 3, "is it running"),
        (("--ray-address", f"ray://{cluster}"), 2, "Ray Client is not supported"),
        (("--ray-address", cluster, "--agent", "no_such_module:make"), 2, "no_such_module"),
    ):
        refused = memfin(folder, "run", *OPTIONS, *ENGINE, "--quiet", *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (code, 1), refused.stderr
        assert reason in refused.stderr
        assert (folder / SHARDS).exists() == (code == 3)
        shutil.rmtree(folder / SHARDS, ignore_errors=True)
