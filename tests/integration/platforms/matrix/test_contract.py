"""What every adapter must do, with a real homeserver."""

import pytest

from tests.contracts.adapters.suite import (
    AdapterContract,
    BotsContract,
    ChatGoneContract,
    CutsContract,
    EditsContract,
    FindsSentContract,
    GroupRepliesContract,
    GroupsContract,
    KeepsContract,
    MediaInContract,
    MediaOutContract,
    RateLimitedContract,
    ReactionsContract,
    RepliesContract,
    ServerErrorContract,
    ThreadsContract,
    TypingContract,
)
from tests.integration.platforms.matrix.harness import MatrixHarness


class TestMatrix(
    EditsContract,
    TypingContract,
    ReactionsContract,
    ThreadsContract,
    MediaInContract,
    MediaOutContract,
    FindsSentContract,
    GroupRepliesContract,
    GroupsContract,
    RepliesContract,
    BotsContract,
    KeepsContract,
    RateLimitedContract,
    ServerErrorContract,
    ChatGoneContract,
    CutsContract,
    AdapterContract,
):
    sdk_retries = frozenset({"cut_before", "cut_after"})
    """A send has a name of its own, so it is made again when its connection breaks."""

    @pytest.fixture
    def harness(self, matrix: MatrixHarness) -> MatrixHarness:
        return matrix
