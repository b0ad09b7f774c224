"""Writes small run directories out of contract structs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from memfin.contracts import (
    ConfigFile,
    Counters,
    DialogTrace,
    EvalSummary,
    LatencyStats,
    MetricResult,
    RecallTrace,
    ResolvedKey,
    RunConfig,
    RunManifest,
    RunStats,
    TurnEvalRow,
    TurnTags,
    TurnTrace,
)
from memfin.report.model import AnyBlock, Case, Cases, Report, Table

CONFIG_FINGERPRINT = "ab" * 32


def turn(
    pair: int = 1, user: str = "我该怎么配置？", reply: str | None = "分散配置。", **changes: Any
) -> TurnTrace:
    known: dict[str, Any] = {
        "turn_pair_id": pair,
        "user_turn_abs_idx": 2 * pair - 2,
        "gt_assistant_abs_idx": 2 * pair - 1,
        "user_text": user,
        "gt_assistant_text": "参考回答",
        "gt_turn_tags": TurnTags(),
        "turn_status": "ok",
        "pred_assistant_text": reply,
        "latency_ms": 100.0 * pair,
        "recall": RecallTrace(short_term_context="user: 稳健", token_count=7),
    }
    return TurnTrace(**(known | changes))


def trace(dialog_id: str, turns: Sequence[TurnTrace] = (), **changes: Any) -> DialogTrace:
    known: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r1",
        "dialog_id": dialog_id,
        "dataset_index": 1,
        "dialog_status": "ok",
        "valid_dialog": True,
        "scenario_type": "资产配置",
        "difficulty": "easy",
        "turns": list(turns),
    }
    return DialogTrace(**(known | changes))


def row(dialog_id: str, pair: int = 1, **changes: Any) -> TurnEvalRow:
    known: dict[str, Any] = {
        "trace_version": "v1",
        "run_id": "r1",
        "dialog_id": dialog_id,
        "turn_pair_id": pair,
        "turn_status": "ok",
        "eligible_m1": True,
        "eligible_m2": False,
        "eligible_m3": True,
        "eligible_m4": True,
        "eligible_m5": True,
        "resolved_keys": [
            ResolvedKey(
                key="profile_gt.risk_level_gt", resolvable=True, target_text="稳健", resolver="profile_field"
            )
        ],
        "key_hit_flags": [1],
        "key_hit_sources": [["short_term"]],
        "risk_required_tags": ["volatility_risk"],
        "risk_pred_tags": ["volatility_risk"],
        "risk_tag_hits": 1,
        "pred_compliance_label": "compliant",
        "gt_compliance_label": "compliant",
        "rubric_required": ["信息依据"],
        "rubric_hit_items": ["信息依据"],
        "judge_score_1_5": 4.5,
    }
    return TurnEvalRow(**(known | changes))


def metric(name: str, micro: dict[str, float], **changes: Any) -> MetricResult:
    known: dict[str, Any] = {
        "metric_name": name,
        "micro": micro,
        "macro": micro,
        "counts": {"eligible_count": 4, "skipped_count": 1, "failed_count": 0},
        "by_dialog": {"a": micro, "b": micro},
        "ci95": {key: (max(0.0, value - 0.1), value) for key, value in micro.items()},
    }
    return MetricResult(**(known | changes))


def summary(**changes: Any) -> EvalSummary:
    metrics = [
        metric(
            "m1_context_continuity",
            {"key_coverage": 0.625, "contradiction_rate": 0.05},
            counts={
                "eligible_count": 4,
                "skipped_count": 1,
                "failed_count": 0,
                "required_key_total": 8,
                "required_key_hit_total": 5,
                "short_term_hit_total": 4,
                "long_term_hit_total": 2,
                "profile_hit_total": 0,
            },
        ),
        metric("m2_profile_accuracy", {"profile_score": 0.4}),
        metric("m3_risk_coverage", {"risk_coverage": 0.99}),
        metric("m4_compliance", {"compliance_label_acc": 0.9, "severe_violation_rate": 0.1}),
        metric("m5_explainability", {"rubric_hit_rate": 0.8, "judge_score_mean": 3.456}),
    ]
    known: dict[str, Any] = {
        "run_id": "r1",
        "trace_version": "v1",
        "dataset_path": "data.jsonl",
        "metrics": {result.metric_name: result for result in metrics},
        "counters": Counters(total_dialogs=3, valid_dialogs=2, skipped_dialogs=1, total_turn_pairs=4),
    }
    return EvalSummary(**(known | changes))


def write_run(
    run_dir: Path,
    traces: Sequence[DialogTrace] = (),
    rows: Sequence[TurnEvalRow] = (),
    result: EvalSummary | None = None,
    *,
    extras: bool = False,
) -> Path:
    """Write a run directory; ``extras`` adds run_stats.json and config.json."""
    run_dir.mkdir(parents=True, exist_ok=True)
    result = result or summary()
    manifest = RunManifest(
        trace_version="v1",
        run_id=result.run_id,
        dataset_path=result.dataset_path,
        started_at="2026-01-01T00:00:00Z",
        ended_at="2026-01-01T01:02:03Z",
        model_name="model-x",
        workers_dialog=4,
        workers_judge=2,
        counters=result.counters,
    )
    encode = msgspec.json.encode
    (run_dir / "run_manifest.json").write_bytes(encode(manifest))
    (run_dir / "metrics_summary.json").write_bytes(encode(result))
    (run_dir / "dialog_trace.jsonl").write_bytes(b"".join(encode(each) + b"\n" for each in traces))
    (run_dir / "turn_eval.jsonl").write_bytes(b"".join(encode(each) + b"\n" for each in rows))
    if extras:
        stats = RunStats(
            run_id=result.run_id,
            wall_seconds=75.0,
            turn_latency_ms=LatencyStats(count=4, mean=250.0, p50=200.0, p90=900.0, p99=1500.0, max=1500.0),
            turns_by_status={"ok": 4},
            dialogs_by_status={"ok": 2},
            skips_by_reason={},
            turn_retries=3,
        )
        config = ConfigFile(
            run_id=result.run_id,
            config_fingerprint=CONFIG_FINGERPRINT,
            settings=RunConfig(agent="echo", history="forced"),
            fingerprint_inputs={"dataset_sha256": "cd" * 32},
            memfin_version="0.1.0",
        )
        (run_dir / "run_stats.json").write_bytes(encode(stats))
        (run_dir / "config.json").write_bytes(encode(config))
    return run_dir


def blocks(report: Report) -> list[AnyBlock]:
    return [block for section in report.sections for block in section.blocks]


def table_rows(report: Report, title: str) -> list[list[str]]:
    """Return the texts of the table of that title, with the headings first."""
    found = [block for block in blocks(report) if isinstance(block, Table)]
    found += [table for block in blocks(report) if block.kind == "columns" for table in block.items]
    (table,) = [table for table in found if table.title == title]
    return [list(table.headings), *([cell.text for cell in row] for row in table.rows)]


def facts_of(report: Report, title: str) -> dict[str, str]:
    (facts,) = [block for block in blocks(report) if block.kind == "facts" and block.title == title]
    return dict(facts.items)


def worst_cases(report: Report) -> dict[str, tuple[Case, ...]]:
    return {block.title: block.cases for block in blocks(report) if isinstance(block, Cases)}
