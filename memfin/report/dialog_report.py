"""The report of a dialogue run, from a summary alone or from the files of a run directory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal

import msgspec

from memfin.contracts import (
    ConfigFile,
    CorrectedValue,
    DetectorResult,
    EvalSummary,
    RunConfig,
    RunManifest,
    RunStats,
    TurnEvalRow,
    is_variant,
)
from memfin.contracts.judgement import JudgeControls, JudgeScope
from memfin.contracts.reading import decode
from memfin.language import marked, tr, tr_counted
from memfin.metrics.state import is_failed
from memfin.report import common, dialogs, glossary, model, reader
from memfin.report.glossary import (
    MetricText,
    format_corrected,
    format_interval,
    format_value,
    labels,
    measured,
    missing,
)
from memfin.report.memory import client_section, memory_section
from memfin.report.pressure import pressure_section
from memfin.report.reader import DialogValues, Figures
from memfin.report.worst_turns import WorstTurns, empty_rankings
from memfin.text.lines import one_line

Corrected = Mapping[str, CorrectedValue | None]

_MAX_DIALOGS: Final = 25
_MAX_SEVERE: Final = 20
_BINS: Final = 10


def summary_report(summary: EvalSummary) -> model.Report:
    """Return the report of a summary without its run directory (metrics contract section 7)."""
    part = decode(msgspec.json.encode(summary), reader.SummaryFile)
    warnings = dialogs.summary_warnings(part.metrics, part.counters.valid_dialogs)
    sections = (
        *_figures(part, _headline_values(Path(), part), warnings),
        memory_section(part.metrics),
        client_section(part.metrics),
        _values(part.metrics),
        common.configuration_section(None, {}, summary.config_fingerprint, summary.trace_version),
    )
    return _report(part, ((tr("Dataset"), summary.dataset_path),), sections)


def load_dialog_report(run_dir: Path) -> model.Report:
    """Read the directory of a dialogue run and make the content of its report.

    Dialogues and rows stream by; memory holds a few short values per dialogue, the sums of each group,
    and the turns that are shown.

    Raises:
        UsageError: when the directory is no finished run, or a file of it does not fit the contract.
    """
    reader.require_run_directory(run_dir)
    manifest = reader.read(run_dir / reader.MANIFEST, RunManifest)
    summary = reader.read(run_dir / reader.SUMMARY, reader.SummaryFile)
    run_stats = reader.read_optional(run_dir / reader.STATS, RunStats)
    config = reader.read_optional(run_dir / reader.CONFIG, ConfigFile)
    controls = reader.read_optional(run_dir / reader.CONTROLS, JudgeControls)
    settings = config.settings if config else None
    corrections, current = reader.read_corrections(run_dir)
    summary.corrected = corrections.values if corrections and current else {}

    stats = dialogs.DialogStats()
    for dialog in reader.scan(run_dir / reader.TRACES, reader.ScannedDialog):
        stats.add(dialog)
    texts, values = list(glossary.texts_of(summary.metrics)), _headline_values(run_dir, summary)
    scope: JudgeScope = settings.judge_scope if settings else "m5"
    stats.judge = settings.judge if settings else stats.judge
    worst, baselines, judged, limits = (
        WorstTurns(severe=_MAX_SEVERE, without=empty_rankings(summary.metrics, stats.judge)),
        dialogs.Baselines(),
        dialogs.JudgedTurns(scope),
        dialogs.DetectorLimits(),
    )
    groups, strangers = dialogs.GroupedMetrics(), 0
    for row in reader.scan(run_dir / reader.ROWS, TurnEvalRow):
        for part, problem in _problems(row):
            stats.failures.add(part, problem, common.place(row.dialog_id, row.turn_pair_id))
        if is_variant(row):
            continue
        for each in (worst, baselines, judged, limits):
            each.add(row)
        if (facts := stats.facts.get(row.dialog_id)) is None:
            strangers += 1
        else:
            groups.add_row(row, facts)

    shapes = list(stats.warnings())
    alerts = [each for each in shapes if each.level == "warning"]
    warnings = [
        *(each for each in shapes if each.level == "note"),
        *judged.warnings(),
        *common.control_warnings(controls),
        *limits.warnings(),
        *dialogs.summary_warnings(summary.metrics, summary.counters.valid_dialogs),
        *baselines.warnings(summary.metrics),
    ]
    if not current:
        warnings.append(glossary.warning("old_corrections"))
    if strangers:
        warnings.append(glossary.warning("other_files", count=strangers))
    history = settings.history if settings else stats.history_mode
    workers = {name: manifest[name] for name in ("workers_dialog", "workers_judge")}
    return _report(
        summary,
        (
            *common.agent_facts(settings, manifest.model_name),
            (tr("Dataset"), summary.dataset_path),
            (tr("Shard"), settings.shard if settings else None),
            (tr("Started"), model.moment(manifest.started_at)),
            (tr("Ended"), model.moment(manifest.ended_at)),
            (tr("History"), history and labels("history").get(history, history)),
            (tr("Judge"), stats.judge),
            (tr("Notes"), manifest.notes or None),
        ),
        (
            *_figures(summary, values, warnings, stats.judge, alerts),
            model.section(
                "groups", tr("By kind of dialogue"), *groups.tables(stats, values, texts), nav=tr("Groups")
            ),
            _dialogs(stats, values, texts),
            memory_section(summary.metrics),
            client_section(summary.metrics),
            pressure_section(run_dir),
            model.section("worst-turns", tr("Worst turns"), *worst.blocks(run_dir, stats.facts)),
            _judge(settings, run_stats, controls, judged),
            _failures(manifest, run_stats, stats),
            _values(summary.metrics),
            common.configuration_section(
                config,
                msgspec.to_builtins(settings) if settings else workers,
                summary.config_fingerprint,
                summary.trace_version,
            ),
        ),
    )


def _problems(row: TurnEvalRow) -> Iterator[tuple[str, str]]:
    """Yield the failures of the judge, of users' detectors and of custom metrics on an answered turn."""
    if row.judge_error:
        yield "judge", row.judge_error
    for name, problem in row.get("detector_errors", {}).items():
        yield one_line(name, 80), problem
    for name, entry in () if is_failed(row) else row.get("custom", {}).items():
        if entry.error:
            yield one_line(name, 80), entry.error


