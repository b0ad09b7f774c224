"""The language that a question or a passage is in."""

from memfin.contracts import Language


def language_of(text: str) -> Language:
    """Return ``zh`` where the text has a Chinese character, else ``en``."""
    return "zh" if any("\u3400" <= mark <= "\u9fff" for mark in text) else "en"
