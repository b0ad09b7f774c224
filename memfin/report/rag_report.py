"""The report of a benchmark run."""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec

from memfin.contracts import NO_JUDGE, BenchConfigFile, RunManifest, RunStats, many_failed, rag
from memfin.contracts.rag import SUMMARY, RagGroup, RagIndividual, RagMark, RagResult, RagSummary
from memfin.errors import UsageError
from memfin.language import tr
from memfin.metrics.interval import RatioSums
from memfin.report import common, model, reader
from memfin.report.glossary import (
    MARKS,
    TYPES,
    TypeText,
    format_estimate,
    format_interval,
    labels,
    notes,
    warning,
)
from memfin.report.model import percent
from memfin.text.lines import one_line

RESULTS: Final = "rag_results.jsonl"
CONTROLS: Final = "rag_judge_controls.json"

_MAX_CASES: Final = 20
_MAX_ROWS: Final = 500
_MAX_GROUPS: Final = 25
_MAX_CITATIONS: Final = 5
_TYPES: Final = {text.name: text for text in TYPES}
_OF_DIALOGUES: Final = frozenset(
    {
        *("history", "trace_version", "agent_memory", "judge_scope"),
        *("workers_score", "score_timeout", "score_chars"),
    }
)
_OF_JUDGES: Final = frozenset({"workers_judge", "fail_on_judge_error"})


class QuestionStats:
    """Counts over the individual results of a benchmark.

    ``weakest`` are the questions that lost most of their score, of those that did not pass; ``rows`` the
    first questions, as the report's table shows them; ``parts`` sums of the parts of scores, by type and
    part; ``gaps`` counts the questions that ask for an abstention.
    """

    def __init__(self) -> None:
        self.failures = common.FailureCounter()
        self.weakest: list[RagIndividual] = []
        self.rows: list[tuple[str, str, str, str, str]] = []
        self.parts: defaultdict[tuple[str, str], RatioSums] = defaultdict(lambda: RatioSums(graded=True))
        self.facts = self.declined_facts = 0
        self.gaps = self.declined_gaps = 0

    def add(self, one: RagIndividual) -> None:
        """Count a question."""
        if one.error is not None:
            self.failures.add(tr("question"), one.error, one.id)
        if not one.passed:
            insort(self.weakest, one, key=lambda each: (_share(each), -each.max_score, each.id))
            del self.weakest[_MAX_CASES:]
        if len(self.rows) < _MAX_ROWS:
            score, of = f"{one.score:.2f}", f"{one.max_score:.2f}"
            self.rows.append(
                (
                    one_line(one.id, 80),
                    _TYPES[one.type].title,
                    tr("yes") if one.passed else tr("no"),
                    score,
                    of,
                )
            )
        for key, _, _ in _TYPES[one.type].part_texts:
            self.parts[one.type, key].add(_number(one.details.get(key)) or 0.0, 1)
        if one.type == "fact_exact":
            self.facts += 1
            self.declined_facts += one.details.get("reason") == "abstained"
        if one.details.get("should_abstain"):
            self.gaps += 1
            found = one.details.get("abstention")
            self.declined_gaps += isinstance(found, dict) and bool(found.get("abstained"))


