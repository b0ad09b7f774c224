"""Tables of the memory layer that ship with MemFin as TOML files."""

import tomllib
from importlib.resources import files
from typing import TypeVar

import msgspec

FormT = TypeVar("FormT")


def load_table(name: str, form: type[FormT]) -> FormT:
    """Return the content of a file in ``memfin/data/memory``, checked against its form."""
    source = files("memfin").joinpath("data", "memory", name)
    return msgspec.convert(tomllib.loads(source.read_text("utf-8")), form)
