"""Corrected rates on the page of a run."""

import random
from pathlib import Path

from memfin.report.glossary import format_corrected
from memfin.runtime.api import evaluate
from memfin.validity.corrections import current_corrections
from tests.support import write_jsonl
from tests.validity.test_corrections import SEVERE, by_detectors, changed
from tests.web.view_runs import viewing


async def test_the_page_of_a_run_with_labels_shows_corrected_rates_beside_the_raw_ones(
    tmp_path: Path,
) -> None:
    run = tmp_path / "runs" / "r1"
    await evaluate(None, runs_dir=str(run.parent), run_id="r1", limit=6)
    lines = by_detectors(run)
    async with viewing(run.parent, tmp_path) as viewer:
        assert "corrected: " not in (await viewer.get("/runs/r1")).text
        write_jsonl(run / "labels.jsonl", [changed(line, random.Random(line["id"])) for line in lines])
        page = (await viewer.get("/runs/r1")).text
        found = current_corrections(run)
        assert found is not None
        shown = format_corrected(SEVERE, found.values[SEVERE])
        assert shown in page
        assert "do not quote the raw value" in shown
        other = lines[0] | {"reader": "b", "compliance": "severe_violation"}
        write_jsonl(run / "labels.jsonl", [*lines, other])
        page = (await viewer.get("/runs/r1")).text
        assert "corrected: " not in page
        assert "The labels are not used: labels.jsonl:" in page
        elsewhere = write_jsonl(tmp_path / "elsewhere.jsonl", lines)
        (run / "labels.jsonl").unlink()
        (run / "labels.jsonl").symlink_to(elsewhere)
        assert "corrected: " not in (await viewer.get("/runs/r1")).text
    assert not (run / "corrections.json").exists()
