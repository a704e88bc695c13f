"""The suites of messages, scheduled work and kept answers once more, with PostgreSQL."""

import pytest

from tests.unit.store.queries import test_approvals, test_chats, test_inbox_and_outbox, test_runs

pytestmark = pytest.mark.parametrize("place", ["postgresql"], indirect=True)


class TestInbox(test_inbox_and_outbox.TestInbox): ...


class TestAnswer(test_inbox_and_outbox.TestAnswer): ...


class TestOutbox(test_inbox_and_outbox.TestOutbox): ...


class TestChats(test_inbox_and_outbox.TestChats): ...


class TestUpkeep(test_inbox_and_outbox.TestUpkeep): ...


class TestFence(test_chats.TestFence): ...


class TestOneConversation(test_chats.TestOneConversation): ...


class TestOnce(test_chats.TestOnce): ...


class TestGateways(test_chats.TestGateways): ...


class TestRuns(test_runs.TestRuns): ...


class TestJobs(test_runs.TestJobs): ...


class TestResponses(test_runs.TestResponses): ...


class TestApprovals(test_approvals.TestApprovals): ...


class TestLogSince(test_approvals.TestLogSince): ...
