"""Summary of the RAG suite, from exact sums that are independent of the order (spec section 9)."""

import operator
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from memfin.contracts.rag import RAG_SCHEMA_VERSION, RagGroup, RagIndividual, RagResult, RagSummary
from memfin.contracts.reading import InvalidRecord, decode
from memfin.metrics.interval import PRIOR_EVENTS_GRADED, share_bounds
from memfin.rag.judging import MARKS, JudgeState

_PERCENT: Final = 100

AnyResult = RagResult | RagIndividual  # a line of the results, or what the summary has of it


class Sums(NamedTuple):
    """Sums over a group of questions; scores are fractions, so their sum has no order."""

    questions: int = 0
    passed: int = 0
    errors: int = 0
    score: Fraction = Fraction()
    max_score: Fraction = Fraction()
    score_squares: Fraction = Fraction()
    products: Fraction = Fraction()
    max_squares: Fraction = Fraction()

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Return the 95 % intervals of the share of the greatest score and of the pass rate."""
        n = self.questions
        if n < 2 or not self.max_score:  # noqa: PLR2004 - no spread without a second question
            return {}
        share = self.score / self.max_score
        residuals = self.score_squares - 2 * share * self.products + share * share * self.max_squares
        scale = n / self.max_score  # points are no events: a question is one unit
        score = share_bounds(
            n,
            float(self.score * scale),
            n,
            float(residuals * scale * scale),
            float(self.max_squares * scale * scale),
            PRIOR_EVENTS_GRADED,
        )
        rate = self.passed / n
        return {"score": score, "pass_rate": share_bounds(n, self.passed, n, n * rate * (1 - rate), n)}


class RagState:
    """Sums over the results of a run, by group.

    States of any shards of a run may be merged in any order: the summary is the same to the last byte.
    """

    def __init__(self) -> None:
        self._groups: defaultdict[tuple[str, str], Sums] = defaultdict(Sums)
        self._judged = JudgeState()

    def add(self, result: RagResult) -> None:
        """Count a result."""
        # As decimal numbers: 0.1 is one tenth, and ten of them are 1.
        score, most = Fraction(repr(result.score)), Fraction(repr(result.max_score))
        squares = score * score, score * most, most * most
        sums = Sums(1, int(result.passed), int(result.error is not None), score, most, *squares)
        for key in _groups_of(result):
            self._count(key, sums)
        if result.judge is not msgspec.UNSET:
            self._judged.add(result.type, result.judge)

    def merge(self, other: Self) -> None:
        """Add the counts of another state, which stays as it is."""
        for key, sums in other._groups.items():
            self._count(key, sums)
        self._judged.merge(other._judged)

    def _count(self, key: tuple[str, str], sums: Sums) -> None:
        self._groups[key] = Sums(*map(operator.add, self._groups[key], sums))  # pyright: ignore[reportArgumentType]

    def _by(self, kind: str) -> dict[str, RagGroup]:
        return {
            name: RagGroup(
                count=sums.questions,
                passed=sums.passed,
                total_score=float(sums.score),
                max_score=float(sums.max_score),
                ci95=sums.intervals(),
            )
            for (of, name), sums in sorted(self._groups.items())
            if of == kind
        }

    def summary(self, run_id: str, **names: Any) -> RagSummary:
        """Return the summary so far, without the individual results; ``names`` are further fields."""
        total = self._groups["all", ""]
        names |= {f"by_{kind}": self._by(kind) for kind in ("type", "difficulty", "category", "tag")}
        return RagSummary(
            schema_version=RAG_SCHEMA_VERSION,
            run_id=run_id,
            total_tests=total.questions,
            passed_tests=total.passed,
            pass_rate=total.passed / total.questions if total.questions else 0.0,
            overall_score=float(total.score),
            max_score=float(total.max_score),
            overall_percentage=float(_PERCENT * total.score / total.max_score) if total.max_score else 0.0,
            errors=total.errors,
            judge=self._judged.summary(),
            ci95=total.intervals(),
            **names,
        )


def _groups_of(result: RagResult) -> Iterator[tuple[str, str]]:
    """Yield the groups of a result; a repeated tag counts once."""
    yield "all", ""
    for kind in ("type", "difficulty", "category"):
        if result[kind] is not None:
            yield kind, result[kind]
    for tag in dict.fromkeys(result.tags):
        yield "tag", tag


def regressions(right_before: Container[str], now: Iterable[AnyResult]) -> list[str]:
    """Return the sorted ids of fact questions that are wrong now and were right before."""
    wrong = (result.id for result in now if result.type == "fact_exact" and not is_right_fact(result))
    return sorted(name for name in wrong if name in right_before)


def is_right_fact(result: AnyResult) -> bool:
    """Return True for a fact question answered with the expected values, with or without citations."""
    return result.type == "fact_exact" and result.error is None and result.details.get("exact_match") == 1


def headline_values(summary: RagSummary) -> dict[str, float]:
    """Return the headline values by name, for tracking over repetitions.

    ``rag.overall_percentage`` and ``rag.pass_rate`` are of the summary, ``rag.TYPE.percentage`` and
    ``rag.TYPE.pass_rate`` of the questions of one type, and ``rag.judge.MARK`` are the means of a judge.
    """
    values = {"rag.overall_percentage": summary.overall_percentage, "rag.pass_rate": summary.pass_rate}
    for kind, group in summary.by_type.items():
        if group.count:
            share = group.total_score / group.max_score if group.max_score else 0.0
            values[f"rag.{kind}.percentage"] = _PERCENT * share
            values[f"rag.{kind}.pass_rate"] = group.passed / group.count
    if summary.judge is not msgspec.UNSET:
        for mark in MARKS:
            if (mean := summary.judge[mark].mean) is not None:
                values[f"rag.judge.{mark}"] = mean
    return values


_Name = msgspec.defstruct("_Name", [("id", str), ("question_index", int)])


def individual_results(path: Path) -> Iterator[RagIndividual]:
    """Yield the summary's part of each committed result in ``rag_results.jsonl``, in the order of ids.

    Memory holds ids and offsets, and one line.

    Raises:
        OSError: the file cannot be read.
        InvalidRecord: a line is no result.
    """
    places: list[tuple[str, int, int]] = []
    offset = 0
    with path.open("rb") as file:
        try:
            for line in file:
                name: Any = decode(line, _Name)
                places.append((name.id, name.question_index, offset))
                offset += len(line)
            for *_, place in sorted(places):
                file.seek(place)
                yield decode(file.readline(), RagIndividual)
        except InvalidRecord as problem:
            raise type(problem)(f"{path}: {problem}") from None
