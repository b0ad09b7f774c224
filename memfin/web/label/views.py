"""Content of the labelling pages, and what their forms save; all of it runs in worker threads."""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from msgspec import UNSET

from memfin.contracts import DialogTrace, Finding, LabelledReply
from memfin.contracts.validity import ADJUDICATED
from memfin.language import marked, tr
from memfin.report.dialogs import script_language
from memfin.report.glossary import labels as glossary_labels
from memfin.report.glossary import word
from memfin.report.tables import agreement_headings, agreement_row, field_words
from memfin.sessions import DatasetIndex
from memfin.text.lines import one_line
from memfin.validity.corrections import answers
from memfin.validity.labelling import (
    DrawnTurn,
    Key,
    LabelConflict,
    LabelDraw,
    LabelStore,
    StoredLabel,
    agreement,
    by_turn,
    differences,
)
from memfin.web.label.forms import Question, entered, is_empty, question_of, reply_pieces, values_of
from memfin.web.pages import Refusal, not_found
from memfin.web.view.conversation import profile_of, turns_of
from memfin.web.view.index import Indexes

MAX_NAME: Final = 60
_FIELDS: Final = ("compliance", "contradiction", "forbidden_hits", "risk_tags", "rubric")
_TURN: Final = re.compile(r"(\S*/dialogs/)?([^?#]+)(?:\?[^#]*)?#t([0-9]{1,9})", re.ASCII)

Fields = Sequence[tuple[str, str]]


def reader_name(text: str) -> str | None:
    """Return a reader's name on one line, None for one that cannot be taken."""
    name = one_line(text, 1000)
    return None if len(name) > MAX_NAME or name.casefold() == ADJUDICATED else name


class Shown(NamedTuple):
    """A page: its template, values and status."""

    template: str
    values: dict[str, Any]
    status: int = 200


class Redirect(NamedTuple):
    """Another page to go to; ``reader`` is the name to remember from now on."""

    path: str
    reader: str | None = None


