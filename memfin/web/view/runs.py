"""Runs below a directory: their files, without a way out of it, and the values of their summaries."""

import re
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from memfin.contracts import BenchConfigFile, ConfigFile, RunManifest, SoakSummary
from memfin.contracts.rag import SUMMARY as RAG_SUMMARY
from memfin.contracts.rag import RagSummary, read_sums
from memfin.contracts.reading import read_json
from memfin.contracts.run import RUN_ID
from memfin.errors import UsageError
from memfin.journal import COMMITS, layout, progress_path
from memfin.language import current_language, tr
from memfin.report import glossary
from memfin.report.model import Interval
from memfin.report.reader import CONFIG, MANIFEST, SUMMARY, Figures, SummaryFile
from memfin.report.soak_report import LINES as SOAK_LINES
from memfin.report.soak_report import SUMMARY as SOAK_SUMMARY

T = TypeVar("T")
Suite = Literal["dialogues", "rag", "soak"]

_FILES: Final = (
    *(MANIFEST, SUMMARY, CONFIG, RAG_SUMMARY, SOAK_SUMMARY, SOAK_LINES),
    *(_GROWING := (*layout.DIALOGUES.files, *layout.QUESTIONS.rows, COMMITS)),
)


class Value(NamedTuple):
    """A value of a summary; ``name`` is also its value of the filters ``metric`` and ``failed``."""

    name: str
    code: str
    label: str
    number: float | None
    interval: Interval | None = None
    lower_is_better: bool = False
    missing: str = ""

    @property
    def text(self) -> str:
        """Return the value in its unit."""
        return glossary.format_value(self.name, self.number)

    @property
    def bounds(self) -> str:
        """Return the interval in the unit of the value."""
        return glossary.format_interval(self.name, self.interval)

    @property
    def share(self) -> float | None:
        """Return the value from 0 to 1, None for one on another scale."""
        return None if glossary.is_score(self.name) else self.number


class Summary(NamedTuple):
    """A run as lists show it; without ``values`` its summary is not there yet."""

    name: str
    suite: Suite
    started: str
    ended: str | None
    dataset: str
    agent: str
    state: str
    values: tuple[Value, ...] = ()
    problem: str = ""


