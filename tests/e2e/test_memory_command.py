"""``memfin memory`` as a user meets it: real processes, signals, a service that is asked over HTTP."""

import json
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memfin as memfin_package
from memfin.memory import MemoryStore
from tests.commands import run_command
from tests.memory.memory_world import NOTHING_KEPT

SCOPES = {"create_task": True, "save_to_profile": True, "save_to_thread": True, "training_use_allowed": False}
GRANT = {"scopes": SCOPES, "preferences": {"language_preference": "zh", "user_focus_reason": "半导体周期"}}

Memfin = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def memfin(tmp_path: Path) -> Memfin:
    """Return a function that runs ``python -m memfin memory`` in a directory of its own."""

    def run(*words: object) -> "subprocess.CompletedProcess[str]":
        return run_command("memory", *words, cwd=tmp_path, timeout=120)

    return run


@contextmanager
def served(cwd: Path, *words: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "memfin", "memory", "serve", "--port", "0", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready = re.fullmatch(r"memfin memory server: (http://127\.0\.0\.1:\d+)\n", line)
            assert ready, (line, process.stderr and process.stderr.read())
            yield ready[1], process
        finally:
            process.kill()


def ask(url: str, token: str, method: str = "GET", body: Any = None) -> Any:
    request = urllib.request.Request(  # noqa: S310 - http on loopback
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        content = answer.read()
    return content if answer.headers["Content-Type"] != "application/json" else json.loads(content)


def test_a_malformed_request_is_refused_and_not_logged(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        address = urllib.parse.urlsplit(url)
        for spoilt in (b"\0", b"a" * 9000):
            head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer Canary7f3e"
            with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
                connection.sendall(head + spoilt + b"\r\n\r\n")
                assert connection.recv(12) == b"HTTP/1.0 400"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_memory_from_its_token_to_its_end(memfin: Memfin, tmp_path: Path) -> None:
    added = memfin("token", "add", "alice")
    token = added.stdout.strip()
    assert token.startswith("mft_")
    assert stat.S_IMODE((tmp_path / "data" / "tokens.json").stat().st_mode) == 0o600
    with served(tmp_path) as (url, process):
        granted = ask(f"{url}/api/users/alice/profile-consent", token, "POST", GRANT)
        task = ask(f"{url}/api/tasks", token, "POST", {"route": "snapshot"})
        assert "zh" in task["user_context"]
        assert ask(f"{url}/api/users/me/export", token).startswith(b"PK")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert granted["version"] == 1
    exported = memfin("export", "alice", "--out", "out")
    assert (exported.returncode, exported.stdout) == (0, "out/alice\n")
    assert memfin("export", "alice", "--out", "out", "--zip").stdout == "out/alice.zip\n"
    for package in ("out/alice", "out/alice.zip"):
        verified = memfin("verify", package, "--data", "data")
        assert (verified.returncode, verified.stdout) == (0, ""), verified
        assert "user alice, 3 files" in verified.stderr
    imported = memfin("import", "out/alice.zip", "--data", "other")
    assert (imported.returncode, imported.stderr) == (0, "memfin: user alice: 3 files imported\n")
    assert memfin("expire", "--data", "other").stderr == "memfin: 0 expired task contexts removed\n"
    refused = memfin("delete", "alice")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    deleted = memfin("delete", "alice", "--yes")
    assert deleted.returncode == 0
    assert deleted.stderr.endswith("; 1 tokens revoked\n")
    left = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert not [path for path in left if "半导体".encode() in path.read_bytes()]
    assert memfin("token", "list").stdout == ""


def test_verify_lists_what_differs_and_fails(memfin: Memfin, tmp_path: Path) -> None:
    token = memfin("token", "add", "alice").stdout.strip()
    with served(tmp_path) as (url, _):
        ask(f"{url}/api/users/alice/profile-consent", token, "POST", GRANT)
    memfin("export", "alice", "--out", "out")
    consent = tmp_path / "out" / "alice" / "consents" / "alice.yaml"
    consent.write_bytes(consent.read_bytes().replace(b"true", b"True", 1))
    (tmp_path / "out" / "alice" / "extra").touch()
    verified = memfin("verify", "out/alice")
    assert verified.returncode == 1
    assert verified.stdout == (
        "consents/alice.yaml: changed: the content differs from the one listed\n"
        "extra: added: the manifest does not list it\n"
    )
    assert verified.stderr == "memfin: out/alice: 2 differences\n"


def test_calls_under_way_are_answered_before_the_service_ends(memfin: Memfin, tmp_path: Path) -> None:
    token = memfin("token", "add", "alice").stdout.strip()
    body = json.dumps(GRANT).encode()
    with served(tmp_path) as (url, process):
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            connection.sendall(
                b"POST /api/users/alice/profile-consent HTTP/1.1\r\nHost: localhost\r\n"
                b"Expect: 100-continue\r\nContent-Type: application/json\r\n"
                + f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
            process.send_signal(signal.SIGTERM)
            while True:  # until it listens no more
                try:
                    socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))).close()
                except OSError:
                    break
            connection.sendall(body)
            with connection.makefile("rb") as answer:
                assert answer.readline().startswith(b"HTTP/1.1 201 ")
        assert process.wait(60) == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - it is refused
def test_the_network_is_not_served_without_a_token(memfin: Memfin, tmp_path: Path, host: str) -> None:
    refused = memfin("serve", "--host", host)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "memfin memory token add USER" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["expire"], "data: no such directory"),
        (["export", "alice", "--out", "out"], "data: no such directory"),
        (["delete", "alice", "--yes"], "data: no such directory"),
        (["expire", "--data", "."], ".: holds no data of the memory layer"),
        (["serve", "--drift-thresholds", "no.toml"], "drift thresholds no.toml: No such file"),
        (["serve", "--skills", "no.toml"], "skills no.toml: No such file"),
        (["verify", "nothing"], "nothing: No such file or directory"),
        (["import", "nothing", "--data", "other"], "nothing: No such file or directory"),
        (["token", "add", "a/b"], "user id 'a/b'"),
        (["token", "revoke", "x"], "token x: no such token"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_slips_are_one_line(memfin: Memfin, tmp_path: Path, words: list[str], message: str) -> None:
    done = memfin(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_sweep_takes_thresholds_and_tells_what_it_cannot_finish(memfin: Memfin, tmp_path: Path) -> None:
    shipped = Path(memfin_package.__file__).parent / "data" / "memory" / "drift_thresholds.toml"
    (tmp_path / "own.toml").write_text(shipped.read_text("utf-8"), "utf-8")
    memfin("token", "add", "alice")
    done = memfin("expire", "--drift-thresholds", "own.toml")
    assert (done.returncode, done.stderr) == (0, "memfin: 0 expired task contexts removed\n")
    (tmp_path / "data" / ".memfin" / "pending" / "alice").touch()
    (tmp_path / "data" / "consents" / "alice.yaml").mkdir()
    failed = memfin("expire")
    assert failed.returncode == 3
    assert failed.stderr.splitlines()[-1].endswith("1 interrupted operations cannot be finished yet")
    assert "alice" not in failed.stderr


def test_the_sweep_goes_on_behind_a_context_that_the_system_does_not_remove(
    memfin: Memfin, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with MemoryStore(data, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as store:
        for user in ("alice", "bob"):
            store.grant_consent(user, NOTHING_KEPT)
        made = [
            data / "user_contexts" / user / "_task" / f"{store.begin_task(user, 'snapshot').context_id}.json"
            for user in ("alice", "alice", "bob")
        ]
    stuck, *others = made
    stuck.unlink()
    (stuck / "in the way").mkdir(parents=True)
    failed = memfin("expire")
    assert failed.returncode == 3
    lines = failed.stderr.splitlines()
    assert "memory: 1 expired task contexts cannot be removed: Is a directory" in lines
    assert "memfin: 2 expired task contexts removed" in lines
    assert lines[-1].endswith("memory data: 1 expired task contexts cannot be removed yet")
    assert "alice" not in failed.stderr
    assert not any(path.exists() for path in others)
    (stuck / "in the way").rmdir()
    stuck.rmdir()
    assert memfin("expire").returncode == 0


def test_tokens_are_listed_and_taken_back_and_users_known_by_tokens_alone_are_deleted(memfin: Memfin) -> None:
    memfin("token", "add", "alice")
    memfin("token", "add", "bob")
    listed = memfin("token", "list").stdout.splitlines()
    assert [line.split()[1] for line in listed] == ["alice", "bob"]
    taken = memfin("token", "revoke", listed[0].split()[0])
    assert (taken.returncode, "revoked" in taken.stderr) == (0, True)
    deleted = memfin("delete", "bob", "--yes")
    assert deleted.stderr == "memfin: user bob: nothing was saved; 1 tokens revoked\n"
    missing = memfin("delete", "bob", "--yes")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)


def test_a_port_that_is_taken_is_one_line(memfin: Memfin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = memfin("serve", "--port", taken.getsockname()[1])
    assert refused.returncode == 2
    assert re.search(r"memory server on 127\.0\.0\.1:\d+: .*in use", refused.stderr)
