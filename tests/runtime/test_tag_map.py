"""Files of risk tags that a dataset names in its own words."""

import json
from pathlib import Path
from typing import Any

import pytest

from memfin.contracts import EvalSummary
from memfin.errors import UsageError
from memfin.runtime.pipeline import Plan
from memfin.runtime.plan import make_plan
from memfin.runtime.rescore import make_rescore_plan
from memfin.runtime.run import Run
from tests.support import dataset, read_jsonl

TOML = '"市场不确定性" = "policy_risk"\n"集中持仓提示" = "volatility_risk"\n'


def renamed(path: Path) -> Path:
    """Write a dataset whose required tags have a name that only a map knows."""
    text = dataset(path, 2).read_text("utf-8")
    assert "市场不确定性" in text
    path.write_text(text.replace("市场不确定性", "集中持仓提示"), "utf-8")
    return path


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_map_adds_names_to_a_run_and_to_its_scoring(tmp_path: Path, workers: int) -> None:
    data, tags = renamed(tmp_path / "data.jsonl"), tmp_path / "tags.toml"
    tags.write_text(TOML, "utf-8")
    settings: dict[str, Any] = {
        "runs_dir": tmp_path,
        "workers_score": workers,
        "run_id": "r",
        "agent": "echo",
    }
    await Run(make_plan(data, **settings, tag_map=tags)).run()
    required = [row["risk_required_tags"] for row in read_jsonl(tmp_path / "r" / "turn_eval.jsonl")]
    assert "volatility_risk" in {tag for row in required for tag in row}
    config = json.loads((tmp_path / "r" / "config.json").read_text("utf-8"))
    assert config["fingerprint_inputs"]["tag_map"]["集中持仓提示"] == "volatility_risk"
    trace = tmp_path / "r" / "dialog_trace.jsonl"
    found = await unmapped(make_rescore_plan(trace, data, tmp_path / "with", tag_map=tags))
    assert found == 0
    assert await unmapped(make_rescore_plan(trace, data, tmp_path / "without")) > 0


async def unmapped(plan: Plan[EvalSummary]) -> int:
    summary = await Run(plan).run()
    return int(summary.metrics["m3_risk_coverage"].counts["unmapped_tag_total"])


def test_the_content_of_a_map_is_in_the_fingerprint(tmp_path: Path) -> None:
    tags, same = tmp_path / "tags.toml", tmp_path / "tags.json"
    tags.write_text(TOML, "utf-8")
    same.write_text(json.dumps({"市场不确定性": "policy_risk", "集中持仓提示": "volatility_risk"}), "utf-8")
    plain, mapped = make_plan().fingerprint, make_plan(tag_map=tags).fingerprint
    assert plain != mapped
    assert make_plan(tag_map=same).fingerprint == mapped


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.toml", '"a" = "volatile"', "'a' = 'volatile' is no risk tag; known: volatility_risk, "),
        ("t.toml", "集中 = 1", 'expected "name" = "canonical tag"'),
        ("t.json", "[1]", 'expected "name" = "canonical tag"'),
        ("t.json", '{"a": 1}', 'expected "name" = "canonical tag"'),
        ("t.toml", b"\xff", 'expected "name" = "canonical tag"'),
        ("t.toml", None, "No such file or directory"),
    ],
)
def test_another_file_is_refused_in_one_line(
    tmp_path: Path, name: str, content: str | bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as refused:
        make_plan(tag_map=path)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"--tag-map {path}: ")
    assert message in line
