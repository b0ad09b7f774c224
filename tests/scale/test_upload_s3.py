"""Uploads to S3 over HTTP: ``make test-s3`` runs this, with the server of moto."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts.upload import INDEX
from memfin.errors import RunFault, UsageError
from memfin.runtime.api import run_eval_parallel
from memfin.scale.upload import check_target, download_run, upload_run
from memfin.validation import validate_path
from tests.support import dataset

s3fs: Any = pytest.importorskip("s3fs", reason="not installed; make test-s3 installs it")
server: Any = pytest.importorskip("moto.server", reason="not installed; make test-s3 installs it")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Serve an empty bucket, and return s3fs for it."""
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
        ("AWS_ACCESS_KEY_ID", "testing"),
        ("AWS_SECRET_ACCESS_KEY", "testing"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    store = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    store.mkdir("bucket")
    yield store
    store.rm("bucket", recursive=True)
    running.stop()


def test_a_run_goes_to_s3_and_back(bucket: Any, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data.jsonl", 2)
    run_eval_parallel(data, "r", runs_dir=str(tmp_path), workers_score=0)
    run = tmp_path / "r"
    (run / "large.bin").write_bytes(bytes(range(256)) * (20 << 12))  # in parts
    check_target("s3://bucket/runs", tmp_path / "to_come")
    assert not bucket.find("bucket")
    sent = upload_run(run, "s3://bucket/runs")
    assert (sent.url, sent.files) == ("s3://bucket/runs/r", sent.sent)
    assert f"bucket/runs/r/{INDEX}" in bucket.find("bucket")
    assert upload_run(run, "s3://bucket/runs").sent == 0
    download_run(sent.url, tmp_path / "back")
    assert {path.name for path in run.iterdir()} - {".lock"} == {
        path.name for path in (tmp_path / "back").iterdir()
    }
    assert not list(validate_path(str(tmp_path / "back")))
    bucket.pipe_file("bucket/runs/r/large.bin", b"another")
    shutil.rmtree(tmp_path / "back")
    with pytest.raises(RunFault, match=r"s3://bucket/runs/r/large.bin: is not as it was uploaded"):
        download_run(sent.url, tmp_path / "back")
    with pytest.raises(UsageError, match=r"has no artefacts\.json"):
        download_run("s3://bucket/runs", tmp_path / "back")


def test_a_misspelt_bucket_is_found_and_not_created(bucket: Any) -> None:
    with pytest.raises(UsageError, match=r"s3://buckett/runs: cannot be written: .* bucket does not exist"):
        check_target("s3://buckett/runs")
    assert bucket.ls("") == ["bucket"]
