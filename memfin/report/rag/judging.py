"""The judge's part of a benchmark's report: its marks, what failed, what it made of the controls."""

from collections.abc import Iterator
from statistics import fmean
from typing import Final

import msgspec

from memfin.contracts import BenchConfigFile, JudgeStats
from memfin.contracts.rag import RagJudgeControls, RagJudgeGroup, RagMark, RagSummary
from memfin.report.judging import agreement_rows, judge_facts
from memfin.report.model import Caution
from memfin.report.rag.model import RagJudgeView
from memfin.report.rag.words import MARKS, TYPES
from memfin.text.lines import one_line

_CONTROLS: Final = (
    ("null", "Says nothing", "1.00"),
    ("injected", "Says nothing and orders full marks", "1.00"),
    ("oracle", "Expected answer", "3.00 or more"),
)
_AGREEMENT: Final = {mark: f"{title} (interval)" for mark, title in MARKS.items()}


def rag_judge_view(
    summary: RagSummary,
    config: BenchConfigFile | None,
    stats: JudgeStats | None,
    controls: RagJudgeControls | None,
) -> RagJudgeView | None:
    """Return the judge's part, None for a run without a judge."""
    judged = summary.judge
    if judged is msgspec.UNSET:
        return None
    votes = (("Votes an answer", str(config.settings.judge_votes)),) if config is not None else ()
    of_types = [(text.title, judged.by_type[text.name]) for text in TYPES if text.name in judged.by_type]
    return RagJudgeView(
        judge=one_line(judged.judge, 200),
        rows=tuple(_row(title, group) for title, group in (*of_types, ("All questions", judged))),
        facts=(*votes, *judge_facts(stats)),
        agreement=agreement_rows(stats, _AGREEMENT),
        controls=tuple(_control_rows(controls)) if controls is not None else (),
    )


def rag_judge_cautions(summary: RagSummary) -> Iterator[Caution]:
    """Yield what there is to say of judgements that failed."""
    judged = summary.judge
    if judged is msgspec.UNSET or not judged.failed:
        return
    share = judged.failed / judged.asked if judged.asked else 0.0
    long, refused = (judged.declined.get(why, 0) for why in ("too_long", "refused"))
    escaped = f" {long} were too long for it, {refused} were refused." if long or refused else ""
    yield Caution(
        level="warning",
        title="Judgements failed",
        detail=(
            f"{judged.failed} of {judged.asked} answers ({share:.1%}) got no marks; they are in no mean of "
            f"the judge, and the formulas score them all the same.{escaped}"
        ),
    )


def _row(title: str, group: RagJudgeGroup) -> tuple[str, ...]:
    return (
        title,
        str(group.asked),
        str(group.failed),
        *_mark(group.faithfulness),
        *_mark(group.answer_correctness),
    )


def _mark(mark: RagMark) -> tuple[str, str]:
    mean = "-" if mark.mean is None else f"{mark.mean:.2f}"
    return mean, "-" if mark.ci95 is None else f"{mark.ci95[0]:.2f} to {mark.ci95[1]:.2f}"


def _control_rows(controls: RagJudgeControls) -> Iterator[tuple[str, ...]]:
    for kind, label, expected in _CONTROLS:
        of_kind = [control for control in controls.controls if control.kind == kind]
        judged = [control for control in of_kind if control.error is None]
        if of_kind:
            means = (
                f"{fmean(control[mark] or 0.0 for control in judged):.2f}" if judged else "-"
                for mark in MARKS
            )
            yield label, f"{len(judged)} of {len(of_kind)}", *means, expected
