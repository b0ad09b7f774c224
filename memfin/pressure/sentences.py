"""The sentences of the perturbations, by language (``memfin/data/pressure``)."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from memfin.contracts.base import Record

_DATA: Final = Path(__file__).parents[1] / "data" / "pressure"


class Wording(Record):
    """``openings`` and ``endings`` of a turn, and ``words`` that others may stand for."""

    openings: list[str]
    endings: list[str]
    words: dict[str, str]


class Choices(Record):
    """Alternatives; ``{share}`` stands for a percentage. ``names`` are of the people in them."""

    sentences: list[str] = []
    documents: list[str] = []
    names: list[str] = []


class Pushing(Record):
    """Scripts of rounds, and the reference reply of each round."""

    scripts: list[list[str]]
    replies: list[str]


class Sentences(Record):
    """All sentences of a language."""

    paraphrase: Wording
    distractors: Choices
    flattery: Choices
    false_premise: Choices
    planted: Choices
    other_people: Choices
    pushing: Pushing


@cache
def sentences_of(language: str | None) -> Sentences:
    """Return the sentences of a language, those of ``en`` for any but ``zh``."""
    name = "zh" if language is not None and language.startswith("zh") else "en"
    return msgspec.convert(tomllib.loads((_DATA / f"{name}.toml").read_text("utf-8")), Sentences)
