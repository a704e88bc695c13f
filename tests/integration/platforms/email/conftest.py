"""One mail server for all tests of mail."""

import pytest

from tests.integration.platforms.email.dovecot import running_dovecot


@pytest.fixture(scope="session")
def dovecot():
    with running_dovecot() as server:
        yield server