class Recent(Generic[T]):
    """Values that are made again once what they were made of has changed; the latest used are kept."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[object, tuple[object, T]] = {}
        self._lock = threading.Lock()

    def get(self, key: object, state: object, make: Callable[[], T]) -> T:
        """Return the value of a key, which ``make`` returns if it is not known of this state."""
        with self._lock:
            known = self._known.pop(key, None)
            if known is None or known[0] != state:
                known = (state, make())
            self._known[key] = known  # the latest is the last
            if len(self._known) > self._size:
                del self._known[next(iter(self._known))]
            return known[1]


def state_of(paths: Iterable[Path]) -> list[tuple[Path, int, int]]:
    """Return sizes and times of files, by which a change of them is noticed."""
    return [(path, (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths]


class Catalog:
    """Runs below a directory; all paths stay below it, symbolic links included."""

    def __init__(self, root: Path, only: str | None = None) -> None:
        """Take the directory of the runs; ``only`` names the one that is shown."""
        self._root: Final = root.resolve()
        self._only = only
        self._base: Final = self._root / only if only else self._root
        self._known = Recent[Summary](10_000)

    def files(self, name: str) -> dict[str, Path]:
        """Return the regular files of a run by their names; nothing for what is no run of this directory.

        The epochs of a soak have the names ``SOAK.000001`` of their runs.
        """
        soak, _, number = name.rpartition(".")
        epoch = re.fullmatch("[0-9]{6}", number) is not None and not (self._root / name).is_dir()
        if not RUN_ID.match(name) or self._only not in (None, name, soak if epoch else name):
            return {}
        directory = self._root / soak / "epochs" / number if epoch else self._root / name
        found = {each: path for each in _FILES if (path := self._inside(directory / each))}
        return found if found.keys() & {MANIFEST, SOAK_SUMMARY} else {}

    def _inside(self, path: Path) -> Path | None:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return real if real.is_relative_to(self._base) and real.is_file() else None

    def progress(self, name: str) -> Path | None:
        """Return the progress log of a run, which stands beside its directory."""
        path = progress_path(self._root, name)
        return path if path.is_file() and path.resolve() == path else None

    def command(self, name: str) -> str:
        """Return the command that goes on with a run."""
        return shlex.join(["memfin", "resume", f"{self._root.name}/{name}"])

    def summaries(self) -> list[Summary]:
        """Return all runs, the newest first."""
        names: Iterable[str] = [self._only] if self._only else [each.name for each in self._root.iterdir()]
        found = [run for name in names if (run := self.summary(name)) is not None]
        return sorted(found, key=lambda run: (run.started, run.name), reverse=True)

    def comparable(self, run: Summary | None = None) -> dict[str, list[Summary]]:
        """Return the finished runs of dialogues by their datasets; without a run, but its dataset first."""
        found: dict[str, list[Summary]] = {} if run is None else {run.dataset: []}
        for each in self.summaries():
            if each.suite == "dialogues" and each.values and (run is None or each.name != run.name):
                found.setdefault(each.dataset, []).append(each)
        return {dataset: runs for dataset, runs in found.items() if runs}

    def summary(self, name: str) -> Summary | None:
        """Return a run, None where there is none; the files are read again once they have changed."""
        if not (files := self.files(name)):
            return None
        state = state_of(path for each, path in files.items() if each not in _GROWING)
        return self._known.get((name, current_language()), state, lambda: self._read(name, files))

    def _read(self, name: str, files: Mapping[str, Path]) -> Summary:
        try:
            return _read(name, files)
        except UsageError as problem:
            reason = str(problem).replace(f"{self._root}/", "")
            return Summary(name, "dialogues", "", None, "", "", "failed", problem=reason)


def _read(name: str, files: Mapping[str, Path]) -> Summary:
    if SOAK_SUMMARY in files:
        soak = read_json(files[SOAK_SUMMARY], SoakSummary)
        values = tuple(
            Value(key, metric.code, value.label, soak.metrics[key].last)
            for metric in glossary.ALL_METRICS
            for value in metric.values
            if (key := f"{metric.name}.{value.key}") in soak.metrics
        )
        return Summary(name, "soak", soak.started_at, soak.updated_at, "", "", soak.state, values)
    manifest = read_json(files[MANIFEST], RunManifest)
    is_rag = manifest.suite == "rag"
    config = read_json(files[CONFIG], BenchConfigFile if is_rag else ConfigFile) if CONFIG in files else None
    agent, judge = manifest.model_name, None
    if config is not None and not is_rag:
        agent, judge = config.settings.agent, config.settings.judge
    values = ()
    if is_rag and RAG_SUMMARY in files:
        values = tuple(rag_values(read_sums(files[RAG_SUMMARY])))
    elif SUMMARY in files:
        values = tuple(values_of(read_json(files[SUMMARY], SummaryFile).metrics, judge))
    suite: Suite = "rag" if is_rag else "dialogues"
    times = (manifest.started_at, manifest.ended_at)
    state = "finished" if values else "unfinished"
    return Summary(name, suite, *times, manifest.dataset_path, agent, state, values)


def values_of(metrics: Mapping[str, Figures], judge: str | None) -> Iterator[Value]:
    """Yield the values of metrics in the order of reports."""
    for row in glossary.metric_rows(metrics, judge):
        yield Value(
            f"{row.text.name}.{row.value.key}",
            row.text.code,
            row.value.label,
            row.micro,
            row.interval,
            row.value.better == "lower",
            row.missing or "",
        )


def rag_values(sums: RagSummary) -> Iterator[Value]:
    """Yield the values of a benchmark."""
    yield Value("score", "", tr("Score"), sums.overall_percentage / 100, sums.ci95.get("score"))
    yield Value("pass_rate", "", tr("Passed"), sums.pass_rate, sums.ci95.get("pass_rate"))


def leading(values: Iterable[Value]) -> list[Value]:
    """Return the first value of each metric."""
    found: dict[str, Value] = {}
    for value in values:
        found.setdefault(value.code or value.name, value)
    return list(found.values())
