"""Scoring of answers to the three types of questions (RAG benchmark schema; spec section 9)."""

from memfin.rag.scoring.evidence import DocumentIndex
from memfin.rag.scoring.question import QuestionScore, score_failure, score_question

__all__ = ["DocumentIndex", "QuestionScore", "score_failure", "score_question"]