def load_rag_report(run_dir: Path) -> model.Report:
    """Read a benchmark's run directory and make the content of its report.

    Raises:
        UsageError: when the run is not finished, or a file of it does not fit the contract.
    """
    for name in (reader.MANIFEST, SUMMARY, RESULTS):
        if not (run_dir / name).is_file():
            raise UsageError(f"run {run_dir}: has no {name}; memfin resume {run_dir} goes on with it")
    manifest = reader.read(run_dir / reader.MANIFEST, RunManifest)
    summary = rag.read_sums(run_dir / SUMMARY)
    stats = QuestionStats()
    for one in rag.iter_individual_results(run_dir / SUMMARY):
        stats.add(one)
    config = reader.read_optional(run_dir / reader.CONFIG, BenchConfigFile)
    run_stats = reader.read_optional(run_dir / reader.STATS, RunStats)
    controls = reader.read_optional(run_dir / CONTROLS, rag.RagJudgeControls)
    errors = summary.errors
    time = common.time_facts(tr("Questions"), run_stats)
    failures = stats.failures.block(tr("The system failed on no question."))
    warnings = (*_warnings(summary, stats), *common.control_warnings(controls))
    types = [(text.title, group) for text, group in _asked(summary)]
    judged = summary.judge is not msgspec.UNSET
    explained = model.Block("notes", notes("rag") + (notes("rag_judge") if judged else ()))
    return model.report(
        tr("MemFin benchmark report"),
        summary.run_id,
        (
            (tr("System"), manifest.model_name),
            (tr("Benchmark"), manifest.dataset_path),
            (tr("Document"), summary.document or tr("none")),
            (tr("Asked"), tr("{type} only", type=summary.type_filter) if summary.type_filter else None),
            (tr("Started"), model.moment(manifest.started_at)),
            (tr("Ended"), model.moment(manifest.ended_at)),
            (tr("Notes"), manifest.notes or None),
        ),
        (
            model.Counter(tr("questions"), summary.total_tests),
            model.Counter(tr("passed"), summary.passed_tests),
            model.Counter(tr("without an answer"), errors, "bad" if errors else ""),
        ),
        (
            model.section("results", tr("Results"), model.Block("cards", tuple(_cards(summary, stats)))),
            model.warnings_section(warnings),
            model.section("figures", tr("Figures"), _scores("", tr("Type"), types)),
            _baselines(summary),
            _judge(summary, config, run_stats, controls),
            model.section("groups", tr("By kind of question"), *_groups(summary), nav=tr("Groups")),
            _cases(run_dir, summary, stats),
            model.section("failures", tr("Failures and time"), failures, time, nav=tr("Failures")),
            _questions(summary, stats),
            common.configuration_section(
                config, _heeded(config) if config else {}, summary.config_fingerprint
            ),
            model.section("how-to-read", tr("How to read this"), explained, nav=tr("How to read")),
        ),
    )


def _share(one: RagIndividual | RagGroup) -> float:
    score = one.score if isinstance(one, RagIndividual) else one.total_score
    return score / one.max_score if one.max_score else 0.0


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None


def _heeded(config: BenchConfigFile) -> dict[str, Any]:
    """Return the settings that have an effect on a benchmark."""
    without_judge = config.settings["judge"] == NO_JUDGE
    return {
        name: value
        for name, value in dict(config.settings).items()
        if name not in _OF_DIALOGUES
        and not (without_judge and (name.startswith("judge") or name in _OF_JUDGES))
    }


def _cards(summary: RagSummary, stats: QuestionStats) -> Iterator[model.Card]:
    share = summary.overall_percentage / 100
    score, passed = (summary.ci95.get(key) for key in ("score", "pass_rate"))
    yield model.Card(
        title=tr("All questions"),
        value=percent(share),
        label=tr("{score:.2f} of {of:.2f}", score=summary.overall_score, of=summary.max_score),
        share=share,
        interval=score,
        beside=(
            (tr("95 % interval"), format_interval("score", score)),
            (tr("Questions passed"), format_estimate("score", summary.pass_rate, passed)),
        ),
    )
    for text, group in _asked(summary):
        parts = [
            (tr("{part} (weight {weight})", part=label, weight=of), stats.parts[text.name, key])
            for key, label, of in text.parts
        ]
        yield model.Card(
            title=text.title,
            value=percent(_share(group)),
            label=tr("{count:,} of {total:,} passed", count=group.passed, total=group.count),
            share=_share(group),
            interval=group.ci95.get("score"),
            beside=(
                (tr("95 % interval"), format_interval("score", group.ci95.get("score"))),
                *((name, format_estimate("score", part.value, part.interval())) for name, part in parts),
            ),
            meaning=text.meaning,
        )


def _asked(summary: RagSummary) -> Iterator[tuple[TypeText, RagGroup]]:
    """Yield the types that were asked."""
    for text in TYPES:
        if (group := summary.by_type.get(text.name)) is not None and group.count:
            yield text, group


def _scores(title: str, first: str, groups: Iterable[tuple[str, RagGroup]], note: str = "") -> model.Table:
    headings = (first, tr("Asked"), tr("Passed"), tr("Score"), tr("Of"), tr("Share"), tr("95 % interval"))
    rows: list[tuple[model.Value, ...]] = []
    for label, group in groups:
        share = model.Cell(percent(_share(group)), share=min(max(_share(group), 0.0), 1.0))
        score, of = f"{group.total_score:.2f}", f"{group.max_score:.2f}"
        interval = format_interval("score", group.ci95.get("score"))
        rows.append((one_line(label, 80), group.count, group.passed, score, of, share, interval))
    return model.table(title, headings, "lrrrrrr", rows, note)


