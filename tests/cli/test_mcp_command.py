import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import run_command

ROOT = Path(__file__).resolve().parents[2]


def test_without_the_extra_the_line_tells_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('No module named mcp')\n")
    (tmp_path / "runs").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))}
    words = (sys.executable, "-m", "memfin", "mcp")  # no process is forked from one that has imported the SDK
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("memfin mcp needs the extra: pip install 'memfin[mcp]'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "runs: no such directory"),
        (("absent",), "absent: no such directory"),
        ((".", "--allow-run", "--datasets", "absent"), "absent: no such directory"),
        ((".", "--agent", "builtin"), "add --allow-run"),
    ],
)
def test_bad_usage_is_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run_command("mcp", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert words in line