def _report(
    summary: reader.SummaryFile,
    facts: Iterable[tuple[str, str | None]],
    sections: Iterable[model.Section | None],
) -> model.Report:
    counters = summary.counters
    skipped, failed, unscored = (
        counters.skipped_dialogs,
        counters.failed_dialogs,
        counters.get("unscored_turn_pairs"),
    )
    counts: tuple[tuple[str, str, int | None, Literal["", "odd", "bad"]], ...] = (
        (marked("valid dialogue"), marked("valid dialogues"), counters.valid_dialogs, ""),
        (marked("turn pair"), marked("turn pairs"), counters.total_turn_pairs, ""),
        (marked("skipped dialogue"), marked("skipped dialogues"), skipped, "odd"),
        (marked("failed dialogue"), marked("failed dialogues"), failed, "bad"),
        (marked("turn pair not scored"), marked("turn pairs not scored"), unscored or None, "odd"),
    )
    shown = (
        model.Counter(tr_counted(count, one, many), count, level if count else "")
        for one, many, count, level in counts
        if count is not None
    )
    notes = model.Block("notes", glossary.notes("dialog"))
    reading = model.section("how-to-read", tr("How to read this"), notes, nav=tr("How to read"))
    return model.report(tr("MemFin evaluation report"), summary.run_id, facts, shown, (*sections, reading))


def _figures(
    summary: reader.SummaryFile,
    values: DialogValues,
    warnings: Iterable[model.ReportWarning],
    judge: str | None = None,
    alerts: Iterable[model.ReportWarning] = (),
) -> Iterator[model.Section | None]:
    """Yield the sections of the alerts with the cards, of the warnings, and of the main values."""
    metrics = summary.metrics
    known = [(text, metrics[text.name]) for text in glossary.texts_of(metrics) if text.name in metrics]
    cards = model.Block(
        "cards", tuple(_card(text, figures, judge, summary.corrected) for text, figures in known)
    )
    yield model.section("results", tr("Results"), model.Block("warnings", tuple(alerts)), cards)
    yield model.warnings_section(warnings)
    headings = (
        *(tr("Metric"), tr("Value"), tr("Micro"), "", tr("95 % interval")),
        *(tr("Macro"), tr("Eligible"), tr("Skipped"), tr("Failed")),
    )
    rows = list(glossary.metric_rows(metrics, judge))
    charts = (
        model.Histogram(f"{text.code} {text.values[0].label}", counts)
        for text, _ in known
        if text.values[0].scale == "share" and sum(counts := _bins(values.get(text.name, {}).values())) > 1
    )
    note = tr("Number of dialogues by value, in steps of 10 %.")
    histograms = model.Block("histograms", tuple(charts), tr("Distribution over dialogues"), note)
    yield model.section(
        "figures",
        tr("Figures"),
        model.table(
            "",
            headings,
            "llrbrrrrr",
            (_figure(row, summary.corrected) for row in rows),
            "; ".join(glossary.missing_lines(rows)),
        ),
        _sources(metrics.get("m1_context_continuity")),
        _own_detectors(summary.detectors),
        histograms,
    )


