"""The command-line reference is current, and help shows an example before anything else."""

import os
import re
import subprocess
import sys

import click

from memfin.cli.main import COMMANDS, memfin
from tests.docs.pages import ROOT, blocks
from tests.support import each_case


def command(name: str) -> click.Command:
    found = memfin.get_command(click.Context(memfin), name)
    assert found is not None
    return found


@each_case(("language", "page"), [("en", "cli.md"), ("zh", "zh/cli.md")])
def test_the_reference_is_what_the_script_prints(language: str, page: str) -> None:
    # In a process of its own: click keeps the help option of the first context that a command is asked in.
    environment = {**os.environ, "PYTHONPATH": "."}
    script = [sys.executable, "scripts/cli_reference.py", language]
    printed = subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert (ROOT / "docs" / page).read_bytes() == printed.stdout, "run make generated"


def test_the_reference_has_a_section_for_every_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    sections = re.findall(r"^## memfin ([\w -]+)$", page, re.MULTILINE)
    assert [name for name in sections if " " not in name] == list(COMMANDS)
    groups = {name: found for name in COMMANDS if isinstance(found := command(name), click.Group)}
    below = [
        f"{name} {inner}"
        for name, group in groups.items()
        for inner in group.list_commands(click.Context(group))
    ]
    assert [name for name in sections if name.count(" ") == 1] == below
    assert len(list(blocks(ROOT / "docs" / "cli.md"))) == len(sections)


@each_case("name", COMMANDS)
def test_help_shows_an_example_before_the_explanation(name: str) -> None:
    context = click.Context(command(name), info_name=name, terminal_width=100)
    usage, _, examples, *_ = command(name).get_help(context).split("\n\n")
    assert usage.startswith("Usage:")
    lines = [line.strip() for line in examples.split("\n")]
    assert lines, name
    assert all(line.startswith(f"memfin {name}") for line in lines)


@each_case("name", COMMANDS)
def test_every_option_has_a_help_text(name: str) -> None:
    for param in command(name).params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help, param.name
