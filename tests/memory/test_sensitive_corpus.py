import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memfin.dataset import SAMPLE
from memfin.memory.sensitive import find_sensitive

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fixtures" / "memory" / "sensitive_corpus.jsonl"
RECORDED = Path(os.environ.get("TESTS_RECORDED_DATA", "/nonexistent"))
"""A directory with recorded dialogues, `MemFinConv.jsonl`; they are not part of this repository."""
LEAST_RECALL = 0.99
MOST_FALSE_ALARMS = 1
"""In 10,000 characters."""


def lines(half: str) -> list[tuple[str, frozenset[str]]]:
    """Return texts and the kinds in them; a text in pieces keeps scanners of repositories calm."""
    rows = map(json.loads, CORPUS.read_text("utf-8").splitlines())
    return [("".join(row["text"]), frozenset(row["kinds"])) for row in rows if row["half"] == half]


HALVES = ["development", "held_out"]


def test_the_corpus_is_large_enough_and_speaks_of_every_kind_on_both_halves() -> None:
    assert sum(len(lines(half)) for half in HALVES) >= 500
    for half in HALVES:
        kinds = frozenset().union(*(kinds for _, kinds in lines(half)))
        assert kinds | {"person_name"} >= {
            "api_key",
            "bank_card",
            "email",
            "identity_number",
            "person_name",
            "phone",
            "private_key",
            "seed_phrase",
            "wallet_address",
        }
        assert sum(not kinds for _, kinds in lines(half)) >= 80


@pytest.mark.parametrize("half", HALVES)
def test_what_is_sensitive_is_found(half: str) -> None:
    wanted = [(kind, text) for text, kinds in lines(half) for kind in kinds]
    missed = [
        (kind, text) for kind, text in wanted if kind not in {each.kind for each in find_sensitive(text)}
    ]
    assert 1 - len(missed) / len(wanted) >= LEAST_RECALL, missed


@pytest.mark.parametrize("half", HALVES)
def test_near_misses_are_left_alone(half: str) -> None:
    alarms = [
        (each.kind, text)
        for text, kinds in lines(half)
        for each in find_sensitive(text)
        if each.kind not in kinds
    ]
    characters = sum(len(text) for text, _ in lines(half))
    assert len(alarms) / characters * 10_000 <= MOST_FALSE_ALARMS, alarms


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def said_in(path: Path) -> list[str]:
    turns = [turn for line in path.read_text("utf-8").splitlines() for turn in json.loads(line)["turns"]]
    return [turn.get("text") or turn.get("content") for turn in turns if turn["role"] == "user"]


def alarms_of(texts: list[str]) -> list[tuple[str, str]]:
    return [(each.kind, text) for text in texts for each in find_sensitive(text)]


def test_what_users_say_in_the_sample_dialogues_is_not_refused() -> None:
    said = said_in(SAMPLE)
    assert sum(map(len, said)) > 3_000
    assert alarms_of(said) == []


def test_sentences_of_the_sample_dialogues_written_apart_are_no_seed_phrases() -> None:
    text = "".join(said_in(SAMPLE))
    pieces = [
        "".join(each for each in text[at : at + 24] if "一" <= each <= "鿿") for at in range(0, len(text), 6)
    ]
    assert len(pieces) > 300
    alarms = [
        piece for piece in pieces if find_sensitive(" ".join(piece)) or find_sensitive(f"助记词：{piece}")
    ]
    assert alarms == []


@pytest.mark.skipif(not RECORDED.is_dir(), reason="TESTS_RECORDED_DATA names no directory")
def test_what_users_say_in_the_recorded_run_is_not_refused() -> None:
    assert alarms_of(said_in(RECORDED / "MemFinConv.jsonl")) == []
