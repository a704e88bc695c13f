"""`gateway.delivery`: messages to chats from a script or a plugin."""

import secrets
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from hermes.app.compat.runtime import SharedProcess, shared_process, tell
from hermes.app.session_store import opened_store
from hermes.config.home import unusable
from hermes.core.errors import HermesError
from hermes.gateway.directory import FILE, LOCAL, ORIGIN, ChatDirectory, TargetResolver, split_chat
from hermes.gateway.documented.config import Platform, platform_named
from hermes.gateway.outbox import GatewayOutbox
from hermes.gateway.platforms.kit.contract import SessionSource
from hermes.gateway.platforms.registry import configured
from hermes.store.session_store import SessionStore
from hermes.util import atomic
from hermes.util.clock import SystemClock


class DeliveryTarget(msgspec.Struct, frozen=True):
    """Where a message goes, as it is written: `telegram`, `telegram:-100:17`, `local`, `origin`."""

    platform: Platform | str
    chat_id: str = ""
    """ "" is the home channel."""
    thread_id: str = ""
    account: str = ""

    @classmethod
    def parse(cls, target: str, origin: SessionSource | None = None) -> "DeliveryTarget":
        """`origin` is what the word `origin` stands for."""
        if target.strip() == ORIGIN and origin is not None:
            name = platform_named(origin.platform)
            return cls(name, origin.chat_id, origin.thread_id, origin.account)
        named, _, rest = target.strip().partition(":")
        platform, _, account = named.strip().partition("@")
        platform = platform.lower()
        chat, thread = split_chat(platform, rest.strip())
        return cls(platform_named(platform), chat, thread, account)

    def __str__(self) -> str:
        name = f"{self.platform}@{self.account}" if self.account else str(self.platform)
        return ":".join(part for part in (name, self.chat_id, self.thread_id) if part)

    to_string = __str__


class DeliveryRouter:
    """Of the home in force. A message is kept and goes out as soon as a gateway of the home is
    connected: at once or later, and also after a crash."""

    async def deliver(
        self,
        content: str,
        targets: Iterable[DeliveryTarget | str],
        origin: SessionSource | None = None,
    ) -> dict[str, dict[str, Any]]:
        """By target: `{"success": True, "delivery": …}`, or `{"success": False, "error": …}`.
        `local` writes a file and says its `path`."""
        shared = shared_process()
        done: dict[str, dict[str, Any]] = {}
        async with opened_store(shared.home, shared.loaded.settings.store.url, tell) as store:
            post = post_of(shared, store)
            for each in targets:
                name = str(each).strip()
                target = str(DeliveryTarget.parse(name, origin)) if name == ORIGIN else name
                try:
                    done[name] = await _delivered(post, shared, target, content)
                except HermesError as error:
                    done[name] = {"success": False, "error": str(error)}
        return done


def post_of(shared: SharedProcess, store: SessionStore) -> GatewayOutbox:
    """The post of a home, outside of its gateway."""
    platforms = configured(shared.loaded)
    directory = ChatDirectory(shared.home.root / FILE)
    targets = TargetResolver(platforms, shared.loaded.variable, directory)
    return GatewayOutbox(store.outbox, targets, SystemClock())


async def _delivered(
    post: GatewayOutbox, shared: SharedProcess, target: str, content: str
) -> dict[str, Any]:
    if target != LOCAL:
        return {"success": True, "delivery": await post.send(target, content, kind="delivery")}
    name = f"{time.strftime('%Y%m%d_%H%M%S')}_{secrets.token_hex(3)}.md"
    path = shared.home.cron / "output" / LOCAL / name
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic.write_text(path, content, mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error
    return {"success": True, "path": str(path)}
