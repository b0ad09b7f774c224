"""Uploads and downloads of runs: what is copied, verified, skipped, refused and never shown."""

import json
import os
import shutil
import sys
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts.upload import INDEX
from memfin.errors import RunFault, UsageError
from memfin.journal.disk import Disk
from memfin.journal.lock import LOCK, RunLock
from memfin.rag.benchmark import SAMPLE
from memfin.runtime.api import run_eval_parallel
from memfin.scale.upload import Transfer, check_target, download_run, upload_run
from memfin.validation import validate_path
from tests.commands import run_command
from tests.support import dataset, each_case, length

pytest.importorskip("fsspec", reason="the extra memfin[upload] is not installed")
memory: Any = pytest.importorskip("fsspec.implementations.memory")

SECRET = "tops3cret-word"  # noqa: S105 - of no account
AGENT = """
import shutil
from pathlib import Path

class create:
    def __init__(self, session, observer):
        pass

    def reply(self, user_text):
        Path("asked").touch()
        {then}
        return "好。"
"""
GATE = ("--fail-under", "m3_risk_coverage.risk_coverage=1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    data = dataset(folder / "data.jsonl", 2)
    run_eval_parallel(data, "r", runs_dir=str(folder), workers_score=0, report=True)
    return folder / "r"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs" / "r"))


@pytest.fixture
def back_end(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], None]:
    """Return what registers a back end for the scheme ``own``, for one test."""

    def register(kind: type) -> None:
        monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "own", kind)

    return register


class Own(memory.MemoryFileSystem):  # type: ignore[misc]
    """A store of a test, empty at its beginning."""

    protocol = "own"

    def __init_subclass__(cls) -> None:
        cls.store, cls.pseudo_dirs = {}, [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("own://").rpartition("@")[2].strip("/")


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def names_and_digests(target: Path) -> dict[str, str]:
    return {each["name"]: each["sha256"] for each in json.loads((target / INDEX).read_bytes())["files"]}


def test_a_downloaded_run_has_the_bytes_of_the_uploaded_one(run: Path, tmp_path: Path) -> None:
    (run / "labels.jsonl").write_text("")
    (run / ".dialog_trace.jsonl.0123456789abcdef.tmp").write_text("torn")
    (run / "notes").mkdir()
    before = content(run)
    result = upload_run(run, f"file://{tmp_path}/store/deep")
    assert content(run) == before
    target = tmp_path / "store" / "deep" / "r"
    sent = {name: data for name, data in before.items() if not name.startswith(".")}
    assert content(target).keys() == {*sent, INDEX}
    assert (result.files, result.sent, result.left_out) == (len(sent), len(sent), ("notes",))
    assert result.sent_bytes == sum(map(len, sent.values()))
    download_run(str(target), tmp_path / "back" / "r")
    assert content(tmp_path / "back" / "r") == sent
    (tmp_path / "back" / "r" / "labels.jsonl").unlink()
    assert not list(validate_path(str(tmp_path / "back" / "r")))


def test_local_copies_are_private(run: Path, tmp_path: Path) -> None:
    upload_run(run, str(tmp_path / "store"))
    download_run(str(tmp_path / "store" / "r"), tmp_path / "back")
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("store/r", "back", "back/config.json")]
    assert modes == [0o700, 0o700, 0o600]


def test_a_second_upload_sends_what_changed(run: Path, tmp_path: Path) -> None:
    store, target = str(tmp_path / "store"), tmp_path / "store" / "r"
    upload_run(run, store)
    index = (target / INDEX).read_bytes()
    assert upload_run(run, store).sent == 0
    assert (target / INDEX).read_bytes() == index
    (run / "report.md").write_text("another")
    (target / "report.html").unlink()  # somebody took one away
    assert upload_run(run, store).sent == 2
    assert (target / "report.md").read_text() == "another"
    (run / "report.md").unlink()
    upload_run(run, store)
    assert "report.md" not in names_and_digests(target)


