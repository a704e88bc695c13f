"""What every adapter must pass.

A platform's `tests/integration/platforms/<name>/test_contract.py` has one class with the mixins of
what the platform can do, `ChatContract` or `AdapterContract` last, and the fixture `harness`:

    class TestTelegram(RepliesContract, ButtonsContract, ChatContract):
        sdk_retries = frozenset()

        @pytest.fixture
        async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
            harness = await TelegramHarness.start(tmp_path)
            yield harness
            await harness.close()

`test_no_case_is_left_out` fails when the mixins and what the platform can do differ. No case is
skipped: what a platform cannot do has no case.
"""

from collections.abc import Callable

from hermes.sdk.testing.platforms.core_cases import (
    ConnectionCases,
    HonestyCases,
    InboundCases,
    OutboundCases,
)
from hermes.sdk.testing.platforms.feature_cases import (
    BotsContract,
    ButtonsContract,
    EditsContract,
    GroupRepliesContract,
    GroupsContract,
    KeepsContract,
    NoThreadsContract,
    ReactionsContract,
    RepliesContract,
    ThreadsContract,
    TypingContract,
)
from hermes.sdk.testing.platforms.harness import Harness
from hermes.sdk.testing.platforms.media_cases import MediaInContract, MediaOutContract
from hermes.sdk.testing.platforms.trouble_cases import (
    ChatGoneContract,
    CutsContract,
    DeliveryCheckContract,
    FormatRefusedContract,
    RateLimitedContract,
    ServerErrorContract,
)

MIXINS: dict[type, Callable[[Harness], object]] = {
    EditsContract: lambda harness: harness.manifest.capabilities.edits,
    TypingContract: lambda harness: harness.manifest.capabilities.typing,
    ReactionsContract: lambda harness: harness.manifest.capabilities.reactions,
    ThreadsContract: lambda harness: harness.manifest.capabilities.threads,
    NoThreadsContract: lambda harness: not harness.manifest.capabilities.threads,
    ButtonsContract: lambda harness: harness.manifest.capabilities.buttons,
    MediaInContract: lambda harness: harness.manifest.capabilities.media_in,
    MediaOutContract: lambda harness: harness.manifest.capabilities.media_out,
    DeliveryCheckContract: lambda harness: harness.manifest.capabilities.checks_delivery,
    GroupsContract: lambda harness: "groups" in harness.features,
    RepliesContract: lambda harness: "replies" in harness.features,
    GroupRepliesContract: lambda harness: {"groups", "replies"} <= harness.features,
    BotsContract: lambda harness: "bots" in harness.features,
    KeepsContract: lambda harness: "keeps" in harness.features,
    RateLimitedContract: lambda harness: "rate_limited" in harness.troubles,
    ServerErrorContract: lambda harness: "server_error" in harness.troubles,
    ChatGoneContract: lambda harness: "chat_gone" in harness.troubles,
    FormatRefusedContract: lambda harness: "format_refused" in harness.troubles,
    CutsContract: lambda harness: {"cut_before", "cut_after"} <= harness.troubles,
}
"""The cases of each ability, and whether a platform has it."""


class AdapterContract(ConnectionCases, InboundCases, OutboundCases, HonestyCases):
    """Cases for all. The subclass gives the fixture `harness`."""

    async def test_no_case_is_left_out(self, harness: Harness) -> None:
        used = {mixin.__name__ for mixin in MIXINS if issubclass(type(self), mixin)}
        able = {mixin.__name__ for mixin, has in MIXINS.items() if has(harness)}
        assert used == able


class ChatContract(
    EditsContract,
    TypingContract,
    ReactionsContract,
    ThreadsContract,
    MediaInContract,
    MediaOutContract,
    GroupsContract,
    BotsContract,
    KeepsContract,
    RateLimitedContract,
    ServerErrorContract,
    ChatGoneContract,
    CutsContract,
    AdapterContract,
):
    """What every chat service of people has; what only some have comes before it."""
