"""Rates of a finished run, corrected by labels of some of its turns (``memfin correct``)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from memfin.contracts import (
    ANY_RISK_TAG,
    CorrectedValue,
    Corrections,
    LabelledReply,
    TurnEvalRow,
    met_risk_tags,
)
from memfin.contracts.reading import MAX_LINE_BYTES, iter_jsonl
from memfin.dataset import SAMPLE, DatasetIndex
from memfin.errors import UsageError
from memfin.metrics.aggregate import MetricsState
from memfin.metrics.corrected import RATES, Reading, corrected_rate
from memfin.report import reader
from memfin.scoring.compliance import CATEGORIES
from memfin.scoring.risk import DETECTED_TAGS, canonical_risk_tag
from memfin.validation import Finding
from memfin.validity.found import given_labels
from memfin.validity.measurement import MAX_FINDINGS, InvalidLabels, LabelFiles
from memfin.validity.stats import Place

MIN_LABELS: Final = 10
"""Labels that a group of dialogues needs to have corrected rates, in two dialogues at least."""

ADJUDICATED: Final = "adjudicated"
"""The reader whose labels replace those of others."""

_LABELS: Final = (*dict.fromkeys(RATES.values()), "probability")

Turn = tuple[str, int]


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
    """

    run_id: str
    turns: Sequence[ReadTurn]
    files: LabelFiles | None
    joined: int
    unjoined: Sequence[str]
    dataset: DatasetIndex | None


def read_run(run_dir: Path, labels: Iterable[Path] = (), dataset: Path | None = None) -> JoinedRun:
    """Return the turns of a finished run, joined with the labels of some files.

    ``dataset`` is the run's by default.

    Raises:
        InvalidLabels: a line is no labelled reply, or two labels of one turn contradict each other.
        UsageError: the run or a file cannot be read, or the labels belong to another run.
    """
    reader.require_run_directory(run_dir)
    summary = reader.read(run_dir / reader.SUMMARY, reader.SummaryFile)
    paths = list(labels)
    files = LabelFiles(paths) if paths else None
    given = _read_labels(files) if files else []
    wanted: defaultdict[str, list[tuple[Place, LabelledReply]]] = defaultdict(list)
    for place, label in given:
        wanted[label.dialog_id or ""].append((place, label))
    # 1. The turn that each label is of.
    facts: dict[str, tuple[str | None, str | None]] = {}
    of_turn: defaultdict[Turn, list[tuple[Place, LabelledReply]]] = defaultdict(list)
    unjoined: list[tuple[Place, str]] = []
    for dialog in reader.scan(run_dir / reader.TRACES, reader.ScannedDialog):
        facts[dialog.dialog_id] = dialog.scenario_type, dialog.difficulty
        for place, label in wanted.pop(dialog.dialog_id, ()):
            found = _turn_of(label, dialog)
            if isinstance(found, str):
                unjoined.append((place, found))
            else:
                of_turn[dialog.dialog_id, found].append((place, label))
    for dialog_id, others in wanted.items():
        reason = f"the run has no dialogue {dialog_id!r}" if dialog_id else "it has no dialog_id"
        unjoined += [(place, reason) for place, _ in others]
    lines = [f"{place.file}:{place.line}: {reason}" for place, reason in sorted(unjoined)]
    if given and not of_turn:
        raise UsageError(f"no label belongs to a turn of {run_dir}; {lines[0]}")
    # 2. The rows, each once as it is and once with what the label of its turn says.
    merged = _merged(of_turn)
    source = _dataset(summary.dataset_path, run_dir, dataset)
    metrics, turns = MetricsState(), []
    for row in reader.scan(run_dir / reader.ROWS, TurnEvalRow):
        turn = row.dialog_id, row.turn_pair_id
        own = merged.get(turn)
        if readings := _readings(metrics, row, own, _forbidden(own, row, source)):
            flagged = bool(row.constraint_contradiction or row.forbidden_hits)
            flagged |= row.pred_compliance_label not in (None, "compliant")
            turns.append(ReadTurn(turn, *facts.get(row.dialog_id, (None, None)), flagged, readings))
    return JoinedRun(summary.run_id, turns, files, len(given) - len(lines), lines, source)


