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

import asyncio
import inspect
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from hermes.compat.gateway import PlatformConfig
from hermes.config.schema import bundled_platforms
from hermes.core.errors import HermesError, UsageError
from hermes.gateway.platforms import registry
from hermes.prompt import assembly
from hermes.sdk.platforms import Adapter as ContractAdapter
from hermes.sdk.platforms import (
    AdapterContext,
    Capabilities,
    ChatTarget,
    ChatType,
    CredentialField,
    Media,
    MediaCache,
    MessageDialect,
    MessageEvent,
    NotConnected,
    OutgoingMessage,
    PlatformManifest,
    Receive,
    SendLater,
    SendRefused,
    SessionSource,
    deliver_until_accepted,
    open_upload,
)

PLATFORM_HINTS = assembly.PLATFORM_HINTS | {
    name: assembly.platform_hint(name) for name in bundled_platforms()
}
Options = dict[str, Any]
Handler = Callable[[MessageEvent], Awaitable[object]]

MEDIA_IN = ("image", "voice", "audio", "video", "document")
MEDIA_OUT = ("image", "voice", "video", "document")  #: Sent by the method `send_KIND`.
_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,39}")


@dataclass
class SendResult:
    """The result of sending a message."""

    success: bool
    message_id: str = ""  #: The platform's name for it.
    error: str = ""
    retryable: bool = False  #: Certainly not delivered; may be sent again.


class BasePlatformAdapter:
    """One platform. `connect`, `disconnect` and `send_message` are required; override the others
    that the platform supports. Sending does not raise: a `SendResult` reports the problem.
    Parameters from `reply_to` or `caption` on may be omitted."""

    is_connected = True
    """False once the connection is lost: the gateway disconnects and connects again."""

    def __init__(self, config: PlatformConfig, platform: str = "") -> None:
        self.config, self.platform = config, platform
        self._handler: Handler | None = None

    async def connect(self) -> bool:
        """Connect. Return False or raise if it fails."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        raise NotImplementedError

    async def send_message(
        self, chat_id: str, text: str, reply_to: str | None = None, metadata: Options | None = None
    ) -> SendResult:
        """`metadata` contains the `thread_id`, if any, and a `key` unique to the message."""
        raise NotImplementedError

    async def send(
        self,
        chat_id: str,
        content: str,
        reply_to: str | None = None,
        metadata: Options | None = None,
    ) -> SendResult:
        """Another name of `send_message`; an adapter overrides either."""
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

    send_voice = send_video = send_document = send_image

    def set_message_handler(self, handler: Handler) -> None:
        """Set the receiver of messages. The gateway calls it before `connect`."""
        self._handler = handler

    async def handle_message(self, event: MessageEvent) -> None:
        """Call this with each incoming message. It returns once the message is stored, so that the
        adapter may acknowledge it; a message with a known id is ignored."""
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
    dialect: MessageDialect | Literal["plain", "markdown"] = "markdown",
) -> None:
    """Add a platform; one of the same name that a plugin added before is replaced. `adapter` is
    called with a `PlatformConfig`. `credentials` are the variables it needs, the token first. Texts
    come in the `dialect`, at most `max_chars` long. Raises `UsageError`."""
    if not _NAME.fullmatch(name) or name in registry.shipped_manifests():
        raise UsageError(
            f"a platform cannot be called {name!r}",
            hint="take small letters, digits and _, and no name of a platform that is there",
        )
    if not (_has(adapter, "send_message") or _has(adapter, "send")):
        raise UsageError(f"the adapter of {name} cannot send", hint="write send_message")
    manifest = PlatformManifest(
        name=name,
        label=label or name.replace("_", " ").title(),
        adapter="hermes.compat.platforms:PluginAdapter",
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
    """Return the options that a method accepts."""
    parameters = inspect.signature(method).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return options
    return {name: value for name, value in options.items() if name in parameters}


def _has(adapter: type[BasePlatformAdapter], method: str) -> bool:
    return getattr(adapter, method) is not getattr(BasePlatformAdapter, method)


T = TypeVar("T")

CHAT_TYPES: dict[str, ChatType] = {"": "dm", "dm": "dm", "private": "dm", "channel": "channel"}
"""Every other type counts as a group, in which private information is not shown."""


class PluginAdapter(ContractAdapter):
    """Adapts an adapter of a plugin, found by the name in the manifest, to the gateway."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._inner = _create_inner(context)
        self._begun = False

    async def connect(self, receive: Receive) -> None:
        self._inner.set_message_handler(partial(self._received, receive))
        self._begun = True
        if await self._inner.connect() is False:
            raise NotConnected(f"{self.manifest.label} could not be connected")

    async def disconnect(self) -> None:
        if self._begun:
            self._begun = False
            await self._inner.disconnect()

    async def probe(self) -> None:
        if not self._inner.is_connected:
            raise NotConnected(f"{self.manifest.label} has lost its connection")

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        more = {"reply_to": message.reply_to or None, "metadata": _metadata(target, key)}
        if not message.media:
            options = fitting(self._inner.send, **more)
            return _message_id(await self._inner.send(target.chat_id, message.text, **options), key)
        found = ""
        for media in message.media:
            path = open_upload(media, self.manifest.capabilities.max_upload_bytes)
            method = getattr(self._inner, f"send_{media.kind}")
            options = fitting(method, caption=message.text, **more)
            found = _message_id(await method(target.chat_id, str(path), **options), key)
        return found

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        change = self._inner.edit_message(target.chat_id, message_id, message.text)
        _message_id(await _call_plugin(change), message_id)

    async def typing(self, target: ChatTarget) -> None:
        options = fitting(self._inner.send_typing, metadata=_metadata(target))
        await _call_plugin(self._inner.send_typing(target.chat_id, **options))

    async def fetch(self, media: Media, limit: int) -> Media:
        """Copy the file, which the adapter has stored on this machine."""
        return await MediaCache(self.context.cache).copy(
            Path(media.path or media.ref), media, limit
        )

    async def _received(self, receive: Receive, event: MessageEvent) -> None:
        await deliver_until_accepted(
            receive, normalize_event(event, self.manifest.name), asyncio.sleep
        )


