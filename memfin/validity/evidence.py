"""Evidence of a run for a sign-off: people's labels as the page shows them, and the bundle of all files."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts import ConfigFile, Corrections, EvalSummary, RunManifest
from memfin.contracts.validity import LABEL_DRAW, LABELS
from memfin.errors import UsageError
from memfin.journal.commits import COMMITS
from memfin.journal.layout import DATASET, DIALOGUES
from memfin.language import LANGUAGES, use_language
from memfin.report import reader
from memfin.report.signoff import Readings, render_signoff
from memfin.runtime.aggregation import aggregate_rows
from memfin.runtime.outputs import pretty_json
from memfin.text.lines import one_line
from memfin.validation import validate_run
from memfin.validation.bundle import MANIFEST, BundleManifest, Content, extract_bundle, write_bundle
from memfin.validity.corrections import (
    correct_run,
    dataset_of,
    is_own,
    join_labels,
    read_labels,
    read_run,
    with_corrected,
)
from memfin.validity.labelling import agreement
from memfin.validity.measurement import InvalidLabels, LabelFiles
from memfin.version import __version__

_RUN_FILES: Final = (*DIALOGUES.files, *DIALOGUES.artifacts, COMMITS, reader.CORRECTIONS, LABEL_DRAW)
_TOLERANCE: Final = 1e-9
_MAX_FINDINGS: Final = 20
_OF_DATASET: Final = ("m2_profile_accuracy", "m4_compliance.forbidden_hit_rate")
"""Metric and corrected rate that depend on the dataset."""


def read_readings(run_dir: Path, files: Sequence[Path], dataset: Path | None = None) -> Readings:
    """Return the labels of a run, the agreement of their readers, and the rates that they correct.

    Without labels the corrected rates are those of the run's directory, if its rows have not changed since.

    Raises:
        UsageError: the run or a file cannot be read.
    """
    reader.require_run_directory(run_dir)
    if not files:
        recorded, current = reader.read_corrections(run_dir)
        return Readings(corrections=recorded if current else None)
    joined = join_labels(run_dir, read_labels(LabelFiles(files)))
    given = [label for labels in joined.by_turn.values() for _, label in labels]
    measured = agreement(given)
    try:
        return Readings(given, measured, correct_run(run_dir, read_run(run_dir, files, dataset)))
    except InvalidLabels:  # valid lines that contradict each other
        return Readings(given, measured, contradict=True)


def _recorded(run_dir: Path) -> Corrections | None:
    return reader.read_optional(run_dir / reader.CORRECTIONS, Corrections)


# ---- bundles


def bundle_run(
    run_dir: Path,
    out: Path,
    labels: Sequence[Path] = (),
    dataset: Path | None = None,
    *,
    with_dataset: bool = True,
    force: bool = False,
) -> tuple[str, list[str]]:
    """Write the evidence bundle of a finished run; return its SHA-256 and a line for everything it lacks.

    Raises:
        UsageError: the run has not finished, the labels do not give its corrected rates, or ``out`` exists.
        RunFault: a file cannot be read or written.
    """
    files = reader.label_files(run_dir, labels)
    own = is_own(run_dir, files)
    names = {
        path: f"run/{LABELS}" if own else f"labels/{number:03}.jsonl" for number, path in enumerate(files, 1)
    }
    readings = read_readings(run_dir, files, dataset)
    manifest = reader.read(run_dir / reader.MANIFEST, RunManifest)
    if manifest.ended_at is None:
        raise UsageError(f"{run_dir}: the run has not finished; memfin resume {run_dir} goes on with it")
    log = run_dir.parent / "logs" / f"progress_{manifest.run_id}.jsonl"
    contents: dict[str, Content] = {
        **{f"run/{name}": run_dir / name for name in _RUN_FILES if name != DATASET},
        f"logs/{log.name}": log,
        **{name: path for path, name in names.items()},
    }
    contents = {name: path for name, path in contents.items() if isinstance(path, Path) and path.is_file()}
    missing = [] if files else ["labels: there are none, no person checked the run"]
    if files and not own and reader.label_files(run_dir):
        missing.append(f"run/{LABELS}: the labels of --labels replace it")
    place = _dataset(run_dir, manifest.dataset_path, dataset) if with_dataset else "it was left out"
    if isinstance(place, Path):
        contents[f"run/{DATASET}"] = place
    else:
        missing.append(f"dataset: {place}")
    if readings.contradict:
        missing.append("corrected rates: labels of the same turn contradict each other")
    recorded, found = _recorded(run_dir), readings.corrections
    if recorded and _differences(_rates(recorded), _rates(found)):
        raise UsageError(
            f"{run_dir / reader.CORRECTIONS}: does not follow from rows and labels; give those that it was "
            f"made of with --labels, or write it anew: memfin correct {run_dir} --labels FILE --write"
        )
    if recorded and not files:
        missing.append(f"labels: those of {reader.CORRECTIONS} were not given")
    if found is not None and not recorded:
        given = [each.replace(path=name) for each, name in zip(found.files, names.values(), strict=True)]
        contents[f"run/{reader.CORRECTIONS}"] = pretty_json(found.replace(files=given))
    with TemporaryDirectory(prefix="memfin-bundle-") as name:  # the pages depend on what is in the bundle
        for each, content in contents.items():
            (place := Path(name, each)).parent.mkdir(exist_ok=True)
            place.write_bytes(content) if isinstance(content, bytes) else place.symlink_to(content.resolve())
        contents |= _pages(Path(name, "run"), readings._replace(corrections=recorded or found))
    sha256 = write_bundle(
        out, contents, run_id=manifest.run_id, version=__version__, missing=missing, force=force
    )
    return sha256, missing


def _pages(run_dir: Path, readings: Readings) -> dict[str, Content]:
    pages: dict[str, Content] = {}
    for language in LANGUAGES:
        with use_language(language):
            pages[f"signoff.{language}.html"] = render_signoff(run_dir, readings, __version__).encode()
    return pages


def _dataset(run_dir: Path, recorded: str, given: Path | None) -> Path | str:
    """Return the file of the dataset that the run was made with, or the reason why there is none."""
    place = given or dataset_of(run_dir, recorded)
    if place is None:
        return "it is no longer at its place"
    if _dataset_sha256(run_dir) != reader.sha256_of(place):
        return "the file at its place is not the one that the run was made with"
    return place


def _dataset_sha256(run_dir: Path) -> str | None:
    """Return the hash of the dataset that the run was made with, if it recorded one."""
    config = reader.read_optional(run_dir / reader.CONFIG, ConfigFile)
    return config.fingerprint_inputs.get("dataset_sha256") if config else None


def _rates(found: Corrections | None) -> dict[str, Any]:
    """Return the parts of corrected rates that follow from rows and labels."""
    plain: dict[str, Any] = msgspec.to_builtins(found) or {}
    return {name: value for name, value in plain.items() if name != "files"}


def _differences(first: Any, second: Any, path: str = "") -> list[str]:
    """Return the paths at which two values of JSON differ; numbers may by rounding."""
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        first, second = dict(enumerate(first)), dict(enumerate(second))
    if isinstance(first, dict) and isinstance(second, dict):
        places = [(name, f"{path}.{name}".lstrip(".")) for name in dict.fromkeys([*first, *second])]
        return [
            each for name, place in places for each in _differences(first.get(name), second.get(name), place)
        ]
    same = first == second
    if isinstance(first, int | float) and isinstance(second, int | float):
        same = math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return [] if same else [path]


class Verified(NamedTuple):
    """The result of a verification: what does not hold, and what could not be checked."""

    run_id: str
    files: int
    sha256: str
    problems: Sequence[str]
    unchecked: Sequence[str]


def verify_bundle(path: Path) -> Verified:
    """Check an evidence bundle: its hashes, and that figures, corrected rates and pages follow from its rows.

    Raises:
        UsageError: the file cannot be read as a bundle.
    """
    with TemporaryDirectory(prefix="memfin-verify-") as name:
        directory = Path(name)
        manifest, problems = extract_bundle(path, directory)
        unchecked = [*manifest.missing]
        if not problems:
            try:
                for found, counts in _checks(directory, manifest):
                    (problems if counts else unchecked).append(found)
            except UsageError as problem:
                problems.append(str(problem))
        lines = [one_line(each.replace(f"{directory}/", ""), 500) for each in problems]
        return Verified(manifest.run_id, len(manifest.files), reader.sha256_of(path), lines, unchecked)


def _checks(directory: Path, manifest: BundleManifest) -> Iterator[tuple[str, bool]]:
    """Yield what does not hold of an extracted bundle, or with False what cannot be checked."""
    run_dir = directory / "run"
    reader.require_run_directory(run_dir)
    # 1. The artifacts agree with each other and with the commit log, and belong to the run.
    found = [str(each) for each in islice(validate_run(run_dir), _MAX_FINDINGS)]
    yield from ((each, True) for each in found)
    if found:
        return
    identity = reader.read(run_dir / reader.MANIFEST, RunManifest)
    if identity.run_id != manifest.run_id:
        yield f"{MANIFEST}: is of run {manifest.run_id!r}, the files of {identity.run_id!r}", True
    config = reader.read_optional(run_dir / reader.CONFIG, ConfigFile)
    dataset = run_dir / DATASET if (run_dir / DATASET).is_file() else None
    if dataset and config and _dataset_sha256(run_dir) != reader.sha256_of(dataset):
        yield f"run/{DATASET}: is not the dataset of the run: config.json has another hash", True
    made = {manifest.memfin_version, config.memfin_version if config else __version__} - {__version__}
    if made:
        yield f"figures and pages: made by MemFin {', '.join(sorted(made))}, this is {__version__}", False
    known = {f"run/{name}" for name in (*_RUN_FILES, DATASET, LABELS)} | {
        f"signoff.{each}.html" for each in LANGUAGES
    }
    known |= {f"logs/progress_{manifest.run_id}.jsonl"}
    for each in manifest.files:
        if each.name not in known and not each.name.startswith("labels/"):
            yield f"{each.name}: is no file of a bundle", not made
    for text, counts in _derived(directory, dataset):
        yield text, counts and not made


def _derived(directory: Path, dataset: Path | None) -> Iterator[tuple[str, bool]]:
    """Yield what does not follow from rows, labels and dataset, with False for what needs a missing one."""
    run_dir = directory / "run"
    # 2. The summary follows from rows and corrected rates, M2 from traces and dataset.
    computed, lines = aggregate_rows(
        run_dir / reader.ROWS, run_dir / reader.TRACES if dataset else None, dataset
    )
    stated, recorded = reader.read(run_dir / reader.SUMMARY, EvalSummary), _recorded(run_dir)
    computed = with_corrected(computed, recorded)
    places: dict[str, str] = {}
    for name, source in (("metrics", reader.ROWS), ("corrected", reader.CORRECTIONS)):
        if stated[name] is not msgspec.UNSET:
            found, made = (msgspec.to_builtins(summary[name] or {}) for summary in (stated, computed))
            places |= {f"run/{reader.SUMMARY}: {each}": source for each in _differences(found, made, name)}
    # 3. The corrected rates follow from the labels.
    labels = [*reader.label_files(run_dir), *sorted((directory / "labels").glob("*.jsonl"))]
    readings = read_readings(run_dir, labels)
    rates = _differences(_rates(recorded), _rates(readings.corrections))
    places |= {f"run/{reader.CORRECTIONS}: {each}": "rows and labels" for each in rates}
    yield from ((line, True) for line in lines)
    for place, source in places.items():
        if dataset is None and any(each in place for each in _OF_DATASET):
            yield f"{place} depends on the dataset", False
        else:
            yield f"{place} does not follow from {source}", True
    # 4. The pages show these figures.
    for name, page in _pages(run_dir, readings._replace(corrections=recorded)).items():
        if not (directory / name).is_file() or (directory / name).read_bytes() != page:
            yield f"{name}: does not show the figures, labels and violations of these files", True
