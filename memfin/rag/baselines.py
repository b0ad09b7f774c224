"""Baselines of a benchmark run: their scores on the same questions, and the differences to the system's."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from memfin.contracts.rag import (
    RAG_SCHEMA_VERSION,
    RagAnswer,
    RagBaseline,
    RagGroup,
    RagQuestion,
    RagResult,
    RagSummary,
)
from memfin.rag.aggregation import RagState
from memfin.rag.document import Document
from memfin.rag.scoring import DocumentIndex, score_question
from memfin.rag.systems.under_test import baseline_system

_PERCENT: Final = 100


def baseline_summaries(
    names: Iterable[str],
    questions: Collection[tuple[int, RagQuestion]],
    document: Document,
    index: DocumentIndex,
) -> dict[str, RagSummary]:
    """Ask each baseline all questions, and return the summaries by name.

    Raises:
        UsageError: the package of a baseline is missing.
    """
    found: dict[str, RagSummary] = {}
    for name in dict.fromkeys(names):
        found[name] = summary_of(baseline_system(name, document), questions, index)
    return found


def summary_of(system: Any, questions: Iterable[tuple[int, RagQuestion]], index: DocumentIndex) -> RagSummary:
    """Ask a system that never waits all questions, and return the sums of its scores."""
    state = RagState()
    for number, question in questions:
        score = score_question(question, answer_of(system, question.question), index)
        state.add(
            RagResult(
                schema_version=RAG_SCHEMA_VERSION,
                run_id="",
                id=question.id,
                type=question.type,
                question="",
                question_index=number,
                passed=score.passed,
                score=score.score,
                max_score=score.max_score,
            )
        )
    return state.summary("")


def answer_of(system: Any, question: str) -> RagAnswer:
    """Return the answer of an asynchronous system that never waits, outside of any event loop."""
    query = system.query(question)
    try:
        query.send(None)
    except StopIteration as done:
        answer: RagAnswer = done.value
        return answer
    query.close()
    raise RuntimeError(f"the baseline {system.reference} waits")


def with_baselines(summary: RagSummary, baselines: Mapping[str, RagSummary]) -> RagSummary:
    """Return a summary with those of baselines, if there are any."""
    if not baselines:
        return summary
    return summary.replace(baselines={name: _compared(summary, of) for name, of in baselines.items()})


def _compared(summary: RagSummary, baseline: RagSummary) -> RagBaseline:
    types = {name: _percentage(group) for name, group in summary.by_type.items()}
    return RagBaseline(
        passed_tests=baseline.passed_tests,
        overall_score=baseline.overall_score,
        max_score=baseline.max_score,
        overall_percentage=baseline.overall_percentage,
        difference=summary.overall_percentage - baseline.overall_percentage,
        by_type=baseline.by_type,
        difference_by_type={name: types[name] - _percentage(of) for name, of in baseline.by_type.items()},
        ci95=baseline.ci95,
    )


def _percentage(group: RagGroup) -> float:
    return _PERCENT * group.total_score / group.max_score if group.max_score else 0.0
