"""Parameters that some models refuse: what goes in their place from the first refusal on.

Newer models take no ``temperature`` but their own, know no ``seed``, or want ``max_completion_tokens``
where others know ``max_tokens`` only; some servers do not stream, or know no ``stream_options``. Nothing
in a model's name tells, so each is sent as usual until the model refuses it by name.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeVar

import msgspec

from memfin.client.errors import WireError
from memfin.client.messages import ChatRequest
from memfin.contracts import ParameterChange

T = TypeVar("T")

INSTEAD: Final[Mapping[str, str | None]] = {
    "temperature": None,
    "seed": None,
    "max_tokens": "max_completion_tokens",
    "stream_options": None,
    "stream": None,
}
"""What may be refused, and the name under which it is sent then; None leaves it out."""

_STATUSES: Final = frozenset({400, 422, 501})
_UNWELCOME: Final = (
    r"(?:unsupported|not support|unrecogni[sz]ed|unknown|unexpected|extra[_ ](?:forbidden|inputs|fields)|"
    r"not permitted|not allowed|not available|not implemented|disabled|deprecated|only the default|"
    r"不支持|未知)"
)
_SPELLINGS: Final[Mapping[str, str]] = {"stream": "stream(?:ing)?"}
"""How else a complaint may name a parameter."""

_NEAR: Final = 100
"""Characters between the name of a parameter and the words that it is unwelcome."""

_PATTERNS: Final = {
    name: re.compile(
        rf"{_UNWELCOME}.{{0,{_NEAR}}}?(?<![a-z_]){spelling}(?![a-z_])|"
        rf"(?<![a-z_]){spelling}(?![a-z_]).{{0,{_NEAR}}}?{_UNWELCOME}",
        re.IGNORECASE | re.DOTALL,
    )
    for name in INSTEAD
    for spelling in (_SPELLINGS.get(name, name),)
}


def refused_parameter(sent: Collection[str], status: int, body: bytes) -> str | None:
    """Return which of the parameters that were sent an answer refuses, if it refuses one by name.

    A value that is merely out of bounds is no refusal: it would be the same mistake under another name.
    """
    if status not in _STATUSES:
        return None
    refusable = [name for name in INSTEAD if name in sent]
    text, told = _complaint(body)
    if told is not None:
        told = told.partition(".")[0]  # it may name a field of the parameter
        return told if told in refusable and _PATTERNS[told].search(text) else None
    return next((name for name in refusable if _PATTERNS[name].search(text)), None)


def _complaint(body: bytes) -> tuple[str, str | None]:
    """Return an error's text, and what its own field for that names, as OpenAI's servers fill it."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode("utf-8", "replace"), None
    error = document.get("error") if isinstance(document, dict) else None
    name = error.get("param") if isinstance(error, dict) else None
    text = msgspec.json.encode(document).decode()  # without the escapes that some servers write
    return text, name if isinstance(name, str) else None


class Parameters:
    """Which parameters an endpoint's model takes, as far as its refusals have shown.

    Attributes:
        on_notice: told once of each that it does not, if set; it must not raise.
    """

    def __init__(self) -> None:
        self.on_notice: Callable[[str], None] | None = None
        self._refusals: dict[str, int] = {}

    def fitted(self, request: ChatRequest, *, stream: bool = False) -> dict[str, Any]:
        """Return the body of a request as the model takes it."""
        body = request.body(stream=stream and "stream" not in self._refusals)
        for name in self._refusals:
            value, other = body.pop(name, None), INSTEAD[name]
            if value is not None and other is not None:
                body.setdefault(other, value)
        return body

    def refuse(self, name: str) -> None:
        """Count a refusal."""
        if name not in self._refusals and self.on_notice is not None:
            other = INSTEAD[name]
            instead = "it is left out" if other is None else f"it goes out as {other}"
            self.on_notice(f"the model refuses the parameter {name}; from now on {instead}")
        self._refusals[name] = self._refusals.get(name, 0) + 1

    def forget(self) -> None:
        """Begin anew."""
        self._refusals.clear()

    def changes(self) -> list[ParameterChange]:
        """Return what is sent otherwise than asked for, and how often that was refused before."""
        return [
            ParameterChange(parameter=name, sent_as=INSTEAD[name], refusals=count)
            for name, count in sorted(self._refusals.items())
        ]


async def as_it_likes(attempt: Callable[[], Awaitable[T]]) -> T:
    """Ask; when the model refuses a parameter, ask again without, once for each that there is.

    Raises:
        WireError: whatever else goes wrong.
    """
    for _ in INSTEAD:
        try:
            return await attempt()
        except WireError as problem:
            if problem.kind != "parameter":
                raise
    return await attempt()
