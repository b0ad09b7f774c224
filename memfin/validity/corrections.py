"""Rates of a finished run, corrected by labels of some of its turns (``memfin correct``)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from memfin.contracts import (
    ANY_RISK_TAG,
    CorrectedValue,
    Corrections,
    EvalSummary,
    LabelledReply,
    TurnEvalRow,
    is_variant,
    met_risk_tags,
)
from memfin.contracts.reading import MAX_LINE_BYTES, iter_jsonl
from memfin.contracts.run import CorrectedDifference
from memfin.contracts.validity import ADJUDICATED, LABELS
from memfin.dataset import SHIPPED
from memfin.errors import UsageError
from memfin.journal.layout import DATASET
from memfin.metrics.aggregate import MetricsState, encode_summary
from memfin.metrics.corrected import RATES, Reading, corrected_difference, corrected_rate
from memfin.report import reader
from memfin.report.render import replace_file
from memfin.runtime.outputs import pretty_json
from memfin.scoring.compliance import CATEGORIES
from memfin.scoring.risk import DETECTED_TAGS, canonical_risk_tag
from memfin.sessions import DatasetIndex
from memfin.validation import Finding
from memfin.validity.found import given_labels
from memfin.validity.measurement import MAX_FINDINGS, InvalidLabels, LabelFiles
from memfin.validity.stats import Place

MIN_LABELS: Final = 10
"""Labels that a group of dialogues needs to have corrected rates, in two dialogues at least."""

Turn = tuple[str, int]
PlacedLabel = tuple[Place, LabelledReply]

Answers = Mapping[tuple[str, str], Any]
"""Answers of a label by field and, for categories, risk tags and rubric items, their name; else ""."""


class ReadTurn(NamedTuple):
    """A turn of a run with its readings by ``metric.value``; ``flagged`` if the row has a violation."""

    turn: Turn
    scenario: str | None
    difficulty: str | None
    flagged: bool
    readings: Mapping[str, Reading]


class JoinedRun(NamedTuple):
    """The turns of a run that carry a correctable rate, and what became of the labels.

    ``unjoined`` has a line for each label that belongs to no turn; ``dataset`` is None if it was not found.
    ``labels_sha256`` is the hash of the labels if they are the run's own.
    """

    run_id: str
    turns: Sequence[ReadTurn]
    files: LabelFiles | None
    joined: int
    unjoined: Sequence[str]
    dataset: DatasetIndex | None
    labels_sha256: str | msgspec.UnsetType = msgspec.UNSET


class JoinedLabels(NamedTuple):
    """Labels by the turn of a run that they belong to.

    ``unjoined`` has a line for each that belongs to none, ``groups`` scenario and difficulty by dialogue.
    """

    by_turn: Mapping[Turn, Sequence[PlacedLabel]]
    unjoined: Sequence[str]
    groups: Mapping[str, tuple[str | None, str | None]]


def is_own(run_dir: Path, files: Sequence[Path]) -> bool:
    """Return True if the files of labels are the run's own one alone."""
    return [path.resolve() for path in files] == [(run_dir / LABELS).resolve()]


def read_labels(files: LabelFiles) -> list[PlacedLabel]:
    """Return checked labels with their places.

    Raises:
        InvalidLabels: a line is no labelled reply.
        UsageError: a file cannot be read.
    """
    files.check()
    return [
        (Place(str(path), number), label)
        for path in files.paths
        for number, label in iter_jsonl(path, LabelledReply, limit=MAX_LINE_BYTES)
    ]


def join_labels(run_dir: Path, given: Sequence[PlacedLabel]) -> JoinedLabels:
    """Return labels by the turn of a finished run that they are of, each with its number."""
    wanted: defaultdict[str, list[PlacedLabel]] = defaultdict(list)
    for place, label in given:
        wanted[label.dialog_id or ""].append((place, label))
    groups: dict[str, tuple[str | None, str | None]] = {}
    by_turn: defaultdict[Turn, list[PlacedLabel]] = defaultdict(list)
    unjoined: list[tuple[Place, str]] = []
    for dialog in reader.scan(run_dir / reader.TRACES, reader.ScannedDialog):
        groups[dialog.dialog_id] = dialog.scenario_type, dialog.difficulty
        for place, label in wanted.pop(dialog.dialog_id, ()):
            found = _turn_of(label, dialog)
            if isinstance(found, str):
                unjoined.append((place, found))
            else:
                by_turn[dialog.dialog_id, found].append((place, label.replace(turn=found)))
    for dialog_id, others in wanted.items():
        reason = f"the run has no dialogue {dialog_id!r}" if dialog_id else "it has no dialog_id"
        unjoined += [(place, reason) for place, _ in others]
    lines = [f"{place.file}:{place.line}: {reason}" for place, reason in sorted(unjoined)]
    return JoinedLabels(by_turn, lines, groups)


