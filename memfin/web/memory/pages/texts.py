"""Texts of the pages in two languages, and the choice of a visitor's language."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Any, Final

from aiohttp import web

from memfin.contracts import Language
from memfin.memory.sentences import consent_sentences
from memfin.web import pages

COOKIE: Final = "memfin_lang"
_DIRECTORY: Final = files("memfin") / "data" / "templates" / "memory"


@cache
def texts(language: Language) -> Mapping[str, Any]:
    """Return all words in a language."""
    found = loads((_DIRECTORY / f"texts.{language}.toml").read_text("utf-8"))
    return found | {"scopes": consent_sentences(found["scopes"], found.pop("recall"))}


@cache
def packaged(name: str) -> str:
    """Return the text of a template, or of the style sheet."""
    return (_DIRECTORY / name).read_text("utf-8")


def language_of(request: web.Request) -> Language:
    """Return the language of a visitor."""
    return pages.language_of(request, COOKIE)