def test_an_interrupted_upload_is_incomplete_and_can_be_repeated(run: Path, tmp_path: Path) -> None:
    store, target = str(tmp_path / "store"), tmp_path / "store" / "r"

    def interrupt(transfer: Transfer) -> None:
        if transfer.name == "turn_eval.jsonl":
            raise KeyboardInterrupt

    def interrupted() -> None:
        with pytest.raises(KeyboardInterrupt):
            upload_run(run, store, interrupt)

    interrupted()
    with pytest.raises(UsageError, match=r"has no artefacts\.json"):
        download_run(str(target), tmp_path / "back")
    upload_run(run, store)
    (run / "report.md").write_text("another")
    interrupted()  # the index of before would name a report that is not there any more
    assert not (target / INDEX).exists()
    assert not (tmp_path / "back").exists()
    upload_run(run, store)
    download_run(str(target), tmp_path / "back")


def test_what_is_not_read_back_as_it_was_sent_is_named(run: Path, back_end: Callable[[type], None]) -> None:
    class Flipping(Own):
        def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            file = super()._open(path, mode, **options)
            if mode == "rb" and path.endswith("/turn_eval.jsonl"):
                data = file.getvalue()
                return BytesIO(bytes([data[0] ^ 1]) + data[1:])
            return file

    back_end(Flipping)
    before = content(run)
    with pytest.raises(RunFault, match=r"own://bucket/r/turn_eval.jsonl: was not read back as it was sent"):
        upload_run(run, "own://bucket")
    assert not any(path.endswith(INDEX) for path in Flipping.store)
    assert content(run) == before


def test_secrets_in_an_address_are_not_shown(
    run: Path, tmp_path: Path, back_end: Callable[[type], None]
) -> None:
    class Leaky(Own):
        down = False

        def info(self, path: str, **options: Any) -> Any:
            if self.down:
                raise ConnectionError(f"own://reader:{SECRET}@store: no route")
            return super().info(path, **options)

    back_end(Leaky)
    url = f"own://reader:{SECRET}@store/runs"
    result = upload_run(run, url)
    assert result.url == "own://store/runs/r"
    assert not [path for path, file in Leaky.store.items() if SECRET.encode() in file.getvalue()]
    Leaky.down = True
    for call in (lambda: upload_run(run, url), lambda: check_target(url, run)):
        with pytest.raises(RunFault, match="no route") as caught:
            call()
        assert SECRET not in str(caught.value)
        assert caught.value.__suppress_context__
    with pytest.raises(UsageError) as refused:
        upload_run(run, f"{url}?token={SECRET}")
    assert SECRET not in str(refused.value)


def test_another_run_of_the_same_name_is_refused(run: Path, tmp_path: Path) -> None:
    store, target = str(tmp_path / "store"), tmp_path / "store" / "r"
    upload_run(run, store)
    manifest = run / "run_manifest.json"
    manifest.write_text(manifest.read_text().replace('"started_at": "2', '"started_at": "1'))
    before = content(target)
    for incomplete in (False, True):
        if incomplete:
            (target / INDEX).unlink()
            del before[INDEX]
        with pytest.raises(UsageError, match="holds another run of that name"):
            upload_run(run, store)
        assert content(target) == before
    with pytest.raises(UsageError, match="another run is there"):
        check_target(store, tmp_path / "later" / "r")


def test_a_run_directory_is_no_target(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "other" / "r")
    (other / LOCK).touch()
    before = content(run)
    (tmp_path / "link").symlink_to(run.parent)
    for url in (run.parent, run, f"file://{run.parent}", tmp_path / "link", tmp_path / "other"):
        with pytest.raises(UsageError, match="is a run directory"):
            upload_run(run, str(url))
        with pytest.raises(UsageError, match="is a run directory"):
            check_target(str(url), run)
    assert content(run) == before


def test_only_finished_runs_are_uploaded(run: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"

    def refused(words: str, directory: Path = run) -> None:
        with pytest.raises(UsageError, match=words):
            upload_run(directory, str(store))

    lock = RunLock(run, Disk())
    lock.acquire()
    refused("is in use by a run")
    lock.release()
    refused("no such directory", tmp_path / "nowhere")
    (run / "soak_summary.json").touch()
    refused("is a soak; upload the runs that are its epochs")
    (run / "soak_summary.json").unlink()
    (run / "link").symlink_to(tmp_path)
    refused("symbolic link")
    (run / "link").unlink()
    kept = (run / "run_stats.json").rename(tmp_path / "kept")
    refused("has not finished; memfin resume")
    kept.rename(run / "run_stats.json")
    config = run / "config.json"
    whole = config.read_bytes()
    config.write_bytes(whole.replace(b'"shard": null', b'"shard": "0/2"'))
    refused("is shard 0/2 of a run; memfin merge")
    config.write_bytes(whole)
    manifest = run / "run_manifest.json"
    fields = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(fields | {"run_id": "../up"}))
    refused("is no name of a run")
    manifest.write_text(json.dumps(fields | {"ended_at": None}))
    refused("has not finished; memfin resume")
    assert not store.exists()


