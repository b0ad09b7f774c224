"""Logs of inspect_ai: runs as ``.eval`` logs, and samples of logs as dialogue traces."""

import importlib
from collections.abc import Iterator, Mapping
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from memfin.contracts import (
    TRACE_VERSION,
    ConfigFile,
    DialogTrace,
    EvalSummary,
    RunManifest,
    ToolTrace,
    TurnEvalRow,
    TurnTrace,
)
from memfin.contracts.dataset import TurnTags
from memfin.contracts.reading import read_json
from memfin.errors import UsageError
from memfin.exchange.otel import ImportStats
from memfin.journal.disk import Disk
from memfin.metrics.m1_context import M1State
from memfin.metrics.m3_risk import M3State
from memfin.metrics.m4_compliance import M4State
from memfin.metrics.m5_explainability import M5State
from memfin.report.inspect_log import call_library, is_log
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

_UNREAD: Final = {"store", "timelines"}
"""Large parts of a sample that a trace does not need."""


class _Library:
    """The modules of inspect_ai that make a log."""

    def __init__(self) -> None:
        try:
            self.log, self.model, self.scorer, self.tool = (
                importlib.import_module(f"inspect_ai.{name}") for name in ("log", "model", "scorer", "tool")
            )
        except ImportError as problem:
            raise UsageError(
                f"{problem}; inspect_ai logs need the extra: pip install 'memfin[inspect]'"
            ) from None


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
    library, epochs = _Library(), list(run.epochs())
    if not epochs:
        raise UsageError(f"{run.directory}: keeps no complete epoch")
    manifest = read_json(epochs[0].directory / "run_manifest.json", RunManifest)
    last = read_json(epochs[-1].directory / "run_manifest.json", RunManifest)
    samples = [
        _sample(library, number, each.summary, manifest.model_name, one.trace, one.rows)
        for number, each in enumerate(epochs, 1)
        for one in each.dialogs()
        if one.trace.valid_dialog
    ]
    summaries = [each.summary for each in epochs]
    used = [usage for sample in samples for usage in sample.model_usage.values()]
    log = library.log.EvalLog(
        status="success",
        eval=_spec(library, run, manifest, samples, len(epochs)),
        plan=library.log.EvalPlan(steps=[library.log.EvalPlanStep(solver=manifest.model_name)]),
        results=_results(library, summaries, samples),
        stats=library.log.EvalStats(
            started_at=manifest.started_at,
            completed_at=last.ended_at or "",
            model_usage={manifest.model_name: sum(used[1:], used[0])} if used else {},
        ),
        samples=samples,
    )
    path = out / f"{run.run_id}.eval"
    library.log.write_eval_log(log, str(path.resolve()))
    return {path.name: len(samples)}


def _spec(
    library: _Library, run: "Results[Any]", manifest: RunManifest, samples: list[Any], epochs: int
) -> Any:
    config = read_json(next(run.epochs()).directory / "config.json", ConfigFile)
    inputs = config.fingerprint_inputs
    ids = list(dict.fromkeys(sample.id for sample in samples))
    return library.log.EvalSpec(
        eval_id=run.run_id,
        run_id=run.run_id,
        created=manifest.started_at,
        task="memfin",
        task_id=config.config_fingerprint,
        task_args={
            "dataset_sha256": inputs.get("dataset_sha256"),
            "history": config.settings.history,
            "judge": config.settings.judge,
            "seed": config.settings.seed,
        },
        dataset=library.log.EvalDataset(
            name=Path(manifest.dataset_path.removeprefix("builtin:")).stem,
            location=manifest.dataset_path,
            samples=len(ids),
            sample_ids=ids,
        ),
        model=manifest.model_name,
        config=library.log.EvalConfig(epochs=epochs),
        packages={"memfin": config.memfin_version},
        metadata={
            "config_fingerprint": config.config_fingerprint,
            "fingerprint_inputs": inputs,
            "settings": msgspec.to_builtins(config.settings),
        },
    )


def _sample(
    library: _Library,
    epoch: int,
    summary: EvalSummary,
    model: str,
    trace: DialogTrace,
    rows: list[TurnEvalRow],
) -> Any:
    inputs = [library.model.ChatMessageUser(content=turn.user_text, source="input") for turn in trace.turns]
    messages = [
        message
        for user, turn in zip(inputs, trace.turns, strict=True)
        for message in (user, *_answer(library, model, turn))
    ]
    answered = [turn.pred_assistant_text for turn in trace.turns if turn.pred_assistant_text is not None]
    errors = [turn.error for turn in trace.turns if turn.error]
    error = trace.dialog_error or (errors[0] if errors else trace.dialog_status)
    usage = [turn.usage for turn in trace.turns if turn.usage is not msgspec.UNSET]
    log, seconds = library.log, fsum(turn.latency_ms or 0.0 for turn in trace.turns) / 1000
    return log.EvalSample(
        id=trace.dialog_id,
        epoch=epoch,
        input=inputs,
        target=[turn.gt_assistant_text for turn in trace.turns],
        messages=messages,
        output=library.model.ModelOutput.from_content(model, answered[-1] if answered else ""),
        scores=_scores(library, summary, trace, rows),
        metadata={
            "scenario_type": trace.scenario_type,
            "difficulty": trace.difficulty,
            "dialog_status": trace.dialog_status,
            "rows": msgspec.to_builtins(rows),
        },
        model_usage={
            model: library.model.ModelUsage(
                input_tokens=sum(each.prompt_tokens for each in usage),
                output_tokens=sum(each.completion_tokens for each in usage),
                total_tokens=sum(each.prompt_tokens + each.completion_tokens for each in usage),
            )
        }
        if usage
        else {},
        total_time=seconds,
        working_time=seconds,
        error=_error(error) if trace.dialog_status == "failed" else None,
    )


