"""Links resolve, commands parse, tables name what there is, both READMEs say the same."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest

from memfin import contracts
from memfin.cli.main import COMMANDS, memfin
from memfin.cli.options import (
    BENCH_OPTIONS,
    ENGINE_OPTIONS,
    LIMITS,
    REPEATS,
    RUN_OPTIONS,
    SOAK_OPTIONS,
    UPLOAD,
    read_config,
)
from memfin.contracts import AnyProgressEvent, Counters, SkipReason
from memfin.contracts.trace import DialogTrace
from memfin.metrics import MetricsState
from tests.docs.pages import ROOT, blocks, pages, prose
from tests.support import each_case

README, README_ZH = ROOT / "README.md", ROOT / "README.zh-CN.md"
CONFIGURATION, METRICS, ARTEFACTS, DATASET, SOAKING = (
    ROOT / "docs" / f"{name}.md" for name in ("configuration", "metrics", "artefacts", "dataset", "soak")
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.*?) *$", re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ +)?(?:\.venv/bin/)?(?:python -m )?memfin(?: +(?P<words>.*))?$")
SHELL = ("", "sh", "text")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as code hosts make them."""
    titles = (title.replace("`", "") for _, title in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links() -> Iterator[tuple[Path, str]]:
    for page in pages():
        yield from ((page, target) for target in LINK.findall(prose(page)))


def command_lines(page: Path) -> Iterator[str]:
    """Yield what follows ``memfin`` on each command line of a page's blocks, without explanations."""
    for block in blocks(page):
        if block.language not in SHELL:
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            match = COMMAND.match(line.strip())
            if match is not None:
                yield re.split(r" {2,}|  *#", (match["words"] or "").strip())[0]


def test_there_are_pages_links_and_commands_to_check() -> None:
    assert len(pages()) > 15
    assert len(list(links())) > 30
    assert sum(len(list(command_lines(page))) for page in pages()) > 20


@each_case(("page", "target"), [pytest.param(*link, id=f"{page_id(link[0])} {link[1]}") for link in links()])
def test_relative_links_resolve(page: Path, target: str) -> None:
    if re.match(r"[a-z]+:", target):
        assert target.startswith("https://")
        return
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    assert file.exists(), f"{page_id(page)} links to {target}"
    if anchor:
        assert anchor in anchors(file), f"{page_id(page)} links to {target}"


def test_the_index_lists_every_decision() -> None:
    index = ROOT / "docs" / "index.md"
    listed = [target for target in LINK.findall(prose(index)) if target.startswith("adr/")]
    assert listed == [f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]


@each_case("page", pages())
def test_command_lines_parse(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.file == "rules.toml":  # given to --config
            (tmp_path / block.file).write_text(block.text, "utf-8")
    for line in command_lines(page):
        name, *words = shlex.split(line)
        if name in ("COMMAND", "--version", "-h", "--help") or "--help" in words:
            continue
        assert name in COMMANDS, f"{page_id(page)}: memfin {line}"
        command = memfin.get_command(click.Context(memfin), name)
        assert command is not None
        words = [word for word in words if word not in ("|", ">")]
        if words[-1:] == ["d.json"]:  # where a redirection goes
            words.pop()
        try:
            command.make_context(name, words)
        except click.UsageError as problem:
            pytest.fail(f"{page_id(page)}: memfin {line}: {problem.format_message()}")


@each_case("page", pages(), ids=page_id)
def test_commands_named_in_the_text_exist(page: Path) -> None:
    known = {*COMMANDS, "COMMAND"}
    for name in re.findall(r"`(?:python -m )?memfin ([^\s`]+)[^`]*`", prose(page)):
        assert name in known, f"{page_id(page)}: memfin {name}"


def flags_of(command: click.Command) -> Iterator[str]:
    """Yield the options of a command and of those below it."""
    yield from (flag for param in command.params for flag in param.opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from flags_of(inner)


@each_case("page", pages(), ids=page_id)
def test_options_named_in_the_text_exist(page: Path) -> None:
    known = {"--help", "--version", *flags_of(memfin)}
    if "adr" in page.parts or page.name == "CONTRIBUTING.md":
        return  # decisions and chores speak of other programs' options, too
    for flag in re.findall(r"`(--[a-z0-9-]+)", prose(page)):
        assert flag in known, f"{page_id(page)}: {flag}"


@pytest.mark.parametrize("readme", [README, README_ZH], ids=page_id)
def test_the_readme_names_exactly_the_two_set_up_commands(readme: Path) -> None:
    targets = [
        line.split("#")[0].split()
        for block in blocks(readme)
        for line in block.text.splitlines()
        if line.startswith("make ")
    ]
    assert targets == [["make", "run"], ["make", "test"]]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for _, target in targets)


def test_both_readmes_have_the_same_headings() -> None:
    levels = [[len(mark) for mark, _ in HEADING.findall(prose(readme))] for readme in (README, README_ZH)]
    assert levels[0] == levels[1]


def test_both_readmes_show_the_same_commands_and_code() -> None:
    shown = [
        [
            [line.split("#")[0].rstrip() for line in block.text.splitlines()]
            for block in blocks(readme)
            if block.language != "text"
        ]
        for readme in (README, README_ZH)
    ]
    assert shown[0] == shown[1]


def test_both_readmes_link_to_the_same_pages_in_their_language() -> None:
    english, chinese = (Counter(LINK.findall(prose(readme))) for readme in (README, README_ZH))
    expected: Counter[str] = Counter()
    for target, count in (english - Counter({"README.zh-CN.md": 1})).items():
        translated = target.replace("docs/", "docs/zh/").replace(
            "docs/zh/images/report.", "docs/images/report-zh."
        )
        expected[translated if (ROOT / translated).is_file() else target] += count
    assert chinese - Counter({"README.md": 1}) == expected


def test_both_readmes_give_the_same_figures() -> None:
    figures = [
        re.findall(r"^\|.*?\| *([\d.,% |]+)\|$", prose(readme), re.MULTILINE)
        for readme in (README, README_ZH)
    ]
    assert figures[0], "the benchmark's table"
    assert figures[0] == figures[1]


def first_cells(table: str) -> list[str]:
    rows = [line.split("|")[1].strip() for line in table.strip().splitlines()]
    return [cell.strip("`") for cell in rows[2:]]


def field_tables() -> list[tuple[str, str]]:
    text = ARTEFACTS.read_text("utf-8")
    return re.findall(r"<!-- fields: (\w+) -->\n((?:\|.*\n)+)", text)


@each_case(("name", "table"), field_tables(), ids=[name for name, _ in field_tables()])
def test_field_tables_match_the_contract(name: str, table: str) -> None:
    struct: Any = getattr(contracts, name)
    assert first_cells(table) == list(struct.__struct_fields__)
    required = {field.name for field in msgspec.structs.fields(struct) if field.required}
    stated = {
        line.split("|")[1].strip(" `") for line in table.splitlines() if line.split("|")[2].strip() == "yes"
    }
    assert stated == required


def test_every_struct_of_the_artefacts_has_a_table() -> None:
    named = {name for name, _ in field_tables()}
    assert named >= {
        "RunManifest",
        "ConfigFile",
        "TurnEvalRow",
        "EvalSummary",
        "RunStats",
        DialogTrace.__name__,
    }


def test_the_table_of_events_matches_the_contract() -> None:
    table = re.search(r"^\| event \|.*\n((?:\|.*\n)+)", ARTEFACTS.read_text("utf-8"), re.MULTILINE)
    assert table is not None
    tags = {event.__struct_config__.tag for event in get_args(AnyProgressEvent)}
    assert set(first_cells(table[0])) == tags


def test_the_table_of_events_names_every_field() -> None:
    table = re.search(r"^\| event \|.*\n((?:\|.*\n)+)", ARTEFACTS.read_text("utf-8"), re.MULTILINE)
    assert table is not None
    rows = (line.split("|") for line in table[0].splitlines()[2:])
    stated = {cells[1].strip(" `"): set(re.findall(r"`(\w+)`", cells[3])) for cells in rows}
    common, counters = {"ts", "run_id"}, set(Counters.__struct_fields__)
    for event in get_args(AnyProgressEvent):
        fields = set(event.__struct_fields__) - common
        told = stated[event.__struct_config__.tag]
        assert told == fields - (counters if counters <= fields else set()), event.__name__


def test_the_bounds_of_the_benchmark_are_told() -> None:
    code = (ROOT / "benchmarks" / "pipeline.py").read_text("utf-8")
    bounds = dict(re.findall(r"^((?:MAX|MIN)_\w+) = ([\d.]+)$", code, re.MULTILINE))
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(\w+)`:.*\| at (?:most|least) ([\d.]+) \|$", page, re.MULTILINE))
    assert bounds
    assert told == bounds


def test_the_table_of_skip_reasons_is_complete() -> None:
    table = re.search(r"^\| skip_reason \|.*\n((?:\|.*\n)+)", DATASET.read_text("utf-8"), re.MULTILINE)
    assert table is not None
    assert set(first_cells(table[0])) == set(get_args(SkipReason))


def test_the_table_of_options_matches_the_command() -> None:
    table = re.search(r"^\| option \|.*\n((?:\|.*\n)+)", CONFIGURATION.read_text("utf-8"), re.MULTILINE)
    assert table is not None
    stated = {
        cells[1].strip(" `"): cells[2].strip(" `")
        for line in table[0].splitlines()[2:]
        if (cells := line.split("|"))
    }
    options = [option for option in (*RUN_OPTIONS, *REPEATS, *ENGINE_OPTIONS, *UPLOAD) if not option.hidden]
    assert list(stated) == [option.opts[0] for option in options]
    rows = dict(zip(stated, table[0].splitlines()[2:], strict=True))
    for option in options:
        default = option.setting.default
        if default not in (None, {}, []):
            assert stated[option.opts[0]] == ("off" if default is False else str(default))
        elif option.setting.extra.get("default") is None:
            assert stated[option.opts[0]] == "none"
        assert all(f"`{choice}`" in rows[option.opts[0]] for choice in option.setting.choices)


def test_the_table_of_soak_options_matches_the_settings_of_the_file() -> None:
    table = re.search(r"^\| option \|.*\n((?:\|.*\n)+)", SOAKING.read_text("utf-8"), re.MULTILINE)
    assert table is not None
    names = [option.opts[0] for option in LIMITS]
    assert first_cells(table[0]) == names
    for command in ("soak", "bench"):
        found = memfin.get_command(click.Context(memfin), command)
        assert found is not None
        assert {text for param in found.params for text in param.opts} >= set(names)


SETTINGS_FILES = {
    f"{page.stem}-{number}": block.text
    for page in (CONFIGURATION, SOAKING, ROOT / "docs" / "rag.md", ROOT / "docs" / "ten-minutes.md")
    for number, block in enumerate(block for block in blocks(page) if block.language == "toml")
}


@pytest.mark.parametrize("text", SETTINGS_FILES.values(), ids=SETTINGS_FILES)
def test_every_settings_file_is_one_that_all_commands_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "memfin.toml"
    path.write_text(text, "utf-8")
    assert any(
        [
            read_config(path),
            read_config(path, SOAK_OPTIONS, "soak"),
            read_config(path, BENCH_OPTIONS, "bench"),
        ]
    )


@pytest.mark.parametrize("metric", MetricsState().results())
def test_every_value_and_count_is_explained(metric: str) -> None:
    text = METRICS.read_text("utf-8")
    general, *sections = re.split(r"^## (?=M\d)", text, flags=re.MULTILINE)
    section = next(part for part in sections if part.startswith(metric[:2].upper()))
    result = MetricsState().results()[metric]
    for name in [*result.micro, *result.counts]:
        assert f"`{name}`" in section or f"`{name}`" in general, name
