"""Vocabulary of investments: the file's form and the finder of its entries."""

from collections import Counter
from importlib.resources import files

from memfin.scoring.vocabulary import WordFinder, class_finder, load_vocabulary, term_finder
from memfin.text.normalize import normalize
from tests.support import each_case

VOCABULARY = load_vocabulary()
WORDS = [word for term in VOCABULARY.terms for word in term.names + term.words + term.hints + term.alone]
CLASS_WORDS = [word for entry in VOCABULARY.classes for word in entry.words]


def test_the_file_is_small() -> None:
    assert len((files("memfin") / "data" / "detectors" / "assets.toml").read_bytes()) <= 45_000


def test_ids_are_unique_and_what_is_named_exists() -> None:
    for entries in (VOCABULARY.terms, VOCABULARY.classes, VOCABULARY.preferences):
        assert max(Counter(entry.id for entry in entries).values()) == 1
    terms, classes = ({entry.id for entry in each} for each in (VOCABULARY.terms, VOCABULARY.classes))
    assert {name for term in VOCABULARY.terms for name in term.includes} <= terms
    assert {entry.within for entry in VOCABULARY.classes if entry.within} <= classes
    assert all(term.asset_class for term in VOCABULARY.terms if term.kind == "asset")
    assert VOCABULARY.closure("leverage") == {"leverage", "margin_trading", "off_market_financing"}
    assert VOCABULARY.closure("殡葬公司") == {"殡葬公司"}


def test_a_word_belongs_to_one_entry() -> None:
    assert {word for word, times in Counter(WORDS).items() if times > 1} == set(VOCABULARY.shared)
    assert max(Counter(CLASS_WORDS).values()) == 1


def test_words_are_plain_and_in_normal_form() -> None:
    words = [*WORDS, *CLASS_WORDS, *VOCABULARY.blockers]
    assert [word for word in words if normalize(word).strip() != word or "-" in word or len(word) > 40] == []


@each_case(
    ("text", "ids"),
    [
        ("建议加杠杆买黄金etf", ["leverage", "precious_metals"]),
        ("去杠杆之后的黄金周，现金流不错", []),
        ("golden rule, first step", []),
        ("convertible-bonds and a small cap", ["convertible_bond", "single_small_cap"]),
        ("港股美股", ["hk_us_stocks"]),
        ("half \ufffd gold", ["precious_metals"]),
    ],
)
def test_terms_are_found(text: str, ids: list[str]) -> None:
    assert [mention.ids[0] for mention in term_finder().find(text)] == ids


def test_the_longest_entry_counts_at_its_place() -> None:
    finder = WordFinder([("港股", "a"), ("港股通基金", "b"), ("基金", "c")], ["港股通基金经理"])
    assert [tuple(mention) for mention in finder.find("港股通基金，港股通基金经理")] == [(0, 5, ("b",))]
    assert [mention.ids[0] for mention in class_finder().find("活期和沪深300")] == ["cash", "equity"]
