"""The task of judging a reply of a dialogue (spec section 7)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memfin.contracts import JudgeRequest, Verdict
from memfin.judges.answers import answer_schema, read_answer
from memfin.judges.panel import combined
from memfin.judges.prompts import PROMPT_VERSION, compose, prompt_hashes
from memfin.judges.task import GradingPrompt, JudgeTask, token_estimate
from memfin.judges.variants import variant

_FRAME_TOKENS: Final = 1500
"""Tokens of the fixed part of the prompt, and of an answer."""


class ReplyGrading(JudgeTask[JudgeRequest, Verdict]):
    """Asks how well a reply explains itself, and in the scope ``all`` what it discloses and violates."""

    version = PROMPT_VERSION
    verdict = Verdict

    def prompt_hashes(self) -> Mapping[str, str]:
        """Return the digests of the prompt's files."""
        return prompt_hashes()

    def grading_prompt(self, request: JudgeRequest, vote: int) -> GradingPrompt[Verdict]:
        """Return a vote, in the `variant` of its number; raises `TooLong`."""
        turned = variant(vote, len(request.rubric_required), len(request.constraints))
        texts = [request.user_text, request.reply, *request.constraints, *request.rubric_required]
        return GradingPrompt(
            compose(request, turned),
            answer_schema(len(request.rubric_required), len(request.constraints)),
            lambda text: read_answer(text, request, turned),
            token_estimate(texts, _FRAME_TOKENS),
        )

    def combined(self, request: JudgeRequest, votes: Sequence[Verdict]) -> Verdict:
        """Return the verdict of a panel."""
        return combined(request, votes)

    def scrubbed(self, verdict: Verdict, scrub: Callable[[str], str]) -> Verdict:
        """Return a verdict with its reason scrubbed."""
        reason = scrub(verdict.reason)
        return verdict if reason == verdict.reason else verdict.replace(reason=reason)

    def lacking(self, request: JudgeRequest, verdict: Verdict) -> str | None:
        """Name the reading that the scope ``all`` asks for and the verdict does not carry."""
        if request.scope != "all":
            return None
        readings = ("compliance", "contradicted_constraints", "risk_tags")
        missing = next((name for name in readings if verdict[name] is None), None)
        return f"{missing}, which the scope all asks for" if missing is not None else None
