"""Names that packages offer in entry points."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memfin.actors.measuring import resolve_metrics
from memfin.agents.registry import resolve_agent
from memfin.contracts import SoakLimits
from memfin.dataset import named_dataset
from memfin.errors import RunFault, UsageError
from memfin.exchange.exporters import export_run
from memfin.judges import resolve_judge
from memfin.metrics.custom import TurnMetric
from memfin.results import Results
from memfin.runtime.api import run_eval_parallel
from memfin.runtime.soak_plan import make_soak_plan
from memfin.sandbox.plugins import Plugin, installed_plugins
from memfin.scoring.user_detectors import importable_reference, load_detectors
from tests.support import dataset, dialog, read_jsonl, write_jsonl

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


def replies(run: Results[Any], out: Path) -> Mapping[str, int]:
    texts = [turn.pred_assistant_text or "" for turn in run.turns()]
    (out / "replies.txt").write_text("\n".join(texts))
    return {"replies.txt": len(texts)}


def faulty(run: Results[Any], out: Path) -> Mapping[str, int]:
    (out / "half").write_text(run.run_id)
    raise LookupError("no\nsuch sheet")


def countless(run: Results[Any], out: Path) -> None:
    (out / "whole").write_text(run.run_id)


def test_exporters_have_names_too(install: Install, tmp_path: Path) -> None:
    install(
        "vendor_g",
        *(f"exporters:{name}=vendor_g:{name}" for name in ("replies", "faulty", "countless")),
        "exporters:agent=vendor_g:agent",
    )
    run_eval_parallel(dataset(tmp_path / "data.jsonl", 2), "r", runs_dir=str(tmp_path), workers_score=0)
    assert export_run(tmp_path / "r", tmp_path / "out", "replies") == {"replies.txt": 6}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["replies.txt"]
    assert export_run(tmp_path / "r", tmp_path / "out2", "vendor_g:replies") == {"replies.txt": 6}
    before = sorted(tmp_path.iterdir())
    for name, kind, message in (
        ("faulty", RunFault, "exporter 'faulty': raised LookupError: no such sheet"),
        (
            "countless",
            RunFault,
            "exporter 'countless': returned no numbers of records by file name: Expected",
        ),
        ("agent", UsageError, "exporter 'agent': takes (text) and is called with (run, out)"),
    ):
        with pytest.raises(kind) as refused:
            export_run(tmp_path / "r", tmp_path / "out3", name)
        assert str(refused.value).startswith(message)
        assert len(str(refused.value).splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


DIALOGS = [dialog("d0", 1), dialog("d1", 1)]


class Source:
    def read(self) -> Iterator[dict[str, Any]]:
        yield from DIALOGS


def generated() -> Iterator[dict[str, Any]]:
    yield from DIALOGS


def broken() -> list[Any]:
    raise RuntimeError("no database")


def nothing() -> None:
    """Return no dataset."""


@pytest.mark.parametrize("name", ["DIALOGS", "Source", "generated"])
def test_a_dataset_by_name_is_kept_in_the_run(install: Install, tmp_path: Path, name: str) -> None:
    install("vendor_d", f"datasets:desk=vendor_d:{name}", "datasets:other=vendor_d:missing")
    for run, given in (("r", "desk"), ("q", f"vendor_d:{name}")):
        summary = run_eval_parallel(given, run, agent_factory="echo", runs_dir=str(tmp_path))
        assert summary.counters.valid_dialogs == 2
        assert len(read_jsonl(tmp_path / run / "dataset.jsonl")) == 2
    limits = SoakLimits(epochs=1)
    soak = make_soak_plan("desk", limits=limits, agent="echo", runs_dir=str(tmp_path), run_id="s")
    assert soak.spool is not None
    soak.spool.close()


def test_a_path_that_exists_wins_over_a_dataset_of_its_name(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("vendor_d", "datasets:desk=vendor_d:missing")
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "desk", DIALOGS[:1])
    assert run_eval_parallel("desk", agent_factory="echo").counters.valid_dialogs == 1
    assert "vendor_d" not in sys.modules


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "dask",
            "dataset 'dask': unknown reference; known forms: path of an existing JSONL file, pkg.module:name",
        ),
        ("desk", "dataset 'desk': vendor_d:broken cannot be made: RuntimeError: no database"),
        ("none", "dataset 'none': vendor_d:nothing is None"),
        ("vendor_d:gone", "dataset 'vendor_d:gone': module 'vendor_d' has no 'gone'"),
        ("gone:data", "dataset 'gone:data': module 'gone' cannot be imported"),
    ],
)
def test_a_dataset_that_a_name_does_not_give_is_one_line(install: Install, name: str, line: str) -> None:
    install("vendor_d", "datasets:desk=vendor_d:broken", "datasets:none=vendor_d:nothing")
    with pytest.raises(UsageError) as refused:
        named_dataset(name)
    assert str(refused.value).startswith(line)
    assert len(str(refused.value).splitlines()) == 1
    assert not str(refused.value).startswith("dataset 'dask'") or str(refused.value).endswith("'desk'?")


def test_texts_that_are_paths_stay(install: Install) -> None:
    install("vendor_d", "datasets:desk=vendor_d:broken")
    for path in ("desk.jsonl", "./desk", "a/b:c", "c:\\data\\d.jsonl"):
        assert named_dataset(path) == path
