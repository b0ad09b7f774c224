"""Export of a run of dialogues as an ``.eval`` log of inspect_ai."""

from collections.abc import Iterator, Mapping
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from memfin.contracts import (
    ConfigFile,
    DialogTrace,
    EvalSummary,
    MetricResult,
    RunManifest,
    RunStats,
    TurnEvalRow,
    TurnTrace,
)
from memfin.contracts.reading import read_json
from memfin.errors import UsageError
from memfin.metrics.m1_context import M1State
from memfin.metrics.m3_risk import M3State
from memfin.metrics.m4_compliance import M4State
from memfin.metrics.m5_explainability import M5State
from memfin.report.inspect_log import load_library
from memfin.scoring import compliance, contradiction, risk, rubric

if TYPE_CHECKING:
    from memfin.results import Results

_EVIDENCE: Final = {
    contradiction.FIELD: M1State.name,
    risk.FIELD: M3State.name,
    compliance.FIELD: M4State.name,
    rubric.FIELD: M5State.name,
}
"""Metrics by the field of the findings that explain their values."""


def export(run: "Results[Any]", out: Path) -> Mapping[str, int]:
    """Write a run of dialogues as ``RUN_ID.eval``: a sample per dialogue, an epoch per epoch of a soak.

    The library writes whole logs, so memory grows with the run. Skipped dialogues are left out.

    Returns:
        The number of samples by the name of the file.

    Raises:
        UsageError: the run is a benchmark's, or inspect_ai is not installed.
    """
    if run.suite == "rag" or run.summary.get("suite") == "rag":
        raise UsageError(f"{run.directory}: is of a benchmark; --to inspect is for runs of dialogues")
    library, epochs = load_library("memfin export --to inspect"), list(run.epochs())
    if not epochs:
        raise UsageError(f"{run.directory}: keeps no complete epoch")
    manifests = [read_json(each.directory / "run_manifest.json", RunManifest) for each in epochs]
    model = manifests[0].model_name
    samples = [
        library.EvalSample.model_validate(_sample(number, each.summary, model, one.trace, one.rows))
        for number, each in enumerate(epochs, 1)
        for one in each.dialogs()
        if one.trace.valid_dialog
    ]
    used = [read_json(each.directory / "run_stats.json", RunStats).usage for each in epochs]
    tokens = [
        sum(getattr(each, f"{kind}_tokens") for each in used if each) for kind in ("prompt", "completion")
    ]
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}
    log = library.EvalLog(
        status="success",
        eval=_spec(epochs[0].directory, run.run_id, manifests[0], [each.id for each in samples], len(epochs)),
        plan={"steps": [{"solver": model}]},
        results=_results([each.summary for each in epochs], samples),
        stats={
            "started_at": manifests[0].started_at,
            "completed_at": manifests[-1].ended_at or "",
            "model_usage": {model: usage} if any(used) else {},
        },
        samples=samples,
    )
    path = out / f"{run.run_id}.eval"
    library.write_eval_log(log, str(path.resolve()))
    return {path.name: len(samples)}


def _spec(
    directory: Path, run_id: str, manifest: RunManifest, samples: list[str], epochs: int
) -> dict[str, Any]:
    config = read_json(directory / "config.json", ConfigFile)
    ids = list(dict.fromkeys(samples))
    return {
        "eval_id": run_id,
        "run_id": run_id,
        "created": manifest.started_at,
        "task": "memfin",
        "task_id": config.config_fingerprint,
        "task_args": {
            "dataset_sha256": config.fingerprint_inputs.get("dataset_sha256"),
            **{name: config.settings[name] for name in ("history", "judge", "seed")},
        },
        "dataset": {
            "name": Path(manifest.dataset_path.removeprefix("builtin:")).stem,
            "location": manifest.dataset_path,
            "samples": len(ids),
            "sample_ids": ids,
        },
        "model": manifest.model_name,
        "config": {"epochs": epochs},
        "packages": {"memfin": config.memfin_version},
        "metadata": msgspec.to_builtins(config),
    }


