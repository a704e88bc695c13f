"""One mail server for all tests of mail."""

from collections.abc import Iterator

import pytest

from tests.integration.platforms.email.dovecot import Dovecot, running_dovecot


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    with running_dovecot() as server:
        yield server
