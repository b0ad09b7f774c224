"""``memfin dataset``: datasets that are checked before a run, started, and extended by dialogues."""

import fcntl
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from memfin.cli.options import with_language
from memfin.cli.output import counted, note
from memfin.cli.writing import LEVELS, ask, ask_exchanges, compose, given_answers, is_known, read_dialogs
from memfin.contracts import Dialog, TurnTags
from memfin.dataset import align_turn_pairs, check_dataset_file, read_entries, unscored_pairs, usable_id
from memfin.errors import GateFailed, RunFault, UsageError
from memfin.journal.disk import Disk
from memfin.language import tr
from memfin.pressure.expand import expanded, parse_families
from memfin.validation import Finding, validate_path
from memfin.validation.findings import finding


@click.group("dataset")
def command() -> None:
    """Look after datasets of dialogues.

    \b
    memfin dataset new my.jsonl
    memfin dataset add my.jsonl
    memfin dataset check data.jsonl
    memfin dataset perturb data.jsonl --perturb all --out perturbed.jsonl
    """


@command.command("new")
@click.argument("file", type=click.Path(path_type=Path))
@with_language()
def new(file: Path) -> None:
    """Start the dataset FILE with dialogues that are typed at a prompt.

    \b
    memfin dataset new my.jsonl

    Labels and the client's profile are suggested: Enter accepts what is in brackets, other text replaces it,
    - takes none. Items of a list are separated by ;. An empty message of the client ends a dialogue, and an
    empty first one the session. Each dialogue is written when it is complete, Ctrl-C loses at most the last.
    """
    if file.exists():
        raise UsageError(f"{file} exists already; memfin dataset add {file} appends a dialogue")
    if not file.parent.is_dir():
        raise UsageError(f"{file}: there is no directory {file.parent}")
    written = 0
    try:
        while (exchanges := ask_exchanges()) is not None:
            append_dialogs(file, [compose(exchanges, ask)])
            written += 1
    finally:
        note(tr("dialogues written to {path}: {count}", count=written, path=file))


@command.command("add")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--user", "users", metavar="TEXT", multiple=True, help="Message of the client. Repeatable.")
@click.option(
    "--assistant", "replies", metavar="TEXT", multiple=True, help="Reference reply to it, may be empty."
)
@click.option("--from", "source", metavar="FILE", help="Take dialogues of JSON or JSON Lines; - is stdin.")
@click.option("--suggest", is_flag=True, help="Accept suggestions for what is not given.")
@click.option(
    *("--tag", "tags"),
    metavar="[N:]LABEL",
    multiple=True,
    help="Risk tag, memory key, rubric item or compliance label of turn pair N, by default the last.",
)
@click.option("--scenario", metavar="TEXT", help="Kind of conversation.")
@click.option("--difficulty", type=click.Choice(LEVELS["difficulty"]))
@click.option("--risk-level", "risk_level_gt", type=click.Choice(LEVELS["risk_level_gt"]))
@click.option("--horizon", "horizon_gt", type=click.Choice(LEVELS["horizon_gt"]))
@click.option("--liquidity-need", "liquidity_need_gt", type=click.Choice(LEVELS["liquidity_need_gt"]))
@click.option("--constraint", "constraints_gt", metavar="TEXT", multiple=True, help="Repeatable.")
@click.option("--preference", "preferences_gt", metavar="TEXT", multiple=True, help="Repeatable.")
@with_language()
def add(
    file: Path,
    users: tuple[str, ...],
    replies: tuple[str, ...],
    source: str | None,
    tags: tuple[str, ...],
    *,
    suggest: bool,
    **given: str | tuple[str, ...] | None,
) -> None:
    """Append a dialogue to the dataset FILE, typed at a prompt unless --user or --from is given.

    \b
    memfin dataset add my.jsonl
    memfin dataset add my.jsonl --user '我是稳健型' --assistant '净值会有波动。' --suggest --horizon 2年以上
    memfin dataset add my.jsonl --from dialog.json
    """
    if not file.is_file() or file.stat().st_size:  # an empty one has its first dialogue added
        check_dataset_file(file)
    if not users and (replies or suggest or tags or any(given.values())):
        raise UsageError("options describe a dialogue that is given; add --user TEXT --assistant TEXT")
    if users and source is not None:
        raise UsageError("--from: not together with --user; give one of them")
    if source is not None:
        dialogs = read_dialogs(source)
    elif users:
        if len(replies) != len(users):
            raise UsageError(f"{len(users)} --user, but {len(replies)} --assistant; '' is an empty reply")
        choose = given_answers(given, tags, len(users), suggest=suggest)
        dialogs = [compose([*zip(users, replies, strict=True)], choose)]
    else:
        exchanges = ask_exchanges()
        dialogs = [] if exchanges is None else [compose(exchanges, ask)]
    if dialogs:
        append_dialogs(file, dialogs)
    note(tr("dialogues written to {path}: {count}", count=len(dialogs), path=file))


