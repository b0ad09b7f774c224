"""What the report of a benchmark run says, before any format.

All strings that came out of a run are already made visible and cut; they are still untrusted markup.
"""

from dataclasses import dataclass

from memfin.report.model import Caution, FailureGroup, Timing
from memfin.report.rag.words import TypeText


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """A group of questions: how many there are, how many passed, what they score of the greatest."""

    label: str
    count: int
    passed: int
    score: float
    max_score: float

    @property
    def share(self) -> float:
        """Return the score as a share of the greatest, 0 to 1."""
        return self.score / self.max_score if self.max_score else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeView:
    """A type of question with its sums; ``parts`` are the means of the parts of its score, 0 to 1."""

    text: TypeText
    row: ScoreRow
    parts: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTable:
    """Scores by a property of the questions."""

    title: str
    rows: tuple[ScoreRow, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionCase:
    """A question that did not pass: what was asked and answered, what its score is made of, its marks."""

    id: str
    type: str
    question: str
    answer: str | None
    share: float
    parts: tuple[tuple[str, str], ...]
    citations: tuple[str, ...]
    error: str | None
    marks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RagJudgeView:
    """What a judge says of the answers; rows are words, ready to show.

    ``rows`` are a type of question, how many were judged and failed, and of faithfulness and of answer
    correctness the mean and its interval. ``agreement`` rows are mark, units, share of equal pairs, alpha;
    ``controls`` rows are kind, how many were judged, both mean marks, and the mark they ought to have.
    """

    judge: str
    rows: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, str], ...]
    agreement: tuple[tuple[str, str, str, str], ...]
    controls: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RagReportModel:
    """Everything that the report of a benchmark run shows."""

    run_id: str
    system: str
    benchmark: str
    document: str | None
    type_filter: str | None
    started_at: str
    ended_at: str | None
    notes: str | None
    total: ScoreRow
    pass_rate: float
    errors: int
    types: tuple[TypeView, ...]
    tables: tuple[ScoreTable, ...]
    cases: tuple[QuestionCase, ...]
    cases_omitted: int
    rows: tuple[tuple[str, str, bool, float, float], ...]
    rows_omitted: int
    judging: RagJudgeView | None
    cautions: tuple[Caution, ...]
    failures: tuple[FailureGroup, ...]
    timing: Timing | None
    fingerprint: str | None
    memfin_version: str | None
    settings: tuple[tuple[str, str], ...]
    fingerprint_inputs: tuple[tuple[str, str], ...]
