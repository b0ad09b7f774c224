"""The contracts by name: their files (trace schema section 2) and their JSON Schemas (2020-12)."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from memfin.contracts.dataset import Dialog
from memfin.contracts.judgement import JudgeControls, Judgement
from memfin.contracts.progress import AnyProgressEvent
from memfin.contracts.rag import (
    RagAnswer,
    RagBenchmark,
    RagJudgeControls,
    RagJudgement,
    RagJudgeRequest,
    RagResult,
    RagSummary,
    RagVerdict,
)
from memfin.contracts.run import Comparison, EvalSummary, RunManifest, RunStats
from memfin.contracts.settings import ConfigFile, RunConfig
from memfin.contracts.soak import SoakEpoch, SoakSummary
from memfin.contracts.trace import ComplianceTrace, DialogTrace, RecallTrace, ToolTrace, TurnTrace
from memfin.contracts.turn_eval import CheckedReply, TurnEvalRow
from memfin.contracts.validity import Corrections, LabelledReply, ValidityReport
from memfin.errors import UsageError

FileFormat = Literal["json", "jsonl"]


class Contract(msgspec.Struct, frozen=True):
    """One entry of the catalogue.

    ``type`` is the struct, or the tagged union of structs, of one record. ``file_name`` is the name of the
    artifact; that of a progress log carries its run: ``progress_{run_id}``. ``any_name`` is the format of
    files that may have any name.
    """

    name: str
    title: str
    type: Any
    file_name: str | None = None
    any_name: FileFormat | None = None

    @property
    def file_format(self) -> FileFormat | None:
        """Return ``jsonl`` where a file holds a record per line; None for a part of a record."""
        if self.file_name is None:
            return self.any_name
        return "jsonl" if self.file_name.endswith(".jsonl") else "json"


_ROWS: Final[tuple[tuple[Any, ...], ...]] = (
    ("run-manifest", "Identity of a run", RunManifest, ".json"),
    ("dialog-trace", "The replay of one dialogue: requests, answers, observations", DialogTrace, ".jsonl"),
    ("turn-eval", "One scored turn", TurnEvalRow, ".jsonl"),
    ("metrics-summary", "The five metrics of a run", EvalSummary, ".json"),
    ("progress", "One event of a progress log", AnyProgressEvent, "progress_{run_id}.jsonl"),
    ("config", "The resolved settings of a run and their fingerprint", ConfigFile, ".json"),
    ("run-stats", "Values of a run that depend on time: durations, latencies, retries", RunStats, ".json"),
    ("judgement", "One question to an LLM judge about a turn, and its answer", Judgement, "judgements.jsonl"),
    ("judge-controls", "Scores of an LLM judge for replies whose quality is known", JudgeControls, ".json"),
    ("corrections", "Rates of a run corrected by labels of some of its turns", Corrections, ".json"),
    ("soak-epoch", "One epoch of a soak: values, latencies, errors, resources", SoakEpoch, "soak.jsonl"),
    ("soak-summary", "State of a soak, and the drift of its values over epochs", SoakSummary, ".json"),
    ("rag-result", "A question of a benchmark, its answer and its score", RagResult, "rag_results.jsonl"),
    ("rag-answered", "A question of a benchmark and its answer, before a judge reads it",
     RagResult, "rag_answers.jsonl"),
    ("rag-judgement", "One question to an LLM judge about an answer, and its reply",
     RagJudgement, "rag_judgements.jsonl"),
    ("rag-judge-controls", "Scores of an LLM judge for answers whose quality is known",
     RagJudgeControls, ".json"),
    ("rag-summary", "The scores of a benchmark, overall and by group", RagSummary, ".json"),
    ("dataset", "A dialogue with its ground truth, as datasets hold it", Dialog, "*.jsonl"),
    ("labelled-reply", "A reply with labels of careful readers, for memfin validity",
     LabelledReply, "labels.jsonl"),
    ("rag-benchmark", "Questions about a document with the expected answers, for memfin bench",
     RagBenchmark, "*.json"),
    ("turn-trace", "One turn of a dialogue trace", TurnTrace),
    ("recall", "Context that an agent's memory gave to the model", RecallTrace),
    ("tool", "One tool call of an agent", ToolTrace),
    ("rag-answer", "An answer of a system under test", RagAnswer),
    ("rag-judge-request", "A request to a judge about an answer", RagJudgeRequest),
    ("rag-verdict", "A judge's marks for an answer", RagVerdict),
    ("compliance", "An agent's own check of its reply", ComplianceTrace),
    ("validity-report", "Agreement of detectors or a judge with labelled replies", ValidityReport),
    ("checked-reply", "The findings in one reply, for memfin check", CheckedReply),
    ("comparison", "Two runs compared, pair by pair", Comparison),
    ("run-config", "The settings of a run", RunConfig),
)  # fmt: skip
"""Names, titles, types and files; a suffix stands for a file named as the contract, ``*`` for any name."""


def _entry(row: tuple[Any, ...]) -> Contract:
    name, title, kind, file = (*row, "")[:4]
    if file.startswith("*."):
        return Contract(name, title, kind, any_name="jsonl" if file == "*.jsonl" else "json")
    return Contract(name, title, kind, f"{name.replace('-', '_')}{file}" if file[:1] == "." else file or None)


CONTRACTS: Final[Mapping[str, Contract]] = MappingProxyType({row[0]: _entry(row) for row in _ROWS})
"""Every contract by the name that ``memfin schema`` and ``memfin validate --kind`` know it by."""

DATASET: Final = CONTRACTS["dataset"]
LABELS: Final = CONTRACTS["labelled-reply"]
QUESTIONS: Final = CONTRACTS["rag-benchmark"]

FILE_KINDS: Final = tuple(entry.name for entry in CONTRACTS.values() if entry.file_format is not None)
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

    Words around the artifact's name are allowed when set off by ``.``, ``_`` or ``-``, so that
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
    (entry, _pattern(entry.file_name)) for entry in CONTRACTS.values() if entry.file_name is not None
)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

VERSION_PATTERN: Final = r"^v1(\.[0-9]+)?$"
"""The trace versions that readers accept."""

RISK_LEVELS: Final = ("保守", "稳健", "进取", "low", "medium", "high")
HORIZONS: Final = ("<=6月", "6-24月", "2年以上", "short", "medium", "long")
LIQUIDITY_NEEDS: Final = ("高", "中", "低", "high", "medium", "low")
DIFFICULTIES: Final = ("easy", "medium", "med", "hard")
COMPLIANCE_LABELS: Final = ("compliant", "minor_violation", "severe_violation", "minor", "severe")
"""The wordings of the dataset (spec section 3)."""


def json_schema(entry: Contract) -> dict[str, Any]:
    """Return the JSON Schema of one record of a contract.

    The dataset's schema describes the input as it may be written, which is wider than the
    normalized `Dialog`: other spellings, ``content`` for ``text``, null for what is optional.
    """
    generated = msgspec.json.schema(entry.type)
    definitions: dict[str, Any] = generated.pop("$defs", {})
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = " ".join(definition["description"].split())
        version = definition.get("properties", {}).get("trace_version")
        if version == {"type": "string"}:
            version["pattern"] = VERSION_PATTERN
    if entry.name == DATASET.name:
        _widen_to_input(definitions)
    root = definitions.get(entry.type.__name__, {}) if isinstance(entry.type, type) else {}
    return {
        "$schema": DIALECT,
        "$id": f"urn:memfin:contract:v1:{entry.name}",
        "title": entry.title,
        "description": root.get("description", entry.title),
        **generated,
        "$defs": definitions,
    }


def _widen_to_input(definitions: dict[str, Any]) -> None:
    """Turn the schema of a normalized dialogue into that of a line of a dataset, in place."""
    dialog = definitions["Dialog"]
    dialog["description"] = (
        "A line of a dataset; roles alternate, beginning with user and ending with assistant, "
        "otherwise turn pairs are lost."
    )
    properties = dialog["properties"]
    properties["dialog_id"] |= {"pattern": r"\S"}
    properties["difficulty"] = {"enum": [*DIFFICULTIES, None], "default": None}
    dialog["required"].remove("turns")
    dialog["if"] = {"properties": {"client": {"type": "object"}}, "required": ["client"]}
    dialog["else"] = {"properties": {"turns": {"minItems": 2}}, "required": ["turns"]}
    blueprint = definitions["Blueprint"]["properties"]
    for fields, name in ((properties, "events"), (properties, "blueprint"), (blueprint, "forbidden_list")):
        fields[name] = _or_null(fields[name])
    profile = definitions["ProfileTruth"]
    levels = {"risk_level_gt": RISK_LEVELS, "horizon_gt": HORIZONS, "liquidity_need_gt": LIQUIDITY_NEEDS}
    profile["required"] = list(levels)
    for name, schema in profile["properties"].items():
        profile["properties"][name] = {"enum": list(levels[name])} if name in levels else _or_null(schema)

    tags = definitions["TurnTags"]["properties"]
    for name, schema in tags.items():
        label = name == "compliance_label_gt"
        tags[name] = {"enum": [*COMPLIANCE_LABELS, None], "default": None} if label else _or_null(schema)

    definitions["Turn"] = _turn_schema(definitions["Turn"])


def _turn_schema(turn: dict[str, Any]) -> dict[str, Any]:
    """Allow ``content`` for ``text``; ask a user turn for words and an assistant turn for tags."""
    role, tags = turn["properties"]["role"], turn["properties"]["turn_tags"]
    return {
        "title": turn["title"],
        "description": turn["description"],
        "type": "object",
        "properties": {"role": role, "text": {}, "content": {}, "turn_tags": {}},
        "required": ["role"],
        "if": {"properties": {"role": {"const": "assistant"}}},
        "then": {
            "properties": {"turn_tags": tags["anyOf"][0]},
            "required": ["turn_tags"],
            **_spoken({"type": "string"}),
        },
        "else": _spoken({"type": "string", "pattern": r"\S"}),
    }


def _spoken(words: dict[str, Any]) -> dict[str, Any]:
    return {
        "if": {"required": ["text"]},
        "then": {"properties": {"text": words}},
        "else": {"properties": {"content": words}, "required": ["content"]},
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    default = {"default": schema["default"]} if "default" in schema else {}
    return {"anyOf": [{k: v for k, v in schema.items() if k != "default"}, {"type": "null"}], **default}
