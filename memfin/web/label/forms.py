"""Forms of labels: the questions about a turn with their keys, and the label of what was entered."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, get_args

import msgspec

from memfin.contracts import ComplianceLabel, Finding, LabelledReply, LabelMark, TurnEvalRow, TurnTrace
from memfin.language import marked, tr
from memfin.report.glossary import word
from memfin.scoring.compliance import CATEGORIES
from memfin.scoring.contradiction import FIELD as CONTRADICTION
from memfin.text.lines import visible
from memfin.validity.corrections import answers
from memfin.validity.found import given_labels
from memfin.validity.labelling import DrawnTurn
from memfin.web.pages import Refusal

NONE: Final = "none"
"""Value of the box that says that no constraint is contradicted, or no forbidden claim is made."""

OTHER: Final = "other"
"""Value of the box that says that a constraint is contradicted that is not listed."""

LEVELS: Final[tuple[ComplianceLabel, ...]] = get_args(ComplianceLabel)

MAX_NOTE: Final = 4000
MAX_MARKS: Final = 500

_LETTERS: Final = "qwertyasdfghlzcvbio"
_KEYS: Final = _LETTERS + _LETTERS.upper()
"""Keys of categories, tags and items; the other letters are commands of the page."""


class Choice(NamedTuple):
    """A box or a pair of yes and no: its value in the form, its words, its key, and the label of marks."""

    value: str
    words: str
    key: str
    label: str


class Question(NamedTuple):
    """A turn to label.

    ``probability`` is 0 for a turn that was not drawn. ``findings`` are those of the detectors, which no page
    shows before the label is saved.
    """

    drawn: DrawnTurn
    text: str
    user_text: str
    constraints: Sequence[str]
    tags: Sequence[str]
    rubric: Sequence[str]
    findings: Sequence[Finding]

    @property
    def address(self) -> tuple[str, int]:
        """Return the dialogue and the number of the turn."""
        return self.drawn.dialog_id, self.drawn.turn

    def groups(self) -> dict[str, list[Choice]]:
        """Return the choices by field, with their keys."""
        keys = iter(_KEYS)

        def choices(names: Sequence[str]) -> list[Choice]:
            return [Choice(name, word(name), next(keys, ""), name) for name in names]

        digits = iter("45678")
        compliance = zip("123", LEVELS, strict=True)
        constraints = enumerate(self.constraints)
        return {
            "compliance": [Choice(key, word(name), key, "") for key, name in compliance],
            "contradiction": [
                Choice(NONE, tr("None is contradicted"), "0", ""),
                *(Choice(str(at), text, next(digits, ""), "contradiction") for at, text in constraints),
                Choice(OTHER, tr("One that is not listed"), "9", "contradiction"),
            ],
            "forbidden": [Choice(NONE, tr("None of these"), "x", ""), *choices(CATEGORIES)],
            "tags": choices(self.tags),
            "rubric": choices(self.rubric),
        }

    def mark_labels(self) -> dict[str, str]:
        """Return the labels that marks may have, with their words."""
        names = dict.fromkeys((*CATEGORIES, *self.tags, *self.rubric))
        return {"contradiction": tr("contradicts a constraint"), **{name: word(name) for name in names}}


def question_of(
    drawn: DrawnTurn, turn: TurnTrace, row: TurnEvalRow | None, constraints: Sequence[str]
) -> Question:
    """Return the question about a turn with a reply."""
    return Question(
        drawn=drawn,
        text=turn.pred_assistant_text or "",
        user_text=turn.user_text,
        constraints=constraints,
        tags=list(dict.fromkeys(row.risk_required_tags if row else ())),
        rubric=list(dict.fromkeys(row.rubric_required if row else ())),
        findings=sorted(row.findings if row else (), key=lambda each: (each.start, each.end)),
    )


def mark_label(finding: Finding) -> str:
    """Return the label of a mark about a finding."""
    return "contradiction" if finding.field == CONTRADICTION else finding.value


def entered(fields: Sequence[tuple[str, str]], question: Question, reader: str) -> LabelledReply:
    """Return the label that was entered into a form.

    Raises:
        Refusal: the values are none of the form, or contradict each other.
    """
    one = dict(fields)
    boxes: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in fields:
        boxes[name].append(value)
    broken, forbidden = boxes["contradiction"], boxes["forbidden"]
    names = {str(at): text for at, text in enumerate(question.constraints)}
    for chosen, known in ((broken, (OTHER, *names)), (forbidden, CATEGORIES)):
        if not set(chosen) <= {NONE, *known}:
            raise _refusal()
        if NONE in chosen and len(chosen) > 1:
            raise _refusal(marked("Choose either “none” or what there is, not both."))
    compliance = one.get("compliance", "")
    if compliance not in ("", "1", "2", "3"):
        raise _refusal()
    dialog, turn = question.address
    note = one.get("note", "").strip()[:MAX_NOTE]
    return LabelledReply(
        id=f"{dialog}#{turn}",
        text=question.text,
        user_text=question.user_text,
        dialog_id=dialog,
        turn=turn,
        constraints=list(question.constraints),
        probability=question.drawn.probability,
        reader=reader,
        compliance=LEVELS[int(compliance) - 1] if compliance else None,
        contradiction=int(NONE not in broken) if broken else None,  # type: ignore[arg-type]
        contradicted_constraints=[text for at, text in names.items() if at in broken] or None,
        forbidden_hits=[each for each in CATEGORIES if each in forbidden] if forbidden else None,
        risk_tags=_answers(one, "tags", question.tags),
        rubric=_answers(one, "rubric", question.rubric),
        marks=_marks(one.get("marks", ""), boxes, question) or None,
        note=note or None,
        unsure=True if "unsure" in one else None,
    )


def _answers(one: dict[str, str], field: str, names: Sequence[str]) -> dict[str, bool | None] | None:
    given: dict[str, bool | None] = {
        name: one[key] == "yes" for name in names if one.get(key := f"{field}:{name}") in ("yes", "no")
    }
    return given or None


def _marks(text: str, boxes: Mapping[str, Sequence[str]], question: Question) -> list[LabelMark]:
    try:
        marks = msgspec.json.decode(text or "[]", type=list[LabelMark])
    except msgspec.DecodeError:
        raise _refusal() from None
    length, labels = len(question.text), question.mark_labels()
    if len(marks) > MAX_MARKS or any(
        not mark.start < mark.end <= length or mark.label not in labels or mark.kind for mark in marks
    ):
        raise _refusal()
    alarms = [each for at, each in enumerate(question.findings) if str(at) in boxes.get("alarm", ())]
    marks += [
        LabelMark(start=each.start, end=each.end, label=mark_label(each), kind="false_alarm")
        for each in alarms
        if 0 <= each.start <= each.end <= length
    ]
    missed = [label for label in labels if label in boxes.get("missed", ())]
    return marks + [LabelMark(start=0, end=length, label=label, kind="missed") for label in missed]


def _refusal(message: str = marked("The form holds values that it does not offer.")) -> Refusal:
    return Refusal(400, "invalid_input", message)


def is_empty(label: LabelledReply) -> bool:
    """Return True for a label without any answer, mark or note."""
    return not (answers(label) or label.marks or label.note or label.unsure)


def values_of(label: LabelledReply | None, question: Question) -> dict[str, Any]:
    """Return the values of the form for a label: the chosen ones, the words' marks, note and doubt."""
    label = label or LabelledReply(id="", text="")
    compliance, broken = label.compliance, label.contradicted_constraints or ()
    chosen = {("compliance", str(LEVELS.index(compliance) + 1))} if compliance else set()
    chosen |= {("contradiction", str(at)) for at, text in enumerate(question.constraints) if text in broken}
    if not broken and label.contradiction is not None:
        chosen.add(("contradiction", OTHER if label.contradiction else NONE))
    hits = label.forbidden_hits
    chosen |= {("forbidden", each) for each in ([NONE] if hits == [] else hits or ())}
    for field, given in (("tags", label.risk_tags), ("rubric", label.rubric)):
        chosen |= {(f"{field}:{name}", "yes" if yes else "no") for name, yes in given_labels(given).items()}
    marks = label.marks or []
    alarms = {(each.start, each.end, each.label) for each in marks if each.kind == "false_alarm"}
    found = [(each.start, each.end, mark_label(each)) for each in question.findings]
    words = [
        {"start": each.start, "end": each.end, "label": each.label} for each in marks if each.kind is None
    ]
    return {
        "chosen": chosen,
        "marks": msgspec.json.encode(words).decode(),
        "note": label.note or "",
        "unsure": bool(label.unsure),
        "alarms": {at for at, each in enumerate(found) if each in alarms},
        "missed": {each.label for each in marks if each.kind == "missed"},
    }


class ReplyPiece(NamedTuple):
    """Characters of a reply from ``at`` on; where ``spelt``, a single one as its shown words."""

    at: int
    text: str
    spelt: bool


def reply_pieces(text: str) -> Iterator[ReplyPiece]:
    """Yield a text in pieces that are shown as they are, and invisible characters as they are spelt."""
    at = 0
    for plain, group in groupby(text, key=lambda each: visible(each) == each):
        run = "".join(group)
        if plain:
            yield ReplyPiece(at, run, spelt=False)
        else:
            for place, each in enumerate(run, start=at):
                ends_line = each == "\r" and text[place + 1 : place + 2] == "\n"
                yield ReplyPiece(place, "" if ends_line else visible(each), spelt=True)
        at += len(run)
