"""The page about memory says what the code does: its tables are the code's, its example runs."""

import inspect
import io
import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, get_args

import pytest

from memfin.contracts.memory import ConsentScope, SliceAttributes
from memfin.memory.boundaries import IMPERSONAL, ImpersonalPath
from memfin.memory.consent import OnboardingState
from memfin.memory.items import Items
from memfin.memory.reading import ORDERS
from memfin.memory.slices import CONSENT, MATRIX, SLICES, Condition
from memfin.memory.store import IsolatedStore
from tests.docs.pages import ROOT, blocks, prose

PAGE: Final = ROOT / "docs" / "memory.md"

WORDS: Final[Mapping[Condition, Mapping[str, str]]] = {
    "asked_for": {"S6": "if asked for"},
    "of_thread": {"S5": "if from the thread"},
    "drifted": {"S9": "if there is drift"},
    "offered": {
        "S6": "if there are",
        "S7": "if given",
        "S8": "if given",
        "S10": "if given",
        "S11": "if there are",
    },
}


def table(first: str) -> dict[str, list[str]]:
    """Return the rows of the table whose first heading is given, by their first cell."""
    lines = prose(PAGE).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows: dict[str, list[str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name.strip("`")] = cells
    return rows


def test_the_matrix_of_the_page_is_the_codes() -> None:
    expected = {
        route: [
            "yes"
            if name in plan.required
            else WORDS[plan.optional[name]][name]
            if name in plan.optional
            else ""
            for name in SLICES
        ]
        for route, plan in MATRIX.items()
    }
    assert table("route") == expected


def test_the_table_of_slices_is_the_codes() -> None:
    assert table("slice") == {
        name: [
            f"`{form.label}`",
            ", ".join(
                f"default `{form.default}`" if source == "default" else source for source in form.sources
            ),
            str(form.budget),
        ]
        for name, form in SLICES.items()
    }


def test_the_tables_of_attributes_states_and_orders_are_the_codes() -> None:
    assert list(table("attribute")) == list(SliceAttributes.__struct_fields__)
    assert set(table("state")) == set(get_args(OnboardingState))
    assert table("`risk_prompt_preference`") == {
        name: [", ".join(f"`{advisor}`" for advisor in order)] for name, order in ORDERS.items()
    }


def test_the_table_of_what_is_never_personalised_is_the_codes() -> None:
    rows = table("path")
    paths: set[str] = set(get_args(ImpersonalPath))
    assert set(rows) == paths
    for path, function in IMPERSONAL.items():
        assert rows[path] == [f"`{function.__name__}`"]


def test_consents_named_are_those_that_open_sources() -> None:
    scopes: set[str] = set(get_args(ConsentScope))
    named = {cells[1].strip("`") for cells in table("scope").values()}
    assert named <= scopes
    assert set(CONSENT.values()) <= named


def test_the_examples_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langgraph", reason="the extra memfin[langgraph] is not installed")
    monkeypatch.chdir(tmp_path)
    found = [block for block in blocks(PAGE) if block.language in {"python", "text"}]
    followers = [*found[1:], found[0]]
    examples = [each for each in zip(found, followers, strict=True) if each[0].language == "python"]
    assert len(examples) >= 5
    for code, shown in examples:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code.text, str(PAGE), "exec"), {})  # noqa: S102 - the page's own example
        assert printed.getvalue() == (shown.text if shown.language == "text" else "")


def test_the_python_api_lists_every_public_method_and_each_has_a_docstring() -> None:
    with IsolatedStore(lambda: datetime.now(UTC)) as store:
        methods = {name: value for name, value in vars(store).items() if inspect.ismethod(value)}
    items = {name: value for name, value in vars(Items).items() if name[0] != "_" and name != "readable"}
    page = prose(ROOT / "docs" / "python-api.md")
    _, *tables = page.split("| method | does |\n|---|---|\n")
    assert len(tables) == 2
    for table_, found in zip(tables, (methods, items), strict=True):
        listed = re.findall(r"^\| `(.+?)` \| .+ \|$", table_.partition("\n\n")[0], re.MULTILINE)
        assert sorted(listed) == sorted(called(name, value) for name, value in found.items())
        assert all(inspect.getdoc(value) for value in found.values())


def called(name: str, function: Callable[..., object]) -> str:
    """Return a function's name and parameters without their types."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    plain = [each for each in parameters if each.name != "self"]
    return f"{name}{signature.replace(parameters=plain, return_annotation=signature.empty)}"