def normalize_event(event: MessageEvent, platform: str) -> MessageEvent:
    """Return the event with string ids and a known chat type. A message without an id gets a new
    one, so it is not recognised when it comes again."""
    given = event.source
    names = ("chat_id", "user_id", "user_name", "chat_name", "thread_id")
    texts: dict[str, Any] = {name: _word(getattr(given, name)) for name in names}
    source = SessionSource(
        platform=platform,
        chat_type=CHAT_TYPES.get(_word(given.chat_type), "group"),
        is_bot=bool(given.is_bot),
        proven=bool(given.proven),
        roles=tuple(_word(each) for each in given.roles or ()),
        **texts,
    )
    return msgspec.structs.replace(
        event,
        source=source,
        message_id=_word(event.message_id) or uuid.uuid4().hex,
        media=tuple(event.media or ()),
        addressed=True,
        **{name: _word(getattr(event, name)) for name in ("text", "reply_to_id", "reply_to_text")},
    )


def _create_inner(context: AdapterContext) -> BasePlatformAdapter:
    name = context.manifest.name
    config = PlatformConfig.of(context.manifest, context.extra["app"].loaded)
    try:
        inner = classes[name](config)
    except Exception as error:  # code of a plugin
        raise HermesError(f"its adapter has a fault: {type(error).__name__}: {error}") from error
    inner.platform = getattr(inner, "platform", "") or name  # it may do without our __init__
    return inner


async def _call_plugin(call: Awaitable[T]) -> T:
    """Turn an exception of the plugin into `SendRefused`."""
    try:
        return await call
    except Exception as error:  # the adapter is code of a plugin
        raise SendRefused(f"a fault of the adapter: {type(error).__name__}: {error}") from error


def _metadata(target: ChatTarget, key: str = "") -> dict[str, Any]:
    said = {"thread_id": target.thread_id, "key": key}
    return {name: value for name, value in said.items() if value}


def _message_id(sent: SendResult | str | None, otherwise: str) -> str:
    """Return the platform's id of the message, or `otherwise` if the adapter gives none."""
    if not isinstance(sent, SendResult):
        return _word(sent) or otherwise
    if sent.success:
        return _word(sent.message_id) or otherwise
    what = sent.error or "the message was refused"
    raise SendLater(what) if sent.retryable else SendRefused(what)


def _word(value: object) -> str:
    return "" if value is None else str(value)
