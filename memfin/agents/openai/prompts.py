"""System prompts of agents that are models: the ones that ship with MemFin, or one from a file."""

import hashlib
from pathlib import Path
from typing import Final

from memfin.contracts import Record
from memfin.errors import UsageError

LANGUAGES: Final = ("zh", "en")
MAX_FILE_BYTES: Final = 1024 * 1024
_SHIPPED: Final = Path(__file__).parents[2] / "data" / "prompts"


class SystemPrompt(Record):
    """A system prompt for each language of the client."""

    texts: dict[str, str]

    def text(self, language: str) -> str:
        """Return the prompt for a session's language: English for ``en`` and its kin, else Chinese."""
        return self.texts["en" if language.lower().startswith("en") else "zh"]

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each text by its language."""
        return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(self.texts.items())}


def shipped_prompt(prompt: str = "adviser-v1") -> SystemPrompt:
    """Return a prompt that ships with MemFin, in Chinese and English."""
    texts = {name: (_SHIPPED / f"{prompt}.{name}.md").read_text("utf-8") for name in LANGUAGES}
    return SystemPrompt(texts={name: text.strip() for name, text in texts.items()})


def prompt_of(text: str) -> SystemPrompt:
    """Return a prompt that is the same for every language."""
    return SystemPrompt(texts=dict.fromkeys(LANGUAGES, text.strip()))


def prompt_from_file(path: Path) -> SystemPrompt:
    """Return the prompt in a file of UTF-8 text.

    Raises:
        UsageError: the file cannot be read, is too large, is not UTF-8, or is empty.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise UsageError(f"agent system prompt {path}: {problem.strerror or problem}") from problem
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"agent system prompt {path}: is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UsageError(f"agent system prompt {path}: is not UTF-8") from None
    if not text:
        raise UsageError(f"agent system prompt {path}: is empty")
    return prompt_of(text)
