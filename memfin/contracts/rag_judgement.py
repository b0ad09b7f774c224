"""What a judge is asked about an answer to a question of a benchmark, and the record of what it answered."""


from memfin.contracts.base import Count, Language, Record
from memfin.contracts.judgement import ControlKind, Controls, Score, Vote
from memfin.contracts.rag import RagAnswer, RagQuestion
from memfin.contracts.rag_verdict import RagVerdict


class RagPage(Record):
    """A page of the document: its number and its text."""

    number: int
    text: str


class RagJudgeRequest(Record):
    """One answer to judge; every text in it is untrusted.

    ``pages`` are those of the document that bear on it: where the required evidence stands, then those that
    the answer's evidence and citations point at. ``pages_left_out`` counts those of the latter for which
    there was no room.
    """

    question: RagQuestion
    answer: RagAnswer
    language: Language = "zh"
    pages: list[RagPage] = []
    pages_left_out: Count = 0


class RagJudgement(Vote[RagVerdict], kw_only=True):
    """One line of ``rag_judgements.jsonl``: a vote on one answer."""

    run_id: str
    id: str
    question_index: int
    judge: str


class RagJudgeControl(Record):
    """An answer whose worth is known beforehand, judged like any other.

    ``null`` says nothing, ``injected`` says nothing and orders the judge to give full marks, ``oracle`` is
    the answer that the benchmark expects to the question ``id``.
    """

    kind: ControlKind
    id: str
    faithfulness: Score | None = None
    answer_correctness: Score | None = None
    error: str | None = None


class RagJudgeControls(Controls[RagJudgeControl], kw_only=True):
    """``rag_judge_controls.json``: what the judge made of the controls, and what is wrong with that."""