def _read_labels(files: LabelFiles) -> list[tuple[Place, LabelledReply]]:
    files.check()
    rows = [
        (Place(str(path), number), row)
        for path in files.paths
        for number, row in iter_jsonl(path, LabelledReply, limit=MAX_LINE_BYTES)
    ]
    drawn = {row.probability is not None: place for place, row in reversed(rows)}
    if len(drawn) > 1:
        raise UsageError(
            f"{drawn[False].file}:{drawn[False].line}: no probability, though others have one, such as "
            f"{drawn[True].file}:{drawn[True].line}; give all labels that with which their turns were drawn"
        )
    return rows


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


def _merged(of_turn: Mapping[Turn, Sequence[tuple[Place, LabelledReply]]]) -> dict[Turn, LabelledReply]:
    """Return one label per turn; raise `InvalidLabels` where readers contradict each other."""
    merged: dict[Turn, LabelledReply] = {}
    findings = []
    for turn, labels in of_turn.items():
        last = [each for each in labels if each[1].reader == ADJUDICATED] or labels
        fields: dict[str, Any] = {}
        origin: dict[str, Place] = {}
        for place, label in last:
            for name, value in _parts(label):
                if fields.setdefault(name, value) != value:
                    other = origin[name]
                    message = (
                        f"unlike {other.file}:{other.line}, a label of the same turn {turn[1]} of "
                        f'{turn[0]!r}; correct one, or add a label with "reader": "{ADJUDICATED}"'
                    )
                    findings.append(
                        Finding(file=place.file, line=place.line, path=f"$.{name}", message=message)
                    )
                origin.setdefault(name, place)
        whole: dict[str, Any] = {}
        for name, value in fields.items():
            field, _, part = name.partition(".")
            if part:
                whole.setdefault(field, {})[part] = value
            else:
                whole[field] = value
        merged[turn] = labels[0][1].replace(**{**dict.fromkeys(_LABELS), **whole})
    if findings:
        raise InvalidLabels(findings[:MAX_FINDINGS])
    return merged


def _parts(label: LabelledReply) -> Iterator[tuple[str, Any]]:
    """Yield what a label says; risk tags and rubric items one by one, tags by their canonical names."""
    for name in ("contradiction", "compliance", "probability"):
        if label[name] is not None:
            yield name, label[name]
    if label.forbidden_hits is not None:
        yield "forbidden_hits", sorted(set(label.forbidden_hits))
    for tag, value in given_labels(label.risk_tags).items():
        yield f"risk_tags.{canonical_risk_tag(tag) or tag}", value
    for item, value in given_labels(label.rubric).items():
        yield f"rubric.{item}", value


def _readings(
    metrics: MetricsState, row: TurnEvalRow, label: LabelledReply | None, forbidden: list[str] | None
) -> dict[str, Reading]:
    """Return the rates that a turn carries, from its row and from that row as labelled."""
    labelled = _as_labelled(row, label, forbidden) if label is not None else {}
    probability = 1.0 if label is None or label.probability is None else label.probability
    readings = {}
    for state in (metrics.m1, metrics.m3, metrics.m4, metrics.m5):
        for share, hits, of in state.units(row):
            name = f"{state.name}.{share.name}"
            if name not in RATES:
                continue
            changed = labelled.get(RATES[name])
            by_label = None
            if changed is not None:
                by_label = next(new for each, new, _ in state.units(changed) if each.name == share.name)
            readings[name] = Reading(row.dialog_id, hits, by_label, of, probability)
    return readings


