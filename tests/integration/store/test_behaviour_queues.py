"""The suites of messages, scheduled work and kept answers once more, with PostgreSQL."""

import pytest

from tests.unit.store import test_chat_leases, test_queues, test_responses, test_runs

pytestmark = pytest.mark.parametrize("place", ["postgresql"], indirect=True)


class TestInbox(test_queues.TestInbox): ...


class TestAnswer(test_queues.TestAnswer): ...


class TestOutbox(test_queues.TestOutbox): ...


class TestChats(test_queues.TestChats): ...


class TestUpkeep(test_queues.TestUpkeep): ...


class TestFence(test_chat_leases.TestFence): ...


class TestOneConversation(test_chat_leases.TestOneConversation): ...


class TestOnce(test_chat_leases.TestOnce): ...


class TestRuns(test_runs.TestRuns): ...


class TestJobs(test_runs.TestJobs): ...


class TestResponses(test_responses.TestResponses): ...
