"""Datasets that are no files: kept in the run directory, and all that a resumed run needs."""

import io
import json
import shutil
import sys
import tracemalloc
from collections import UserDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import pytest

import memfin
from memfin.contracts import SoakLimits
from memfin.dataset import SpooledDataset
from memfin.errors import UsageError
from memfin.journal.repair import repair
from memfin.runtime.api import Evaluation, run_eval_parallel
from memfin.runtime.soak import Soak
from memfin.runtime.soak_plan import make_soak_plan, make_soak_resume_plan
from memfin.validation import validate_path
from tests.commands import run_beside_us
from tests.support import dialog, read_jsonl, write_jsonl

DIALOGS = [dialog(f"d{number}", 1) for number in range(3)]
LINES = [json.dumps(each, ensure_ascii=False).encode() for each in DIALOGS]


class Agent:
    """Answers every turn alike."""

    def __init__(self, session: Any, observer: Any) -> None:
        del session, observer

    def reply(self, user_text: str) -> str:
        del user_text
        return "仅供参考。"


class Source:
    """A source of dialogues, some as lines and some as dictionaries."""

    def read(self) -> Iterator[bytes | dict[str, Any]]:
        yield LINES[0] + b"\n"
        yield from DIALOGS[1:]


class PandasLike:
    """A frame with rows as tuples, gaps as NaN and lists as arrays."""

    columns = (*DIALOGS[0], "seed_source")

    def itertuples(self, *, index: bool, name: str | None) -> Iterator[tuple[Any, ...]]:
        assert not index
        assert name is None
        for each in DIALOGS:
            turns = np.array(each["turns"], dtype=object)
            yield *({**each, "turns": turns}.values()), np.float64("nan")


class PolarsLike:
    """A frame with rows as dictionaries, in which every struct has all fields."""

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        for each in DIALOGS:
            yield {
                **each,
                "seed_source": None,
                "turns": [{"content": None, **turn} for turn in each["turns"]],
            }


class HuggingFaceLike:
    """An iterable of rows, as those of the package ``datasets``, with a format in which they are frames."""

    __module__ = "datasets.arrow_dataset"

    def __init__(self, kind: str | None = "pandas") -> None:
        self._kind = kind

    def with_format(self, kind: str | None) -> "HuggingFaceLike":
        return HuggingFaceLike(kind)

    def __iter__(self) -> Iterator[Any]:
        return PolarsLike().iter_rows(named=True) if self._kind is None else iter([PolarsLike()])


class Splits(UserDict[str, Any]):
    __module__ = "datasets.dataset_dict"


SOURCES: Mapping[str, Any] = {
    "list": DIALOGS,
    "generator": (each for each in DIALOGS),
    "lines": LINES,
    "file": io.BytesIO(b"\n".join(LINES)),
    "mappings": [UserDict(each) for each in DIALOGS],
    "source": Source(),
    "pandas": PandasLike(),
    "polars": PolarsLike(),
    "hugging face": HuggingFaceLike(),
}


