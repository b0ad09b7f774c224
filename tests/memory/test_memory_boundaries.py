"""What no memory reaches: shown by types, by imports and by trying."""

import ast
import inspect
import typing
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

import memfin
from memfin.agents.builtin.compliance import find_violations
from memfin.errors import UsageError
from memfin.memory import boundaries, sensitive
from memfin.memory.boundaries import (
    FORBIDDEN_EXECUTION_FIELDS,
    IMPERSONAL,
    Case,
    Evidence,
    ImpersonalPath,
    ImpersonalPrompt,
    PromptedPath,
    forbidden_execution_fields,
    impersonal_prompt,
    order_evidence,
)
from memfin.memory.slices import (
    LoadedMemory,
    LoadedSlice,
    Material,
    UserContextBlock,
    assemble,
    block_of,
    plan_reads,
)
from tests.memory.stored_contexts import ALL, NOW, PROFILE, THREAD
from tests.support import each_case

PACKAGE: Final = Path(memfin.__file__).parent

PERSONAL: Final = {
    "ContextFields",
    "LoadedMemory",
    "LoadedSlice",
    "Material",
    "MemoryStore",
    "Preferences",
    "ProfileConsent",
    "ThreadHeader",
    "UserContext",
    "UserContextBlock",
}
"""Types that carry memory, or a person."""


def evidence(number: int, **fields: Any) -> Evidence:
    known: dict[str, Any] = {
        "evidence_id": f"e{number}",
        "statement": f"statement {number}",
        "published_at": NOW + timedelta(days=number),
        "reliability": 0.5,
    }
    return Evidence(**(known | fields))


def case(**fields: Any) -> Case:
    known: dict[str, Any] = {"subject": "SOL", "thesis": "SOL is cheap", "as_of": NOW}
    return Case(**(known | fields))


PATHS: Final[dict[str, Callable[..., Any]]] = {
    **{str(path): function for path, function in IMPERSONAL.items()},
    "sensitive_classifier": sensitive.find_sensitive,
    "boundary guard of the builtin agent": find_violations,
}


def test_all_paths_that_are_never_personalised_are_looked_at() -> None:
    paths: set[str] = set(get_args(ImpersonalPath))
    assert paths == {
        "evidence_order",
        "counter_thesis",
        "invalidators",
        "data_quality_note",
        "boundary_guard",
        "sensitive_classifier",
        "forbidden_execution_fields",
    }
    assert paths <= set(PATHS)
    assert set(get_args(PromptedPath)) < paths


def types_in(annotation: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield every type that a value of an annotation can hold, fields of structs included."""
    if annotation in seen:
        return
    seen.add(annotation)
    yield annotation
    for part in get_args(annotation):
        if not isinstance(part, str | int | float | msgspec.Meta):
            yield from types_in(part, seen)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        for field in typing.get_type_hints(annotation, include_extras=True).values():
            yield from types_in(field, seen)


@each_case("path", PATHS)
def test_no_parameter_of_such_a_path_can_hold_memory_or_somebody(path: str) -> None:
    hints = typing.get_type_hints(PATHS[path], include_extras=True)
    parameters = inspect.signature(PATHS[path]).parameters
    assert set(parameters) <= set(hints)
    for name in parameters:
        assert not name.startswith("user")
        for found in types_in(hints[name], set()):
            assert found not in (Any, object, dict), (path, name)
            assert getattr(found, "__name__", "") not in PERSONAL, (path, name, found)
            fields = getattr(found, "__struct_fields__", ())
            assert not {field for field in fields if field.startswith("user") or "preference" in field}


def test_the_walk_over_types_finds_what_it_looks_for() -> None:
    class Carrying(msgspec.Struct):
        inner: list[LoadedMemory | None]

    found = {getattr(each, "__name__", "") for each in types_in(tuple[Carrying, ...], set())}
    assert {"LoadedMemory", "LoadedSlice", "UserContextBlock"} <= found


def imported_by(module: Path) -> Iterator[Path]:
    """Yield the files of memfin that a file imports."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            first, *rest = name.split(".")
            if first == "memfin":
                path = PACKAGE.joinpath(*rest)
                yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists())


