"""Masking of the environment's keys in replies and observations, before anything is made of them.

Services quote the key that they refuse, and agents hand that on. The agent's own history is not masked.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from memfin.agents.observer import Observed
from memfin.contracts import ModelUsage
from memfin.secrets import Scrubber, scrubber_of_environment

MIN_KEY_LENGTH: Final = 8
"""Shorter ones are placeholders such as ``EMPTY``, and words of a reply."""


def scrubber_of_replies() -> Scrubber:
    """Return what masks the keys that the environment holds at this moment; false where it holds none."""
    return scrubber_of_environment(shortest=MIN_KEY_LENGTH)


def masked_text(text: str | None, scrubber: Scrubber) -> str | None:
    """Return a reply without keys."""
    return scrubber.scrub(text) if text is not None and scrubber else text


def masked_usage(usage: ModelUsage | None, scrubber: Scrubber) -> ModelUsage | None:
    """Return a usage whose model's name has no keys."""
    if usage is None or usage.model is None or not scrubber:
        return usage
    return usage.replace(model=scrubber.scrub(usage.model))


def masked_observations(observed: Observed, scrubber: Scrubber) -> Observed:
    """Return the observations without keys, names of fields included.

    Where a key stands in a field that takes but a few values, no observation of the turn is left, and
    the turn has an error.
    """
    if not scrubber:
        return observed
    plain = msgspec.to_builtins(observed)
    if not scrubber.finds("\n".join(_texts(plain))):
        return observed
    try:
        return msgspec.convert(scrubber.scrub_data(plain), Observed)
    except msgspec.ValidationError:
        return Observed(error="an observation holds a key of the environment in a field of few values")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
