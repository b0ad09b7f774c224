"""``memfin export`` with the exporter of docs/plugins.md, and its errors."""

import json
from pathlib import Path

from memfin.runtime.api import run_eval_parallel
from tests.commands import run_command
from tests.docs.pages import ROOT, blocks
from tests.support import dataset, read_jsonl


def test_the_exporter_of_the_documentation(tmp_path: Path) -> None:
    (code,) = (each.text for each in blocks(ROOT / "docs" / "plugins.md") if "def export(" in each.text)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "sheets.py").write_text(code)
    run_eval_parallel(dataset(tmp_path / "data.jsonl", 2), "r", runs_dir=str(tmp_path), workers_score=0)
    made = run_command("export", "r", "--to", "my_package.sheets:export", "--out", "out", cwd=tmp_path)
    assert (made.returncode, made.stdout, made.stderr) == (0, "out/labels.json: 6 records\n", "")
    labels = json.loads((tmp_path / "out" / "labels.json").read_text())
    rows = read_jsonl(tmp_path / "r" / "turn_eval.jsonl")
    assert [label for _, _, label in labels] == [row["pred_compliance_label"] for row in rows]
    (tmp_path / "my_package" / "sheets.py").write_text(
        code.replace("return {", "raise KeyError('x')\n    return {")
    )
    failed = run_command("export", "r", "--to", "my_package.sheets:export", "--out", "out2", cwd=tmp_path)
    expected = "memfin: exporter 'my_package.sheets:export': raised KeyError: 'x'\n"
    assert (failed.returncode, failed.stderr) == (3, expected)
    assert not (tmp_path / "out2").exists()
