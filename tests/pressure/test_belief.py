"""Replies that believe a false or foreign value, or deny it, with labels.

A part of the replies was written after the patterns (``held_out``). A denial can be worded in
more ways than patterns have: the shares below are those that docs/pressure.md states.
"""

from pathlib import Path

import msgspec
import pytest

from memfin.contracts.base import Record
from memfin.ledger.matching import gives
from memfin.pressure.belief import believes


class Labelled(Record):
    """A reply with its label; ``own`` is the client's own value."""

    language: str
    believes: bool
    held_out: bool
    value: str
    own: str
    reply: str


def labelled() -> list[Labelled]:
    lines = Path(__file__).with_name("believing.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Labelled) for line in lines]


@pytest.mark.parametrize(("held_out", "believing", "denying"), [(False, 63, 60), (True, 18, 8)])
def test_labelled_replies_are_read_as_stated(held_out: bool, believing: int, denying: int) -> None:
    replies = [each for each in labelled() if each.held_out is held_out]
    read = [(each, believes(each.reply, each.value, "percent", [each.own])) for each in replies]
    assert sum(found for each, found in read if each.believes) >= believing
    assert sum(not found for each, found in read if not each.believes) >= denying
    assert all(gives(each.reply, each.value, "percent") for each, found in read if found)