def _card(text: MetricText, figures: Figures, judge: str | None, corrected: Corrected) -> model.Card:
    lead, *others = glossary.shown_values(text, figures, judge)
    value, _, interval = measured(lead.key, figures)
    shown, label = format_value(lead.key, value), lead.label
    if value is None:
        shown = tr(glossary.NOT_MEASURED)
        label = tr("{value}: {reason}", value=label, reason=missing(lead.key, figures))
    elif lead.key == "severe_violation_rate" and "severe_count" in figures.counts:
        severe, replies = figures.counts["severe_count"], figures.counts.get("severe_turns", 0)
        label = tr("replies with severe violations, {share}", share=shown)
        shown = tr("{count:,} of {total:,}", count=severe, total=replies)
    if interval is not None:
        label += tr(", 95 % interval {interval}", interval=format_interval(lead.key, interval))
    if correction := format_corrected(lead.key, corrected.get(f"{text.name}.{lead.key}")):
        label += f"; {correction}"
    beside = (
        (other.label, glossary.format_estimate(other.key, known, bounds))
        for other in others
        for known, _, bounds in (measured(other.key, figures),)
    )
    return model.Card(
        code=text.code,
        title=text.title,
        value=shown,
        label=label,
        share=value if lead.scale == "share" else None,
        interval=interval if lead.scale == "share" else None,
        beside=tuple(beside),
        meaning=text.meaning,
        bad=lead.is_bad(value),
    )


def _figure(row: glossary.MetricRow, corrected: Corrected) -> tuple[model.Value, ...]:
    key, micro, label = row.value.key, row.micro, row.value.label
    label += tr(" (lower is better)") if row.value.better == "lower" else ""
    share = micro is not None and row.value.scale == "share"
    return (
        model.Cell(f"{row.text.code} {row.text.title}", strong=True) if row.counts[0] else "",
        model.Cell(label, small=row.value.meaning),
        model.Cell(
            format_value(key, micro), small=format_corrected(key, corrected.get(f"{row.text.name}.{key}"))
        ),
        model.Cell("", share=micro, interval=row.interval) if share else "",
        format_interval(key, row.interval),
        format_value(key, row.macro),
        *row.counts,
    )


def _sources(memory: Figures | None) -> model.Table | None:
    """Return the memory sources that held the required keys."""
    total = memory.counts.get("required_key_total", 0) if memory else 0
    if memory is None or not total or missing("key_coverage", memory):
        return None
    hits = [
        (label, memory.counts.get(f"{stem}_hit_total", 0), memory.ci95.get(f"{stem}_hit_rate"))
        for stem, label in labels("sources").items()
    ]
    missed, found = total - memory.counts.get("required_key_hit_total", 0), memory.ci95.get("key_coverage")
    hits.append((tr("In no source"), missed, None if found is None else (1 - found[1], 1 - found[0])))
    rows = (
        (label, count, model.percent(count / total), count / total, format_interval("key_coverage", bounds))
        for label, count, bounds in hits
    )
    headings = (tr("Source"), tr("Hits"), tr("Share"), "", tr("95 % interval"))
    note = tr("A key may be found in several sources.")
    return model.table(tr("Sources of required keys"), headings, "lrrbr", rows, note)


def _own_detectors(detectors: Mapping[str, DetectorResult]) -> model.Table | None:
    """Return the counts and rates of users' detectors, None without any."""
    rows = (
        (
            one_line(name, 80),
            tr("fired in {count:,} of {total:,} replies", count=each.fired, total=each.replies),
            model.percent(each.rate),
            each.rate,
            format_interval("key_coverage", each.get("ci95")),
            each.findings,
            each.failed,
        )
        for name, each in detectors.items()
    )
    headings = (tr("Detector"), "", tr("Share"), "", tr("95 % interval"), tr("Findings"), tr("Failed"))
    return model.table(tr("Your own detectors"), headings, "llrbrrr", rows) if detectors else None


def _bins(values: Iterable[float]) -> tuple[int, ...]:
    counts = [0] * _BINS
    for value in values:
        counts[min(max(int(value * _BINS), 0), _BINS - 1)] += 1
    return tuple(counts)


def _headline_values(run_dir: Path, summary: reader.SummaryFile) -> DialogValues:
    return {
        text.name: reader.by_dialog(run_dir, text.name, key, figures)
        for text in glossary.texts_of(summary.metrics)
        for key, figures in ((text.values[0].key, summary.metrics.get(text.name)),)
        if figures is not None and not missing(key, figures)
    }


