"""Prompts from versioned template files in two languages, filled with fenced text.

The templates are part of the package (``memfin/data/prompts``) and hold every instruction to the judge.
Text of a dataset or an agent enters as values, never as template text, inside a fence:

1. The fence's lines carry a nonce that is drawn for each call, so they cannot be written beforehand.
2. No text can form such a line even with the nonce: every line of it begins with `MARGIN`, and the
   characters that fences and the control tokens of chat templates are made of (``<``, ``>``, ``[``, ``]``)
   are replaced by their full-width forms.
3. Invisible characters and display controls (control characters, bidirectional and
   zero-width ones, tags, variation selectors) are spelt out: the judge gets nothing a reader cannot see.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from memfin.contracts import Language
from memfin.text.lines import visible

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T")

MAX_CHARS: Final = 60_000
"""Maximum characters of untrusted text in one prompt; longer text is refused, never cut."""

_GAP: Final = "\0"
_BODY: Final = "\1"
"""Placeholders of nonce and text: `margined` escapes control characters, so no text has one."""

_DIRECTORY: Final = files("memfin") / "data" / "prompts"
_IDENTITIES: Final = "identities.txt"

MARGIN: Final = "| "
"""The beginning of every line inside a fence."""

_NEXT_LINE: Final = f"\n{MARGIN}"
_FULL_WIDTH: Final = tuple(zip("<>[]", "＜＞［］", strict=True))

MASK: Final = "▇▇"


def new_nonce() -> str:
    """Return 128 random bits as 32 hexadecimal digits."""
    return os.urandom(16).hex()


def fenced(name: str, text: str, nonce: str) -> str:
    """Return untrusted text of a kind, such as ``reply``, inside its fence, without a final line end."""
    return fence(name, margined(text), nonce)


def fence(name: str, content: str, nonce: str) -> str:
    """Return the lines of a fence around a text that `margined` has prepared."""
    return f"<untrusted {name} {nonce}>\n{content}\n</untrusted {name} {nonce}>"


def margined(text: str) -> str:
    """Return untrusted text for the inside of a fence: visible, each line behind a margin."""
    for bracket, wide in _FULL_WIDTH:  # faster than a translation, which looks at every character
        text = text.replace(bracket, wide)
    return MARGIN + visible(text, kept=frozenset()).replace("\n", _NEXT_LINE)


class TooLong(ValueError):  # noqa: N818 - names the condition
    """The untrusted text exceeds the limit of a prompt."""


class Prompt(NamedTuple):
    """Messages of one vote, in pieces to be joined by the nonce."""

    system: tuple[str, ...]
    user: tuple[str, ...]

    def messages(self, nonce: str) -> list[dict[str, Any]]:
        """Return the messages with a nonce in every fence."""
        return [
            {"role": "system", "content": nonce.join(self.system)},
            {"role": "user", "content": nonce.join(self.user)},
        ]

    def digest(self) -> str:
        """Return the SHA-256 of the messages without the nonce."""
        return hashlib.sha256(_GAP.join((*self.system, "", *self.user)).encode()).hexdigest()


class Section:
    """A section of the user message: its trusted name and its untrusted text.

    A section that many prompts share is best made once, since its text is prepared for the fence once.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @cached_property
    def margined(self) -> str:
        """The text for the inside of its fence."""
        return margined(self.text)


class Templates:
    """Prompt templates of one version: ``VERSION.system.LANG.j2`` and ``VERSION.user.LANG.j2``."""

    def __init__(self, version: str) -> None:
        self.version = version

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of every template file by name."""
        languages, parts = ("en", "zh"), ("system", "user")
        names = [f"{self.version}.{part}.{lang}.j2" for lang in languages for part in parts] + [_IDENTITIES]
        return {name: hashlib.sha256((_DIRECTORY / name).read_bytes()).hexdigest() for name in names}

    def prompt(
        self, lang: Language, sections: Sequence[Section], values: Mapping[str, object] = MappingProxyType({})
    ) -> Prompt:
        """Return the prompt with each section in its own fence.

        ``values`` are further values of the template of the user message, none of them untrusted.

        Raises:
            TooLong: the sections have more than `MAX_CHARS` characters together.
        """
        if (length := sum(len(section.text) for section in sections)) > MAX_CHARS:
            raise TooLong(f"the texts have {length} characters, a judge is shown {MAX_CHARS} at most")
        names = tuple([section.name for section in sections])
        system = _rendered(f"{self.version}.system.{lang}.j2")
        layout = _rendered(f"{self.version}.user.{lang}.j2", names, tuple(values.items())).split(_BODY)
        texts = [section.margined + after for section, after in zip(sections, layout[1:], strict=True)]
        return Prompt(tuple(system.split(_GAP)), tuple("".join((layout[0], *texts)).split(_GAP)))


def one_line(text: str) -> str:
    """Return a list entry on one line, so that it cannot be taken for two."""
    return visible(text).replace("\n", " ⏎ ")


@lru_cache(maxsize=256)
def _rendered(name: str, sections: tuple[str, ...] = (), values: tuple[tuple[str, object], ...] = ()) -> str:
    """Return a template with placeholders for nonces and texts."""
    fences = [{"name": each, "fenced": fence(each, _BODY, _GAP)} for each in sections]
    return _engine().get_template(name).render(nonce=_GAP, sections=fences, **dict(values))


@cache
def _engine() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - only LLM judges need it

    return Environment(
        loader=FunctionLoader(lambda name: (_DIRECTORY / name).read_text("utf-8")),
        autoescape=False,  # noqa: S701 - the output is a prompt; `margined` escapes
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def masked(text: str) -> str:
    """Return text in which the names of models, assistants and their makers are masked."""
    return _identities().sub(MASK, text)


def turned(items: Sequence[T], vote: int) -> tuple[T, ...]:
    """Return items in the order of a vote, counted from 0; the first one keeps the order."""
    if not items:
        return ()
    start = vote // 2 % len(items)
    rotated = (*items[start:], *items[:start])
    return rotated[::-1] if vote % 2 else rotated


@cache
def _identities() -> re.Pattern[str]:
    """Compile the list of names, longest first; Latin ones match whole words, Chinese ones anywhere."""
    lines = (line.strip() for line in (_DIRECTORY / _IDENTITIES).read_text("utf-8").splitlines())
    names = sorted((line for line in lines if line and not line.startswith("#")), key=len, reverse=True)
    patterns = (
        rf"(?<![a-z0-9]){re.escape(name)}[a-z0-9.\-]*" if name.isascii() else re.escape(name)
        for name in names
    )
    return re.compile("|".join(patterns), re.IGNORECASE)
