"""What must hold of a benchmark run's results and summary, and between them."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memfin.contracts import Counters
from memfin.contracts.rag import RagGroup, RagIndividual, RagResult, RagSummary
from memfin.contracts.reading import shown
from memfin.validation.findings import Finding, Steps, Violation, file_text
from memfin.validation.rag_judged import judge_summary_violations, judged_violations
from memfin.validation.rules import RunRules, digest

_SLACK: Final = 1e-9

Scores = dict[bytes, tuple[bool, float, float]]
"""Whether questions passed, their scores and the greatest ones, by a digest of their ids."""


class RagResultRules(RunRules):
    """``rag_results.jsonl``: a question stands once, and its score is one it can have."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: Scores = {}
        self._places: set[int] = set()
        self._errors = 0

    def check(self, record: RagResult) -> Iterator[Violation]:
        """Check one result."""
        yield from super().check(record)
        key = digest(record.id)
        if key in self.scores:
            yield Violation(("id",), f"{shown(record.id)} stands on an earlier line too")
        if record.question_index in self._places:
            yield Violation(("question_index",), f"{record.question_index} is that of an earlier line, too")
        self._places.add(record.question_index)
        self.scores[key] = (record.passed, record.score, record.max_score)
        self._errors += record.error is not None
        yield from _score(record)
        yield from judged_violations(record)
        if record.error is not None and (record.passed or record.score):
            yield Violation(("error",), "a question that failed has no score and does not pass")
        if record.status is not None and (record.status == "ok") != (record.error is None):
            yield Violation(("status",), f"{record.status}, while error is {shown(record.error)}")
        if record.error is None and record.answer is None:
            yield Violation(("answer",), "missing, and no error says why")

    def counters(self) -> Counters:
        """Return what the manifest must count: a question is a dialogue of one turn."""
        total = len(self.scores)
        return Counters(
            total_dialogs=total, valid_dialogs=total, failed_dialogs=self._errors, total_turn_pairs=total
        )


class RagSummaryRules(RunRules):
    """``rag_summary.json``: its sums are those of the questions that it lists."""

    def __init__(self) -> None:
        super().__init__()
        self.summary: RagSummary | None = None

    def check(self, record: RagSummary) -> Iterator[Violation]:
        """Check the summary."""
        yield from super().check(record)
        self.summary = record
        listed = record.individual_results
        for index, one in enumerate(listed):
            steps: Steps = ("individual_results", index)
            wrong = (*_score(one), *judged_violations(one))
            yield from (Violation((*steps, *inner), message) for inner, message in wrong)
        yield from judge_summary_violations(record.judge, listed)
        yield from _sums((), _total(record), listed, ("total_tests", "passed_tests", "overall_score"))
        for name, group in record.by_type.items():
            of_type = [one for one in listed if one.type == name]
            yield from _sums(("by_type", name), group, of_type, ("count", "passed", "total_score"))
        if missing := {one.type for one in listed} - set(record.by_type):
            yield Violation(("by_type",), f"{', '.join(sorted(missing))} is missing")
        share = record.passed_tests / record.total_tests if record.total_tests else 0.0
        percent = 100 * record.overall_score / record.max_score if record.max_score else 0.0
        for name, stated, found in (
            ("pass_rate", record.pass_rate, share),
            ("overall_percentage", record.overall_percentage, percent),
        ):
            if not _alike(stated, found):
                yield Violation((name,), f"{stated}, but the sums amount to {found}")


def _score(record: RagResult | RagIndividual) -> Iterator[Violation]:
    if not -_SLACK <= record.score <= record.max_score + _SLACK:
        yield Violation(("score",), f"{record.score} is not between 0 and max_score {record.max_score}")


def _total(record: RagSummary) -> RagGroup:
    return RagGroup(
        count=record.total_tests,
        passed=record.passed_tests,
        total_score=record.overall_score,
        max_score=record.max_score,
    )


def _sums(
    steps: Steps, stated: RagGroup, listed: list[RagIndividual], names: tuple[str, str, str]
) -> Iterator[Violation]:
    count, passed, score = names
    for name, there, here in (
        (count, stated.count, len(listed)),
        (passed, stated.passed, sum(one.passed for one in listed)),
        (score, stated.total_score, math.fsum(one.score for one in listed)),
        ("max_score", stated.max_score, math.fsum(one.max_score for one in listed)),
    ):
        if not _alike(there, here):
            yield Violation((*steps, name), f"{there}, but the listed questions amount to {here}")


def _alike(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SLACK, abs_tol=_SLACK)


def results_against_answers(
    path: Path,
    results: Scores,
    answers: dict[bytes, tuple[bool, float, float]],
) -> Iterator[Finding]:
    """Yield where results differ from what was written down before a judge had read the answers."""
    lost = sum(key not in answers for key in results)
    if lost:
        message = f"{lost} questions are not in rag_answers.jsonl"
        yield Finding(file=file_text(path), line=1, path="$", message=message)
    changed = sum(key in answers and answers[key] != scores for key, scores in results.items())
    if changed:
        message = f"{changed} questions have another score than in rag_answers.jsonl; a judge changes none"
        yield Finding(file=file_text(path), line=1, path="$.score", message=message)


def summary_against_results(path: Path, summary: RagSummary, results: Scores) -> Iterator[Finding]:
    """Yield where a summary and the results of its run differ."""
    for index, one in enumerate(summary.individual_results):
        found = results.get(digest(one.id))
        if found is None:
            message = f"{shown(one.id)} is no question of rag_results.jsonl"
        elif found != (one.passed, one.score, one.max_score):
            message = "passed, score and max_score differ from those in rag_results.jsonl"
        else:
            continue
        yield Finding(file=file_text(path), line=1, path=f"$.individual_results[{index}]", message=message)
    if (here := len(summary.individual_results)) < (there := len(results)):
        message = f"{here} questions, but rag_results.jsonl holds {there}"
        yield Finding(file=file_text(path), line=1, path="$.individual_results", message=message)
