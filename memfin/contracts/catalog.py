"""The contracts by name: what each describes and which files hold it (trace schema section 2)."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from memfin.contracts.checked import CheckedReply
from memfin.contracts.comparison import Comparison
from memfin.contracts.dataset import Dialog
from memfin.contracts.judgement import JudgeControls, Judgement
from memfin.contracts.labels import LabelledReply
from memfin.contracts.progress import AnyProgressEvent
from memfin.contracts.rag import RagAnswer, RagBenchmark, RagResult, RagSummary
from memfin.contracts.rag_judgement import RagJudgeControls, RagJudgement, RagJudgeRequest
from memfin.contracts.rag_verdict import RagVerdict
from memfin.contracts.run import EvalSummary, RunManifest, RunStats
from memfin.contracts.settings import ConfigFile, RunConfig
from memfin.contracts.soak import SoakEpoch, SoakSummary
from memfin.contracts.trace import ComplianceTrace, DialogTrace, RecallTrace, ToolTrace, TurnTrace
from memfin.contracts.turn_eval import TurnEvalRow
from memfin.contracts.validity import ValidityReport
from memfin.errors import UsageError

FileFormat = Literal["json", "jsonl"]


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the catalogue.

    ``type`` is the struct, or the tagged union of structs, of one record. ``file_name`` is the name
    of the artefact and ``file_format`` says whether a file holds one record or one a line; both are
    None for a part of a record. The name of a progress log carries its run: ``progress_{run_id}``.
    """

    name: str
    title: str
    type: Any
    file_name: str | None = None
    file_format: FileFormat | None = None


DATASET: Final = Contract(
    name="dataset",
    title="A dialogue with its ground truth, as datasets hold it",
    type=Dialog,
    file_format="jsonl",
)

LABELS: Final = Contract(
    name="labelled-reply",
    title="A reply with what careful readers found in it, for memfin validity",
    type=LabelledReply,
    file_name="labels.jsonl",
    file_format="jsonl",
)

QUESTIONS: Final = Contract(
    name="rag-benchmark",
    title="Questions about a document with what right answers hold, for memfin bench",
    type=RagBenchmark,
    file_format="json",
)

_ENTRIES: Final = (
    Contract(
        name="run-manifest",
        title="Which run this is",
        type=RunManifest,
        file_name="run_manifest.json",
        file_format="json",
    ),
    Contract(
        name="dialog-trace",
        title="The replay of one dialogue: asked, answered, observed",
        type=DialogTrace,
        file_name="dialog_trace.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="turn-eval",
        title="One scored turn",
        type=TurnEvalRow,
        file_name="turn_eval.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="metrics-summary",
        title="The five metrics of a run",
        type=EvalSummary,
        file_name="metrics_summary.json",
        file_format="json",
    ),
    Contract(
        name="progress",
        title="One event of a progress log",
        type=AnyProgressEvent,
        file_name="progress_{run_id}.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="config",
        title="The resolved settings of a run and their fingerprint",
        type=ConfigFile,
        file_name="config.json",
        file_format="json",
    ),
    Contract(
        name="run-stats",
        title="What depends on time: durations, latencies, retries",
        type=RunStats,
        file_name="run_stats.json",
        file_format="json",
    ),
    Contract(
        name="judgement",
        title="What an LLM judge was asked and answered about one turn",
        type=Judgement,
        file_name="judgements.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="judge-controls",
        title="What an LLM judge made of replies whose worth is known",
        type=JudgeControls,
        file_name="judge_controls.json",
        file_format="json",
    ),
    Contract(
        name="soak-epoch",
        title="One epoch of a soak: values, latencies, errors, resources",
        type=SoakEpoch,
        file_name="soak.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="soak-summary",
        title="Where a soak stands, and what drifts over its epochs",
        type=SoakSummary,
        file_name="soak_summary.json",
        file_format="json",
    ),
    Contract(
        name="rag-result",
        title="A question of a benchmark, its answer and its score",
        type=RagResult,
        file_name="rag_results.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="rag-answered",
        title="A question of a benchmark and its answer, before a judge has read it",
        type=RagResult,
        file_name="rag_answers.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="rag-judgement",
        title="What an LLM judge was asked and answered about one answer",
        type=RagJudgement,
        file_name="rag_judgements.jsonl",
        file_format="jsonl",
    ),
    Contract(
        name="rag-judge-controls",
        title="What an LLM judge made of answers whose worth is known",
        type=RagJudgeControls,
        file_name="rag_judge_controls.json",
        file_format="json",
    ),
    Contract(
        name="rag-summary",
        title="The scores of a benchmark, overall and by group",
        type=RagSummary,
        file_name="rag_summary.json",
        file_format="json",
    ),
    DATASET,
    LABELS,
    QUESTIONS,
    Contract(name="turn-trace", title="One turn of a dialogue trace", type=TurnTrace),
    Contract(name="recall", title="What an agent's memory put before the model", type=RecallTrace),
    Contract(name="tool", title="One tool call of an agent", type=ToolTrace),
    Contract(name="rag-answer", title="What a system under test answers to a question", type=RagAnswer),
    Contract(name="rag-judge-request", title="What a judge is asked about an answer", type=RagJudgeRequest),
    Contract(name="rag-verdict", title="A judge's marks for an answer", type=RagVerdict),
    Contract(name="compliance", title="An agent's own check of its reply", type=ComplianceTrace),
    Contract(
        name="validity-report",
        title="How well detectors or a judge agree with labelled replies",
        type=ValidityReport,
    ),
    Contract(name="checked-reply", title="The findings in one reply, for memfin check", type=CheckedReply),
    Contract(name="comparison", title="Two runs compared, pair by pair", type=Comparison),
    Contract(name="run-config", title="The settings of a run", type=RunConfig),
)

CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every contract by the name that ``memfin schema`` and ``memfin validate --kind`` know it by."""

FILE_KINDS: Final = tuple(entry.name for entry in _ENTRIES if entry.file_format is not None)
"""The names of the contracts that whole files follow."""


def contract(name: str) -> Contract:
    """Return the contract of that name; underscores stand for dashes.

    Raises:
        UsageError: for an unknown name; the message lists the names.
    """
    found = CONTRACTS.get(name.replace("_", "-"))
    if found is None:
        raise UsageError(f"no contract is named {name!r}; there are {', '.join(CONTRACTS)}")
    return found


def contract_of_file(path: str | Path) -> Contract:
    """Return the contract that a file follows by its name; any other name is a dataset's.

    Words around the artefact's name are allowed when set off by ``.``, ``_`` or ``-``, so that
    copies such as ``old-turn_eval.jsonl`` and ``dialog_trace.2.jsonl`` are known for what they are.
    """
    name = Path(path).name
    found = DATASET
    for entry, pattern in _PATTERNS:
        # rag_judgements.jsonl is no copy of a judgements.jsonl
        closer = found is DATASET or (entry.file_name or "").endswith(f"_{found.file_name}")
        if closer and pattern.fullmatch(name):
            found = entry
    return found


def _pattern(file_name: str) -> re.Pattern[str]:
    stem, _, suffix = file_name.replace("_{run_id}", "").rpartition(".")
    return re.compile(rf"(?:.*[._-])?{re.escape(stem)}(?:[._-].*)?\.{suffix}", re.DOTALL)


_PATTERNS: Final = tuple(
    (entry, _pattern(entry.file_name)) for entry in _ENTRIES if entry.file_name is not None
)
