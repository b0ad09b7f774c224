"""Facts are found in an answer in time proportional to its length, whatever phrase it repeats."""

from functools import partial

from memfin.rag.extraction.facts import find_facts
from tests.support import calls, each_case


@each_case("phrase", ["一半", "a@b.c ", "ab-12 ", "1,000 ", "2024年3月1日", "13812345678 "])
def test_eight_times_the_text_is_about_eight_times_the_work(phrase: str) -> None:
    find_facts(phrase)  # loads what is loaded once
    short, long = (calls(partial(find_facts, phrase * count)) for count in (200, 1_600))
    assert long < 12 * short
