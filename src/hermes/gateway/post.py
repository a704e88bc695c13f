"""Messages to chats that nobody waits in: of the tool, of scheduled jobs, of background work."""

import secrets
from collections.abc import Awaitable, Callable

from hermes.core.errors import UsageError
from hermes.core.ports import Attachments, Clock
from hermes.gateway.attachments import attach_files
from hermes.gateway.drafts import Envelope, drafts
from hermes.gateway.platforms.kit.contract import Manifest, Media, Target
from hermes.store.session_store import OutboxQueue

FindTarget = Callable[[str], Target]
"""From what people write to a target; raises `UsageError`."""


class Post:
    """`core.ports.Outbox`. A message is kept at once and sent when its platform is there."""

    def __init__(
        self,
        outbox: OutboxQueue,
        find: FindTarget,
        manifests: dict[str, Manifest],
        clock: Clock,
        *,
        known: Callable[[], list[str]],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`manifests` are those of the platforms that are set up; `known` lists the targets."""
        self.learn: Callable[[str], Awaitable[object]] | None = None
        """Asks the platform of a target for the chats it has now."""
        self._outbox, self._find, self._manifests = outbox, find, manifests
        self._clock = clock
        self._known, self._wake = known, wake

    async def find(self, target: str) -> Target:
        """Raises `UsageError` for a target that is not there."""
        try:
            return self._find(target)
        except UsageError:
            if self.learn is None:
                raise
        await self.learn(target)  # the chat may be newer than what we know
        return self._find(target)

    async def send(
        self,
        target: str,
        text: str,
        *,
        key: str = "",
        kind: str = "send",
        attachments: Attachments | None = None,
    ) -> str:
        """What `send_message` sends is mirrored in the conversation of the chat; see `courier`."""
        place = await self.find(target)
        manifest = self._manifests.get(place.platform)
        if manifest is None or not manifest.chats:
            raise UsageError(
                f"{place.platform} is not set up",
                hint=f"`hermes gateway setup {place.platform}` does that",
            )
        name = key or f"{kind}:{secrets.token_hex(8)}"
        envelope = Envelope(name, place, kind, mirrored=text if kind == "send" else "")
        files: tuple[Media, ...] = ()
        if attachments is not None:
            text, files = await attach_files(text, attachments, manifest.capabilities)
        made = drafts(text, envelope, manifest.capabilities, files)
        rows = await self._outbox.enqueue(made, self._clock.now().timestamp())
        if not rows:
            raise UsageError("there is nothing in the message")
        self._wake()
        return name

    async def delivered(self, delivery: str) -> str:
        row = await self._outbox.get(f"{delivery}:0")
        if row is None:
            raise UsageError(f"there is no delivery {delivery}")
        # Parts of one message are sent in their order: when one fails, the rest is of no use.
        number = 0
        while row is not None and row.state == "sent":
            number += 1
            row = await self._outbox.get(f"{delivery}:{number}")
        if row is None:
            return "sent"
        if row.state in ("failed", "uncertain"):
            return f"{row.state}: {row.error}"
        return "pending"

    async def targets(self) -> list[str]:
        return self._known()
