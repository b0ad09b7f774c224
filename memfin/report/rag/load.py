"""Makes the model of a benchmark's report from the files of its run directory."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final

import msgspec

from memfin.contracts import NO_JUDGE, BenchConfigFile, RunManifest, RunStats
from memfin.contracts.rag import (
    SUMMARY,
    RagGroup,
    RagIndividual,
    RagJudgeControls,
    RagResult,
    RagSummary,
    iter_individual_results,
    read_sums,
)
from memfin.contracts.reading import iter_jsonl, read_json
from memfin.errors import UsageError
from memfin.report.artifacts import flat_settings, measured_timing
from memfin.report.judging import judge_cautions
from memfin.report.model import Caution
from memfin.report.rag.census import Census, number
from memfin.report.rag.judging import rag_judge_cautions, rag_judge_view
from memfin.report.rag.model import QuestionCase, RagReportModel, ScoreRow, ScoreTable, TypeView
from memfin.report.rag.words import BY_NAME, MARKS, TYPES
from memfin.text.lines import one_line

RESULTS: Final = "rag_results.jsonl"
CONTROLS: Final = "rag_judge_controls.json"

_REQUIRED: Final = ("run_manifest.json", SUMMARY, RESULTS)
_MOST_GROUPS: Final = 25
_MOST_FAILURES: Final = 20
_MOST_CITATIONS: Final = 5
_LINE_LIMIT: Final = 256 * 1024 * 1024
_HALF: Final = 0.5


def is_benchmark_run(run_dir: Path) -> bool:
    """Say whether a directory is that of a benchmark run."""
    return (run_dir / RESULTS).is_file()


def load_rag_report(run_dir: Path) -> RagReportModel:
    """Read a benchmark's run directory and make the model of its report.

    Raises:
        UsageError: when the run is not finished, or a file of it does not fit the contract.
    """
    for name in _REQUIRED:
        if not (run_dir / name).is_file():
            raise UsageError(f"run {run_dir}: has no {name}; memfin resume {run_dir} goes on with it")
    manifest = read_json(run_dir / "run_manifest.json", RunManifest)
    summary = read_sums(run_dir / SUMMARY)
    census = Census(iter_individual_results(run_dir / SUMMARY))
    config = _optional(run_dir / "config.json", BenchConfigFile)
    stats = _optional(run_dir / "run_stats.json", RunStats)
    controls = _optional(run_dir / CONTROLS, RagJudgeControls)
    total = ScoreRow(
        label="All questions",
        count=summary.total_tests,
        passed=summary.passed_tests,
        score=summary.overall_score,
        max_score=summary.max_score,
    )
    failed = summary.total_tests - summary.passed_tests
    return RagReportModel(
        run_id=one_line(summary.run_id, 128),
        system=one_line(manifest.model_name, 200),
        benchmark=one_line(manifest.dataset_path, 300),
        document=one_line(summary.document, 300) if summary.document else None,
        type_filter=summary.type_filter,
        started_at=one_line(manifest.started_at, 40),
        ended_at=one_line(manifest.ended_at, 40) if manifest.ended_at else None,
        notes=one_line(manifest.notes, 500) if manifest.notes else None,
        total=total,
        pass_rate=summary.pass_rate,
        errors=summary.errors,
        types=tuple(_types(summary, census)),
        tables=tuple(_tables(summary)),
        cases=tuple(_cases(run_dir, census.weakest)),
        cases_omitted=max(0, failed - len(census.weakest)),
        rows=tuple(census.rows),
        rows_omitted=max(0, summary.total_tests - len(census.rows)),
        judging=rag_judge_view(summary, config, stats.judge if stats is not None else None, controls),
        cautions=(
            *_cautions(summary, census),
            *rag_judge_cautions(summary),
            *judge_cautions(controls),
        ),
        failures=census.failures.groups(_MOST_FAILURES),
        timing=measured_timing(stats) if stats is not None else None,
        fingerprint=summary.config_fingerprint,
        memfin_version=one_line(config.memfin_version, 40) if config is not None else None,
        settings=flat_settings(_told(config)) if config is not None else (),
        fingerprint_inputs=flat_settings(config.fingerprint_inputs) if config is not None else (),
    )


def _optional(path: Path, kind: type[Any]) -> Any:
    return read_json(path, kind) if path.is_file() else None


def _told(config: BenchConfigFile) -> dict[str, Any]:
    """Return the settings that a benchmark heeds."""
    settings = dict(config.settings)
    without_judge = settings["judge"] == NO_JUDGE
    for name in list(settings):
        of_judge = name.startswith("judge") or name in _OF_JUDGES
        if name in _OF_DIALOGUES or (of_judge and without_judge):
            del settings[name]
    return settings


_OF_DIALOGUES: Final = frozenset(
    {
        *("history", "trace_version", "agent_memory", "judge_scope"),
        *("workers_score", "score_timeout", "score_chars"),
    }
)
_OF_JUDGES: Final = frozenset({"workers_judge", "fail_on_judge_error"})


def _types(summary: RagSummary, census: Census) -> Iterator[TypeView]:
    """Yield the types that were asked, with the means of the parts of their scores."""
    for text in TYPES:
        group = summary.by_type.get(text.name)
        if group is None or not group.count:
            continue
        parts = tuple(
            (label, census.parts[text.name, key] / group.count, weight) for key, label, weight in text.parts
        )
        yield TypeView(text=text, row=_row(text.title, group), parts=parts)


def _row(label: str, group: RagGroup) -> ScoreRow:
    return ScoreRow(
        label=one_line(label, 80),
        count=group.count,
        passed=group.passed,
        score=group.total_score,
        max_score=group.max_score,
    )


def _tables(summary: RagSummary) -> Iterator[ScoreTable]:
    groups: tuple[tuple[str, Mapping[str, RagGroup]], ...] = (
        ("By difficulty", summary.by_difficulty),
        ("By category", summary.by_category),
        ("By tag", summary.by_tag),
    )
    for title, found in groups:
        if found:
            largest = nsmallest(_MOST_GROUPS, found.items(), key=lambda item: (-item[1].count, item[0]))
            shown = tuple(_row(label, group) for label, group in largest)
            yield ScoreTable(title=title, rows=shown, omitted=len(found) - len(shown))


def _cases(run_dir: Path, picked: Iterable[RagIndividual]) -> Iterator[QuestionCase]:
    """Yield the cases of the questions picked, with the answers from the results."""
    ordered = list(picked)
    wanted = {one.id for one in ordered}
    found = {
        result.id: result.answer
        for _, result in iter_jsonl(run_dir / RESULTS, RagResult)
        if result.id in wanted
    }
    for one in ordered:
        answer = found.get(one.id)
        citations = answer.citation[:_MOST_CITATIONS] if answer is not None else []
        yield QuestionCase(
            id=one_line(one.id, 80),
            type=one.type,
            question=one_line(one.question, 500),
            answer=one_line(answer.answer, 800) if answer is not None else None,
            share=one.score / one.max_score if one.max_score else 0.0,
            parts=tuple(_parts(one)),
            citations=tuple(
                one_line(f"p. {each.page}: {each.quote}" if each.page is not None else each.quote, 240)
                for each in citations
            ),
            error=one_line(one.error, 400) if one.error is not None else None,
            marks=tuple(_marks(one)),
        )


def _marks(one: RagIndividual) -> Iterator[tuple[str, str]]:
    """Yield what a judge says of the answer."""
    judged = one.judge
    if judged is msgspec.UNSET:
        return
    if judged.error is not None:
        yield "Judge", one_line(f"no verdict: {judged.error}", 300)
        return
    for mark, title in MARKS.items():
        reason = judged[f"{mark}_reason"]
        yield title, one_line(f"{judged[mark]:g} of 5" + (f": {reason}" if reason else ""), 400)


def _parts(one: RagIndividual) -> Iterator[tuple[str, str]]:
    for key, label, _ in BY_NAME[one.type].parts:
        value = number(one.details.get(key))
        if value is not None:
            yield label, f"{value:.0%}"
    for field in _dicts(one.details.get("fields")):
        if not field.get("matched"):
            told = {name: field[name] for name in ("expected", "got") if name in field}
            yield one_line(str(field.get("field", "field")), 40), one_line(str(told), 200)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _cautions(summary: RagSummary, census: Census) -> Iterator[Caution]:
    if summary.errors:
        share = summary.errors / summary.total_tests if summary.total_tests else 0.0
        yield Caution(
            level="warning" if share >= _HALF else "note",
            title="The system failed",
            detail=f"{summary.errors} of {summary.total_tests} questions have no answer; they score 0.",
        )
    if summary.document is None:
        yield Caution(
            level="warning",
            title="No document",
            detail="Inventions cannot be told from what the document says, and pages were not checked.",
        )
    if census.facts and census.declined_facts == census.facts:
        yield Caution(
            level="warning",
            title="Every fact was declined",
            detail="The scores of conflicts and gaps say nothing about a system that answers nothing.",
        )
    if census.gaps and not census.declined_gaps:
        yield Caution(
            level="note",
            title="Nothing was declined",
            detail="The system answered every question that the document does not settle.",
        )
