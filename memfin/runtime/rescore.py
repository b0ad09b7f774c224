"""Scoring of a recorded trace: rows and metrics anew, no agent asked (spec section 8, ``score``)."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from anyio.streams.memory import MemoryObjectSendStream

from memfin.actors.base import Actor, EventSender
from memfin.actors.messages import ToScorer
from memfin.actors.trace_source import TraceSource
from memfin.contracts import DialogTrace, RunManifest
from memfin.contracts.reading import decode, iter_jsonl
from memfin.dataset import DatasetIndex, digest_dataset
from memfin.errors import UsageError
from memfin.judges import resolve_judge
from memfin.runtime.plan import JudgeLike, Plan, judge_name, make_config, scoring_inputs


class RescorePlan(Plan):
    """A recorded trace scored against its dataset.

    The run id is the trace's own; the model's name comes from a run manifest beside the trace,
    the history mode from the trace where it says it (v1.1), else from ``history``.
    """

    def __init__(
        self,
        dialog_trace: Path,
        dataset: Path,
        out: Path,
        *,
        judge: JudgeLike = "heuristic",
        history: str | None = None,
        workers_judge: int = 2,
    ) -> None:
        """Read what identifies the trace and index the dataset.

        Raises:
            UsageError: an input is unusable.
        """
        self.trace = dialog_trace
        self.dialog_index = DatasetIndex(dataset)
        first = next(iter_jsonl(dialog_trace, DialogTrace), (0, None))[1]
        if first is None:
            raise UsageError(f"trace {dialog_trace}: holds no dialogue")
        recorded = None if first.history_mode is msgspec.UNSET else first.history_mode
        self.judge = resolve_judge(judge)
        self.config = make_config(
            {
                "dataset": str(dataset),
                "agent": "recorded",
                "judge": judge_name(self.judge),
                "history": history or recorded or "free",
                "workers_judge": workers_judge,
            }
        )
        self.run_id = first.run_id
        self.source = f"trace {dialog_trace}"
        self.dataset_path = str(dataset)
        self.model_name = _model_name(dialog_trace.with_name("run_manifest.json"))
        self.directory = out
        self.progress = out / "progress.jsonl"
        with dialog_trace.open("rb") as file:
            trace_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        dataset_sha256, self.dialogs = digest_dataset(dataset)
        self.fingerprint_inputs = {
            "dataset_sha256": dataset_sha256,
            "trace_sha256": trace_sha256,
            "history": self.config.history,
            **scoring_inputs(self.judge),
        }

    def producers(self, replayed: MemoryObjectSendStream[ToScorer], events: EventSender) -> list[Actor[Any]]:
        """Return the trace source."""
        del events  # nothing is replayed, so there is nothing to tell before a dialogue is done
        return [TraceSource(self.trace, self.dialog_index, outbox=replayed.clone())]


def _model_name(manifest: Path) -> str:
    if not manifest.is_file():
        return "recorded"
    try:
        return decode(manifest.read_bytes(), RunManifest).model_name
    except (OSError, UsageError):
        return "recorded"