def metrics(run: Path) -> dict[str, Any]:
    """Return the summary of a run, short of what names it."""
    summary: dict[str, Any] = json.loads((run / "metrics_summary.json").read_bytes())
    return {name: value for name, value in summary.items() if name not in ("run_id", "dataset_path")}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the summary of the same dialogues in a file."""
    root = tmp_path_factory.mktemp("file")
    path = write_jsonl(root / "data.jsonl", DIALOGS)
    run_eval_parallel(path, "r", agent_factory=Agent, runs_dir=str(root))
    return metrics(root / "r")


@pytest.mark.parametrize("kind", SOURCES)
async def test_dialogues_from_anywhere_are_kept_in_the_run(
    kind: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    await memfin.evaluate(SOURCES[kind], agent=Agent, runs_dir=str(tmp_path), run_id="r")
    found, run = metrics(tmp_path / "r"), tmp_path / "r"
    assert found["metrics"] == expected["metrics"]
    kept = read_jsonl(run / "dataset.jsonl")
    turns = [{name: value for name, value in turn.items() if value is not None} for turn in kept[0]["turns"]]
    assert turns == [{name: v for name, v in turn.items() if v is not None} for turn in DIALOGS[0]["turns"]]
    assert "seed_source" not in kept[0]
    for name in ("metrics_summary.json", "run_manifest.json"):
        assert json.loads((run / name).read_bytes())["dataset_path"] == str(run / "dataset.jsonl")
    assert list(validate_path(run)) == []


async def test_an_interrupted_run_of_a_generator_needs_nothing_else(tmp_path: Path) -> None:
    async with Evaluation(iter(DIALOGS), agent=Agent, runs_dir=str(tmp_path), run_id="r") as evaluation:
        await evaluation.stop()
    moved = tmp_path / "elsewhere" / "r"
    shutil.move(tmp_path / "r", moved)
    shutil.move(tmp_path / "logs", tmp_path / "elsewhere" / "logs")
    summary = (await Evaluation.resume(moved, agent=Agent).complete()).summary
    assert summary.counters.valid_dialogs == 3
    assert summary.dataset_path == str(tmp_path / "r" / "dataset.jsonl")
    copy = tmp_path / "repaired"
    repair(moved, copy)
    assert (copy / "dataset.jsonl").read_bytes() == (moved / "dataset.jsonl").read_bytes()
    (moved / "dataset.jsonl").write_bytes(LINES[0])
    with pytest.raises(UsageError, match="dataset_sha256"):
        await Evaluation.resume(moved, agent=Agent).complete()


def failing(error: type[BaseException] = RuntimeError) -> Iterator[dict[str, Any]]:
    yield DIALOGS[0]
    raise error("the database is gone")


async def nothing_async() -> Any:
    yield DIALOGS[0]


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ([DIALOGS[0], 3], "dataset item 2: expected a dictionary, got a number"),
        ([DIALOGS[0], "d.jsonl"], "dataset item 2: expected a dictionary, got a string"),
        ([{"turns": object()}], "dataset item 1: TypeError: object has no form in JSON"),
        ([{"a": "\ud800"}], "dataset item 1: UnicodeEncodeError"),
        ([CIRCLE], "dataset item 1: RecursionError"),
        ([b"{}\n{}"], "dataset item 1: holds more than one line"),
        (failing(), "dataset item 2: cannot be read: RuntimeError: the database is gone"),
        (failing(SystemExit), "dataset item 2: cannot be read: SystemExit: the database is gone"),
        ([], "dataset: there are no dialogues in it"),
        (DIALOGS[0], "dataset: dict is neither a path nor an iterable of dictionaries"),
        (
            Splits(train=DIALOGS, test=DIALOGS),
            "dataset: Splits has the splits train, test; give one of them",
        ),
        (b"data.jsonl", "dataset: bytes is neither"),
        (7, "dataset: int is neither"),
        (nothing_async(), "dataset: async_generator is neither"),
        ([{"turns": 1}], "dataset: no valid dialogue (missing_turns: 1)"),
    ],
)
async def test_a_wrong_item_is_one_line_and_leaves_nothing(wrong: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        await memfin.evaluate(wrong, agent=Agent, runs_dir=str(tmp_path / "runs"))
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    left = await anyio.to_thread.run_sync(lambda: [each.name for each in tmp_path.rglob("*")])
    assert set(left) <= {"runs", "logs"}


async def test_a_name_that_is_taken_keeps_its_dataset(tmp_path: Path) -> None:
    await memfin.evaluate(DIALOGS, agent=Agent, runs_dir=str(tmp_path), run_id="r")
    before = (tmp_path / "r" / "dataset.jsonl").read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        await memfin.evaluate(DIALOGS[:1], agent=Agent, runs_dir=str(tmp_path), run_id="r")
    assert (tmp_path / "r" / "dataset.jsonl").read_bytes() == before


async def test_a_start_that_crashed_is_replaced_but_not_a_file_of_the_user(tmp_path: Path) -> None:
    run = tmp_path / "r"
    run.mkdir()
    (run / "dataset.jsonl").write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists already"):
        await memfin.evaluate(DIALOGS, agent=Agent, runs_dir=str(tmp_path), run_id="r")
    assert (run / "dataset.jsonl").read_bytes() == b"mine"
    for name in ("commits.log", ".lock", ".dataset.jsonl.0123456789abcdef.tmp"):
        (run / name).touch()
    await memfin.evaluate(DIALOGS, agent=Agent, runs_dir=str(tmp_path), run_id="r")
    assert len(read_jsonl(run / "dataset.jsonl")) == 3


async def test_a_run_that_was_killed_is_resumed_from_the_command_line(tmp_path: Path) -> None:
    code = (
        "import asyncio, os, memfin\n"
        "from memfin.dataset import SAMPLE, load_dataset_jsonl\n"
        "seen = []\n"
        "def event(each):\n"
        "    seen.append(type(each).__name__)\n"
        "    if seen.count('DialogDone') == 2: os._exit(9)\n"
        "asyncio.run(memfin.evaluate(iter(load_dataset_jsonl(SAMPLE)[:5]), agent='echo', run_id='k',"
        " on_event=event, workers_dialog=1))"
    )
    killed = await anyio.run_process([sys.executable, "-c", code], check=False, cwd=tmp_path)
    assert killed.returncode == 9
    done = await run_beside_us("resume", "runs/k", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "runs" / "k" / "metrics_summary.json").read_bytes())
    assert summary["counters"]["valid_dialogs"] == 5
    assert summary["dataset_path"] == "runs/k/dataset.jsonl"


async def test_a_soak_reads_a_generator_once_and_goes_on_without_it(tmp_path: Path) -> None:
    limits, root = SoakLimits(epochs=1), tmp_path / "s"
    plan = make_soak_plan(iter(DIALOGS), limits=limits, agent=Agent, runs_dir=str(tmp_path), run_id="s")
    assert (await Soak(plan).run()).epochs == 1
    assert len(read_jsonl(root / "dataset.jsonl")) == 3
    assert not (root / "epochs" / "000001" / "dataset.jsonl").exists()
    summary = json.loads((root / "soak_summary.json").read_bytes())
    summary["limits"]["epochs"] = 2
    (root / "soak_summary.json").write_text(json.dumps(summary))
    assert (await Soak(make_soak_resume_plan(root, agent=Agent)).run()).epochs == 2
    with pytest.raises(UsageError, match="exists already"):
        await Soak(
            make_soak_plan(DIALOGS, limits=limits, agent=Agent, runs_dir=str(tmp_path), run_id="s")
        ).run()


def test_memory_stays_flat(tmp_path: Path) -> None:
    def many() -> Iterator[Mapping[str, Any]]:
        for number in range(2000):
            yield {"dialog_id": f"d{number}", "turns": ["x" * 10_000]}

    tracemalloc.start()
    try:
        SpooledDataset(many(), tmp_path / "d.jsonl").close()
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_source_is_a_public_protocol_that_needs_no_other_package() -> None:
    assert isinstance(Source(), memfin.DatasetSource)
    assert not {"pandas", "polars", "datasets"} & set(sys.modules)