class LabelViews:
    """The pages of a run's labels.

    ``files`` are those of the run by name. ``reader`` is that of all visitors, None to ask each.
    """

    def __init__(
        self,
        store: LabelStore,
        draw: LabelDraw,
        files: Mapping[str, Path],
        indexes: Indexes,
        *,
        dataset: DatasetIndex | None = None,
        reader: str | None = None,
    ) -> None:
        self._store = store
        self._draw = draw
        self._files = files
        self._indexes = indexes
        self._dataset = dataset
        self.reader: Final = reader
        self._places = {(each.dialog_id, each.turn): at for at, each in enumerate(draw.turns)}

    # ---- reader and progress

    def home(self, reader: str) -> Shown:
        """Return the list of drawn turns with the state of each."""
        if not reader:
            return Shown("reader", {"readers": self._draw.readers})
        labels = self._store.read()
        head = self._head(labels, reader)
        words = {
            "open": tr("open"),
            "done": tr("labelled"),
            "part": tr("partly labelled"),
            "other": tr("labelled by another reader"),
        }
        values = {
            "lines": list(zip(self._draw.turns, head["states"], strict=True)),
            "words": words,
            "picked": [key[:2] for key in labels if key[:2] not in self._places and key[2] == reader],
            "fixed": self.reader,
        }
        return Shown("home", head | values)

    def sign_in(self, reader: str, fields: Fields) -> Redirect:
        """Take the name of a reader; an empty one ends the labelling under the former name."""
        del reader
        name = reader_name(dict(fields).get("reader", ""))
        if name is None:
            raise Refusal(400, "invalid_input", marked("Take another name, of at most 60 characters."))
        return Redirect("/", name)

    def open_turn(self, reader: str, fields: Fields) -> Redirect:
        """Go to the turn that an address of ``memfin view`` names."""
        del reader
        found = _TURN.fullmatch(dict(fields).get("address", "").strip())
        if found is None:
            raise Refusal(400, "invalid_input", marked("Give the address of a turn, such as DIALOG#t3."))
        dialog = unquote(found[2]) if found[1] else found[2]
        return Redirect(f"/turns/{quote(dialog, safe='')}/{found[3]}")

    def resume(self, reader: str) -> Redirect:
        """Go to the first turn that is not labelled."""
        return Redirect(self._after(reader, -1))

    def _state(self, labels: Mapping[Key, StoredLabel], drawn: DrawnTurn, reader: str) -> str:
        turn = drawn.dialog_id, drawn.turn
        if (own := labels.get((*turn, reader))) is not None:
            partial = own.label.compliance is None or own.label.contradiction is None
            return "part" if partial else "done"
        others = any(key[:2] == turn and key[2] != ADJUDICATED for key in labels)
        return "other" if self._draw.readers == 1 and others else "open"

    def _after(self, reader: str, place: int) -> str:
        """Return the address of the first open turn after a place of the draw, from its beginning at last."""
        labels = self._store.read()
        for drawn in (*self._draw.turns[place + 1 :], *self._draw.turns[: place + 1]):
            if self._state(labels, drawn, reader) == "open":
                return _address(drawn)
        return "/"

    def _head(self, labels: Mapping[Key, StoredLabel], reader: str) -> dict[str, Any]:
        states = [self._state(labels, drawn, reader) for drawn in self._draw.turns]
        return {
            "reader": reader,
            "readers": self._draw.readers,
            "states": states,
            "total": len(states),
            "labelled": len(states) - states.count("open"),
        }

    # ---- a turn

    def turn(self, reader: str, dialog: str, turn: str) -> Shown:
        """Return the page of a turn with the form of its label."""
        return self._form(self._open(dialog, turn), reader, owner=reader)

    def save_turn(self, reader: str, fields: Fields, dialog: str, turn: str) -> Shown | Redirect:
        """Save the label of a turn, and go on to the next one that is open."""
        opened = self._open(dialog, turn)
        place = self._places.get(opened.question.address)
        return self._save(fields, opened, reader, reader) or Redirect(
            _address(opened.question.drawn) if place is None else self._after(reader, place)
        )

    def adjudication(self, reader: str, dialog: str, turn: str) -> Shown:
        """Return the page of a turn with the labels of all readers and the form of the label that decides."""
        return self._form(self._open_read(dialog, turn), reader, owner=ADJUDICATED)

    def adjudicate(self, reader: str, fields: Fields, dialog: str, turn: str) -> Shown | Redirect:
        """Save the label that decides."""
        opened = self._open_read(dialog, turn)
        return self._save(fields, opened, reader, ADJUDICATED) or Redirect("/agreement")

    def _open_read(self, dialog: str, turn: str) -> "_Opened":
        """Return a turn that two readers have labelled; before, nobody sees the labels of others."""
        opened = self._open(dialog, turn)
        if len(self._readings(opened.question)) < 2:  # noqa: PLR2004 - one reader agrees with nobody
            raise Refusal(403, "blind", marked("Labels are shown once two readers have saved theirs."))
        return opened

    def _open(self, dialog: str, turn: str) -> "_Opened":
        number = int(turn)
        with closing(self._indexes.open(self._files)) as index:
            place = index.dialog(dialog)
            if place is None:
                raise not_found()
            trace, rows, votes = index.records(place)
        found = next((each for each in trace.turns if each.turn_pair_id == number), None)
        if found is None:
            raise not_found()
        if found.pred_assistant_text is None:
            raise Refusal(404, "no_reply", marked("This turn has no reply to label."))
        at = self._places.get((dialog, number))
        drawn = (
            DrawnTurn(dialog_id=dialog, turn=number, probability=0) if at is None else self._draw.turns[at]
        )
        entry = None if self._dataset is None else self._dataset.get(dialog)
        if trace.profile_gt is UNSET and entry is not None:
            trace = trace.replace(profile_gt=entry.profile_gt)
        constraints = [] if trace.profile_gt is UNSET else trace.profile_gt.constraints_gt
        question = question_of(drawn, found, rows.get(number), constraints)
        (shown,) = (each for each in turns_of(trace, rows, votes) if each["number"] == number)
        return _Opened(question, trace, shown)

    def _readings(self, question: Question) -> dict[str, LabelledReply]:
        """Return the labels of a turn by reader, without an adjudicated one."""
        return {
            key[2]: stored.label
            for key, stored in sorted(self._store.read().items())
            if key[:2] == question.address and key[2] != ADJUDICATED
        }

    def _save(self, fields: Fields, opened: "_Opened", reader: str, owner: str) -> Shown | None:
        """Save a label; return the page of a conflict, None if there is none. An empty label is not new."""
        label = entered(fields, opened.question, owner)
        version = dict(fields).get("version", "")
        if version or not is_empty(label):
            try:
                self._store.save(label, version)
            except LabelConflict as conflict:
                return self._form(opened, reader, owner, label, conflict.stored)
        return None

    def _form(
        self,
        opened: "_Opened",
        reader: str,
        owner: str,
        label: LabelledReply | None = None,
        conflict: StoredLabel | None = None,
    ) -> Shown:
        """Return the page of a turn; its form holds ``label``, or else the one of the owner that is saved."""
        question, trace = opened.question, opened.trace
        labels = self._store.read()
        stored = conflict or labels.get((*question.address, owner))
        adjudicated = owner == ADJUDICATED
        readings = self._readings(question) if adjudicated else {}
        if label is None:
            label = stored.label if stored else _agreed(readings)
        place = self._places.get(question.address)
        turns = self._draw.turns
        before = _address(turns[place - 1]) if place else None
        after = _address(turns[place + 1]) if place is not None and place + 1 < len(turns) else None
        revealed = stored is not None or (place is None and not adjudicated)
        columns = readings
        if conflict:
            columns = {tr("Saved meanwhile"): conflict.label, tr("Yours"): label or conflict.label}
        values = {
            **self._head(labels, reader),
            "question": question,
            "place": place,
            "before": before,
            "after": after,
            "groups": question.groups(),
            "mark_labels": question.mark_labels(),
            "form": values_of(label, question),
            "version": stored.version if stored else "",
            "saved": stored is not None,
            "adjudicated": adjudicated,
            "conflict": conflict is not None,
            "columns": list(columns),
            "compared": _compared(columns),
            "profile": profile_of(trace),
            "history": [each for each in trace.turns if each.turn_pair_id < question.drawn.turn],
            "pieces": list(reply_pieces(question.text)),
            "language": script_language(question.user_text + question.text[:200]) or "en",
            "evidence": opened.shown if revealed else None,
            "findings": [_finding(each, question.text) for each in question.findings] if revealed else [],
        }
        return Shown("turn", values, 409 if conflict else 200)

    # ---- agreement

    def agreement(self, reader: str) -> Shown:
        """Return the agreement of readers by field, and the turns on which they differ."""
        labels = self._store.read()
        found = [stored.label for stored in labels.values()]
        differing = [
            (turn, [_question_words(each) for each in different], ADJUDICATED in readings)
            for turn, readings in by_turn(found).items()
            if (different := differences(readings))
        ]
        values = {
            "headings": agreement_headings(),
            "measures": list(map(agreement_row, agreement(found))),
            "differing": differing,
            "names": sorted({key[2] for key in labels} - {ADJUDICATED}),
        }
        return Shown("agreement", self._head(labels, reader) | values)


