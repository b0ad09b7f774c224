"""Prompts from versioned template files in two languages, filled with fenced text.

The templates are part of the package (``memfin/data/prompts``) and hold every word that is the
judge's to follow. What comes from a dataset or an agent enters as values, never as template text.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from memfin.contracts import Language
from memfin.judges.fence import fence, margined
from memfin.text.lines import visible

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_CHARS: Final = 60_000
"""Characters of untrusted text in one prompt. More is refused: half a reply gets no whole verdict."""

_GAP: Final = "\0"
_BODY: Final = "\1"
"""Keep the places of nonce and text: `margined` spells control characters out, so that no text has one."""

_DIRECTORY: Final = files("memfin") / "data" / "prompts"
_IDENTITIES: Final = "identities.txt"


class TooLong(ValueError):  # noqa: N818 - names the condition
    """The untrusted text is longer than a prompt may hold."""


class Prompt(NamedTuple):
    """The messages that ask for one vote, in pieces between which the nonce goes."""

    system: tuple[str, ...]
    user: tuple[str, ...]

    def messages(self, nonce: str) -> list[dict[str, Any]]:
        """Return the messages with a nonce in every fence."""
        return [
            {"role": "system", "content": nonce.join(self.system)},
            {"role": "user", "content": nonce.join(self.user)},
        ]

    def encoded(self, nonce: str) -> msgspec.Raw:
        """Return the messages as JSON."""
        system = nonce.encode().join(_encoded_pieces(self.system))
        user = msgspec.json.encode(nonce.join(self.user))
        start, between = b'[{"role":"system","content":"', b'"},{"role":"user","content":'
        return msgspec.Raw(b"".join((start, system, between, user, b"}]")))

    def digest(self) -> str:
        """Return the SHA-256 of the messages without the nonce."""
        digest = _begun_digest(self.system).copy()
        digest.update(_GAP.join(self.user).encode())
        return digest.hexdigest()


@lru_cache(maxsize=8)
def _begun_digest(system: tuple[str, ...]) -> "hashlib._Hash":
    """Return the digest of what comes before a user message: long, and the same for all of a language."""
    return hashlib.sha256(_GAP.join((*system, "", "")).encode())


@lru_cache(maxsize=8)
def _encoded_pieces(system: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the pieces of a system message as they stand in JSON: the same for all of a language."""
    return tuple(msgspec.json.encode(piece)[1:-1] for piece in system)


class Section:
    """One part of the user message: its name, in MemFin's own words, and its untrusted text.

    A section that many prompts share is best made once: its text is made fit for the fence only once, too.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    @cached_property
    def margined(self) -> str:
        """The text as it stands in its fence."""
        return margined(self.text)


class _Fenced(NamedTuple):
    name: str
    fenced: str


class Templates:
    """The prompts of one version: ``VERSION.system.LANG.j2`` and ``VERSION.user.LANG.j2``."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._names = tuple(
            f"{version}.{part}.{lang}.j2" for lang in ("en", "zh") for part in ("system", "user")
        )
        self._layouts: dict[tuple[Language, tuple[str, ...]], list[str]] = {}

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of every file that prompts are made of, by its name."""
        names = (*self._names, _IDENTITIES)
        return {name: hashlib.sha256((_DIRECTORY / name).read_bytes()).hexdigest() for name in names}

    def prompt(
        self, lang: Language, sections: Sequence[Section], values: Mapping[str, object] = MappingProxyType({})
    ) -> Prompt:
        """Return the prompt that shows sections, each in a fence of its own.

        ``values`` are what else the template of the user message asks for; nothing untrusted is among them.

        Raises:
            TooLong: the sections have more than `MOST_CHARS` characters together.
        """
        if (length := sum(len(section.text) for section in sections)) > MOST_CHARS:
            raise TooLong(f"the texts have {length} characters, a judge is shown {MOST_CHARS} at most")
        names = tuple([section.name for section in sections])
        layout = self._layout(lang, names, values) if values else self._plain_layout(lang, names)
        texts = [section.margined + after for section, after in zip(sections, layout[1:], strict=True)]
        user = "".join((layout[0], *texts))
        return Prompt(_system(self._names, self.version, lang), tuple(user.split(_GAP)))

    def _plain_layout(self, lang: Language, names: tuple[str, ...]) -> list[str]:
        """Return the layout without values, rendered once: only the texts differ from call to call."""
        found = self._layouts.get((lang, names))
        if found is None:
            found = self._layouts[lang, names] = self._layout(lang, names, {})
        return found

    def _layout(self, lang: Language, names: Sequence[str], values: Mapping[str, object]) -> list[str]:
        """Return the user message in pieces between which the texts of the sections go."""
        shown = [_Fenced(name, fence(name, _BODY, _GAP)) for name in names]
        template = _engine(self._names).get_template(f"{self.version}.user.{lang}.j2")
        return template.render(nonce=_GAP, sections=shown, **values).split(_BODY)


def one_line(text: str) -> str:
    """Keep an entry of a list on its line, so that it cannot look like two."""
    return visible(text).replace("\n", " ⏎ ")


@cache
def _system(names: tuple[str, ...], version: str, lang: Language) -> tuple[str, ...]:
    template = _engine(names).get_template(f"{version}.system.{lang}.j2")
    return tuple(template.render(nonce=_GAP).split(_GAP))


@cache
def _engine(names: tuple[str, ...]) -> "Environment":
    from jinja2 import DictLoader, Environment, StrictUndefined  # noqa: PLC0415 - only LLM judges need it

    return Environment(
        loader=DictLoader(MappingProxyType({name: (_DIRECTORY / name).read_text("utf-8") for name in names})),
        autoescape=False,  # noqa: S701 - the output is a prompt; `margined` takes the part of escaping
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