def read_run(
    run_dir: Path, labels: Iterable[Path] = (), dataset: Path | None = None, *, confined: bool = False
) -> JoinedRun:
    """Return the turns of a finished run, joined with the labels of some files.

    ``dataset`` is the run's by default; ``confined`` reads none outside the run's directory but the sample.

    Raises:
        InvalidLabels: a line is no labelled reply, or two labels of one turn contradict each other.
        UsageError: the run or a file cannot be read, or the labels belong to another run.
    """
    reader.require_run_directory(run_dir)
    summary = reader.read(run_dir / reader.SUMMARY, reader.SummaryFile)
    paths = list(labels)
    labels_sha256 = reader.sha256_of(paths[0]) if is_own(run_dir, paths) else msgspec.UNSET
    files = LabelFiles(paths) if paths else None
    given = _drawn(read_labels(files)) if files else []
    by_turn, unjoined, groups = join_labels(run_dir, given)
    if given and not by_turn:
        raise UsageError(f"no label belongs to a turn of {run_dir}; {unjoined[0]}")
    merged = _merged(by_turn)
    place = dataset or dataset_of(run_dir, summary.dataset_path, confined=confined)
    source = None if place is None else DatasetIndex(place)
    # The rows, each once as it is and once with what the label of its turn says.
    metrics, turns = MetricsState(), []
    for row in reader.scan(run_dir / reader.ROWS, TurnEvalRow):
        if is_variant(row):  # the rates are of the dataset without them
            continue
        turn = row.dialog_id, row.turn_pair_id
        if readings := _readings(metrics, row, merged.get(turn, {}), source):
            flagged = bool(row.constraint_contradiction or row.forbidden_hits)
            flagged |= row.pred_compliance_label not in (None, "compliant")
            turns.append(ReadTurn(turn, *groups.get(row.dialog_id, (None, None)), flagged, readings))
    joined = len(given) - len(unjoined)
    return JoinedRun(summary.run_id, turns, files, joined, unjoined, source, labels_sha256)


def _drawn(labels: Iterable[PlacedLabel]) -> list[PlacedLabel]:
    """Return the labels of turns that were not picked by hand."""
    drawn = [(place, label) for place, label in labels if label.probability != 0]
    first = {label.probability is not None: place for place, label in reversed(drawn)}
    if len(first) > 1:
        raise UsageError(
            f"{first[False].file}:{first[False].line}: no probability, though others have one, such as "
            f"{first[True].file}:{first[True].line}; give all labels that with which their turns were drawn"
        )
    return drawn


def _turn_of(label: LabelledReply, dialog: reader.ScannedDialog) -> int | str:
    """Return the turn of a dialogue that a label is of, or the reason why there is none."""
    replies = {turn.turn_pair_id: turn.pred_assistant_text for turn in dialog.turns}
    if label.turn is not None:
        if label.turn not in replies:
            return f"dialogue {dialog.dialog_id!r} has no turn {label.turn}"
        if replies[label.turn] != label.text:
            return f"its text is not the run's reply in turn {label.turn} of {dialog.dialog_id!r}"
        return label.turn
    same = [turn for turn, reply in replies.items() if reply == label.text]
    if len(same) != 1:
        return f"{len(same) or 'no'} replies of {dialog.dialog_id!r} have its text; name the turn"
    return same[0]


