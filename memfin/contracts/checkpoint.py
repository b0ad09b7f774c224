"""A dialogue that is under way, as the run directory keeps it until its trace is complete."""

from memfin.contracts.base import Count, Record
from memfin.contracts.trace import ModelUsage, TurnTrace


class DialogCheckpoint(Record):
    """The turns of a dialogue so far and the agent's state after the last of them.

    ``turns`` are all of them, the first one first; in the file they are those after the
    ``turns_before`` ones that earlier records hold. ``snapshot`` is what the agent gave, and nobody
    else can read. The counts are those of `DialogReplayed` so far.
    """

    dataset_index: Count
    dialog_id: str
    turns: list[TurnTrace]
    snapshot: bytes
    turns_before: Count = 0
    retries: Count = 0
    abandoned: Count = 0
    late_observations: Count = 0
    usage: ModelUsage | None = None
