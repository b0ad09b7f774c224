"""Reader of inspect_ai logs (``.eval``, ``.json``) for comparisons, through the library itself."""

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from memfin.errors import UsageError
from memfin.metrics.interval import ratio_interval

SUFFIXES: Final = (".eval", ".json")

_GRADES: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_UNREAD: Final = {"messages", "events", "store", "timelines"}
"""Large parts of a sample that hold neither its input nor its output."""

_SPEC: Final = {
    "task": "task",
    "task_version": "task version",
    "task_args": "task arguments",
    "scorers": "scorers",
    "model_args": "model arguments",
    "model_roles": "model roles",
}
"""Fields of a log that should be the same in both, and their names in warnings."""

_TRANSPORT: Final = frozenset({"max_connections", "max_retries", "timeout", "attempt_timeout"})
"""Generation settings that do not change what a model answers."""

_LIMITS: Final = ("message_limit", "token_limit", "time_limit", "working_limit", "cost_limit")

Units = dict[tuple[str, int, int], tuple[float, float]]
"""Numerator and denominator by sample id and epoch; the third number is 0."""


class Log(NamedTuple):
    """The scores of a log by scorer, or SCORER.KEY; those of samples with errors are left out."""

    name: str
    values: dict[str, Units]
    not_measured: dict[str, str]
    warnings: list[str]
    settings: dict[str, object]
    ids: dict[str, int | str]
    texts: dict[str, tuple[str, str]]
    """Input, cut after 1 kB by the library, and target of every sample."""


def is_log(path: Path) -> bool:
    """Return True for a path that is named like a log and is no directory."""
    return path.suffix in SUFFIXES and not path.is_dir()


def read_log(path: Path, failed: str) -> Log:
    """Read the scores of a finished log from its summaries of samples; ``failed`` names the share of errors.

    Raises:
        UsageError: inspect_ai is not installed, the file is no log, or the log is not finished.
    """
    header = call_library(path, "read_eval_log", header_only=True)
    if header.status != "success":
        reason = f" ({_line(header.error.message)})" if header.error else ""
        raise UsageError(
            f"{path}: the evaluation has not finished, its status is {header.status}{reason}; "
            f"inspect eval-retry {path} runs it again"
        )
    summaries = call_library(path, "read_eval_log_sample_summaries")
    if not summaries:
        raise UsageError(f"{path}: the log holds no samples; inspect eval --log-samples keeps them")
    values: dict[str, Units] = {failed: {}}
    reasons: dict[str, set[str]] = {}
    for sample in summaries:
        unit = (str(sample.id), sample.epoch, 0)
        values[failed][unit] = (float(sample.error is not None), 1.0)
        for scorer, value in _scalars({} if sample.error is not None else sample.scores or {}):
            name = f"scorer.{scorer}" if scorer == failed else scorer
            units = values.setdefault(name, {})
            number = as_number(value)
            if isinstance(number, str):
                reasons.setdefault(name, set()).add(number)
            elif number is not None:
                units[unit] = (number, 1.0)
    for name in [name for name, units in values.items() if not units]:
        reasons.setdefault(name, {"no sample has a score"})
    warnings = ["some of its samples are marked as invalid"] if header.invalidated else []
    if limited := sum(sample.limit is not None for sample in summaries):
        warnings.append(f"{limited} of {len(summaries)} samples were stopped at a limit; their scores count")
    return Log(
        name=f"{header.eval.model} {path.stem}",
        values={name: units for name, units in values.items() if name not in reasons},
        not_measured={name: "; ".join(sorted(each)) for name, each in reasons.items()},
        warnings=warnings,
        settings=_settings(header.eval, header.plan),
        ids={str(sample.id): sample.id for sample in summaries},
        texts={str(sample.id): (_text(sample.input), str(sample.target)) for sample in summaries},
    )


def _settings(spec: Any, plan: Any) -> dict[str, object]:
    """Return what should be the same in two logs, by its name in warnings."""
    data = spec.dataset
    generation = {**spec.model_generate_config.model_dump(), **plan.config.model_dump(exclude_none=True)}
    return {
        **{name: _plain(getattr(spec, field, None)) for field, name in _SPEC.items()},
        "solver": [(step.solver, _plain(step.params)) for step in plan.steps],
        "generation settings": {key: each for key, each in generation.items() if key not in _TRANSPORT},
        "dataset": (data.name, data.samples, sorted(map(str, data.sample_ids or ()))),
        "epochs": spec.config.epochs or 1,
        "limits": [getattr(spec.config, name, None) for name in _LIMITS],
        "inspect_ai": spec.packages.get("inspect_ai"),
    }


