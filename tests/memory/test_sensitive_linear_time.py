"""The sensitive-input gate takes time in proportion to a text's length, whatever words it repeats."""

from functools import partial

import pytest

from memfin.memory.sensitive import find_sensitive
from tests.support import calls


@pytest.mark.parametrize("phrase", ["sell ", "abandon ", "seed phrase ", "的 ", "a@b.cc ", "13812345678 "])
def test_eight_times_the_text_is_about_eight_times_the_work(phrase: str) -> None:
    find_sensitive(phrase * 20)  # loads what is loaded once
    short, long = (calls(partial(find_sensitive, phrase * count)) for count in (200, 1_600))
    assert long < 12 * short
