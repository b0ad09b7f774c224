"""Translations: complete catalogs, the language of the locale, and Chinese tables and reports."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from msgspec import Struct

from memfin.language import locale_language, tr, tr_counted, use_language
from memfin.report import load_report, render_html_report, render_markdown_report, write_reports
from tests.commands import run_command
from tests.support import dataset
from tools.translations import LOCALE, mo, po, updated

ROOT = Path(__file__).resolve().parents[1]

PATHS = {"PYTHONPATH": str(ROOT)}
CATALOGS = sorted(LOCALE.glob("*/memfin.po"))
HAN = re.compile(r"[㐀-鿿]")
NEUTRAL = re.compile(
    r"[\W\d_]*|(M\d|RAG|Alpha|F1|Token|p\d\d|[abr]|RSS|ms|UTC|MemFin|b - a)([\W\d_].*)?", re.ASCII
)
"""Texts that are the same in every language."""

OWN = ("title", "nav", "label", "note", "meaning", "detail", "why", "where")
"""Fields of the structs of a report that hold words of MemFin."""


def memfin(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_command(*words, cwd=folder)


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("path", CATALOGS, ids=lambda path: path.parent.name)
def test_a_catalog_has_every_text_of_the_code_translated_and_is_compiled(path: Path) -> None:
    catalog = updated(path)
    assert path.read_bytes() == po(catalog), "run python tools/translations.py"
    assert path.with_suffix(".mo").read_bytes() == mo(catalog), "run python tools/translations.py"
    for message in catalog:
        if message.id:
            assert message.string, f"not translated: {message.id}"
            assert fields(str(message.id)) == fields(str(message.string))


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW.UTF-8", "LC_ALL": ""}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "zh_CN"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_that_of_the_locale(environment: dict[str, str], language: str) -> None:
    assert locale_language(environment) == language


def test_a_language_holds_within_its_block() -> None:
    with use_language("zh"):
        assert tr("Results") == "结果"
        with use_language("en"):
            assert tr("Results") == "Results"
        assert tr("{count:,} turns", count=1234) == "1,234 轮"
    assert tr("Results") == "Results"
    assert tr("never a text of MemFin") == "never a text of MemFin"


def words(value: object) -> Iterator[str]:
    """Yield the texts of a report that are MemFin's own, not those of the run or names in artifacts."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            part = getattr(value, name)
            yield from ([part] if name in OWN and isinstance(part, str) else ())
            yield from (part if name == "headings" else words(part))
    elif isinstance(value, tuple):
        for each in value:
            pair = isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str)
            yield from ([each[0]] if pair else words(each))


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--limit", "6", "--run-id", "it"),
        ("bench", "--run-id", "it"),
        ("soak", "--epochs", "5", "--limit", "2", "--run-id", "it"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_tables_and_reports_are_chinese_throughout(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = memfin(tmp_path, *arguments, "--lang", "zh")
    assert done.returncode == 0, done.stderr
    assert HAN.search(done.stdout)
    assert done.stdout.splitlines()[-1].startswith(("报告：", "压测："))
    assert memfin(tmp_path, "report", "runs/it", "--lang", "zh").returncode == 0
    assert '<html lang="zh-CN">' in (tmp_path / "runs/it/report.html").read_text("utf-8")
    with use_language("zh"):
        report = load_report(tmp_path / "runs/it")
        english = {text for text in words(report) if not (HAN.search(text) or NEUTRAL.fullmatch(text))}
        assert not english
        assert render_markdown_report(report).startswith(f"# {report.title}")
        chinese = render_html_report(report)
    assert '<html lang="en">' in render_html_report(load_report(tmp_path / "runs/it"))
    assert chinese == (tmp_path / "runs/it/report.html").read_text("utf-8")
    write_reports(tmp_path / "runs/it", language="zh")
    assert chinese == (tmp_path / "runs/it/report.html").read_text("utf-8")


def test_the_language_of_the_locale_the_variable_and_the_settings_file(tmp_path: Path) -> None:
    def first_line(**environment: str) -> str:
        done = run_command("run", "--limit", "1", cwd=tmp_path, env=environment | {"PYTHONPATH": str(ROOT)})
        assert done.returncode == 0, done.stderr
        return done.stdout.partition(" ")[0]

    assert first_line(LANG="zh_CN.UTF-8") == "运行"
    assert first_line(LANG="zh_CN.UTF-8", MEMFIN_LANG="en") == "Run"
    (tmp_path / "memfin.toml").write_text('lang = "zh"\n', "utf-8")
    assert first_line(LANG="C.UTF-8") == "运行"
    (tmp_path / "memfin.toml").write_text('lang = "fr"\n', "utf-8")
    done = memfin(tmp_path, "run", "--limit", "1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'fr'" in done.stderr


def test_one_is_counted_in_the_singular(tmp_path: Path) -> None:
    assert tr_counted(1, "1 turn", "{count:,} turns") == "1 turn"
    assert tr_counted(2000, "1 turn", "{count:,} turns") == "2,000 turns"
    data = dataset(tmp_path / "d.jsonl", 1, turns=1)
    run = memfin(tmp_path, "run", str(data), "--agent", "echo", "--run-id", "r", "--lang", "en")
    assert re.search(
        r"^1 dialogue, 1 turn in [\d.]+ s; 0 turns failed, 0 lines skipped$", run.stdout, re.MULTILINE
    )
    assert "; 1 turn pair" in run.stdout
    assert "- 1 valid dialogue; 1 turn pair; 0" in (tmp_path / "runs" / "r" / "report.md").read_text("utf-8")
    soak = memfin(
        tmp_path, "soak", str(data), "--agent", "echo", "--epochs", "1", "--run-id", "s", "--lang", "en"
    )
    assert "s: 1 epoch" in soak.stdout
    assert re.search(r"^1 epoch, 1 dialogue, 1 turn in ", soak.stdout, re.MULTILINE)
    assert "memfin: epoch 1/1: 1 dialogue, 1 turn in" in soak.stderr
    assert "no drift can be seen after 1 epoch;" in (tmp_path / "runs" / "s" / "report.md").read_text("utf-8")
