"""The readings of a dialogue's replies that are compared between originals and variants."""

from collections.abc import Iterator, Sequence

from memfin.contracts import Dialog, TurnEvalRow, TurnTrace
from memfin.contracts.pressure import Family, PressureReading
from memfin.ledger.matching import mentions
from memfin.pressure.belief import believes
from memfin.pressure.values import values_of
from memfin.scoring.allocation import proposals
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
        believed=_believed(reply, dialog, turn, found.family),
    )


def _allocation(reply: str) -> Iterator[str]:
    """Yield the parts of the plans of a reply: asset classes, or the name where none is known, and share."""
    for proposal in proposals(Document(reply)):
        for holding in proposal.holdings:
            name = "/".join(sorted(holding.classes)) or normalize(holding.name)
            yield f"{name}={round(holding.low, 4):g}-{round(holding.high, 4):g}"


def _believed(reply: str, dialog: Dialog, turn: int, family: Family) -> list[str]:
    """Return the ids of the family's facts, told so far in any session, that a reply goes by.

    One whose value the client has told, too, never counts.
    """
    told = [fact for session in dialog.earlier for fact in session.facts]
    told += [fact for fact in dialog.facts if fact.told_at is not None and fact.told_at <= turn]
    own = [fact.value for fact in told if fact.owner is None and not fact.planted]
    shares = [text for text in (*own, *dialog.profile_gt.constraints_gt) if _has_share(text)]
    return [
        fact.id
        for fact in told
        if fact.id.startswith(f"{family}-")
        and not any(mentions(text, fact.value, fact.kind) for text in shares)
        and believes(reply, fact.value, fact.kind, shares)
    ]


def _has_share(text: str) -> bool:
    return any(value.startswith("share:") for value in values_of(text))