def _merged(by_turn: Mapping[Turn, Sequence[PlacedLabel]]) -> dict[Turn, Answers]:
    """Return the answers of the labels of each turn together; raise `InvalidLabels` where they contradict."""
    merged: dict[Turn, Answers] = {}
    findings = []
    for turn, labels in by_turn.items():
        given: dict[tuple[str, str], tuple[Any, Place]] = {}
        for place, label in [each for each in labels if each[1].reader == ADJUDICATED] or labels:
            chance = {} if label.probability is None else {("probability", ""): label.probability}
            for question, value in (answers(label) | chance).items():
                first, other = given.setdefault(question, (value, place))
                if first != value:
                    message = (
                        f"unlike {other.file}:{other.line}, a label of the same turn {turn[1]} of "
                        f'{turn[0]!r}; correct one, or add a label with "reader": "{ADJUDICATED}"'
                    )
                    path = ".".join(filter(None, ("$", *question)))
                    findings.append(Finding(file=place.file, line=place.line, path=path, message=message))
        merged[turn] = {question: value for question, (value, _) in given.items()}
    if findings:
        raise InvalidLabels(findings[:MAX_FINDINGS])
    return merged


def answers(label: LabelledReply) -> dict[tuple[str, str], Any]:
    """Return the questions that a label answers, as field and name, and the answers.

    Risk tags have their canonical names. Every category is answered where there are forbidden hits.
    """
    found: dict[tuple[str, str], Any] = {
        (name, ""): label[name] for name in ("compliance", "contradiction") if label[name] is not None
    }
    if label.forbidden_hits is not None:
        names = dict.fromkeys((*CATEGORIES, *label.forbidden_hits))
        found |= {("forbidden_hits", name): name in label.forbidden_hits for name in names}
    tags = given_labels(label.risk_tags).items()
    found |= {("risk_tags", canonical_risk_tag(tag) or tag): value for tag, value in tags}
    return found | {("rubric", name): value for name, value in given_labels(label.rubric).items()}


def _readings(
    metrics: MetricsState, row: TurnEvalRow, label: Answers, dataset: DatasetIndex | None
) -> dict[str, Reading]:
    """Return the rates that a turn carries, from its row and from that row as labelled."""
    labelled = _as_labelled(row, label, dataset) if label else {}
    readings = {}
    for state in (metrics.m1, metrics.m3, metrics.m4, metrics.m5):
        for share, hits, of in state.units(row):
            name = f"{state.name}.{share.name}"
            if name in RATES:
                changed = labelled.get(RATES[name], {})
                units = state.units(row.replace(**changed)) if changed else ()
                by_label = next((new for each, new, _ in units if each.name == share.name), None)
                readings[name] = Reading(
                    row.dialog_id, hits, by_label, of, label.get(("probability", ""), 1.0)
                )
    return readings


def _as_labelled(row: TurnEvalRow, label: Answers, dataset: DatasetIndex | None) -> dict[str, dict[str, Any]]:
    """Return the fields of the row as each field of its label has them, if it has."""
    given: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for (field, name), value in label.items():
        given[field][name] = value
    changes: dict[str, dict[str, Any]] = {}
    if "contradiction" in given:
        changes["contradiction"] = {"constraint_contradiction": given["contradiction"][""]}
    if "compliance" in given:
        changes["compliance"] = {"pred_compliance_label": given["compliance"][""]}
    if "forbidden_hits" in given and dataset and (dialog := dataset.get(row.dialog_id)):
        # People label categories: literal entries of the dialogue's list are hit as the row has it.
        hits = {name for name, hit in given["forbidden_hits"].items() if hit}
        listed = hits.intersection(CATEGORIES, dialog.blueprint.forbidden_list)
        literal = [entry for entry in row.forbidden_hits if entry not in CATEGORIES]
        changes["forbidden_hits"] = {"forbidden_hits": [*literal, *sorted(listed)]}
    tags, rubric = given["risk_tags"], given["rubric"]
    predicted = [tag for tag, value in tags.items() if value]
    known = {*tags, ANY_RISK_TAG} if predicted or tags.keys() >= DETECTED_TAGS else set(tags)
    if known.issuperset(row.risk_required_tags):
        changes["risk_tags"] = {"risk_tag_hits": len(met_risk_tags(row.risk_required_tags, predicted))}
    if rubric.keys() >= set(row.rubric_required):
        changes["rubric"] = {"rubric_hit_items": [item for item, value in rubric.items() if value]}
    return changes


