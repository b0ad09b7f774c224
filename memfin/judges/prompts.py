"""The prompt that asks for a vote on a reply of a dialogue."""

from typing import Final

from memfin.contracts import JudgeRequest
from memfin.judges.templates import MOST_CHARS, Language, Prompt, Section, Templates, TooLong, one_line
from memfin.judges.variants import Variant, masked

__all__ = [
    "MOST_CHARS",
    "PROMPT_VERSION",
    "Language",
    "Prompt",
    "TooLong",
    "compose",
    "language_of",
    "prompt_hashes",
]

PROMPT_VERSION: Final = "judge-v1"

_TEMPLATES: Final = Templates(PROMPT_VERSION)


def prompt_hashes() -> dict[str, str]:
    """Return the SHA-256 of every file that prompts are made of, by its name."""
    return _TEMPLATES.hashes()


def language_of(request: JudgeRequest) -> Language:
    """Return the language of the prompt: Chinese, unless the dialogue is in another one."""
    return "zh" if request.language.lower().startswith(("zh", "cn", "chinese", "中")) else "en"


def compose(request: JudgeRequest, variant: Variant) -> Prompt:
    """Return the prompt that asks for one vote on a reply.

    Rubric items are numbered ``R1``, ``R2``, ... and constraints ``C1``, ``C2``, ... in the
    variant's order, so that an answer names them without their words.

    Raises:
        TooLong: the texts have more than `MOST_CHARS` characters together.
    """
    texts = {
        "user": request.user_text,
        "profile": _profile(request),
        "constraints": _numbered("C", [request.constraints[index] for index in variant.constraints]),
        "rubric": _numbered("R", [request.rubric_required[index] for index in variant.rubric]),
        "reply": masked(request.reply) if variant.masked else request.reply,
    }
    return _TEMPLATES.prompt(language_of(request), [Section(name, texts[name]) for name in variant.sections])


def _profile(request: JudgeRequest) -> str:
    fields = (
        ("risk_level", request.risk_level),
        ("horizon", request.horizon),
        ("liquidity_need", request.liquidity_need),
        ("preferences", "; ".join(request.preferences)),
    )
    return "\n".join(f"{name}: {one_line(text)}" for name, text in fields if text) or "-"


def _numbered(letter: str, items: list[str]) -> str:
    return "\n".join(f"{letter}{number}: {one_line(item)}" for number, item in enumerate(items, 1)) or "-"
