"""Makes the model of a report: from a summary alone, or from the files of a run directory."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import nsmallest
from pathlib import Path
from typing import Final

import msgspec

from memfin.contracts import ConfigFile, EvalSummary, RunManifest, RunStats
from memfin.report import reader
from memfin.report.artifacts import flat_settings, measured_timing
from memfin.report.cases import turn_case
from memfin.report.degenerate import Baselines, UnreadConstraints, summary_cautions
from memfin.report.dialogs import DialogCensus
from memfin.report.glossary import METRICS
from memfin.report.groups import GroupedMetrics
from memfin.report.judging import SentTurns, UnjudgedTurns, judge_cautions, judge_view
from memfin.report.model import (
    Caution,
    DialogRow,
    Histogram,
    MetricView,
    ReportModel,
    Timing,
    TurnCase,
    WorstList,
)
from memfin.report.reader import HeadlineValues
from memfin.report.worst import Ranking, WorstTurns
from memfin.text.lines import one_line

_MAX_DIALOGS: Final = 25
_MAX_FAILURES: Final = 20
_BINS: Final = 10
_HEADLINES: Final = tuple(metric.headline.key for metric in METRICS)


def summary_model(summary: EvalSummary) -> ReportModel:
    """Make the model of a report that knows nothing but the summary (metrics contract section 7)."""
    views = tuple(
        MetricView(
            text=text,
            micro=result.micro,
            macro=result.macro,
            counts=result.counts,
            ci95=result.ci95,
            histogram=_histogram(values.get(text.headline.key) for values in result.by_dialog.values()),
        )
        for text in METRICS
        if (result := summary.metrics.get(text.name)) is not None
    )
    return ReportModel(
        run_id=one_line(summary.run_id, 128),
        trace_version=summary.trace_version,
        dataset_path=one_line(summary.dataset_path, 300),
        counters=summary.counters,
        metrics=views,
        cautions=tuple(summary_cautions(_by_name(views), summary.counters.valid_dialogs)),
        fingerprint=summary.config_fingerprint,
    )


def load_report(run_dir: Path) -> ReportModel:
    """Read a run directory and make the model of its report.

    Dialogues and rows stream by; what stays in memory is a few short values a dialogue, the sums
    of each group, and the turns that are shown.

    Raises:
        UsageError: when the directory is no finished run, or a file of it does not fit the contract.
    """
    reader.require_run_directory(run_dir)
    manifest = reader.read_manifest(run_dir)
    summary = reader.read_summary(run_dir)
    stats = reader.read_stats(run_dir)
    config = reader.read_config(run_dir)
    controls = reader.read_controls(run_dir)

    census = DialogCensus()
    for dialog in reader.scan_dialogs(run_dir):
        census.add(dialog)

    values: dict[str, HeadlineValues] = {}
    views = tuple(_views(run_dir, summary, values))
    grouped, worst, baselines = GroupedMetrics(), WorstTurns(), Baselines()
    scope = config.settings.judge_scope if config else "m5"
    unjudged, sent, unread, strangers = UnjudgedTurns(scope), SentTurns(scope), UnreadConstraints(), 0
    for row in reader.scan_rows(run_dir):
        worst.add(row)
        baselines.add(row)
        unjudged.add(row)
        sent.add(row)
        unread.add(row)
        if row.judge_error:
            where = f"{one_line(row.dialog_id, 80)} turn {row.turn_pair_id}"
            census.failures.add("judge", row.judge_error, where)
        facts = census.facts.get(row.dialog_id)
        if facts is None:
            strangers += 1
        else:
            grouped.add_row(row, facts)

    by_name = _by_name(views)
    cautions = [
        *unjudged.cautions(),
        *judge_cautions(controls),
        *unread.cautions(),
        *census.shapes.cautions(),
        *summary_cautions(by_name, summary.counters.valid_dialogs),
        *baselines.cautions(by_name),
    ]
    if strangers:
        detail = (
            f"{strangers} rows of {reader.ROWS} belong to no valid dialogue of {reader.TRACES}; tables by "
            "group leave them out."
        )
        cautions.append(Caution(level="warning", title="Files do not belong together", detail=detail))
    return ReportModel(
        run_id=one_line(summary.run_id, 128),
        trace_version=summary.trace_version,
        dataset_path=one_line(summary.dataset_path, 300),
        counters=summary.counters,
        metrics=views,
        cautions=tuple(sorted(cautions, key=lambda caution: caution.level != "warning")),
        fingerprint=config.config_fingerprint if config else summary.config_fingerprint,
        model_name=one_line(manifest.model_name, 200),
        started_at=one_line(manifest.started_at, 40),
        ended_at=one_line(manifest.ended_at, 40) if manifest.ended_at else None,
        notes=one_line(manifest.notes, 500) if manifest.notes else None,
        groups=grouped.tables(census, values),
        dialogs=_dialog_rows(census, values),
        dialogs_omitted=max(0, len(census.facts) - _MAX_DIALOGS),
        worst=_worst_lists(run_dir, worst.rankings(), census),
        failures=census.failures.groups(_MAX_FAILURES),
        skips=tuple(sorted(census.skips.items(), key=lambda item: (-item[1], item[0]))),
        timing=_timing(manifest, stats, census),
        settings=_settings(manifest, config),
        fingerprint_inputs=flat_settings(config.fingerprint_inputs) if config else (),
        history_mode=config.settings.history if config else census.history_mode,
        judge=one_line(judge, 200) if (judge := config.settings.judge if config else census.judge) else None,
        judging=judge_view(
            config.settings if config else None, stats.judge if stats else None, controls, sent.facts()
        ),
        memfin_version=one_line(config.memfin_version, 40) if config else None,
    )


def _views(
    run_dir: Path, summary: reader.SummaryFile, values: dict[str, HeadlineValues]
) -> Iterable[MetricView]:
    """Yield the metrics in order, and gather every dialogue's headline values in ``values``."""
    for text in METRICS:
        result = summary.metrics.get(text.name)
        if result is None:
            continue
        key = text.headline.key
        table = reader.by_dialog(run_dir, text.name, result)
        for dialog_id, found in table.items():
            kept = values.setdefault(dialog_id, found)
            if kept is not found:
                setattr(kept, key, getattr(found, key))
        yield MetricView(
            text=text,
            micro=result.micro,
            macro=result.macro,
            counts=result.counts,
            ci95=result.ci95,
            histogram=_histogram(getattr(found, key) for found in table.values()),
        )


