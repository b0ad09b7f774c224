"""Bounds, locks, notices and the audit of what MemFin depends on."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = [each for extra in PROJECT["optional-dependencies"].values() for each in extra]
BOUNDS = [Requirement(text) for text in (*PROJECT["dependencies"], *EXTRAS)]

HOLES = {
    "aiohttp": "3.14.3",  # GHSA-2g87-pp6c-29x5
    "click": "8.3.2",  # PYSEC-2026-2132
    "filelock": "3.20.2",  # CVE-2026-22701
    "jinja2": "3.1.5",  # CVE-2025-27516
    "langchain-core": "1.3.2",  # GHSA-pjwx-r37v-7724
    "langgraph": "1.0.9",  # GHSA-g48c-2wqr-h844
    "pypdf": "7.0.0",  # sizes of images' buffers
}
"""The last release that is known to have a hole."""


def locked(name: str) -> dict[str, Version]:
    lines = (ROOT / "requirements" / name).read_text("utf-8")
    return {found[1]: Version(found[2]) for found in re.finditer(r"^([\w-]+)==(\S+)", lines, re.MULTILINE)}


def test_lower_bounds_leave_out_releases_with_known_holes_and_admit_the_lock() -> None:
    files = ("ray", "inspect", "frames", "adapters", "run")
    lock = {name: version for file in files for name, version in locked(f"{file}.txt").items()}
    for bound in BOUNDS:
        assert lock[bound.name] in bound.specifier
        if bound.name in HOLES:
            assert HOLES[bound.name] not in bound.specifier, bound.name


def test_the_notice_names_every_package_and_goes_into_the_wheel() -> None:
    notice = (ROOT / "NOTICE").read_text("utf-8")
    named = {
        name
        for line in re.findall(r"^\S.* {2,}(\S+(?:, \S+)*)$", notice, re.MULTILINE)
        for name in line.split(", ")
    }
    assert {Requirement(text).name for text in PROJECT["dependencies"]} <= named
    assert "NOTICE" in PROJECT["license-files"]


def test_links_and_pictures_of_the_package_index_have_whole_addresses() -> None:
    command = [sys.executable, "-m", "hatchling", "metadata", "readme"]
    page = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", page)
    assert len(links) > 20
    for picture, link in links:
        assert link.startswith(("https://raw." if picture else "https://", "#")), link
        if "/blob/main/" in link:
            assert (ROOT / link.partition("/blob/main/")[2].partition("#")[0]).exists(), link


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (
            {"dependencies": [{"name": "a", "version": "1", "vulns": []}]},
            0,
            "audit: FILE: 1 packages looked up\n",
        ),
        (
            {
                "dependencies": [
                    {"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["1.1"]}]}
                ]
            },
            1,
            "FILE: a 1: X-1, mended in 1.1\naudit: FILE: 1 packages looked up\n",
        ),
        (
            {"dependencies": [{"name": "a", "version": "1", "skip_reason": "not found"}]},
            0,
            "audit: FILE: skipped, no database of known holes can be reached\n",
        ),
        (None, 0, "audit: FILE: skipped, no database of known holes can be reached\n"),
    ],
)
def test_the_audit_fails_for_holes_and_tells_where_nothing_was_looked_up(
    tmp_path: Path, answer: Any, code: int, told: str
) -> None:
    program = tmp_path / "pip-audit"
    program.write_text(
        f"#!/bin/sh\necho '{'no network' if answer is None else json.dumps(answer)}'\nexit 1\n"
    )
    program.chmod(0o755)
    command = [sys.executable, "scripts/audit.py", str(program), "FILE"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, told)
