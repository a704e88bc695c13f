from collections.abc import Iterator

import pytest

from tests.unit.store.search.library import Library


@pytest.fixture
def library() -> Iterator[Library]:
    library = Library()
    yield library
    library.close()