def _scalars(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, score in scores.items():
        if isinstance(score.value, Mapping):
            yield from ((f"{name}.{key}", value) for key, value in score.value.items())
        else:
            yield name, score.value


def as_number(value: object) -> float | str | None:
    """Return a score as inspect_ai's ``value_to_float`` does, None for an unscored one.

    A string is the reason why a score cannot be a number, where ``value_to_float`` returns 0.
    """
    if isinstance(value, str):
        number = _GRADES.get(value, _WORDS.get(value.lower()))
        try:
            number = float(value) if number is None else number
        except ValueError:
            return "scores are words without a number"
        return number if math.isfinite(number) else "scores are words without a number"
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    return None if value is None else "scores are lists; a scorer that returns a dict has a value per key"


def settings_changed(a: Log, b: Log) -> list[str]:
    """Return the names of the settings in which two logs differ besides the model."""
    changed = [name for name, value in a.settings.items() if value != b.settings[name]]
    shared = a.texts.keys() & b.texts.keys()
    others = sum(a.texts[sample] != b.texts[sample] for sample in shared)
    return [*changed, f"input or target of {others} of {len(shared)} samples"] if others else changed


def same_samples(a: Log, b: Log) -> bool:
    """Return True if any sample of both logs has the same input, or the same target, in both.

    Ids alone do not say so: inspect_ai numbers the samples of every dataset from 1.
    """
    shared = a.texts.keys() & b.texts.keys()
    return any(x == y for sample in shared for x, y in zip(a.texts[sample], b.texts[sample], strict=True))


def span(*units: Units) -> float:
    """Return the width of the range of a value: 1 for one within 0 and 1, of others what was observed."""
    low, high = value_range(*units)
    return high - low


def value_range(*units: Units) -> tuple[float, float]:
    """Return 0 and 1 for a value within them, the least and the greatest of one that leaves them."""
    numbers = [number for each in units for number, _ in each.values()]
    low, high = min(numbers), max(numbers)
    return (low, high) if (low < 0 or high > 1) and low < high else (min(low, 0.0), max(high, 1.0))


def means(units: Units) -> tuple[float, tuple[float, float] | None]:
    """Return the mean of a value and its 95 % interval, with sample ids as the sampling unit."""
    clusters: dict[str, tuple[float, float]] = {}
    for unit, (number, of) in units.items():
        total, count = clusters.get(unit[0], (0.0, 0.0))
        clusters[unit[0]] = (total + number, count + of)
    graded = any(number not in (0.0, 1.0) for number, _ in units.values())
    mean = math.fsum(number for number, _ in units.values()) / len(units)
    return mean, ratio_interval(clusters.values(), *value_range(units), graded=graded)


class Reply(NamedTuple):
    """The input of a sample and what the model answered."""

    question: str
    reply: str


def read_replies(path: Path, ids: Sequence[tuple[int | str, int]]) -> list[Reply]:
    """Return the texts of samples, given by id and epoch; only these are read."""
    found = []
    for name, epoch in ids:
        sample = call_library(
            path, "read_eval_log_sample", name, epoch, resolve_attachments=True, exclude_fields=_UNREAD
        )
        found.append(Reply(_text(sample.input), sample.output.completion))
    return found


def load_library(needed_by: object) -> Any:
    """Return `inspect_ai.log`; raise `UsageError` where it is not installed."""
    try:
        return importlib.import_module("inspect_ai.log")
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"{needed_by}: {problem}; inspect_ai logs need the extra: pip install 'memfin[inspect]'"
        ) from None


def call_library(path: Path, function: str, *args: Any, **settings: Any) -> Any:
    """Call a function of `inspect_ai.log` on a file; raise `UsageError` for whatever it raises."""
    library = load_library(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        return getattr(library, function)(path.resolve(), *args, **settings)
    except Exception as problem:  # noqa: BLE001 - the library lets errors of zip, JSON and pydantic through
        raise UsageError(
            f"{path}: not a whole inspect_ai log: {_line(str(problem)) or type(problem).__name__}; "
            "give a file that inspect view opens"
        ) from None


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def _plain(value: Any) -> object:
    """Return a field of a log in values that compare by content."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.model_dump() if hasattr(value, "model_dump") else value


def _text(content: Any) -> str:
    """Return the input of a sample: text, or messages."""
    return content if isinstance(content, str) else "\n".join(message.text for message in content)
