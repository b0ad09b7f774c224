"""Label files of ``memfin label`` as replies to train the sentence classifier with."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from memfin.contracts import LabelledReply
from memfin.contracts.reading import iter_jsonl
from memfin.contracts.validity import ADJUDICATED
from memfin.validity.found import given_labels
from memfin.validity.measurement import LabelFiles

Spans = dict[str, list[list[int]]]


class SettledReply(NamedTuple):
    """A reply with the labels that its readers agree on.

    ``shown`` are the characters that show a label, ``refuted`` those of false alarms, by label.
    """

    row: dict[str, Any]
    shown: Spans
    refuted: Spans


def settled_replies(paths: Iterable[Path]) -> Iterator[SettledReply]:
    """Yield each reply of some label files once; an adjudicated label replaces those of the readers.

    Labels that a reader is unsure of are left out, unless adjudicated.

    Raises:
        UsageError: a file cannot be read, or a line is no labelled reply.
    """
    files = LabelFiles(paths)
    files.check()
    by_reply: dict[tuple[str | None, int | None, str], list[LabelledReply]] = {}
    for path in files.paths:
        for _, label in iter_jsonl(path, LabelledReply):
            by_reply.setdefault((label.dialog_id, label.turn, label.text), []).append(label)
    for labels in by_reply.values():
        decided = [each for each in labels if each.reader == ADJUDICATED]
        if settled := decided or [each for each in labels if not each.unsure]:
            yield _settled(settled)


def _settled(labels: Sequence[LabelledReply]) -> SettledReply:
    first = labels[0]
    row: dict[str, Any] = {"id": first.id, "text": first.text, "constraints": first.constraints or []}
    for name in ("compliance", "contradiction"):
        given = {each[name] for each in labels} - {None}
        row[name] = given.pop() if len(given) == 1 else None
    answers = [each for label in labels for each in given_labels(label.risk_tags).items()]
    row["risk_tags"] = {tag: value for tag, value in answers if (tag, not value) not in answers}
    shown: Spans = {}
    refuted: Spans = {}
    for mark in (mark for label in labels for mark in label.marks or ()):
        if mark.kind != "missed":
            spans = refuted if mark.kind else shown
            spans.setdefault(mark.label, []).append([mark.start, mark.end])
    return SettledReply(row, shown, refuted)