def _sample(
    epoch: int, summary: EvalSummary, model: str, trace: DialogTrace, rows: list[TurnEvalRow]
) -> dict[str, Any]:
    replies = {turn.turn_pair_id: turn.pred_assistant_text or "" for turn in trace.turns}
    evidence: dict[str, list[str]] = {}
    for row in rows:
        for one in row.findings:
            words = replies.get(row.turn_pair_id, "")[one.start : one.end]
            line = f"turn {row.turn_pair_id}: {one.value}: “{words}” ({one.rule})"
            evidence.setdefault(_EVIDENCE.get(one.field, one.field), []).append(line)
    messages = [message for turn in trace.turns for message in _messages(model, turn)]
    error = trace.dialog_error or next((turn.error for turn in trace.turns if turn.error), "failed")
    failure = {"message": error, "traceback": error, "traceback_ansi": error}
    last = {"role": "assistant", "content": next(reversed(replies.values()), "")}
    return {
        "id": trace.dialog_id,
        "epoch": epoch,
        "input": [message for message in messages if message["role"] == "user"],
        "target": [turn.gt_assistant_text for turn in trace.turns],
        "messages": messages,
        "output": {"model": model, "choices": [{"message": last}]},
        "scores": {
            name: {
                "value": result.by_dialog[trace.dialog_id],
                "explanation": "\n".join(evidence.get(name, ())) or None,
            }
            for name, result in summary.metrics.items()
            if trace.dialog_id in result.by_dialog
        },
        "metadata": {
            "scenario_type": trace.scenario_type,
            "difficulty": trace.difficulty,
            "dialog_status": trace.dialog_status,
            "rows": msgspec.to_builtins(rows),
        },
        "total_time": fsum(turn.latency_ms or 0.0 for turn in trace.turns) / 1000,
        "error": failure if trace.dialog_status == "failed" else None,
    }


def _messages(model: str, turn: TurnTrace) -> Iterator[dict[str, Any]]:
    """Yield the messages of a turn: the user's, a call and a result per tool, and the reply."""
    yield {"role": "user", "content": turn.user_text, "source": "input"}
    reply = {"role": "assistant", "model": model, "source": "generate"}
    for number, tool in enumerate(turn.tools, 1):
        key = f"{turn.turn_pair_id}.{number}"
        arguments = tool.args if isinstance(tool.args, dict) else {"arguments": tool.args}
        call = {"id": key, "function": tool.tool_name, "arguments": arguments}
        yield {**reply, "content": "", "tool_calls": [call]}
        yield {
            "role": "tool",
            "content": tool.result_excerpt,
            "tool_call_id": key,
            "function": tool.tool_name,
            "error": None if tool.error is None else {"type": "unknown", "message": tool.error},
            "metadata": {"latency_ms": tool.latency_ms},
        }
    about = {
        "turn": turn.turn_pair_id,
        "turn_status": turn.turn_status,
        "latency_ms": turn.latency_ms,
        "error": turn.error,
        "recall": msgspec.to_builtins(turn.recall),
    }
    yield {**reply, "content": turn.pred_assistant_text or "", "metadata": about}


def _results(summaries: list[EvalSummary], samples: list[Any]) -> dict[str, Any]:
    """Return the values of the summary, of several epochs their means; what was not measured is metadata."""
    found: dict[tuple[str, str], list[MetricResult]] = {}
    not_measured: dict[str, str] = {}
    for summary in summaries:
        for name, result in summary.metrics.items():
            not_measured |= {f"{name}.{key}": reason for key, reason in result.not_measured.items()}
            for key in result.micro.keys() - result.not_measured.keys():
                found.setdefault((name, key), []).append(result)
    scores = []
    for (name, key), results in sorted(found.items()):
        values = {
            kind: fsum(getattr(each, kind)[key] for each in results) / len(results)
            for kind in ("micro", "macro")
            if key in getattr(results[0], kind)
        }
        bounds = results[0].ci95.get(key) if len(summaries) == 1 else None
        scores.append(
            {
                "name": key,
                "scorer": name,
                "metrics": {kind: {"name": kind, "value": value} for kind, value in values.items()},
                "metadata": {"ci95": bounds} if bounds else None,
            }
        )
    return {
        "total_samples": len(samples),
        "completed_samples": sum(sample.error is None for sample in samples),
        "scores": scores,
        "metadata": {"not_measured": not_measured},
    }
