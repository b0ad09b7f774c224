"""The page on soaking: its tables name what there is, its example prints what it says."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import msgspec
import prometheus_client
import pytest

from memfin import contracts
from memfin.runtime.soak_prometheus import SoakExporter
from tests.docs.pages import ROOT, blocks
from tests.support import each_case

PAGE = ROOT / "docs" / "soak.md"
TABLES: list[tuple[str, str]] = re.findall(r"<!-- fields: (\w+) -->\n((?:\|.*\n)+)", PAGE.read_text("utf-8"))


def rows(table: str) -> list[list[str]]:
    return [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]


def test_every_struct_of_a_soak_has_its_table() -> None:
    assert [name for name, _ in TABLES] == [
        "SoakEpoch",
        "Distribution",
        "SoakErrors",
        "ProcessSample",
        "SoakSummary",
        "Drift",
        "Reliability",
        "PassK",
    ]


@each_case(("name", "table"), TABLES, ids=[name for name, _ in TABLES])
def test_tables_name_every_field_and_which_are_required(name: str, table: str) -> None:
    struct: Any = getattr(contracts, name)
    assert [cells[0] for cells in rows(table)] == list(struct.__struct_fields__)
    required = {field.name for field in msgspec.structs.fields(struct) if field.required}
    assert {cells[0] for cells in rows(table) if cells[1] == "yes"} == required


def test_the_metrics_for_prometheus_are_those_that_are_served() -> None:
    text = PAGE.read_text("utf-8")
    told = set(re.findall(r"`(memfin_soak_\w+)`", text))
    text = prometheus_client.generate_latest(SoakExporter(0)._registry).decode()
    served = {name for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE) if "_created" not in name}
    assert told == served


def test_the_example_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(blocks(PAGE))
    (example,) = (block for block in found if block.language == "python")
    (expected,) = (block for block in found if block.follows is example)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example.text, str(PAGE), "exec"), {"__name__": "__main__"})  # noqa: S102 - the page is ours
    assert printed.getvalue() == expected.text
