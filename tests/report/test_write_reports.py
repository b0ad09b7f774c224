import stat
from pathlib import Path

import pytest

from memfin.errors import RunFault
from memfin.report import write_reports
from tests.report.report_run_factory import row, trace, turn, write_run

RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "recorded" / "20260219_101855"


def run(path: Path) -> Path:
    return write_run(path, [trace("a", [turn(1)]), trace("b", [turn(1)])], [row("a"), row("b")], extras=True)


@pytest.mark.parametrize(("directory", "report"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600)])
def test_both_reports_are_written_into_the_run_directory_and_as_open_as_it(
    tmp_path: Path, directory: int, report: int
) -> None:
    tmp_path.chmod(directory)
    markdown, html = write_reports(run(tmp_path))
    assert (markdown, html) == (tmp_path / "report.md", tmp_path / "report.html")
    assert markdown.read_text("utf-8").startswith("# MemFin")
    assert html.read_text("utf-8").startswith("<!doctype html>")
    assert stat.S_IMODE(html.stat().st_mode) == report
    assert not list(tmp_path.glob(".report*"))


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write_reports(run(tmp_path))]
    assert [path.read_bytes() for path in write_reports(tmp_path)] == first
    assert [path.read_bytes() for path in write_reports(run(tmp_path / "elsewhere"))] == first


def test_a_failed_write_leaves_the_old_report_and_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_reports(run(tmp_path))
    before = (tmp_path / "report.md").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memfin.report.render.os.fsync", full)
    with pytest.raises(RunFault, match=r"report\.md: cannot be written: No space left on device"):
        write_reports(tmp_path)
    assert (tmp_path / "report.md").read_bytes() == before
    assert not list(tmp_path.glob(".report*"))


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded run is not beside the checkout")
def test_the_recorded_run_gets_its_reports(tmp_path: Path) -> None:
    for source in RECORDED.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    markdown, html = write_reports(tmp_path)
    assert "| **M3 Risk coverage** | Risk coverage | 47.4 % |" in markdown.read_text("utf-8")
    assert "投资教育" in html.read_text("utf-8")
