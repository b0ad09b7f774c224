"""The shape of the code: imports point one way and in no circle."""

import ast
import graphlib
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from memfin.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "memfin"
RANKS: Mapping[str, int] = {
    "errors": 0,
    "language": 0,
    "secrets": 0,
    "version": 0,
    "text": 1,
    "sandbox": 1,
    "hosting": 1,
    "contracts": 1,
    "client": 1,
    "shards": 1,
    "dataset": 2,
    "sessions": 2,
    "chats": 2,
    "clients": 2,
    "scoring": 2,
    "metrics": 2,
    "agents": 2,
    "judges": 2,
    "journal": 2,
    "memory": 2,
    "ledger": 2,
    "rag": 2,
    "pressure": 2,
    "report": 2,
    "validation": 2,
    "actors": 3,
    "exchange": 3,
    "results": 3,
    "runtime": 4,
    "scale": 4,
    "validity": 4,
    "": 5,  # memfin/__init__.py, which imports its names when they are asked for
    "cli": 5,
    "pytest_plugin": 5,
    "web": 5,
    "__main__": 6,
}
"""A part may import parts of its own rank or below."""

ONLY: Mapping[str, frozenset[str]] = {
    "errors": frozenset(),
    "contracts": frozenset({"errors"}),
    "text": frozenset({"errors"}),
    "secrets": frozenset(),
    "language": frozenset(),
    "version": frozenset(),
    "sandbox": frozenset({"errors", "secrets", "text"}),
    "hosting": frozenset({"errors"}),
    "journal": frozenset({"errors", "contracts"}),
    "client": frozenset({"errors", "secrets", "contracts", "shards", "text"}),
    "metrics": frozenset({"errors", "contracts", "language", "scoring"}),
    "report": frozenset({"errors", "contracts", "language", "metrics", "text"}),
}
"""Parts that may import these other parts and no more."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def part_of(module: str) -> str:
    """Return the first name below ``memfin``."""
    return module.removeprefix("memfin").removeprefix(".").partition(".")[0]


def imported(module: str, tree: ast.Module) -> Iterator[str]:
    """Yield the modules of memfin that a module imports, at any place but under TYPE_CHECKING."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: line {node.lineno} imports relatively"
            names = [
                inner if (inner := f"{node.module}.{alias.name}") in MODULES else str(node.module)
                for alias in node.names
            ]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "memfin")


@pytest.fixture(scope="module")
def imports() -> Mapping[str, frozenset[str]]:
    return {
        module: frozenset(imported(module, ast.parse(path.read_text("utf-8")))) - {module}
        for module, path in MODULES.items()
    }


def upward(imports: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the imports that point up, or out of the parts that a part is allowed."""
    found = []
    for module, targets in imports.items():
        part = part_of(module)
        for target in sorted(targets):
            other = part_of(target)
            allowed = ONLY.get(part, frozenset(RANKS)) | {part}
            if other not in allowed or RANKS[other] > RANKS[part]:
                found.append(f"{module} imports {target}")
    return found


def circle(graph: Mapping[str, frozenset[str]]) -> list[str] | None:
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        members: list[str] = error.args[1]
        return members
    return None


def test_every_part_has_its_place_in_the_plan() -> None:
    assert {part_of(module) for module in MODULES} <= set(RANKS)


def test_all_imported_modules_exist(imports: Mapping[str, frozenset[str]]) -> None:
    assert {target for targets in imports.values() for target in targets} <= set(MODULES)


def test_imports_point_one_way(imports: Mapping[str, frozenset[str]]) -> None:
    assert upward(imports) == []


def test_modules_do_not_import_in_a_circle(imports: Mapping[str, frozenset[str]]) -> None:
    assert circle(imports) is None


def test_parts_do_not_import_in_a_circle(imports: Mapping[str, frozenset[str]]) -> None:
    parts: dict[str, frozenset[str]] = {}
    for module, targets in imports.items():
        if part := part_of(module):
            parts[part] = parts.get(part, frozenset()) | {part_of(target) for target in targets} - {part, ""}
    assert circle(parts) is None


@pytest.fixture(scope="module")
def lines() -> Counter[str]:
    """Return the lines of each part."""
    counted: Counter[str] = Counter()
    for module, path in MODULES.items():
        counted[part_of(module)] += path.read_bytes().count(b"\n")
    return counted


def test_no_part_holds_more_than_a_sixth_of_the_code(lines: Counter[str]) -> None:
    (largest, most), *_ = lines.most_common()
    assert most <= lines.total() / 6, largest


def test_no_part_outgrows_what_was_decided(lines: Counter[str]) -> None:
    text = (ROOT / "docs" / "adr" / "0026-weight-of-packages.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (?:none|[\d,]+) \| ([\d,]+) \|", text, re.MULTILINE)
    limits = {part: int(limit.replace(",", "")) for part, limit in rows}
    assert len(limits) == 19
    assert {part: lines[part] for part in limits if lines[part] > limits[part]} == {}
    assert lines.total() <= 82_400


def test_contracts_need_nothing_but_msgspec() -> None:
    standard = {"memfin", "msgspec", *sys.stdlib_module_names}
    for module, path in MODULES.items():
        if part_of(module) != "contracts":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            assert {name.partition(".")[0] for name in names} <= standard, module


@pytest.mark.parametrize("name", ["actors", "contracts"])
def test_the_top_level_shows_actors_and_contracts_by_links(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert link.readlink() == Path("memfin") / name
    assert link.resolve() == PACKAGE / name


def test_the_project_and_the_package_are_of_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == __version__


def test_the_checks_find_what_they_look_for() -> None:
    assert upward({"memfin.contracts.x": frozenset({"memfin.scoring.rows"})})
    assert upward({"memfin.report.x": frozenset({"memfin.journal"})})
    assert upward({"memfin.actors.x": frozenset({"memfin.runtime.plan"})})
    assert not upward({"memfin.cli.x": frozenset({"memfin.runtime.plan", "memfin.errors"})})
    assert circle({"a": frozenset({"b"}), "b": frozenset({"a"})})
    tree = ast.parse(
        "if TYPE_CHECKING:\n    import memfin.cli\nelse:\n    import memfin.errors\n"
        "def f():\n    from memfin.contracts import reading\n    from memfin.dataset import SAMPLE\n"
    )
    assert set(imported("m", tree)) == {"memfin.errors", "memfin.contracts.reading", "memfin.dataset"}
