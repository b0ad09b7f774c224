"""The plain form of YAML, read by lines: what the layer's own YAML records look like.

A consent is read for every answer, and the YAML library takes longer for it than all the rest of the
answer's memory takes. The layer always writes the same form: a name and a simple value a line, and names of
the second level two blanks in. Text of that form means here what it means to the library, which a test
holds it to; text of any other form is left to the library.
"""

import re
from typing import Any, Final

_MORE: Final = rb"(?!(?i:true|false|yes|no|on|off|null|y|n)[:\n])"
"""Not before words that YAML may take for something else than themselves."""

_LINE: Final = re.compile(
    rb"(?P<within>  )?(?P<name>" + _MORE + rb"[a-z_]{1,64}):"
    rb"(?: (?:(?P<true>true)|(?P<false>false)|(?P<null>null)|(?P<number>[1-9][0-9]{0,8})"
    rb"|'(?P<quoted>[ -&(-~]*)'|(?P<word>" + _MORE + rb"[A-Za-z][A-Za-z0-9_-]{0,255})))?\n"
)


def plain_of(data: bytes) -> dict[str, Any] | None:
    """Return the mapping that a text of the plain form holds; None for a text of any other form."""
    outer: dict[str, Any] = {}
    parent: str | None = None
    at = 0
    while at < len(data):
        line = _LINE.match(data, at)
        if line is None:
            return None
        at = line.end()
        name, value = line["name"].decode(), _value(line)
        if line["within"] is None:
            outer[name] = value
            parent = name if line.lastgroup == "name" else None
        elif parent is None:
            return None
        else:
            outer[parent] = {**(outer[parent] or {}), name: value}
    return outer or None


def _value(line: re.Match[bytes]) -> str | int | None:
    match line.lastgroup:
        case "quoted" | "word" as kind:
            return line[kind].decode()
        case "true":
            return True
        case "false":
            return False
        case "number":
            return int(line["number"])
        case _:
            return None
