"""Every lexicon entry against its own examples and counter-examples, and the loading of lexicons."""

import re
from hashlib import sha256
from importlib.resources import files

import pytest

from memfin.errors import UsageError
from memfin.scoring.content import content_scanner
from memfin.scoring.lexicons.lexicon import RuleEntry, load_lexicon
from memfin.scoring.patterns.expressions import expand
from memfin.scoring.patterns.files import lexicon_hashes, word_classes
from memfin.scoring.text.language import analyze

NAMES = ("risk_tags", "compliance", "rubric")
ENTRIES = [(load_lexicon(name).field, entry) for name in NAMES for entry in load_lexicon(name).rule]
CASES = [
    pytest.param(field, entry, text, speaks, id=f"{entry.id}-{text}")
    for field, entry in ENTRIES
    for speaks, texts in ((True, entry.examples), (False, entry.counter_examples))
    for text in texts
]


@pytest.mark.parametrize(("field", "entry", "text", "speaks"), CASES)
def test_entry_keeps_what_its_examples_promise(field: str, entry: RuleEntry, text: str, speaks: bool) -> None:
    matches = content_scanner().scan(analyze(text))
    assert ((field, entry.value) in {(match.rule.field, match.rule.value) for match in matches}) is speaks


@pytest.mark.parametrize(("field", "entry"), [pytest.param(*item, id=item[1].id) for item in ENTRIES])
def test_every_entry_has_examples_of_both_kinds_and_one_that_it_alone_explains(
    field: str, entry: RuleEntry
) -> None:
    assert len(entry.examples) >= 2
    assert entry.counter_examples
    plain = re.compile(expand(entry.pattern, word_classes()))
    assert any(plain.search(analyze(text).norm) for text in entry.examples), field


def test_rule_names_are_unique() -> None:
    names = [entry.id for _, entry in ENTRIES]
    assert len(names) == len(set(names))


def test_hashes_cover_every_lexicon_file() -> None:
    directory = files("memfin") / "data" / "lexicons"
    expected = {
        item.name: sha256(item.read_bytes()).hexdigest()
        for item in directory.iterdir()
        if item.name.endswith(".toml")
    }
    assert lexicon_hashes() == expected
    assert {"risk_tags.toml", "compliance.toml", "rubric.toml", "words.toml", "tag_names.toml"} <= set(
        expected
    )


def test_missing_lexicon_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match=r"lexicon nowhere\.toml: not part of this installation"):
        load_lexicon("nowhere")
