"""Masking of secrets in text before it is written or shown."""

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, quote_plus, unquote, urlsplit

MASK: Final = "***"

_SHORT: Final = 6
"""Length below which secrets are masked only as whole words: ``x`` as a key must not mask every x."""

_ROLES: Final = ("MEMFIN_JUDGE", "MEMFIN_AGENT", "MEMFIN_CLIENT", "OPENAI")
_OWN_KEYS: Final = frozenset(f"{role}_API_KEY" for role in _ROLES)
_OWN_URLS: Final = tuple(f"{role}_BASE_URL" for role in _ROLES)
_SECRET_NAME: Final = re.compile(
    r"(?:API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|SECRET_?KEY|TOKEN|PASSWORD|PASSWD)\Z", re.IGNORECASE
)
_OPEN_QUERY: Final = frozenset({"api-version", "api_version", "version"})
"""Query fields of a base URL that are not secret; their values are dates, as in any text."""

_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ESCAPE: Final = re.compile(r"\\|%[0-9A-Fa-f]{2}|&(?:#|amp|lt|gt|quot|apos)")
"""Signs of an escaped character in a text."""

_LIKELY: Final = 8
"""Length below which values of variables named like secrets are taken for settings."""


class Scrubber:
    r"""Masks secrets in text in their usual forms.

    These are the value itself in upper or lower case, reversed, with blanks between its characters, in
    hexadecimal, and in Base64 alone or within a longer text. Any of its characters may be percent-encoded,
    once or more, escaped as in JSON or in a Python literal (``\u002d``, ``\x2d``) or an entity of HTML. The
    values appear in no representation of the object; it is false if there are none.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        secrets = tuple(secrets)
        forms = sorted(
            {form for secret in secrets if secret for form in _forms(secret)}, key=len, reverse=True
        )
        self._lowered = tuple({form.lower() for form in forms})
        self._pattern = re.compile("|".join(_pattern(form) for form in forms), re.IGNORECASE)
        likely = sorted({each for each in secrets if len(each) >= _SHORT}, key=len, reverse=True)
        self._unspaced = tuple("".join(each.lower().split()) for each in likely)
        self._spaced = re.compile("|".join(map(_spaced_pattern, likely)) or r"(?!)", re.IGNORECASE)
        self._escaped = re.compile("|".join(map(_escaped_pattern, likely)) or r"(?!)", re.IGNORECASE)
        self._clean = ""  # the last text without a secret, which often comes again, in parts

    def __bool__(self) -> bool:
        return bool(self._lowered)

    def finds(self, text: str) -> bool:
        """Return True if the text may contain a secret; False is certain."""
        if not self._lowered or text in self._clean:
            return False
        lowered = text.lower()
        # Nearly all text has no secret, and plain search is far cheaper than the patterns.
        if any(form in lowered for form in self._lowered):
            return True
        if _ESCAPE.search(text) is not None and self._escaped.search(text) is not None:
            return True
        unspaced = "".join(lowered.split())
        if any(form in unspaced for form in self._unspaced) and self._spaced.search(text) is not None:
            return True
        self._clean = text
        return False

    def scrub(self, text: str) -> str:
        """Return the text with every secret in it masked."""
        if not self.finds(text):
            return text
        text = self._spaced.sub(MASK, self._pattern.sub(MASK, text))
        return self._escaped.sub(MASK, text) if _ESCAPE.search(text) is not None else text

    def scrub_data(self, value: Any) -> Any:
        """Return plain data with every string in it scrubbed, names of fields included."""
        if isinstance(value, str):
            return self.scrub(value)
        if isinstance(value, dict):
            return {self.scrub_data(name): self.scrub_data(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrub_data(item) for item in value]
        return value

    def __repr__(self) -> str:
        return "Scrubber()"


def scrubber_of_environment(environ: Mapping[str, str] | None = None, *, shortest: int = 1) -> Scrubber:
    """Return a scrubber of the keys in the environment.

    These are MemFin's own key variables, credentials in its base URLs, and the values of variables named
    like secrets (``..._API_KEY``, ``..._TOKEN``, ``..._PASSWORD``).
    Values of fewer than ``shortest`` characters are left out.
    """
    variables = os.environ if environ is None else environ
    secrets = [
        value.strip()
        for name, value in variables.items()
        if name in _OWN_KEYS or (len(value) >= _LIKELY and _SECRET_NAME.search(name))
    ]
    for name in _OWN_URLS:
        secrets += url_credentials(variables.get(name, "").strip())
    return _scrubber(tuple(secret for secret in secrets if len(secret) >= shortest))


@lru_cache(maxsize=4)
def _scrubber(secrets: tuple[str, ...]) -> Scrubber:
    return Scrubber(secrets)


def url_credentials(url: str) -> list[str]:
    """Return user name, password and values of query fields of an address, as they stand and decoded."""
    try:
        parts: SplitResult = urlsplit(url)
    except ValueError:
        return []
    given = [parts.username or "", parts.password or ""]
    query = [value for name, value in parse_qsl(parts.query) if name.lower() not in _OPEN_QUERY]
    return [*given, *map(unquote, given), *query]


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret)
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    data = secret.encode("utf-8", "surrogateescape")
    encoded = base64.b64encode(data).decode().rstrip("=")
    codes = [encoded] if len(encoded) >= _SHORT else []
    if len(secret) >= _SHORT:
        yield secret[::-1]
        yield data.hex()
        codes += filter(
            lambda code: len(code) >= _LIKELY, (_inner_base64(data, before) for before in range(3))
        )
    for code in codes:
        yield code
        yield code.replace("+", "-").replace("/", "_")


def _inner_base64(data: bytes, before: int) -> str:
    """Return the Base64 characters that do not depend on the text around, after ``before`` bytes modulo 3."""
    encoded = base64.b64encode(bytes(before) + data + bytes(2)).decode()
    return encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]


def _pattern(form: str) -> str:
    if len(form) >= _SHORT:
        return re.escape(form)
    return rf"(?<!\w){re.escape(form)}(?!\w)"


def _spaced_pattern(secret: str) -> str:
    return r"\s+".join(map(re.escape, "".join(secret.split())))


def _escaped_pattern(secret: str) -> str:
    """Return a pattern of a secret with any characters escaped, in a text that may be escaped again."""
    return "".join(rf"(?:\\{{0,7}}{re.escape(each)}|{_escapes(each)})" for each in secret)


def _escapes(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    code = ord(character)
    entities = [
        f"#0*{code}",
        f"#x0*{code:x}",
        *(name for name, each in _ENTITIES.items() if each == character),
    ]
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return "|".join(
        (
            "".join(rf"\\{{1,7}}u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)),
            rf"\\{{1,7}}x{code:02x}",
            f"&(?:amp;)*(?:{'|'.join(entities)});?",
            percent,
        )
    )
