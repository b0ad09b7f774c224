"""The judge's prompts: versioned templates in two languages, filled with fenced text.

The templates are part of the package (``memfin/data/prompts``) and hold every word that is the
judge's to follow. What comes from a dataset or an agent enters as values, never as template text.
"""

import hashlib
import re
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from memfin.contracts import JudgeRequest
from memfin.judges.fence import fence, margined
from memfin.judges.variants import Variant, masked

if TYPE_CHECKING:
    from jinja2 import Environment

PROMPT_VERSION: Final = "judge-v1"

Language = Literal["zh", "en"]

MOST_CHARS: Final = 60_000
"""Characters of untrusted text in one prompt. More is refused: half a reply gets no whole verdict."""

_GAP: Final = "\0"
_BODY: Final = "\1"
"""Keep the places of nonce and text: `margined` spells control characters out, so that no text has one."""

_DIRECTORY: Final = files("memfin") / "data" / "prompts"
_NAMES: Final = tuple(
    f"{PROMPT_VERSION}.{part}.{lang}.j2" for lang in ("en", "zh") for part in ("system", "user")
)
_LIST_BREAK: Final = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


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


class Section(NamedTuple):
    """One part of the user message."""

    name: str
    fenced: str


def prompt_hashes() -> dict[str, str]:
    """Return the SHA-256 of every file that prompts are made of, by its name."""
    names = (*_NAMES, "identities.txt")
    return {name: hashlib.sha256((_DIRECTORY / name).read_bytes()).hexdigest() for name in names}


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
    reply = masked(request.reply) if variant.masked else request.reply
    preferences = tuple(request.preferences)
    profile = _profile(request.risk_level, request.horizon, request.liquidity_need, preferences)
    constraints = _numbered("C", tuple([request.constraints[index] for index in variant.constraints]))
    rubric = _numbered("R", tuple([request.rubric_required[index] for index in variant.rubric]))
    lengths = len(request.user_text), len(reply), profile.length, constraints.length, rubric.length
    if (length := sum(lengths)) > MOST_CHARS:
        raise TooLong(f"the texts have {length} characters, a judge is shown {MOST_CHARS} at most")
    texts = {
        "user": margined(request.user_text),
        "profile": profile.text,
        "constraints": constraints.text,
        "rubric": rubric.text,
        "reply": margined(reply),
    }
    lang = language_of(request)
    begin, *between = _user(lang, variant.sections)
    pieces = [texts[name] + rest for name, rest in zip(variant.sections, between, strict=True)]
    return Prompt(_system(lang), tuple("".join((begin, *pieces)).split(_GAP)))


@cache
def _system(lang: Language) -> tuple[str, ...]:
    template = _engine().get_template(f"{PROMPT_VERSION}.system.{lang}.j2")
    return tuple(template.render(nonce=_GAP).split(_GAP))


@cache
def _user(lang: Language, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the user message in pieces between which the texts go: only they differ from call to call."""
    sections = [Section(name, fence(name, _BODY, _GAP)) for name in names]
    template = _engine().get_template(f"{PROMPT_VERSION}.user.{lang}.j2")
    return tuple(template.render(nonce=_GAP, sections=sections).split(_BODY))


class _Margined(NamedTuple):
    """A text as it stands in its fence, and the characters that it has without."""

    text: str
    length: int


@lru_cache(maxsize=64)
def _profile(risk_level: str, horizon: str, liquidity_need: str, preferences: tuple[str, ...]) -> _Margined:
    """Return the profile: the same for all turns of a dialogue, as are its constraints."""
    fields = (
        ("risk_level", risk_level),
        ("horizon", horizon),
        ("liquidity_need", liquidity_need),
        ("preferences", "; ".join(preferences)),
    )
    return _lines([f"{name}: {_one_line(text)}" for name, text in fields if text])


@lru_cache(maxsize=64)
def _numbered(letter: str, items: tuple[str, ...]) -> _Margined:
    return _lines([f"{letter}{number}: {_one_line(item)}" for number, item in enumerate(items, 1)])


def _lines(lines: list[str]) -> _Margined:
    text = "\n".join(lines) or "-"
    return _Margined(margined(text), len(text))


def _one_line(text: str) -> str:
    """Keep an entry of a list on its line, so that it cannot look like two."""
    return text if text.isprintable() else _LIST_BREAK.sub(" ⏎ ", text)


@cache
def _engine() -> "Environment":
    from jinja2 import DictLoader, Environment, StrictUndefined  # noqa: PLC0415 - only LLM judges need it

    return Environment(
        loader=DictLoader(
            MappingProxyType({name: (_DIRECTORY / name).read_text("utf-8") for name in _NAMES})
        ),
        autoescape=False,  # noqa: S701 - the output is a prompt; `fenced` takes the part of escaping
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
