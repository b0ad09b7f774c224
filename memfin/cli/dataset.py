"""``memfin dataset``: datasets checked before a run."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from memfin.cli.output import counted, note
from memfin.contracts import Dialog, TurnTags
from memfin.dataset import align_turn_pairs, check_dataset_file, read_entries, unscored_pairs
from memfin.errors import GateFailed
from memfin.scoring.keys import resolve_memory_required_key
from memfin.scoring.risk import canonical_risk_tag
from memfin.validation import Finding, validate_path
from memfin.validation.findings import finding


@click.group("dataset")
def command() -> None:
    """Look after datasets of dialogues.

    \b
    memfin dataset check data.jsonl
    """


@command.command("check")
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Report what memfin validate does, and keys and risk tags without effect; count the labels.

    \b
    memfin dataset check data.jsonl

    Exit code 0: no findings. 1: findings. 2: the file cannot be read.
    """
    check_dataset_file(file)
    counts = Counter[str]()
    labels = {field: Counter[str]() for field in TurnTags.__struct_fields__}
    total = 0
    for each in _findings(file, counts, labels):
        click.echo(str(each))
        total += 1
    note(
        f"{counted(counts['dialogs'], 'dialogue')}, {counts['skipped']} skipped; "
        f"{counted(counts['pairs'], 'turn pair')}, {counts['unlabelled']} without labels"
    )
    for field, values in labels.items():
        note(f"{field}: {', '.join(f'{name} {count}' for name, count in values.most_common()) or 'none'}")
    if total:
        raise GateFailed(counted(total, "finding"))
    note("no findings")


def _findings(file: Path, counts: Counter[str], labels: dict[str, Counter[str]]) -> Iterator[Finding]:
    yield from validate_path(file, "dataset")
    with file.open("rb") as lines:
        for entry in read_entries(lines):
            counts["skipped" if entry.dialog is None else "dialogs"] += 1
            for field, value, steps, known in _labels(entry.dialog, counts) if entry.dialog else ():
                labels[field][value] += 1
                if not known:
                    message = f"{value!r} does not resolve" if "keys" in field else f"{value!r} is not known"
                    yield finding(file, message, steps, entry.dataset_index)


def _labels(dialog: Dialog, counts: Counter[str]) -> Iterator[tuple[str, str, tuple[str | int, ...], bool]]:
    """Yield each label of a dialogue: its field, value and place, and False where it has no effect."""
    counts["pairs"] += (unscored := unscored_pairs(dialog))
    counts["unlabelled"] += unscored
    for pair in align_turn_pairs(dialog):
        tags = dialog.turns[pair.gt_assistant_abs_idx].turn_tags
        if tags is None:
            continue
        counts["pairs"] += 1
        counts["unlabelled"] += tags == TurnTags()
        for field, values in dict(tags).items():
            for index, value in enumerate(values if isinstance(values, list) else [values] if values else ()):
                known = True
                if field == "memory_required_keys_gt":
                    known = resolve_memory_required_key(value, dialog, pair.turn_pair_id).resolvable
                elif field == "risk_disclosure_required_gt":
                    known = canonical_risk_tag(value) is not None
                yield field, value, ("turns", pair.gt_assistant_abs_idx, "turn_tags", field, index), known