def test_a_file_that_changes_meanwhile_stops_the_upload(run: Path, tmp_path: Path) -> None:
    def change(transfer: Transfer) -> None:
        if transfer.name == "turn_eval.jsonl":
            (run / "report.md").write_text("changed")

    with pytest.raises(RunFault, match=r"report.md changed during the upload"):
        upload_run(run, str(tmp_path / "store"), change)
    assert not (tmp_path / "store" / "r" / INDEX).exists()


def test_memory_is_flat(run: Path, tmp_path: Path) -> None:
    with (run / "dialog_trace.jsonl").open("ab") as file:
        file.truncate(length(12, 64) << 20)
    upload_run(run, str(tmp_path / "warm"))
    tracemalloc.start()
    try:
        upload_run(run, str(tmp_path / "store"))
        download_run(str(tmp_path / "store" / "r"), tmp_path / "back")
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_a_download_that_does_not_fit_leaves_nothing(run: Path, tmp_path: Path) -> None:
    store, target, out = str(tmp_path / "store"), tmp_path / "store" / "r", tmp_path / "out" / "r"
    upload_run(run, store)
    trace = target / "dialog_trace.jsonl"
    good = trace.read_bytes()
    for bad in (good[:-1], good + b"\n", good.replace(b"ok", b"OK", 1)):
        trace.write_bytes(bad)
        with pytest.raises(RunFault, match=r"dialog_trace.jsonl: is not as it was uploaded"):
            download_run(str(target), out)
        assert not list(out.parent.iterdir())
    trace.unlink()
    with pytest.raises(RunFault, match=r"dialog_trace.jsonl: is not there any more"):
        download_run(str(target), out)
    assert not list(out.parent.iterdir())
    trace.write_bytes(good)
    out.mkdir()
    with pytest.raises(UsageError, match="exists already"):
        download_run(str(target), out)
    assert not list(out.iterdir())


@each_case("name", ["../a", "/etc/a", "a/b", "a\\b", "..", ".", ".lock", "", "a\0", "a\n", "x" * 256, 3])
def test_names_with_path_parts_are_refused(name: object, tmp_path: Path) -> None:
    target = tmp_path / "r"
    target.mkdir(exist_ok=True)
    file = {"name": name, "size": 0, "sha256": "0" * 64}
    index = {"format": 1, "run_id": "r", "started_at": "", "memfin_version": "0", "files": [file]}
    (target / INDEX).write_text(json.dumps(index))
    with pytest.raises(UsageError, match=r"\$\.files\[0\]\.name"):
        download_run(str(target), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_an_index_of_no_run_is_refused(tmp_path: Path) -> None:
    index = {"format": 1, "run_id": "\x1b[2J", "started_at": "", "memfin_version": "0", "files": []}
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(UsageError, match=r"run_id '\\x1b\[2J' is no name of a run"):
        download_run(str(tmp_path), tmp_path / "out")


def test_an_address_is_checked_with_a_file_that_goes_away(tmp_path: Path) -> None:
    check_target(str(tmp_path / "store"))
    assert not list((tmp_path / "store").iterdir())
    (tmp_path / "file").touch()
    for url, words in (
        (str(tmp_path / "file"), "File exists"),
        ("/proc/runs", "cannot be created: FileNotFoundError"),
        ("nothing://bucket", "Protocol not known: nothing"),
        ("http://127.0.0.1:9/runs", "its back end cannot do that"),
        ("simplecache::memory://runs", "must be SCHEME://PLACE/PATH"),
        ("", "must be SCHEME://PLACE/PATH"),
    ):
        with pytest.raises(UsageError, match=words):
            check_target(url)


def test_missing_packages_give_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"class": "gone_for_this_test.Store", "err": "Install it"}
    monkeypatch.setitem(sys.modules["fsspec.registry"].known_implementations, "own", known)
    with pytest.raises(UsageError, match=r"own:// needs a package .*: pip install gone_for_this_test"):
        check_target("own://bucket")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.delitem(sys.modules, "fsspec.core")
    with pytest.raises(UsageError, match=r"need the extra: pip install 'memfin\[upload\]'"):
        check_target("s3://bucket")


