"""`gateway.platforms.base`: a platform that a plugin brings.

    from gateway.platforms.base import BasePlatformAdapter, MessageEvent, SendResult
    from gateway.platforms.base import register_platform
    from gateway.session import SessionSource

    class Pager(BasePlatformAdapter):
        async def connect(self): ...
        async def disconnect(self): ...
        async def send_message(self, chat_id, text, reply_to=None, metadata=None): ...

    def register(ctx):
        register_platform("pager", Pager, credentials=("PAGER_TOKEN",))

The gateway connects to it when its credentials are set, or with PAGER_ENABLED=true. Who may write
is said as everywhere: PAGER_ALLOWED_USERS, pairing.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hermes.core.errors import UsageError
from hermes.gateway.documented.config import PlatformConfig
from hermes.gateway.platforms import registry
from hermes.gateway.platforms.kit.contract import (
    Capabilities,
    CredentialField,
    Dialect,
    MessageEvent,
    PlatformManifest,
)

Options = dict[str, Any]
Handler = Callable[[MessageEvent], Awaitable[object]]

BRIDGE = "hermes.gateway.documented.bridge:Bridge"
MEDIA_IN = ("image", "voice", "audio", "video", "document")
MEDIA_OUT = ("image", "voice", "video", "document")
"""Each is sent by the method of its name."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,39}")


@dataclass
class SendResult:
    """What became of a message."""

    success: bool
    message_id: str = ""
    """The platform's name for it."""
    error: str = ""
    retryable: bool = False
    """It surely is not there and may be tried again."""


class BasePlatformAdapter:
    """One platform. `connect`, `disconnect` and `send_message` are needed; of the rest those that
    the platform can do. Sending raises nothing: a `SendResult` says what went wrong. Further
    parameters than the ones before `reply_to` or `caption` may be left out."""

    is_connected = True
    """False once the connection is lost: the gateway disconnects and connects again."""

    def __init__(self, config: PlatformConfig, platform: str = "") -> None:
        self.config, self.platform = config, platform
        self._handler: Handler | None = None

    async def connect(self) -> bool:
        """Returns when messages flow; False, or an exception, when they do not."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        raise NotImplementedError

    async def send_message(
        self,
        chat_id: str,
        text: str,
        reply_to: str | None = None,
        metadata: Options | None = None,
    ) -> SendResult:
        """`metadata` has the `thread_id`, if there is one, and a `key` unique to the message."""
        raise NotImplementedError

    async def send(
        self,
        chat_id: str,
        content: str,
        reply_to: str | None = None,
        metadata: Options | None = None,
    ) -> SendResult:
        """Another name of `send_message`; either may be written."""
        options = fitting(self.send_message, reply_to=reply_to, metadata=metadata)
        return await self.send_message(chat_id, content, **options)

    async def edit_message(self, chat_id: str, message_id: str, text: str) -> SendResult:
        raise NotImplementedError

    async def send_typing(self, chat_id: str, metadata: Options | None = None) -> None:
        raise NotImplementedError

    async def send_image(
        self,
        chat_id: str,
        path: str,
        caption: str = "",
        reply_to: str | None = None,
        metadata: Options | None = None,
    ) -> SendResult:
        raise NotImplementedError

    async def send_voice(
        self,
        chat_id: str,
        path: str,
        caption: str = "",
        reply_to: str | None = None,
        metadata: Options | None = None,
    ) -> SendResult:
        raise NotImplementedError

    async def send_video(
        self,
        chat_id: str,
        path: str,
        caption: str = "",
        reply_to: str | None = None,
        metadata: Options | None = None,
    ) -> SendResult:
        raise NotImplementedError

    async def send_document(
        self,
        chat_id: str,
        path: str,
        caption: str = "",
        reply_to: str | None = None,
        metadata: Options | None = None,
    ) -> SendResult:
        raise NotImplementedError

    def set_message_handler(self, handler: Handler) -> None:
        """Who gets the messages; the gateway sets it before `connect`."""
        self._handler = handler

    async def handle_message(self, event: MessageEvent) -> None:
        """To be called with each message that comes in. Returns once it is kept, so that the
        platform may be told; a message that comes twice is taken once, by its id."""
        if self._handler is not None:
            await self._handler(event)

    async def on_message(self, event: MessageEvent) -> None:
        """Another name of `handle_message`."""
        await self.handle_message(event)


BaseAdapter = BasePlatformAdapter

classes: dict[str, Callable[[PlatformConfig], BasePlatformAdapter]] = {}
"""Adapters of plugins of this process, by platform."""


def register_platform(
    name: str,
    adapter: type[BasePlatformAdapter],
    *,
    label: str = "",
    credentials: Iterable[str] = (),
    max_chars: int = 4000,
    dialect: Dialect = "markdown",
) -> None:
    """Add a platform; one of the same name that a plugin added before is replaced. `adapter` is
    called with a `PlatformConfig`. `credentials` are the variables it needs, the token first. Texts
    come in the `dialect`, at most `max_chars` long. Raises `UsageError`."""
    if not _NAME.fullmatch(name) or name in registry.shipped():
        raise UsageError(
            f"a platform cannot be called {name!r}",
            hint="take small letters, digits and _, and no name of a platform that is there",
        )
    if not (_has(adapter, "send_message") or _has(adapter, "send")):
        raise UsageError(f"the adapter of {name} cannot send", hint="write send_message")
    manifest = PlatformManifest(
        name=name,
        label=label or name.replace("_", " ").title(),
        adapter=BRIDGE,
        capabilities=Capabilities(
            max_chars=max_chars,
            dialect=dialect,
            edits=_has(adapter, "edit_message"),
            typing=_has(adapter, "send_typing"),
            threads=True,
            media_in=MEDIA_IN,
            media_out=tuple(kind for kind in MEDIA_OUT if _has(adapter, f"send_{kind}")),
        ),
        credentials=tuple(CredentialField(each, each) for each in credentials),
        knows_groups=True,
    )
    registry.added[name], classes[name] = manifest, adapter


def unregister_platform(name: str) -> None:
    registry.added.pop(name, None)
    classes.pop(name, None)


def fitting(method: Callable[..., Any], **options: Any) -> Options:
    """Those of the options that a method takes."""
    parameters = inspect.signature(method).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return options
    return {name: value for name, value in options.items() if name in parameters}


def _has(adapter: type[BasePlatformAdapter], method: str) -> bool:
    return getattr(adapter, method) is not getattr(BasePlatformAdapter, method)
