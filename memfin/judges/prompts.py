"""The prompt that asks for a vote on a reply of a dialogue."""

from functools import lru_cache
from typing import Final

from memfin.contracts import JudgeRequest, Language
from memfin.judges.templates import MOST_CHARS, Prompt, Section, Templates, TooLong, one_line
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
    sections = {
        "user": Section("user", request.user_text),
        "profile": _profile(
            request.risk_level, request.horizon, request.liquidity_need, tuple(request.preferences)
        ),
        "constraints": _numbered(
            "constraints", "C", tuple([request.constraints[index] for index in variant.constraints])
        ),
        "rubric": _numbered(
            "rubric", "R", tuple([request.rubric_required[index] for index in variant.rubric])
        ),
        "reply": Section("reply", masked(request.reply) if variant.masked else request.reply),
    }
    return _TEMPLATES.prompt(language_of(request), [sections[name] for name in variant.sections])


@lru_cache(maxsize=64)
def _profile(risk_level: str, horizon: str, liquidity_need: str, preferences: tuple[str, ...]) -> Section:
    """Return the profile: the same for all turns of a dialogue, as are its constraints."""
    fields = (
        ("risk_level", risk_level),
        ("horizon", horizon),
        ("liquidity_need", liquidity_need),
        ("preferences", "; ".join(preferences)),
    )
    return Section("profile", "\n".join(f"{name}: {one_line(text)}" for name, text in fields if text) or "-")


@lru_cache(maxsize=64)
def _numbered(name: str, letter: str, items: tuple[str, ...]) -> Section:
    lines = [f"{letter}{number}: {one_line(item)}" for number, item in enumerate(items, 1)]
    return Section(name, "\n".join(lines) or "-")
