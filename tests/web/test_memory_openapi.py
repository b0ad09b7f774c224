"""The OpenAPI document says what the service does, and the service does what the document says."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import msgspec
import pytest

from memfin.web.memory.calls import ROUTES
from memfin.web.memory.openapi import openapi_document
from tests.docs.pages import ROOT
from tests.support import LONG, length, unmeasured
from tests.web.memory_service import Service, serving

PAGE = ROOT / "docs" / "memory-service.md"
EXAMPLES = length(2, 100)
"""Examples a call; in a long run, schemathesis also walks through the corners of every schema."""


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with serving(tmp_path / "data") as running:
        yield running


async def test_the_document_is_served_and_a_function_of_the_routes(service: Service) -> None:
    served = await service.ask("GET", "/openapi.json", user=None)
    assert served.json == openapi_document(ROUTES)
    assert served.json["openapi"] == "3.1.0"


def test_every_call_is_described_with_its_failures() -> None:
    document = openapi_document(ROUTES)
    described = {
        operation["operationId"]: operation
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    }
    assert set(described) == {route.name for route in ROUTES} | {"health", "metrics", "openapi"}
    for route in ROUTES:
        assert {"401", "421", "500"} <= set(described[route.name]["responses"])
        assert ("requestBody" in described[route.name]) == (route.body is not None)


def test_the_page_lists_every_call() -> None:
    listed = set[tuple[str, str]]()
    for cell in re.findall(r"^\| ([^|]*`[^|]* /api/[^|]*`) \|", PAGE.read_text("utf-8"), re.MULTILINE):
        *methods, path = cell.replace("`", "").replace(",", "").split()
        listed.update((method, path.partition("?")[0]) for method in methods)
    assert listed == {(route.method, route.path) for route in ROUTES}


def test_the_schemas_are_schemas_and_all_of_them_are_there() -> None:
    document = openapi_document(ROUTES)
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if "$ref" in value else set()
            return own.union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    there = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= there


async def test_schemathesis_finds_nothing(service: Service, tmp_path: Path) -> None:
    thread_id = await service.save_thread(await service.grant())
    document = openapi_document(ROUTES)
    # Another user's path only ever answers that nothing is there.
    for name, value in {"{user_id}": "alice", "{thread_id}": thread_id}.items():
        for path in [path for path in document["paths"] if name in path]:
            item = document["paths"].pop(path)
            item["parameters"] = [each for each in item["parameters"] if f"{{{each['name']}}}" != name]
            document["paths"][path.replace(name, value)] = item
    (tmp_path / "openapi.json").write_bytes(msgspec.json.encode(document))
    # Text that happens to hold something sensitive is refused, as the document says.
    accepted = ["2xx", "401", "403", "404", "409", "422"]
    (tmp_path / "schemathesis.toml").write_text(
        f"[checks.positive_data_acceptance]\nexpected-statuses = {accepted}\n"
    )
    words = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        str(tmp_path / "openapi.json"),
        f"--url={service.url}",
        "--checks=all",
        f"--max-examples={EXAMPLES}",
        f"--phases={'coverage,fuzzing' if LONG else 'fuzzing'}",
        "--seed=20261122",
        "--no-color",
        f"--header=Authorization: Bearer {service.tokens['alice']}",
    ]
    done = await anyio.run_process(
        words, check=False, cwd=tmp_path, env=unmeasured(), stderr=subprocess.STDOUT
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said
    assert f"Tested: {len(ROUTES) + 3}" in said
