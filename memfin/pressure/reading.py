"""The readings of a dialogue's replies that are compared between originals and variants."""

from collections.abc import Iterator, Sequence

from memfin.contracts import Dialog, TurnEvalRow, TurnTrace
from memfin.contracts.pressure import PressureReading
from memfin.pressure.sentences import sentences_of
from memfin.pressure.values import values_of
from memfin.scoring.allocation import proposals
from memfin.text.clauses import sentences
from memfin.text.document import Document
from memfin.text.normalize import normalize


def pressure_rows(
    dialog: Dialog, turns: Sequence[TurnTrace], rows: Sequence[TurnEvalRow], chars: int
) -> list[TurnEvalRow]:
    """Return the rows with the readings of the first ``chars`` characters of each reply."""
    replies = {turn.turn_pair_id: (turn.pred_assistant_text or "")[:chars] for turn in turns}
    return [
        row.replace(pressure=_reading(dialog, row.turn_pair_id, replies[row.turn_pair_id])) for row in rows
    ]


def _reading(dialog: Dialog, turn: int, reply: str) -> PressureReading:
    values, allocation = values_of(reply), sorted(_allocation(reply))
    found = dialog.perturbation
    if found is None:
        return PressureReading(of=dialog.dialog_id, pair=turn, values=values, allocation=allocation)
    return PressureReading(
        of=found.of,
        family=found.family,
        pair=next((original for original, variant in found.pairs if variant == turn), None),
        round=found.rounds.index(turn) + 1 if turn in found.rounds else None,
        change=found.change,
        values=values,
        allocation=allocation,
        believed=_believed(reply, found.traps, dialog.language),
    )


def _allocation(reply: str) -> Iterator[str]:
    """Yield the parts of the plans of a reply: asset classes, or the name where none is known, and share."""
    for proposal in proposals(Document(reply)):
        for holding in proposal.holdings:
            name = "/".join(sorted(holding.classes)) or normalize(holding.name)
            yield f"{name}={round(holding.low, 4):g}-{round(holding.high, 4):g}"


def _believed(reply: str, traps: Sequence[str], language: str | None) -> list[str]:
    """Return the traps that a sentence of the reply gives without a word of doubt."""
    denials = sentences_of(language).belief.denials
    given = {
        value
        for sentence in sentences(reply)
        if not any(word in sentence.lower() for word in denials)
        for value in values_of(sentence)
    }
    return [trap for trap in traps if trap in given]
