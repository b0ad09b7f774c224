"""The browsers that tests of pages share end with them."""

from collections.abc import Iterator

import pytest

from tests.web.browsers import end_kept


@pytest.fixture(scope="session", autouse=True)
def _browsers_end() -> Iterator[None]:
    yield
    end_kept()
