"""A dataset with the variants of its dialogues behind them."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from memfin.contracts import Dialog
from memfin.contracts.pressure import Family
from memfin.contracts.reading import BOM, iter_lines
from memfin.dataset import SpooledDataset, read_entries
from memfin.errors import UsageError
from memfin.pressure.families import FAMILIES, change_of, perturb
from memfin.pressure.values import Change


def parse_families(text: str) -> tuple[Family, ...]:
    """Return the families of ``FAMILY[,FAMILY...]`` in their fixed order; ``all`` stands for all.

    Raises:
        UsageError: a name is no family.
    """
    names = {name.strip() for name in text.split(",")}
    if names == {"all"}:
        return FAMILIES
    if unknown := sorted(names.difference(FAMILIES)):
        raise UsageError(f"perturb: {unknown[0]!r} is no family; choose from {', '.join(FAMILIES)}, or all")
    return tuple(family for family in FAMILIES if family in names)


def is_expanded(path: Path | SpooledDataset) -> bool:
    """Return True if the last line of a dataset is a variant, as in one that `expanded` has written."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        length = min(size, 4096)
        while True:
            file.seek(size - length)
            tail = file.read(length).rstrip()
            if b"\n" in tail or length == size:
                return b'"perturbation":{"family"' in tail.rpartition(b"\n")[2]
            length = min(size, 2 * length)


def expanded(
    dataset: Path | SpooledDataset, families: Sequence[Family], seed: int, limit: int | None = None
) -> Iterator[bytes]:
    """Yield the first ``limit`` lines of a dataset as they are, then the variants of its valid dialogues.

    Dialogues and variants stream by; memory holds 16 bytes per id, and of each client with sessions the value
    that is changed. All sessions of a client are varied, as those of a new client for each family.

    Raises:
        UsageError: the dataset has variants already, or one would have the id of another dialogue.
    """
    with dataset.open("rb") as file:
        for line in islice(iter_lines(file), limit):
            yield line.data.removeprefix(BOM)
    changes: dict[str, Change] = {}
    with dataset.open("rb") as file:
        for entry in read_entries(file, limit):
            dialog = entry.dialog
            if dialog is None:
                continue
            if dialog.perturbation is not None:
                raise UsageError(
                    f"perturb: line {entry.dataset_index} of the dataset is a variant already; give the "
                    "dataset of the originals, or leave --perturb out"
                )
            for family in families:
                variant = perturb(dialog, family, seed, _change(dialog, family, changes))
                if _same_words(dialog, variant) and dialog.user_id is None:
                    continue
                yield _line(variant)


def _change(dialog: Dialog, family: Family, changes: dict[str, Change]) -> Change | None:
    """Return the change of a dialogue; the sessions of a client keep that of the first that has one."""
    if family != "changed_fact":
        return None
    if dialog.user_id is None:
        return change_of(dialog)
    if dialog.user_id not in changes and (found := change_of(dialog)) is not None:
        changes[dialog.user_id] = found
    return changes.get(dialog.user_id)


def _same_words(dialog: Dialog, variant: Dialog) -> bool:
    return dialog.turns == variant.turns


def _line(variant: Dialog) -> bytes:
    fields = msgspec.to_builtins(variant)
    return msgspec.json.encode({name: value for name, value in fields.items() if value not in (None, [])})