def _groups(summary: RagSummary) -> Iterator[model.Table]:
    for kind, title in (
        ("difficulty", tr("By difficulty")),
        ("category", tr("By category")),
        ("tag", tr("By tag")),
    ):
        found: Mapping[str, RagGroup] = summary[f"by_{kind}"]
        if found:
            largest = nsmallest(_MAX_GROUPS, found.items(), key=lambda item: (-item[1].count, item[0]))
            note = common.smaller_groups(len(found) - len(largest)).strip()
            names = labels("difficulty") if kind == "difficulty" else {}
            yield _scores(title, tr("Group"), ((names.get(of, of), group) for of, group in largest), note)


def _questions(summary: RagSummary, stats: QuestionStats) -> model.Section | None:
    omitted = summary.total_tests - len(stats.rows)
    headings = (tr("Question"), tr("Type"), tr("Passed"), tr("Score"), tr("Of"))
    left_out = tr("{count:,} more questions are left out; {file} has them all.", count=omitted, file=SUMMARY)
    note = left_out if omitted > 0 else ""
    found = model.table("", headings, "cllrr", stats.rows, note=note) if stats.rows else None
    return model.section("all-questions", tr("All questions"), found)


def _cases(run_dir: Path, summary: RagSummary, stats: QuestionStats) -> model.Section | None:
    """Return the weakest questions with their answers."""
    wanted = {one.id for one in stats.weakest}
    if not wanted:
        return None
    results = reader.scan(run_dir / RESULTS, RagResult)
    answers = {result.id: result.answer for result in results if result.id in wanted}
    cases = []
    for number, one in enumerate(stats.weakest, 1):
        answer = answers.get(one.id)
        text = one_line(answer.answer, 800) if answer is not None else ""
        cites = answer.citation[:_MAX_CITATIONS] if answer is not None else ()
        pages = (
            (tr("p. {page}: ", page=each.page) if each.page is not None else "", each.quote) for each in cites
        )
        quotes = tuple(model.Item(one_line(page + quote, 240)) for page, quote in pages)
        cited = (model.Evidence(tr("Cites"), quotes),) if quotes else ()
        cases.append(
            model.Case(
                anchor=f"question-{number}",
                why=tr("{share:.0f} % of its score", share=100 * _share(one)),
                id=one_line(one.id, 80),
                context=_TYPES[one.type].title,
                question=one_line(one.question, 500),
                reply=None if answer is None else (model.Segment(text),) if text else (),
                evidence=(*_evidence(one), *cited),
            )
        )
    omitted = summary.total_tests - summary.passed_tests - len(cases)
    left_out = tr(
        "{count:,} more questions that did not pass are left out; {file} has them all.",
        count=omitted,
        file=RESULTS,
    )
    block = model.Cases(answered=tr("Answer"), cases=tuple(cases), note=left_out if omitted > 0 else "")
    return model.section("not-passed", tr("Questions that did not pass"), block, nav=tr("Not passed"))


def _evidence(one: RagIndividual) -> Iterator[model.Evidence]:
    def fact(label: str, text: str, limit: int) -> model.Evidence:
        return model.Evidence(label, (model.Item(one_line(text, limit)),))

    if one.error is not None:
        yield fact(tr("Failed"), one.error, 400)
    for key, label, _ in _TYPES[one.type].part_texts:
        if (value := _number(one.details.get(key))) is not None:
            yield fact(tr(label), f"{value:.0%}", 40)
    fields = one.details.get("fields")
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict) and not field.get("matched"):
            name = one_line(str(field.get("field", "?")), 40).replace("_", " ")
            got = tr(
                "expected {expected}, got {got}",
                **{key: plain(field.get(key)) for key in ("expected", "got")},
            )
            yield fact(tr("Field {name}", name=name), got, 200)
    yield from judge_evidence(one)


def judge_evidence(one: RagIndividual | RagResult) -> Iterator[model.Evidence]:
    """Yield the marks of a judge with its reasons, or why there are none."""
    if one.judge is msgspec.UNSET:
        return
    if one.judge.error is not None:
        words = tr("no verdict: {reason}", reason=one.judge.error)
        yield model.Evidence(tr("Judge"), (model.Item(one_line(words, 300)),))
        return
    for mark, title in labels("marks").items():
        reason = one.judge[f"{mark}_reason"]
        given = tr("{mark:g} of 5", mark=one.judge[mark]) + (f": {reason}" if reason else "")
        yield model.Evidence(title, (model.Item(one_line(given, 400)),))