@command.command("perturb")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--perturb", "families", metavar="FAMILY[,...]", default="all", show_default=True, help="Families."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choices of sentences.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to create.")
@with_language()
def perturbed(file: Path, families: str, seed: int, out: Path) -> None:
    """Write the dialogues of FILE and their perturbed variants to a new file.

    \b
    memfin dataset perturb data.jsonl --perturb paraphrase,pushing --out perturbed.jsonl

    A run on the new file compares the variants with their originals, as memfin run --perturb does.
    """
    check_dataset_file(file)
    if out.exists():
        raise UsageError(f"{out}: exists already; choose another name")
    written = 0

    def lines() -> Iterator[bytes]:
        nonlocal written
        for line in expanded(file, parse_families(families), seed):
            written += 1
            yield line + b"\n"

    try:
        Disk().write_whole(out, lines())
    except OSError as problem:
        raise RunFault(f"{out}: {problem.strerror or problem}") from problem
    note(tr("dialogues written to {path}: {count}", count=written, path=out))


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
        if values or field != "facts_required_gt":  # most datasets name no facts
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
                known = is_known(field, value, dialog)
                yield field, value, ("turns", pair.gt_assistant_abs_idx, "turn_tags", field, index), known


def append_dialogs(path: Path, dialogs: Sequence[Mapping[str, Any]]) -> None:
    """Append dialogues to a dataset atomically; those without an id get one that the file does not have.

    The directory is locked for that, so that two who append at once lose nothing.

    Raises:
        UsageError: a dialogue would have findings; nothing is written.
        RunFault: the file system refuses; the file is as it was.
    """
    path = path.resolve()
    try:
        with Disk().opening(path.parent, os.O_RDONLY) as lock, tempfile.NamedTemporaryFile() as added:
            fcntl.flock(lock, fcntl.LOCK_EX)
            mode = path.stat().st_mode if path.exists() else None
            with BytesIO() if mode is None else path.open("rb") as before:
                lines = [*_lines(dialogs, path.stem, {entry.dialog_id for entry in read_entries(before)})]
                added.writelines(lines)
                added.flush()
                labels = {field: Counter[str]() for field in TurnTags.__struct_fields__}
                for each in _findings(Path(added.name), Counter(), labels):
                    raise UsageError(
                        f"dialogue {each.line}: {each.path}: {each.message}; nothing was written"
                    )
                Disk().write_whole(path, _pieces(before, lines))
            if mode is not None:
                path.chmod(mode)
    except OSError as problem:
        raise RunFault(f"{path}: {problem.strerror or problem}") from problem


def _lines(dialogs: Sequence[Mapping[str, Any]], name: str, ids: set[str]) -> Iterator[bytes]:
    for dialog in dialogs:
        identity, number = usable_id(dialog), len(ids) + 1
        if identity in ids:
            raise UsageError(f"dialog_id {identity!r} is in the file already; nothing was written")
        while identity is None or identity in ids:
            identity, number = f"{name}-{number}", number + 1
        ids.add(identity)
        rest = {field: value for field, value in dialog.items() if field != "dialog_id"}
        try:
            yield msgspec.json.encode({"dialog_id": identity, **rest}) + b"\n"
        except UnicodeEncodeError as problem:
            raise UsageError(f"dialogue {identity}: holds bytes that are not UTF-8") from problem


def _pieces(before: BinaryIO, lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the content of a file, with its last line ended, and then lines."""
    before.seek(0)
    last = b"\n"
    while piece := before.read(1 << 20):
        yield (last := piece)
    yield from ([] if last.endswith(b"\n") else [b"\n"])
    yield from lines
