"""The browser that tests of pages share ends with them."""

from collections.abc import Iterator

import pytest

from tests.web.browsers import end_kept


@pytest.fixture(scope="session", autouse=True)
def _browser_ends() -> Iterator[None]:
    yield
    end_kept()