def plain(value: object) -> str:
    """Write a value of an answer; None, of no answer, as a dash."""
    if isinstance(value, bool):
        return tr("yes") if value else tr("no")
    return "-" if value is None else f"{value:,}" if isinstance(value, int | float) else str(value)


def _baselines(summary: RagSummary) -> model.Section | None:
    """Return the shares of the system and of each baseline, None for a run without one."""
    found = summary.baselines or {}
    if not found:
        return None
    rows: list[tuple[model.Value, ...]] = []
    for text, group in _asked(summary):
        cells = [
            (percent(_share(one.by_type[text.name])), one.difference_by_type[text.name])
            for one in found.values()
        ]
        rows.append((text.title, percent(_share(group)), *_beside(cells)))
    cells = [(percent(one.overall_percentage / 100), one.difference) for one in found.values()]
    rows.append((tr("All questions"), percent(summary.overall_percentage / 100), *_beside(cells)))
    titles = [title for name in found for title in (name, tr("Difference"))]
    note = tr("Shares of the score on the same questions; differences are the system's, in points.")
    table = model.table("", (tr("Type"), tr("System"), *titles), "lr" + "rr" * len(found), rows, note)
    return model.section("baselines", tr("Baselines"), table)


def _beside(cells: Iterable[tuple[str, float]]) -> Iterator[str]:
    for share, difference in cells:
        yield share
        yield model.points(difference)


def _judge(
    summary: RagSummary,
    config: BenchConfigFile | None,
    run_stats: RunStats | None,
    controls: rag.RagJudgeControls | None,
) -> model.Section | None:
    """Return the marks of a judge, None for a run without one."""
    judged = summary.judge
    if judged is msgspec.UNSET:
        return None
    stats = run_stats.judge if run_stats is not None else None
    votes = ((tr("Votes per answer"), str(config.settings.judge_votes)),) if config is not None else ()
    names = labels("marks")
    groups = [(text.title, judged.by_type[text.name]) for text in TYPES if text.name in judged.by_type]
    titles = [heading for title in names.values() for heading in (title, tr("95 % interval"))]
    marks = model.table(
        tr("Marks"),
        (tr("Type"), tr("Judged"), tr("Failed"), *titles),
        "lrrrrrr",
        (
            (title, group.asked, group.failed, *_mark(group.faithfulness), *_mark(group.answer_correctness))
            for title, group in (*groups, (tr("All questions"), judged))
        ),
    )
    lead = tr(
        "{judge} read the answers with the relevant pages. Its marks, 1 to 5, change no score.",
        judge=one_line(judged.judge, 200),
    )
    return model.section(
        "judge",
        tr("Judge"),
        model.Block("text", note=lead),
        marks,
        model.Block("facts", (*votes, *common.judge_facts(stats))),
        common.controls_table(controls, names.values(), tr("Expected answer"), _means),
        common.agreement_table(
            stats, {mark: tr("{mark} (interval)", mark=title) for mark, title in names.items()}
        ),
    )


def _means(judged: list[Any]) -> list[str]:
    return [f"{fmean(each[mark] or 0.0 for each in judged):.2f}" for mark in MARKS]


def _mark(mark: RagMark) -> tuple[str | None, str | None]:
    interval = None if mark.ci95 is None else format_interval("judge_score_mean", mark.ci95)
    return None if mark.mean is None else f"{mark.mean:.2f}", interval


def _warnings(summary: RagSummary, stats: QuestionStats) -> Iterator[model.ReportWarning]:
    errors, total, judged = summary.errors, summary.total_tests, summary.judge
    if errors:
        yield warning(
            "system_failed", "warning" if many_failed(errors, total) else "note", errors=errors, total=total
        )
    if summary.document is None:
        yield warning("no_document")
    if summary.unfounded:
        yield warning("unfounded", count=summary.unfounded)
    if stats.facts and stats.declined_facts == stats.facts:
        yield warning("all_declined")
    if stats.gaps and not stats.declined_gaps:
        yield warning("none_declined")
    if judged is not msgspec.UNSET and judged.failed:
        share = judged.failed / judged.asked if judged.asked else 0.0
        long, refused = (judged.declined.get(why, 0) for why in ("too_long", "refused"))
        escaped = tr(" {long} were too long for it, {refused} were refused.", long=long, refused=refused)
        escaped = escaped if long or refused else ""
        yield warning("failed_marks", failed=judged.failed, asked=judged.asked, share=share, escaped=escaped)
