"""The task of judging an answer to a question of a benchmark."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memfin.contracts.rag import RagJudgeRequest, RagVerdict
from memfin.judges.protocol import GradingPrompt, Judge, JudgeTask, token_estimate
from memfin.rag.judging.answers import SCHEMA, read_answer
from memfin.rag.judging.panel import combined
from memfin.rag.judging.prompts import PROMPT_VERSION, TEMPLATES, compose, sections_of

RagJudge = Judge[RagJudgeRequest, RagVerdict]
"""A judge of answers."""

_FRAME_TOKENS: Final = 1500
"""Tokens of the fixed part of the prompt, and of an answer."""


class RagTask(JudgeTask[RagJudgeRequest, RagVerdict]):
    """Asks whether pages bear an answer out, and whether it says what is expected."""

    version = PROMPT_VERSION
    verdict = RagVerdict

    def prompt_hashes(self) -> Mapping[str, str]:
        """Return the digests of the prompt's files."""
        return TEMPLATES.hashes()

    def grading_prompt(self, request: RagJudgeRequest, vote: int) -> GradingPrompt[RagVerdict]:
        """Return a vote; raises `TooLong`."""
        texts = (section.text for section in sections_of(request))
        return GradingPrompt(
            compose(request, vote), SCHEMA, read_answer, token_estimate(texts, _FRAME_TOKENS)
        )

    def combined(self, request: RagJudgeRequest, votes: Sequence[RagVerdict]) -> RagVerdict:
        """Return the verdict of a panel."""
        del request
        return combined(votes)

    def scrubbed(self, verdict: RagVerdict, scrub: Callable[[str], str]) -> RagVerdict:
        """Return a verdict with its reasons scrubbed."""
        return verdict.replace(
            faithfulness_reason=scrub(verdict.faithfulness_reason),
            answer_correctness_reason=scrub(verdict.answer_correctness_reason),
        )
