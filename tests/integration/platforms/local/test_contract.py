"""The local platform passes what every platform must."""

import pytest

from hermes.sdk.testing.platforms.suite import (
    ButtonsContract,
    ChatContract,
    DeliveryCheckContract,
    GroupRepliesContract,
    RepliesContract,
)
from tests.integration.platforms.local.local_harness import LocalHarness


class TestLocal(
    ButtonsContract,
    RepliesContract,
    GroupRepliesContract,
    DeliveryCheckContract,
    ChatContract,
):
    @pytest.fixture
    async def harness(self, tmp_path):
        harness = LocalHarness(tmp_path)
        await harness.platform.listen(harness.socket)
        yield harness
        await harness.close()