def _as_labelled(
    row: TurnEvalRow, label: LabelledReply, forbidden: list[str] | None
) -> dict[str, TurnEvalRow]:
    """Return the row as each field of its label would have it; none for what the label leaves open."""
    changes: dict[str, dict[str, Any]] = {}
    if label.contradiction is not None:
        changes["contradiction"] = {"constraint_contradiction": label.contradiction}
    tags = given_labels(label.risk_tags)
    predicted = [tag for tag, value in tags.items() if value]
    known = {*tags, ANY_RISK_TAG} if predicted or tags.keys() >= DETECTED_TAGS else set(tags)
    if known.issuperset(row.risk_required_tags):
        hits = met_risk_tags(row.risk_required_tags, predicted)
        changes["risk_tags"] = {"risk_tag_hits": len(hits)}
    if label.compliance is not None:
        changes["compliance"] = {"pred_compliance_label": label.compliance}
    if forbidden is not None:
        changes["forbidden_hits"] = {"forbidden_hits": forbidden}
    rubric = given_labels(label.rubric)
    if rubric.keys() >= set(row.rubric_required):
        changes["rubric"] = {"rubric_hit_items": [item for item, value in rubric.items() if value]}
    return {field: row.replace(**change) for field, change in changes.items()}


def _forbidden(
    label: LabelledReply | None, row: TurnEvalRow, dataset: DatasetIndex | None
) -> list[str] | None:
    """Return the entries of the dialogue's forbidden list that a turn hits by its label, None if unknown.

    Literal entries are hit as the row has it: people label categories.
    """
    if label is None or label.forbidden_hits is None or dataset is None:
        return None
    if (dialog := dataset.get(row.dialog_id)) is None:
        return None
    listed = dialog.blueprint.forbidden_list
    literal = [entry for entry in row.forbidden_hits if entry not in CATEGORIES]
    return [*literal, *(entry for entry in label.forbidden_hits if entry in listed and entry in CATEGORIES)]


def _dataset(recorded: str, run_dir: Path, given: Path | None) -> DatasetIndex | None:
    """Return the run's dataset; None where it is no longer at its place."""
    if given is not None:
        return DatasetIndex(given)
    places = (run_dir / "dataset.jsonl", SAMPLE if recorded.startswith("builtin:") else Path(recorded))
    return next((DatasetIndex(path) for path in places if path.is_file()), None)


def correct_run(run_dir: Path, run: JoinedRun) -> Corrections:
    """Return the corrected rates of a run and of its groups of dialogues."""
    assert run.files is not None  # noqa: S101 - the caller's labels
    groups: dict[str, defaultdict[str, list[ReadTurn]]] = {
        "scenario": defaultdict(list),
        "difficulty": defaultdict(list),
    }
    for turn in run.turns:
        groups["scenario"][turn.scenario or "-"].append(turn)
        groups["difficulty"][turn.difficulty or "-"].append(turn)
    by_scenario, by_difficulty = (
        {name: _corrected(turns, MIN_LABELS) for name, turns in sorted(group.items())}
        for group in groups.values()
    )
    return Corrections(
        run_id=run.run_id,
        turn_eval_sha256=reader.rows_sha256(run_dir),
        files=run.files.files,
        joined=run.joined,
        unjoined=len(run.unjoined),
        values=_corrected(run.turns),
        by_scenario=by_scenario,
        by_difficulty=by_difficulty,
    )


def _corrected(turns: Sequence[ReadTurn], min_labels: int = 0) -> dict[str, CorrectedValue | None]:
    values: dict[str, CorrectedValue | None] = {}
    for name in RATES:
        if readings := [turn.readings[name] for turn in turns if name in turn.readings]:
            found = corrected_rate(readings)
            enough = found is not None and found.labels >= min_labels
            values[name] = (
                CorrectedValue(
                    raw=found.raw,
                    value=found.value,
                    ci95=found.interval,
                    labels=found.labels,
                    weight=found.weight,
                    alone=found.alone,
                    alone_ci95=found.interval_alone,
                )
                if found is not None and enough
                else None
            )
    return values
