"""The task of grading answers to probes beside replies, by two criteria that published figures rest on.

The lenient one accepts what is on the same point, as evaluations on LoCoMo do (mem0, arXiv:2504.19413); the
strict one wants all of the right answer, as LongMemEval does (arXiv:2410.10813). The words are MemFin's own.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from memfin.contracts import JudgeRequest, ProbeRequest, Verdict
from memfin.judges.prompts import Section, Templates, masked, one_line, turned
from memfin.judges.protocol import GradingPrompt, token_estimate
from memfin.judges.reply_grading import MAX_REASON, ReplyGrading, language_of, read_grading

_FRAME_TOKENS: Final = 600
"""Tokens of the fixed part of the prompt, and of an answer."""

_RIGHT: Final = 5.0
_WRONG: Final = 1.0
_SCHEMA: Final = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "correct": {"type": "boolean"}},
    "required": ["reason", "correct"],
    "additionalProperties": False,
}
_TEMPLATES: Final = Templates("probe-v1")


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer as the model writes it."""

    reason: str
    correct: bool


class ReplyAndProbeGrading(ReplyGrading):
    """Task of judging replies, and the answers to probes."""

    def prompt_hashes(self) -> Mapping[str, str]:
        """Return the digests of the prompts' files."""
        return {**super().prompt_hashes(), **_TEMPLATES.hashes()}

    def grading_prompt(self, request: JudgeRequest, vote: int) -> GradingPrompt[Verdict]:
        """Return a vote; further ones on a probe turn the sections and mask names. Raises `TooLong`."""
        if not isinstance(request, ProbeRequest):
            return super().grading_prompt(request, vote)
        sections = [Section("question", request.user_text)]
        if request.rubric_required:
            sections.append(Section("gold", "\n".join(map(one_line, request.rubric_required))))
        sections.append(Section("answer", masked(request.reply) if vote else request.reply))
        values = {"strict": request.grade == "strict", "known": bool(request.rubric_required)}
        prompt = _TEMPLATES.prompt(language_of(request), turned(sections, vote), values)
        return GradingPrompt(
            prompt, _SCHEMA, _read, token_estimate([section.text for section in sections], _FRAME_TOKENS)
        )


def is_right(verdict: Verdict) -> bool:
    """Return True if an answer is right; votes that are equally divided go against it."""
    return verdict.score > (_RIGHT + _WRONG) / 2


def _read(text: str) -> Verdict:
    answer = read_grading(text, _Answer)
    return Verdict(
        score=_RIGHT if answer.correct else _WRONG, rubric_items=[], reason=answer.reason[:MAX_REASON]
    )
