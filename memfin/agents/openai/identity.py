"""Ids of user and session in the requests to a model: templates for ``user``, headers and ``metadata``."""

import re
import string
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from memfin.agents.protocol import Session
from memfin.contracts import Record
from memfin.errors import UsageError
from memfin.secrets import scrubber_of_environment

PLACEHOLDERS: Final = ("user_id", "session_id", "session_index", "dialog_id", "run_id", "now")
_RESERVED: Final = frozenset(
    {"authorization", "proxy-authorization", "content-type", "content-length", "content-encoding", "host"}
    | {"connection", "transfer-encoding", "accept", "accept-encoding", "expect", "upgrade", "te", "trailer"}
)
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")
_SHORTEST: Final = 8


class Identity(Record):
    """Templates of what tells a server whose session a request belongs to; all may be missing."""

    user: str | None = None
    headers: dict[str, str] = {}
    metadata: dict[str, str] = {}

    @classmethod
    def of(cls, user: str | None, headers: Sequence[str], metadata: str | None) -> "Identity":
        """Return the checked templates of the settings ``agent_user``, ``_headers`` and ``_metadata``.

        Raises:
            UsageError: a placeholder is unknown, a header is malformed or one of the request's own, or the
                metadata is no JSON object of strings.
        """
        if user is not None:
            _check("agent_user", user)
        named: dict[str, str] = {}
        for header in headers:
            name, template = (part.strip() for part in (*re.split("[:=]", header, maxsplit=1), "")[:2])
            label = f"setting agent_headers: {header!r}"
            if not _NAME.fullmatch(name) or not template:
                raise UsageError(f"{label} is not of the form NAME=TEMPLATE")
            if name.lower() in _RESERVED or name.lower() in map(str.lower, named):
                raise UsageError(f"{label}: {name} is set by the request itself, or given twice")
            _check("agent_headers", template)
            if not (template.isascii() and template.isprintable()):
                raise UsageError(f"{label} holds a character that is not allowed in an HTTP header")
            named[name] = template
        return cls(user=user, headers=named, metadata=_metadata(metadata))

    def body(self, session: Session) -> dict[str, Any]:
        """Return the fields of the request's body."""
        values = _values(session)
        fields: dict[str, Any] = {} if self.user is None else {"user": self.user.format_map(values)}
        if self.metadata:
            fields["metadata"] = {name: text.format_map(values) for name, text in self.metadata.items()}
        return fields

    def header_values(self, session: Session) -> dict[str, str]:
        """Return the headers; ids are percent-encoded (UTF-8) but for visible ASCII without ``%``."""
        values = {
            name: quote(value, safe=_PLAIN, errors="replace") for name, value in _values(session).items()
        }
        return {name: template.format_map(values) for name, template in self.headers.items()}


def _values(session: Session) -> dict[str, str]:
    return {name: "" if session[name] is None else str(session[name]) for name in PLACEHOLDERS}


def _metadata(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    try:
        fields = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as problem:
        raise UsageError(f"setting agent_metadata: is no JSON object of strings: {problem}") from None
    for template in fields.values():
        _check("agent_metadata", template)
    return fields


def _check(setting: str, template: str) -> None:
    """Raise `UsageError` for a template with an unknown placeholder, a control character or a secret."""
    if scrubber_of_environment(shortest=_SHORTEST).finds(template):
        raise UsageError(f"setting {setting}: holds a secret; send a key by MEMFIN_AGENT_API_KEY")
    if any(ord(character) < ord(" ") or character == "\x7f" for character in template):
        raise UsageError(f"setting {setting}: {template!r} holds a line break or control character")
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as problem:
        raise UsageError(f"setting {setting}: {template!r}: {problem}") from None
    for _, name, form, conversion in parts:
        if name is not None and (name not in PLACEHOLDERS or form or conversion):
            known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
            raise UsageError(f"setting {setting}: unknown placeholder {{{name}}}; known: {known}")
