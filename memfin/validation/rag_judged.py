"""What must hold of the judge's part of a benchmark run."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from memfin.contracts.rag import (
    RagIndividual,
    RagJudged,
    RagJudgeGroup,
    RagJudgement,
    RagJudgeSummary,
    RagResult,
)
from memfin.validation.findings import Steps, Violation
from memfin.validation.rules import RunRules

MARKS: Final = ("faithfulness", "answer_correctness")

_SLACK: Final = 1e-9


class RagJudgementRules(RunRules):
    """``rag_judgements.jsonl``: a verdict or an error, once a vote on an answer."""

    def __init__(self) -> None:
        super().__init__()
        self._judged: set[tuple[int, int]] = set()

    def check(self, record: RagJudgement) -> Iterator[Violation]:
        """Check one judgement."""
        yield from super().check(record)
        for name in ("question_index", "vote"):
            if record[name] < 1:
                yield Violation((name,), f"{record[name]} is less than 1")
        if (record.verdict is None) == (record.error is None):
            both = "both are set" if record.verdict else "neither is"
            yield Violation(("verdict",), f"a judgement has a verdict or an error; {both}")
        key = record.question_index, record.vote
        if key in self._judged:
            yield Violation(("question_index",), "this vote on the answer stands on an earlier line too")
        self._judged.add(key)


def judged_violations(record: RagResult | RagIndividual) -> Iterator[Violation]:
    """Check the judge's part of a result: it has both marks, or an error that says why it has none."""
    judged = record.judge
    if judged is msgspec.UNSET:
        return
    if record.error is not None:
        yield Violation(("judge",), "there, though the question has no answer")
    given = [judged[mark] is not None for mark in MARKS]
    if given != [judged.error is None] * 2:
        yield Violation(("judge",), "a judged answer has both marks, and a failed judgement an error")
    if judged.declined is not None and judged.error is None:
        yield Violation(("judge", "declined"), "set, though the judgement did not fail")


def judge_summary_violations(
    summary: RagJudgeSummary | msgspec.UnsetType, listed: Sequence[RagIndividual]
) -> Iterator[Violation]:
    """Check the judge's part of a summary against the questions that it lists."""
    judged = [(one.type, one.judge) for one in listed if one.judge is not msgspec.UNSET]
    if summary is msgspec.UNSET:
        if judged:
            yield Violation(("judge",), f"missing, but {len(judged)} listed answers were judged")
        return
    yield from _group(("judge",), summary, [each for _, each in judged])
    for name in {kind for kind, _ in judged} | set(summary.by_type):
        group = summary.by_type.get(name, RagJudgeGroup())
        yield from _group(("judge", "by_type", name), group, [each for kind, each in judged if kind == name])


def _group(steps: Steps, group: RagJudgeGroup, judged: Sequence[RagJudged]) -> Iterator[Violation]:
    failed = sum(each.error is not None for each in judged)
    for name, told, here in (("asked", group.asked, len(judged)), ("failed", group.failed, failed)):
        if told != here:
            yield Violation((*steps, name), f"{told}, but the listed questions amount to {here}")
    for mark in MARKS:
        scores = [each[mark] for each in judged if each[mark] is not None]
        stated = group[mark]
        found = math.fsum(scores) / len(scores) if scores else 0.0
        there = stated.mean or 0.0
        if stated.count != len(scores) or not math.isclose(there, found, rel_tol=_SLACK):
            message = (
                f"{stated.count} marks, mean {there}, but the listed questions have "
                f"{len(scores)}, mean {found}"
            )
            yield Violation((*steps, mark), message)
        if stated.ci95 is not None and stated.ci95[0] > stated.ci95[1]:
            yield Violation((*steps, mark, "ci95"), "the lower bound is above the upper bound")