def _dialogs(
    stats: dialogs.DialogStats, values: DialogValues, texts: Sequence[MetricText]
) -> model.Section | None:
    """Return the dialogues with the worst mean of their headline values that are shares."""
    if not stats.facts:
        return None
    headlines = [(text.values[0], values.get(text.name, {})) for text in texts]

    def rank(dialog_id: str) -> tuple[float, str]:
        known = [
            1 - value if of.better == "lower" else value
            for of, found in headlines
            if of.scale == "share" and (value := found.get(dialog_id)) is not None
        ]
        return (fmean(known) if known else 2.0, dialog_id)

    difficulties = labels("difficulty")
    shown = nsmallest(_MAX_DIALOGS, stats.facts, key=rank)
    rows: Iterator[tuple[model.Value, ...]] = (
        (
            one_line(dialog_id, 80),
            stats.facts[dialog_id].scenario,
            difficulties.get(stats.facts[dialog_id].difficulty, stats.facts[dialog_id].difficulty),
            stats.turns[dialog_id],
            *(dialogs.value_cell(of.key, found.get(dialog_id)) for of, found in headlines),
        )
        for dialog_id in shown
    )
    names = (f"{text.code} {text.values[0].label}" for text in texts)
    headings = (tr("Dialogue"), tr("Scenario"), tr("Difficulty"), tr("Turns"), *names)
    omitted = len(stats.facts) - len(shown)
    note = tr("Ordered by the mean of these shares, with violations as misses, lowest first.")
    one, many = marked(" 1 more dialogue is left out."), marked(" {count:,} more dialogues are left out.")
    note += tr_counted(omitted, one, many) if omitted else ""
    title = tr("Dialogues: the {count} weakest", count=len(shown)) if omitted else tr("Dialogues")
    found = model.table("", headings, "cllr" + "r" * len(texts), rows, note)
    return model.section("dialogues", title, found, nav=tr("Dialogues"))


def _judge(
    config: RunConfig | None,
    run_stats: RunStats | None,
    controls: JudgeControls | None,
    judged: dialogs.JudgedTurns,
) -> model.Section | None:
    """Return the section of a language model as the judge, None for a run without one."""
    stats = run_stats.judge if run_stats else None
    if stats is None and controls is None and not judged.facts():
        return None
    decides: model.Pairs = ()
    if config is not None:
        decides = (
            (tr("Decides"), labels("judge_scope")[config.judge_scope]),
            (tr("Votes per turn"), str(config.judge_votes)),
        )

    def scores(controls: list[Any]) -> tuple[str, str]:
        items, required = (
            sum(len(getattr(each, name)) for each in controls) for name in ("rubric_items", "rubric_required")
        )
        return f"{fmean(each.score for each in controls):.2f}", tr(
            "{count:,} of {total:,}", count=items, total=required
        )

    headings = tr("Mean score"), tr("Rubric items")
    table = common.controls_table(controls, headings, tr("Reference reply"), scores)
    facts = model.Block("facts", (*decides, *judged.facts(), *common.judge_facts(stats)))
    return model.section(
        "judge", tr("Judge"), facts, table, common.agreement_table(stats, labels("agreement"))
    )


def _failures(
    manifest: RunManifest, run_stats: RunStats | None, stats: dialogs.DialogStats
) -> model.Section | None:
    skips = sorted(stats.skips.items(), key=lambda item: (-item[1], item[0]))
    time = common.time_facts(tr("Turns"), run_stats, stats.latency.stats(), _wall_seconds(manifest))
    failures = stats.failures.block(tr("No dialogue, turn or judgement failed."))
    skipped = (
        model.table(tr("Skipped dialogues"), (tr("Reason"), tr("Dialogues")), "cr", skips) if skips else None
    )
    return model.section("failures", tr("Failures and time"), failures, skipped, time, nav=tr("Failures"))


def _wall_seconds(manifest: RunManifest) -> float | None:
    try:
        span = datetime.fromisoformat(manifest.ended_at or "") - datetime.fromisoformat(manifest.started_at)
    except (ValueError, TypeError):  # no times, or one of them without a zone
        return None
    return span.total_seconds() if span.total_seconds() >= 0 else None


def _values(metrics: Mapping[str, Figures]) -> model.Section | None:
    """Return every value and count of the summary, a table per metric."""
    tables = []
    for text in glossary.texts_of(metrics):
        if (figures := metrics.get(text.name)) is None:
            continue
        values = (
            (
                glossary.value_label(key),
                format_value(key, micro),
                format_value(key, macro),
                format_interval(key, interval),
            )
            for key in figures.micro
            for micro, macro, interval in (measured(key, figures),)
        )
        counts = ((glossary.value_label(key), count, "", "") for key, count in figures.counts.items())
        headings = (tr("Value"), tr("Micro"), tr("Macro"), tr("95 % interval"))
        tables.append(model.table(f"{text.code} {text.title}", headings, "lrrr", (*values, *counts)))
    return model.section("all-values", tr("All values"), model.Block("columns", tuple(tables)))