def reached(modules: list[Path]) -> set[Path]:
    found: set[Path] = set()
    pending = [*modules]
    while pending:
        if (module := pending.pop()) not in found:
            found.add(module)
            pending.extend(imported_by(module))
    return found


MEMORY: Final = PACKAGE / "memory"
READERS: Final = {
    MEMORY / f"{name}.py"
    for name in (
        "slices",
        "store",
        "reading",
        "contexts",
        "consent",
    )
}


def test_the_impersonal_paths_import_nothing_that_reads_memory() -> None:
    paths = [MEMORY / "boundaries.py", *sorted((MEMORY / "sensitive").rglob("*.py"))]
    paths.append(PACKAGE / "agents" / "builtin" / "compliance.py")
    assert not reached(paths) & READERS
    assert reached([MEMORY / "slices.py"]) & READERS  # the check finds what it looks for


MEMORY_OF_SOMEBODY: Final = assemble(
    plan_reads("thread_refresh", ALL, thread_id="t1"), Material(profile=PROFILE, thread=(THREAD,))
)


def test_the_type_checker_refuses_memory_on_these_paths() -> None:
    """The checker runs over tests, too, and reports an ignore that it has no need of."""
    block = MEMORY_OF_SOMEBODY.block
    loaded: LoadedSlice = MEMORY_OF_SOMEBODY.slices[0]
    with pytest.raises(AttributeError):
        order_evidence([loaded])  # type: ignore[list-item]
    with pytest.raises(AttributeError):
        impersonal_prompt("counter_thesis", MEMORY_OF_SOMEBODY)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        case(thesis=block)
    with pytest.raises(AttributeError):
        Case(subject=block, thesis="x", as_of=NOW)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Case(subject="x", thesis="x", as_of=NOW, user_context=block)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        impersonal_prompt("invalidators", case(), block)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        forbidden_execution_fields([block])  # type: ignore[list-item]


@pytest.mark.parametrize("field", ["subject", "thesis", "statement"])
def test_text_with_a_block_of_memory_makes_no_case(field: str) -> None:
    text = f"x {MEMORY_OF_SOMEBODY.block.text}"
    fields = {"evidence": (evidence(1, statement=text),)} if field == "statement" else {field: text}
    with pytest.raises(UsageError, match="memory is not allowed on this path"):
        case(**fields)
    with pytest.raises(UsageError):
        msgspec.convert({"subject": "x", "thesis": "</USER_CONTEXT>", "as_of": NOW}, Case)


@pytest.mark.parametrize("path", get_args(PromptedPath))
def test_a_prompt_on_these_paths_is_the_same_for_everybody(path: PromptedPath) -> None:
    one = impersonal_prompt(path, case(evidence=(evidence(1), evidence(2))))
    other = impersonal_prompt(path, case(evidence=(evidence(2), evidence(1))))
    assert one == other
    assert isinstance(one, ImpersonalPrompt)
    assert "SOL is cheap" in one.text
    assert boundaries.OPENING not in one.text


def test_evidence_stands_in_the_order_of_its_weight_age_and_id() -> None:
    found = order_evidence(
        [
            evidence(1),
            evidence(3),
            evidence(2, reliability=0.9),
            evidence(4, critical=True, reliability=0.1),
            evidence(5, published_at=NOW + timedelta(days=3)),
        ]
    )
    assert [each.evidence_id for each in found] == ["e4", "e2", "e3", "e5", "e1"]


def test_fields_of_an_execution_are_refused_to_everybody() -> None:
    assert forbidden_execution_fields(["thesis", "Order-Type", "api_key", "order-type"]) == (
        "Order-Type",
        "api_key",
        "order-type",
    )
    assert not forbidden_execution_fields(["thesis", "risk"])
    assert {"order_type", "leverage", "private_key"} <= FORBIDDEN_EXECUTION_FIELDS


def test_a_block_is_no_text() -> None:
    assert not isinstance(block_of([]), str)
    assert isinstance(MEMORY_OF_SOMEBODY.block, UserContextBlock)