class _Opened(NamedTuple):
    """A question, the trace of its dialogue, and what the page of the dialogue shows of the turn."""

    question: Question
    trace: DialogTrace
    shown: dict[str, Any]


def _address(drawn: DrawnTurn) -> str:
    return f"/turns/{quote(drawn.dialog_id, safe='')}/{drawn.turn}"


def _agreed(readings: Mapping[str, LabelledReply]) -> LabelledReply | None:
    """Return a label with what all readers of a turn answer alike."""
    if not readings:
        return None
    first, *others = readings.values()

    def alike(name: str) -> Any:
        given = first[name]
        if isinstance(given, dict):
            rest = [each[name] or {} for each in others]
            return {key: each for key, each in given.items() if all(one.get(key) == each for one in rest)}
        return given if all(each[name] == given for each in others) else None

    same = {name: alike(name) for name in (*_FIELDS, "contradicted_constraints")}
    return LabelledReply(id=first.id, text=first.text, **same)


def _question_words(question: tuple[str, str]) -> str:
    field, name = question
    return word(name) if name else field_words(field)


def _compared(labels: Mapping[str, LabelledReply]) -> list[tuple[str, list[str], bool]]:
    """Return the questions with the answers of each label in words, and True where they differ."""
    columns = [answers(label) for label in labels.values()]
    found = []
    for question in dict.fromkeys(question for given in columns for question in given):
        given = [each[question] for each in columns if question in each]
        if question[0] != "forbidden_hits" or any(given):
            shown = [_answer(each.get(question)) for each in columns]
            found.append((_question_words(question), shown, any(each != given[0] for each in given)))
    for words, texts in (
        (tr("Contradicts"), [tr(", ").join(each.contradicted_constraints or ()) for each in labels.values()]),
        (tr("Note"), [each.note or "" for each in labels.values()]),
    ):
        if any(texts):
            found.append((words, texts, False))
    return found


def _answer(value: object) -> str:
    match value:
        case None:
            return "–"
        case str():
            return word(value)
        case _:
            return tr("yes") if value else tr("no")


def _finding(finding: Finding, text: str) -> dict[str, str]:
    return {
        "kind": glossary_labels("findings").get(finding.field) or one_line(finding.field, 60),
        "value": word(finding.value),
        "rule": one_line(finding.rule, 120),
        "words": one_line(text[max(0, finding.start) : max(0, finding.end)], 200),
    }
