"""Names that packages offer in entry points."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memfin.actors.measuring import resolve_metrics
from memfin.agents.registry import resolve_agent
from memfin.errors import UsageError
from memfin.judges import resolve_judge
from memfin.metrics.custom import TurnMetric
from memfin.sandbox.plugins import Plugin, installed_plugins
from memfin.scoring.user_detectors import importable_reference, load_detectors

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a package with entry points, given as ``group:name=object`` each."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(package: str, *entries: str, version: str = "1.0") -> None:
        metadata = tmp_path / f"{package}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        lines = (
            f"[memfin.{group}]\n{line}\n" for group, _, line in (each.partition(":") for each in entries)
        )
        (metadata / "entry_points.txt").write_text("".join(lines))
        (tmp_path / f"{package}.py").write_text(f"from {__name__} import *\n")

    for name in [name for name in sys.modules if name.startswith("vendor")]:
        monkeypatch.delitem(sys.modules, name)
    return install


def agent(text: str) -> str:
    return text


def judge(request: Any) -> float:
    return 3.0


def refusal(name: str) -> str:
    with pytest.raises(UsageError) as refused:
        resolve_agent(name)
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


def test_plugins_are_listed_and_not_imported(install: Install) -> None:
    install("vendor_b", "judges:strict = vendor_b:judge [extra]", version="2.1")
    install(
        "vendor_a", "agents:bot=vendor_a:agent", "exporters:sheet=vendor_a:missing.part", "other:x=vendor_a:y"
    )
    assert [each for each in installed_plugins() if each.package.startswith("vendor")] == [
        Plugin("memfin.agents", "bot", "vendor_a", "1.0", "vendor_a:agent"),
        Plugin("memfin.exporters", "sheet", "vendor_a", "1.0", "vendor_a:missing.part"),
        Plugin("memfin.judges", "strict", "vendor_b", "2.1", "vendor_b:judge"),
    ]
    assert not {"vendor_a", "vendor_b"} & sys.modules.keys()


def test_a_bare_name_is_the_object_that_a_package_offers(install: Install) -> None:
    install("vendor", "agents:bot=vendor:agent", "agents:builtin=vendor:missing", "judges:bot=vendor:judge")
    assert resolve_agent("bot").reference == "vendor:agent"
    found = resolve_judge("bot")
    assert found is not None
    assert found.name == "vendor:judge"
    assert resolve_agent("builtin").reference == "builtin"


def test_an_unknown_name_is_answered_by_the_near_and_the_installed_ones(install: Install) -> None:
    install("vendor", "agents:broker=vendor:agent", "agents:adviser=vendor:agent")
    message = refusal("adviser2")
    assert message.startswith("agent 'adviser2': unknown reference; known forms: builtin, oracle, echo")
    assert message.endswith("; installed plugins: adviser, broker; did you mean 'adviser'?")


def test_a_name_that_two_packages_offer_is_refused(install: Install) -> None:
    install("vendor_a", "agents:bot=vendor_a:agent")
    install("vendor_b", "agents:bot=vendor_b:agent", version="2.0")
    assert refusal("bot") == (
        "agent 'bot': is offered by vendor_a 1.0 (vendor_a:agent) and vendor_b 2.0 (vendor_b:agent); "
        "name the object instead"
    )


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("gone.module:agent", "module 'gone.module' cannot be imported: ModuleNotFoundError"),
        ("vendor:gone", "module 'vendor' has no 'gone'"),
        ("vendor", "unknown reference"),
    ],
)
def test_an_offered_object_that_is_not_there_is_refused(install: Install, entry: str, reason: str) -> None:
    install("vendor", f"agents:bot={entry}")
    assert reason in refusal("bot")


class Length(TurnMetric):
    """Length of a reply."""

    name = "length"
    version = "1"

    def measure(self, dialog: Any, turn: Any, row: Any) -> bool:
        return len(turn.pred_assistant_text) > 1


class Words:
    name = "words"
    version = "1"

    def detect(self, reply: str, *, user_text: str, constraints: Any) -> list[Any]:
        return []


def test_metrics_and_detectors_have_names_too(install: Install) -> None:
    install("vendor_f", "metrics:length=vendor_f:Length", "detectors:words=vendor_f:Words")
    assert list(resolve_metrics(["length"])) == ["length"]
    assert importable_reference("detector", "words") == "vendor_f:Words"
    assert load_detectors(["words"]) == {"x:words": ("vendor_f:Words", "1")}
    with pytest.raises(UsageError, match="metric 'lenght'"):
        resolve_metrics(["lenght"])
    with pytest.raises(UsageError, match="detector 'word'"):
        importable_reference("detector", "word")
