"""Dialogues as a soak knows them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from memfin.contracts import EvalSummary, RunConfig, RunStats
from memfin.journal import DIALOG_TRACE
from memfin.runtime.gates import gates_failed_by, headline_values, judge_gates_failed_by
from memfin.runtime.judging import CACHE, JudgeLike
from memfin.runtime.plan import AgentLike, ObserverFactory, RunPlan, make_plan
from memfin.runtime.resume import make_resume_plan
from memfin.runtime.soak_latencies import recorded_latencies
from memfin.runtime.soak_suite import SoakSuite, absolute
from memfin.runtime.soak_tally import SoakTally

_OF_THE_SOAK: Final = frozenset(
    {"dataset", "agent", "judge", "run_id", "fail_under", "fail_on_error", "fail_on_judge_error"}
)
"""Settings that epochs do not take over as they are; gates are for the soak as a whole."""


class SoakedDialogs(SoakSuite[EvalSummary]):
    """Dialogues: agents and judge belong to one epoch alone."""

    def __init__(
        self,
        config: RunConfig,
        directory: Path,
        agent: AgentLike,
        judge: JudgeLike,
        observer_factory: ObserverFactory | None,
        *,
        force: bool = False,
    ) -> None:
        """Prepare; agent, judge and observers are as for `make_plan`."""
        super().__init__(config, directory, force=force)
        self._config = config
        self._agent = agent
        self._judge = judge
        self._observer_factory = observer_factory
        self._settings = {name: config[name] for name in config if name not in _OF_THE_SOAK} | {
            "runs_dir": str(self._epochs),
            "judge_cache_dir": absolute(config.judge_cache_dir or str(Path(config.runs_dir) / CACHE)),
            "agent_system": absolute(config.agent_system),
        }

    def _new(self, run_id: str) -> RunPlan:
        return make_plan(
            self._dataset,
            agent=self._agent,
            judge=self._judge,
            observer_factory=self._observer_factory,
            **(self._settings | {"run_id": run_id}),
        )

    def _again(self, directory: Path) -> RunPlan:
        return make_resume_plan(
            directory,
            force=self._force,
            agent=self._agent,
            judge=self._judge,
            observer_factory=self._observer_factory,
        )

    def values(self, summary: EvalSummary) -> dict[str, float]:
        """Return every headline value, as ``metric.value`` and ``metric.macro.value``."""
        return headline_values(summary.metrics)

    def latencies(self, directory: Path) -> Iterator[float]:
        """Yield the latency of every answered turn."""
        return recorded_latencies(directory / DIALOG_TRACE)

    def dialogs(self, stats: RunStats) -> Mapping[str, int]:
        """Return how many dialogues ended with which status."""
        return stats.dialogs_by_status

    def failed_gates(self, tally: SoakTally, last: Path) -> list[str]:
        """Return one line for every gate that the means over the epochs and all turns do not pass."""
        del last
        return dialog_gates(tally, self._config)


def dialog_gates(tally: SoakTally, config: RunConfig) -> list[str]:
    """Return one line for every gate that a soak of dialogues does not pass.

    Values are means over all epochs, turns are those of all epochs.
    """
    errors, failed = tally.errors, tally.errors.failed_turns
    by_status = {"ok": tally.turns - failed, "failed": failed}
    return [
        *gates_failed_by(tally.means(), by_status, config.fail_under, config.fail_on_error),
        *judge_gates_failed_by(errors.judged_turns, errors.judge_failures, config.fail_on_judge_error),
    ]