def _error(message: str) -> dict[str, str]:
    return {"message": message, "traceback": message, "traceback_ansi": message}


def _answer(library: _Library, model: str, turn: TurnTrace) -> Iterator[Any]:
    """Yield the messages of a turn after the user's: a call and a result per tool, and the reply."""
    for number, tool in enumerate(turn.tools, 1):
        key = f"{turn.turn_pair_id}.{number}"
        arguments = tool.args if isinstance(tool.args, dict) else {"arguments": tool.args}
        call = library.tool.ToolCall(id=key, function=tool.tool_name, arguments=arguments)
        yield library.model.ChatMessageAssistant(
            content="", tool_calls=[call], model=model, source="generate"
        )
        yield library.model.ChatMessageTool(
            content=tool.result_excerpt,
            tool_call_id=key,
            function=tool.tool_name,
            error=library.tool.ToolCallError("unknown", tool.error) if tool.error is not None else None,
            metadata={"latency_ms": tool.latency_ms},
        )
    if turn.pred_assistant_text is not None or turn.error is not None:
        yield library.model.ChatMessageAssistant(
            content=turn.pred_assistant_text or "",
            model=model,
            source="generate",
            metadata={
                "turn": turn.turn_pair_id,
                "turn_status": turn.turn_status,
                "latency_ms": turn.latency_ms,
                "error": turn.error,
                "recall": msgspec.to_builtins(turn.recall),
            },
        )


def _scores(
    library: _Library, summary: EvalSummary, trace: DialogTrace, rows: list[TurnEvalRow]
) -> dict[str, Any]:
    """Return the values of a dialogue by metric, explained by the findings of the detectors."""
    replies = {turn.turn_pair_id: turn.pred_assistant_text or "" for turn in trace.turns}
    evidence: dict[str, list[str]] = {}
    for row in rows:
        for one in row.findings:
            words = replies.get(row.turn_pair_id, "")[one.start : one.end]
            line = f"turn {row.turn_pair_id}: {one.value}: “{words}” ({one.rule})"
            evidence.setdefault(_EVIDENCE.get(one.field, one.field), []).append(line)
    return {
        name: library.scorer.Score(
            value=result.by_dialog[trace.dialog_id],
            explanation="\n".join(evidence[name]) if name in evidence else None,
        )
        for name, result in summary.metrics.items()
        if trace.dialog_id in result.by_dialog
    }


def _results(library: _Library, summaries: list[EvalSummary], samples: list[Any]) -> Any:
    """Return the values of the summary, of several epochs their means; what was not measured is metadata."""
    log = library.log
    found: dict[tuple[str, str], list[tuple[dict[str, float], Mapping[str, Any]]]] = {}
    not_measured: dict[str, str] = {}
    for summary in summaries:
        for name, result in summary.metrics.items():
            not_measured |= {f"{name}.{key}": reason for key, reason in result.not_measured.items()}
            for key in result.micro.keys() - result.not_measured.keys():
                values = {"micro": result.micro[key]}
                values |= {"macro": result.macro[key]} if key in result.macro else {}
                bounds = {"ci95": result.ci95[key]} if key in result.ci95 else {}
                found.setdefault((name, key), []).append((values, bounds))
    scores = []
    for (name, key), each in sorted(found.items()):
        scored = sum(name in sample.scores and key in sample.scores[name].value for sample in samples)
        scores.append(
            log.EvalScore(
                name=key,
                scorer=name,
                scored_samples=scored,
                unscored_samples=len(samples) - scored,
                metrics={
                    kind: log.EvalMetric(name=kind, value=fsum(one[kind] for one, _ in each) / len(each))
                    for kind in each[0][0]
                },
                metadata=dict(each[0][1]) if len(summaries) == 1 else None,
            )
        )
    return log.EvalResults(
        total_samples=len(samples),
        completed_samples=sum(sample.error is None for sample in samples),
        scores=scores,
        metadata={"not_measured": not_measured},
    )


# ---- logs as traces


