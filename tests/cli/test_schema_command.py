import json
import subprocess

import jsonschema
import pytest

from memfin.contracts.catalog import CONTRACTS
from tests.commands import run_command


def schema(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("schema", *arguments)


def test_without_a_name_the_contracts_are_listed() -> None:
    result = schema()
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(CONTRACTS)
    assert all(len(line.split(maxsplit=1)[1]) > 10 for line in lines)


@pytest.mark.parametrize("name", ["dialog-trace", "metrics_summary"])
def test_a_name_gives_its_json_schema(name: str) -> None:
    result = schema(name)
    assert (result.returncode, result.stderr) == (0, "")
    printed = json.loads(result.stdout)
    jsonschema.Draft202012Validator.check_schema(printed)
    assert printed["title"] == CONTRACTS[name.replace("_", "-")].title


def test_an_unknown_name_is_one_line_and_exit_code_2() -> None:
    result = schema("nonsense")
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "'nonsense'" in line
    assert "turn-eval" in line
