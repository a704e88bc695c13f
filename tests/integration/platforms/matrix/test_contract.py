"""What every adapter must do, with a real homeserver."""

import pytest

from hermes.sdk.testing.platforms.suite import (
    ChatContract,
    DeliveryCheckContract,
    GroupRepliesContract,
    RepliesContract,
)


class TestMatrix(RepliesContract, GroupRepliesContract, DeliveryCheckContract, ChatContract):
    sdk_retries = frozenset({"cut_before", "cut_after"})
    """A send has a name of its own, so it is made again when its connection breaks."""

    @pytest.fixture
    def harness(self, matrix):
        return matrix
