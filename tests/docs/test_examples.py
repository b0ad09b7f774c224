"""The examples of the Python API run as they stand and print what the page says."""

import importlib
import inspect
import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import memfin
from memfin.dataset import classify_dialog_validity
from memfin.validation import dialogue_violations
from tests.docs.pages import ROOT, Block, blocks
from tests.support import each_case

PAGE = ROOT / "docs" / "python-api.md"
CONTRACT_FUNCTIONS = {
    "memfin.dataset": [
        "load_dataset_jsonl",
        "classify_dialog_validity",
        "normalize_dialog",
        "align_turn_pairs",
    ],
    "memfin.runtime": [
        "run_dialog_replay",
        "evaluate_dialog_task",
        "run_eval_parallel",
        "build_turn_trace",
        "write_eval_outputs",
    ],
    "memfin.scoring": [
        "build_turn_eval_rows",
        "detect_key_hits_from_memory_sources",
        "resolve_memory_required_key",
    ],
    "memfin.metrics": [
        "compute_m1_context_continuity",
        "compute_m2_profile_accuracy",
        "compute_m3_risk_coverage",
        "compute_m4_compliance",
        "compute_m5_explainability",
        "aggregate_all_metrics",
    ],
    "memfin.report": ["render_markdown_report"],
}

NAMES = [f"{module}.{name}" for module, names in CONTRACT_FUNCTIONS.items() for name in names]


def examples() -> list[tuple[Block, str | None]]:
    """Return each Python block of the page with the output that the page shows for it."""
    found = list(blocks(PAGE))
    shown = {block.follows.line: block.text for block in found if block.follows and block.language == "text"}
    return [(block, shown.get(block.line)) for block in found if block.language == "python"]


def run(source: str, line: int) -> str:
    """Run an example in a namespace of its own and return what it prints."""
    namespace: Mapping[str, Any] = {"__name__": "__main__"}
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile("\n" * (line - 1) + source, str(PAGE), "exec"), dict(namespace))  # noqa: S102 - our own page
    return out.getvalue()


@pytest.mark.parametrize(
    ("block", "expected"), [pytest.param(*case, id=f"line {case[0].line}") for case in examples()]
)
def test_example_prints_what_the_page_shows(
    block: Block, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as for a script
    printed = run(block.text, block.line)
    assert printed == (expected or ""), f"{PAGE.name}:{block.line}"


def test_a_page_without_examples_would_not_pass_for_one_that_works() -> None:
    assert len(examples()) > len([name for names in CONTRACT_FUNCTIONS.values() for name in names])


def headings() -> str:
    return "\n".join(re.findall(r"^#+ (.*)$", PAGE.read_text("utf-8"), re.MULTILINE))


@each_case("name", [name for name in memfin.__all__ if name != "__version__"])
def test_every_public_name_of_the_package_has_a_section(name: str) -> None:
    assert re.search(rf"\b{name}\b", headings())


@pytest.mark.parametrize("module", CONTRACT_FUNCTIONS)
def test_the_functions_of_the_metrics_contract_are_where_the_page_says(module: str) -> None:
    for name in CONTRACT_FUNCTIONS[module]:
        assert callable(getattr(importlib.import_module(module), name))
    assert f"`{module}`" in PAGE.read_text("utf-8")


@each_case("name", [name for names in CONTRACT_FUNCTIONS.values() for name in names])
def test_every_function_of_the_metrics_contract_has_a_section_with_an_example(name: str) -> None:
    assert re.search(rf"^### {name}$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert any(f"{name}(" in block.text for block, _ in examples())


def signatures() -> dict[str, str]:
    """Return the parameters that the page shows for each function, by name."""
    text = "\n".join(block.text for block in blocks(PAGE) if block.language == "text")
    shown = re.findall(r"^(?:async )?(\w+)\(((?:[^()]|\(\))*)\)\s*->", text, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", parameters) for name, parameters in shown}


@each_case("name", ["memfin.evaluate", "memfin.runtime.make_plan", *NAMES])
def test_the_signature_on_the_page_is_that_of_the_function(name: str) -> None:
    module, _, short = name.rpartition(".")
    function = getattr(importlib.import_module(module), short)
    expected = [str(each).partition(":")[0] for each in inspect.signature(function).parameters.values()]
    told = [part.partition("=")[0].strip() for part in signatures()[short].split(",")]
    assert [part for part in told if part != "*"] == [part.partition("=")[0] for part in expected]


def test_the_annotated_line_of_the_dataset_page_is_a_sound_dialogue() -> None:
    page = ROOT / "docs" / "dataset.md"
    line = next(block.text for block in blocks(page) if block.language == "json")
    assert classify_dialog_validity(json.loads(line)) == (True, None)
    assert list(dialogue_violations(json.loads(line))) == []
