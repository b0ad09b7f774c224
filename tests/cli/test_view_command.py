"""``memfin view``: what it refuses, the address that it prints, the end by a signal."""

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from memfin.cli.view import command
from tests.commands import Command, run_command
from tests.report.report_run_factory import row, trace, turn, write_run


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["none"], "memfin: none: no such directory; give the directory of runs, such as runs\n"),
        (
            [".", "--token", "short"],
            "memfin: --token: 5 characters; give at least 16, or none to have one made\n",
        ),
        *(
            (
                [".", "--export", "site", option, "8080"],
                f"memfin: {option} is for the server, and --export needs none; leave one of them out\n",
            )
            for option in ("--host", "--port", "--token", "--allowed-host")
        ),
    ],
)
def test_bad_input_is_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    refused = run_command("view", *words, cwd=tmp_path)
    assert (refused.returncode, refused.stderr) == (2, line)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - the network needs a token
def test_a_run_is_served_at_the_printed_address_until_a_signal(host: str, tmp_path: Path) -> None:
    directory = write_run(tmp_path / "r1", [trace("d", [turn(user="我该怎么配置？")])], [row("d")])
    process = Command("view", directory, "--host", host, "--port", "0")
    try:
        printed = re.fullmatch(r"memfin view server: (http://[\d.]+:\d+)(\S+)", process.first_line())
        assert printed is not None
        address, path = printed[1].replace("0.0.0.0", "127.0.0.1"), printed[2]  # noqa: S104
        if host == "127.0.0.1":
            assert path == "/runs/r1"
        else:
            assert re.fullmatch(r"/runs/r1\?token=[\w-]{40,}", path)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{address}/runs/r1", timeout=20)  # noqa: S310 - http
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address + path, timeout=20) as response:
            assert "我该怎么配置？" in response.read().decode()
        process.send_signal(signal.SIGTERM)
        process.communicate(20)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_an_export_ends_with_one_line_and_a_full_disk_leaves_the_earlier_one(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r1", [trace("d", [turn()])], [row("d")])
    words = ("view", run, "--export", tmp_path / "site", "--lang", "en")
    environment = {**os.environ, "MEMFIN_VIEW_TOKEN": 16 * "t"}
    done = run_command(*words, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(rf"{tmp_path}/site/index.html written; pages: \d+, size: [\d.]+ MiB\n", done.stdout)
    before = sorted(tmp_path.rglob("*"))
    command = shlex.join([sys.executable, "-m", "memfin", *map(str, words)])
    full = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -f 4; {command}"], check=False, capture_output=True, text=True
    )
    assert (full.returncode, full.stdout) == (3, "")
    assert full.stderr == f"memfin: export in {tmp_path}/site: File too large\n"
    assert sorted(tmp_path.rglob("*")) == before
    (run / "dialog_trace.jsonl").write_bytes(b"\x1f\x8b")
    unreadable = run_command(*words)
    assert (unreadable.returncode, unreadable.stderr.count("\n")) == (0, 1)
    line = f"memfin: pages with a problem: 2; /runs/r1: {run}/dialog_trace.jsonl"
    assert unreadable.stderr.startswith(line)


def test_an_export_shows_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("memfin.cli.view.INTERVAL", 0.0)  # otherwise seconds between two lines
    run = write_run(tmp_path / "r1", [trace("d", [turn()])], [row("d")])
    command.main([str(run), "--export", str(tmp_path / "site")], standalone_mode=False)
    printed = capsys.readouterr()
    lines = re.findall(r"memfin: (\d+) pages written of (\d+) found so far\n", printed.err)
    assert [int(pages) for pages, _ in lines] == list(range(1, len(lines) + 1))
    assert all(int(pages) <= int(known) for pages, known in lines)
    assert f"{len(lines)}" in printed.out