# ---- the commands


def test_the_commands_upload_and_download(run: Path, tmp_path: Path) -> None:
    done = run_command("upload", "runs/r", "store", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "store/r\n")
    count = len(names_and_digests(tmp_path / "store" / "r"))
    assert f"memfin: {count} files verified, {count} sent" in done.stderr
    back = run_command("download", "store/r", "--out", "back", cwd=tmp_path)
    assert (back.returncode, back.stdout) == (0, "back\n")
    assert run_command("validate", "back", cwd=tmp_path).returncode == 0
    trace = tmp_path / "store" / "r" / "dialog_trace.jsonl"
    trace.write_bytes(trace.read_bytes()[:-2])
    broken = run_command("download", "store/r", "--out", "again", cwd=tmp_path)
    assert broken.returncode == 3
    assert broken.stderr.count("\n") == 1
    refused = run_command("upload", "runs/r", f"ftp://me:{SECRET}@127.0.0.1:9/runs", cwd=tmp_path)
    assert refused.returncode == 2
    assert "ftp://127.0.0.1:9/runs: ConnectionRefusedError" in refused.stderr
    assert SECRET not in refused.stderr


def test_a_run_is_uploaded_when_it_has_ended(tmp_path: Path) -> None:
    dataset(tmp_path / "data.jsonl", 1)
    (tmp_path / "my.py").write_text(AGENT.format(then="pass"))
    words = ("run", "data.jsonl", "--agent", "my:create", "--json")
    wrong = run_command(*words, "--run-id", "a", "--upload", "nothing://bucket", cwd=tmp_path)
    assert wrong.returncode == 2
    assert not (tmp_path / "asked").exists()
    assert not (tmp_path / "runs" / "a").exists()
    own = run_command(*words, "--run-id", "a", "--upload", "runs", cwd=tmp_path)
    assert (own.returncode, "is a run directory" in own.stderr) == (2, True)
    many = run_command(*words, "--repeats", "2", "--upload", "store", cwd=tmp_path)
    assert (many.returncode, "not together with --repeats" in many.stderr) == (2, True)
    shard = run_command(*words, "--run-id", "a", "--shard", "0/2", "--upload", "store", cwd=tmp_path)
    assert (shard.returncode, "not for shard 0/2" in shard.stderr) == (2, True)
    env = os.environ | {"MEMFIN_UPLOAD": "store"}
    done = run_command(*words, "--run-id", "a", *GATE, cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert json.loads(done.stdout)["run_id"] == "a"
    assert "uploaded to store/a" in done.stderr
    assert "report.html" in names_and_digests(tmp_path / "store" / "a")
    assert b"store" not in (tmp_path / "runs" / "a" / "config.json").read_bytes()


def test_a_failing_upload_keeps_the_run(tmp_path: Path) -> None:
    dataset(tmp_path / "data.jsonl", 1)
    replace = "shutil.rmtree('store', True); Path('store').touch()"
    (tmp_path / "my.py").write_text(AGENT.format(then=replace))
    words = ("run", "data.jsonl", "--agent", "my:create", "--run-id", "a", *GATE, "--upload", "store")
    done = run_command(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert "the run is complete; memfin upload runs/a store uploads it; " in done.stderr
    assert "risk_coverage" in done.stderr.splitlines()[-1]
    assert run_command("validate", "runs/a", cwd=tmp_path).returncode == 0
    (tmp_path / "store").unlink()
    assert run_command("upload", "runs/a", "store", cwd=tmp_path).returncode == 0


def test_benchmark_runs_are_uploaded_too(tmp_path: Path) -> None:
    asked = run_command("bench", SAMPLE, "--limit", "2", "--run-id", "b", "--quiet", cwd=tmp_path)
    assert asked.returncode == 0
    assert run_command("upload", "runs/b", "store", cwd=tmp_path).returncode == 0
    assert run_command("download", "store/b", "--out", "back", cwd=tmp_path).returncode == 0
    assert run_command("validate", "back", cwd=tmp_path).returncode == 0