def dataset_of(run_dir: Path, recorded: str, *, confined: bool = False) -> Path | None:
    """Return the file of a run's dataset, recorded under that path; None if it is no longer at its place."""
    own = SHIPPED.get(recorded, Path(recorded))
    places = [run_dir / DATASET, own] if recorded in SHIPPED or not confined else [run_dir / DATASET]
    return next((path for path in places if path.is_file()), None)


def current_corrections(run_dir: Path, *, confined: bool = False) -> Corrections | None:
    """Return the corrected rates of a finished run by its labels, None where it has none.

    They are computed where ``corrections.json`` is of other rows or labels, and not written. ``confined`` is
    that of `read_run`.

    Raises:
        InvalidLabels: a line is no labelled reply, or two labels of one turn contradict each other.
        UsageError: the run or its labels cannot be read.
    """
    found, current = reader.read_corrections(run_dir)
    if not current and (labels := reader.label_files(run_dir)):
        return correct_run(run_dir, read_run(run_dir, labels, confined=confined))
    return found if current else None


def write_corrections(run_dir: Path, found: Corrections) -> EvalSummary:
    """Write corrected rates into the files of a run that differ; return its summary with them.

    Raises:
        RunFault: a file cannot be written.
    """
    if reader.read_optional(run_dir / reader.CORRECTIONS, Corrections) != found:
        replace_file(run_dir / reader.CORRECTIONS, pretty_json(found).decode())
    summary = reader.read(run_dir / reader.SUMMARY, EvalSummary)
    if (corrected := with_corrected(summary, found)) != summary:
        replace_file(run_dir / reader.SUMMARY, encode_summary(corrected).decode())
    return corrected


def with_corrected(summary: EvalSummary, found: Corrections | None) -> EvalSummary:
    """Return a summary with the corrected rates of its run."""
    values = {name: value for name, value in (found.values if found else {}).items() if value is not None}
    return summary.replace(corrected=values or msgspec.UNSET)


def correct_run(run_dir: Path, run: JoinedRun) -> Corrections:
    """Return the corrected rates of a run and of its groups of dialogues."""
    assert run.files is not None  # noqa: S101 - the caller's labels
    files = run.files.files
    if run.labels_sha256 is not msgspec.UNSET:
        files = [each.replace(path=LABELS) for each in files]
    return Corrections(
        run_id=run.run_id,
        turn_eval_sha256=reader.rows_sha256(run_dir),
        files=files,
        labels_sha256=run.labels_sha256,
        joined=run.joined,
        unjoined=len(run.unjoined),
        values=_corrected(run.turns),
        by_scenario=_by_group((turn.scenario, turn) for turn in run.turns),
        by_difficulty=_by_group((turn.difficulty, turn) for turn in run.turns),
    )


def _by_group(turns: Iterable[tuple[str | None, ReadTurn]]) -> dict[str, dict[str, CorrectedValue | None]]:
    groups: defaultdict[str, list[ReadTurn]] = defaultdict(list)
    for group, turn in turns:
        groups[group or "-"].append(turn)
    return {group: _corrected(groups[group], MIN_LABELS) for group in sorted(groups)}


def _corrected(turns: Sequence[ReadTurn], min_labels: int = 0) -> dict[str, CorrectedValue | None]:
    values: dict[str, CorrectedValue | None] = {}
    for name in RATES:
        if readings := _of_rate(turns, name):
            found = corrected_rate(readings)
            values[name] = None if found is None or found.labels < min_labels else found
    return values


def _of_rate(turns: Sequence[ReadTurn], name: str) -> list[Reading]:
    return [turn.readings[name] for turn in turns if name in turn.readings]


def corrected_differences(run_a: Path, run_b: Path) -> dict[str, CorrectedDifference]:
    """Return the differences of the corrected rates of two runs with labels, by ``metric.value``.

    Raises:
        UsageError: a run or its labels cannot be read.
    """
    labels_a, labels_b = reader.label_files(run_a), reader.label_files(run_b)
    if not labels_a or not labels_b:
        return {}
    a, b = read_run(run_a, labels_a), read_run(run_b, labels_b)
    found = {name: corrected_difference(_of_rate(a.turns, name), _of_rate(b.turns, name)) for name in RATES}
    return {name: difference for name, difference in found.items() if difference is not None}
