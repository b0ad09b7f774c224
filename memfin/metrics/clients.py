"""Simulated clients: the share that the agent has contented."""

from collections.abc import Callable

from memfin.contracts import TurnEvalRow
from memfin.contracts.run import MetricName
from memfin.language import marked
from memfin.metrics.state import BadRow, Cell, RowState, Share


class ClientCell(Cell, frozen=True, gc=False):
    """Sums of one dialogue; ``of`` is 0 if the agent heard other words than those of the sheet."""

    hits: int = 0
    of: int = 0
    charged: int = 0


class ClientState(RowState[ClientCell]):
    """Mergeable state of the metric ``client``; the row of a dialogue's last turn has its outcome."""

    name: MetricName = "client"
    of_dialog = True
    shares: tuple[Share[ClientCell], ...] = (
        Share(
            "success",
            lambda cell: cell.hits,
            lambda cell: cell.of,
            empty=marked("the simulator spoiled every dialogue"),
        ),
        Share(
            "simulator_errors",
            lambda cell: cell.charged,
            lambda cell: cell.turns,
            lower_is_better=True,
        ),
    )

    @property
    def is_there(self) -> bool:
        """True if a simulated dialogue was counted."""
        return bool(self._cells or self._bad)

    def is_failed(self, row: TurnEvalRow) -> bool:
        """Return False: the client has an outcome after a turn without an answer, too."""
        del row
        return False

    def _contribution(self, row: TurnEvalRow) -> ClientCell:
        reading = row.get("client")
        if reading is None:
            raise BadRow("client", "missing")
        counts = not reading.misspoken
        return ClientCell(
            turns=1,
            hits=int(counts and reading.success),
            of=int(counts),
            charged=int(reading.simulator_errors > 0),
        )

    def _counts(self, total: Callable[[Callable[[ClientCell], int]], int]) -> dict[str, int]:
        return {
            "success_total": total(lambda cell: cell.of),
            "simulator_errors_total": total(lambda cell: cell.turns),
        }