def import_inspect(path: Path, out: Path, *, run_id: str = "imported") -> ImportStats:
    """Write the samples of a log as a dialogue trace; memory holds a sample of an ``.eval`` log at a time.

    Raises:
        UsageError: the file is no log, no sample has the user's text, or ``out`` exists.
    """
    if out.exists():
        raise UsageError(f"{out} exists; remove it or name another file")
    if not is_log(path):
        raise UsageError(f"{path}: is no file named .eval or .json, as logs of inspect_ai are")
    header = call_library(path, "read_eval_log", header_only=True)
    stats = ImportStats(unfinished="" if header.status == "success" else header.status)

    def lines() -> Iterator[bytes]:
        nonlocal stats
        for sample in _samples_of(path):
            turns, silent = _turns(sample)
            first = f"{path}: sample {sample.id}, epoch {sample.epoch}"
            stats = stats.replace(
                dialogs=stats.dialogs + bool(turns),
                turns=stats.turns + len(turns),
                silent=stats.silent + silent,
                first_silent=stats.first_silent or (first if silent else ""),
                unanswered=stats.unanswered
                + sum(turn.pred_assistant_text is None and turn.error is None for turn in turns),
            )
            if turns:
                answered = sum(turn.error is None for turn in turns)
                repeated = (header.eval.config.epochs or 1) > 1
                trace = DialogTrace(
                    trace_version=TRACE_VERSION,
                    run_id=run_id,
                    dialog_id=f"{sample.id}_epoch_{sample.epoch}" if repeated else str(sample.id),
                    dataset_index=stats.dialogs,
                    dialog_status="ok" if answered == len(turns) else "partial" if answered else "failed",
                    valid_dialog=True,
                    turns=turns,
                )
                yield msgspec.json.encode(trace) + b"\n"
        if not stats.dialogs:
            raise UsageError(f"{path}: no sample has a user message with text; nothing was written")

    try:
        Disk().write_whole(out, lines())
    except OSError as problem:
        raise UsageError(f"cannot write {out}: {problem.strerror or problem}") from problem
    return stats


def _samples_of(path: Path) -> Iterator[Any]:
    if path.suffix == ".json":  # the library reads the whole file for each of its samples
        yield from call_library(path, "read_eval_log", resolve_attachments=True).samples or ()
        return
    for each in call_library(path, "read_eval_log_sample_summaries"):
        yield call_library(
            path,
            "read_eval_log_sample",
            each.id,
            each.epoch,
            resolve_attachments=True,
            exclude_fields=_UNREAD,
        )


def _turns(sample: Any) -> tuple[list[TurnTrace], int]:
    """Return the turns of a sample, and the number of those without the user's text.

    A user message begins a turn. Turns whose replies are part of the sample's input are left out: no model
    has given them.
    """
    groups: list[tuple[str, list[Any]]] = []
    for message in sample.messages:
        if message.role == "user":
            groups.append((message.text, []))
        elif groups and message.role != "system":
            groups[-1][1].append(message)
    live = [(user, rest) for user, rest in groups if not rest or any(each.source != "input" for each in rest)]
    events = {
        event.id if event.event == "tool" else event.output.message.id: event
        for event in sample.events
        if event.event == "tool" or (event.event == "model" and event.output.choices)
    }
    heard = [(user, rest) for user, rest in live if user.strip()]
    turns = [_turn(number, user, rest, events) for number, (user, rest) in enumerate(heard, 1)]
    if turns and sample.error is not None:
        turns[-1] = turns[-1].replace(turn_status="error", error=sample.error.message)
    return turns, len(live) - len(heard)


def _turn(number: int, user: str, messages: list[Any], events: Mapping[str, Any]) -> TurnTrace:
    """Return a turn: the last text of the model is the reply, the events of messages and calls have times."""
    assistant = [message for message in messages if message.role == "assistant"]
    replies = [message.text for message in assistant if message.text.strip()]
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    calls = [call for message in assistant for call in message.tool_calls or ()]
    tools = []
    for call in calls:
        result = results.get(call.id)
        tools.append(
            ToolTrace(
                tool_name=call.function,
                args=call.arguments,
                result_excerpt=result.text if result else "",
                latency_ms=_milliseconds([call.id], events),
                error=result.error.message if result and result.error else None,
            )
        )
    return TurnTrace(
        turn_pair_id=number,
        user_turn_abs_idx=2 * number - 2,
        gt_assistant_abs_idx=2 * number - 1,
        user_text=user,
        gt_assistant_text="",
        gt_turn_tags=TurnTags(),
        turn_status="ok",
        pred_assistant_text=replies[-1] if replies else None,
        latency_ms=_milliseconds([each.id for each in (*assistant, *calls)], events),
        tools=tools,
    )


def _milliseconds(keys: list[str], events: Mapping[str, Any]) -> float | None:
    """Return the time from the start of the first event to the end of the last; None without events."""
    found = [events[key] for key in keys if key in events]
    if not found:
        return None
    end = max(event.completed or event.timestamp for event in found)
    return float((end - min(event.timestamp for event in found)).total_seconds() * 1000)
