"""The suites of messages, scheduled work and kept answers once more, with PostgreSQL."""

import pytest

from tests.unit.store import test_claims, test_fencing, test_mail, test_responses

pytestmark = pytest.mark.parametrize("place", ["postgresql"], indirect=True)


class TestInbox(test_mail.TestInbox): ...


class TestAnswer(test_mail.TestAnswer): ...


class TestOutbox(test_mail.TestOutbox): ...


class TestChats(test_mail.TestChats): ...


class TestUpkeep(test_mail.TestUpkeep): ...


class TestFence(test_fencing.TestFence): ...


class TestOneConversation(test_fencing.TestOneConversation): ...


class TestOnce(test_fencing.TestOnce): ...


class TestRuns(test_claims.TestRuns): ...


class TestJobs(test_claims.TestJobs): ...


class TestResponses(test_responses.TestResponses): ...
