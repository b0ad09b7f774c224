"""What a judge says of an answer to a question of a benchmark, and what that amounts to over a run.

The two marks are the field's standard terms for answers from documents. *Faithfulness*: is every statement of
the answer borne out by the pages that were given to the judge? *Answer correctness*: does the answer say what
the benchmark expects? A wrong answer may be faithful, and a right one may rest on nothing.
"""

from typing import Annotated

import msgspec

from memfin.contracts.base import Count, Finite, Record
from memfin.contracts.judgement import Declined, Score

MeanScore = Annotated[float, msgspec.Meta(ge=1.0, le=5.0)]


class RagVerdict(Record):
    """A judge's marks for one answer, on its scale of 1 to 5, and why.

    ``spread`` is the widest distance of a mark over several votes, None for a single one.
    """

    faithfulness: Score
    answer_correctness: Score
    faithfulness_reason: str = ""
    answer_correctness_reason: str = ""
    spread: Finite | None = None


class RagJudged(Record):
    """The judge's part of a result: its marks, or why there are none; never a default.

    ``pages`` are the pages of the document that the judge was given; ``pages_left_out`` counts those that
    the answer points at besides, for which there was no room. ``error`` says why a judgement did not come
    about, ``declined`` that it was for what the answer is.
    """

    judge: str
    faithfulness: Score | None = None
    answer_correctness: Score | None = None
    faithfulness_reason: str | None = None
    answer_correctness_reason: str | None = None
    spread: Finite | None = None
    pages: list[int] = []
    pages_left_out: Count = 0
    error: str | None = None
    declined: Declined | None = None


class RagMark(Record):
    """The mean of a mark over answers, with its 95 % interval; None without answers, or without two."""

    count: Count = 0
    mean: MeanScore | None = None
    ci95: tuple[MeanScore, MeanScore] | None = None


class RagJudgeGroup(Record):
    """What a judge says of a group of questions.

    ``asked`` answers were put to it and ``failed`` of them got no verdict, of which ``declined`` were
    ``too_long`` for it or ``refused``; such are in no mean.
    """

    asked: Count = 0
    failed: Count = 0
    declined: dict[str, int] = {}
    faithfulness: RagMark = RagMark()
    answer_correctness: RagMark = RagMark()


class RagJudgeSummary(RagJudgeGroup, kw_only=True):
    """The judge's part of ``rag_summary.json``; it stands beside the formulas and changes no score."""

    judge: str
    by_type: dict[str, RagJudgeGroup] = {}