def _histogram(values: Iterable[float | None]) -> Histogram | None:
    counts = [0] * _BINS
    total = 0.0
    for value in values:
        if value is not None:
            counts[min(max(int(value * _BINS), 0), _BINS - 1)] += 1
            total += value
    dialogs = sum(counts)
    return Histogram(counts=tuple(counts), dialogs=dialogs, mean=total / dialogs) if dialogs else None


def _dialog_rows(census: DialogCensus, values: Mapping[str, HeadlineValues]) -> tuple[DialogRow, ...]:
    """Return the dialogues with the lowest mean of their headline values."""

    def rank(dialog_id: str) -> tuple[float, str]:
        known = [value for value in _headlines(values.get(dialog_id)).values() if value is not None]
        return (sum(known) / len(known) if known else 2.0, dialog_id)

    return tuple(
        DialogRow(
            dialog_id=one_line(dialog_id, 80),
            scenario=census.facts[dialog_id].scenario,
            difficulty=census.facts[dialog_id].difficulty,
            turns=census.turns[dialog_id],
            values=_headlines(values.get(dialog_id)),
        )
        for dialog_id in nsmallest(_MAX_DIALOGS, census.facts, key=rank)
    )


def _headlines(found: HeadlineValues | None) -> dict[str, float | None]:
    return {key: getattr(found, key, None) for key in _HEADLINES}


def _worst_lists(run_dir: Path, rankings: tuple[Ranking, ...], census: DialogCensus) -> tuple[WorstList, ...]:
    """Fetch the texts of the picked turns; a turn in several lists is one and the same case."""
    wanted: dict[str, set[int]] = {}
    for ranking in rankings:
        for _, _, row in ranking.entries:
            wanted.setdefault(row.dialog_id, set()).add(row.turn_pair_id)
    texts = reader.fetch_turns(run_dir, wanted)
    cases: dict[tuple[str, int], TurnCase] = {}
    lists: list[WorstList] = []
    for ranking in rankings:
        shown: list[tuple[TurnCase, str]] = []
        for _, words, row in ranking.entries:
            key = (row.dialog_id, row.turn_pair_id)
            if key not in cases:
                anchor = f"turn-{len(cases) + 1}"
                cases[key] = turn_case(anchor, row, texts.get(key), census.facts.get(row.dialog_id))
            shown.append((cases[key], words))
        lists.append(WorstList(title=ranking.title, total=ranking.total, cases=tuple(shown)))
    return tuple(lists)


def _timing(manifest: RunManifest, stats: RunStats | None, census: DialogCensus) -> Timing | None:
    if stats is not None:
        return measured_timing(stats)
    latency, wall = census.latency.stats(), _wall_seconds(manifest)
    if not latency.count and wall is None:
        return None
    source = f"{reader.TRACES} and {reader.MANIFEST}"
    return Timing(latency=latency if latency.count else None, wall_seconds=wall, source=source)


def _wall_seconds(manifest: RunManifest) -> float | None:
    if manifest.ended_at is None:
        return None
    try:
        span = datetime.fromisoformat(manifest.ended_at) - datetime.fromisoformat(manifest.started_at)
    except (ValueError, TypeError):  # no times, or one of them without a zone
        return None
    return span.total_seconds() if span.total_seconds() >= 0 else None


def _settings(manifest: RunManifest, config: ConfigFile | None) -> tuple[tuple[str, str], ...]:
    if config is not None:
        return flat_settings(msgspec.to_builtins(config.settings))
    return flat_settings({"workers_dialog": manifest.workers_dialog, "workers_judge": manifest.workers_judge})


def _by_name(views: Iterable[MetricView]) -> dict[str, MetricView]:
    return {view.text.name: view for view in views}
