"""Language of the texts for readers: English, or a translation from a gettext catalog.

Reports and summaries are written in English, each text inside `tr`, and translated in the language that
`use_language` sets for the current context. ``tools/translations.py`` keeps the catalogs in ``data/locale``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files
from typing import Any, Final, Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

_LANGUAGE: ContextVar[Language] = ContextVar("memfin_language", default="en")


@contextmanager
def use_language(language: Language) -> Iterator[None]:
    """Translate into a language within the block, in this thread or task and in those that it starts."""
    token = _LANGUAGE.set(language)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def current_language() -> Language:
    """Return the language of the current context, English by default."""
    return _LANGUAGE.get()


def locale_language(environment: Mapping[str, str] = os.environ) -> Language:
    """Return the language of messages of a POSIX locale: Chinese for ``zh_CN.UTF-8``, otherwise English."""
    names = (environment.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, names), "").startswith("zh") else "en"


def tr(text: str, /, **fields: Any) -> str:
    """Translate a text and fill in its fields, which are those of `str.format`."""
    translated = _catalog(_LANGUAGE.get()).gettext(text) if text else ""
    return translated.format(**fields) if fields else translated


def tr_counted(count: int, one: str, many: str) -> str:
    """Translate a text for a number; of two that are `marked`, ``one`` is that for 1."""
    return tr(one if count == 1 else many, count=count)


def marked(text: str, /) -> str:
    """Mark a text for the catalogs that is translated later, where it is shown."""
    return text


@cache
def _catalog(language: Language) -> NullTranslations:
    if language == "en":
        return NullTranslations()
    with (files("memfin") / "data" / "locale" / language / "memfin.mo").open("rb") as file:
        return GNUTranslations(file)
