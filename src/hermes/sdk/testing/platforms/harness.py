"""What the contract suite needs of a platform, real or a wire-level fake, to try its adapter."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import msgspec

from hermes.sdk import SystemClock
from hermes.sdk.platforms import Adapter, AdapterContext, ChatType, PlatformManifest

Trouble = Literal[
    "rate_limited",  # refused for now; the platform says how long (use 0.05 s or the least it can)
    "server_error",  # refused with a fault of the platform; the message is not there
    "chat_gone",  # refused for good
    "cut_before",  # the connection breaks before the platform has read the request
    "cut_after",  # the message is there, but the connection breaks before we hear of it
    "format_refused",  # the platform cannot read the formatting
]

TROUBLES = frozenset(get_args(Trouble))

Feature = Literal[
    "groups",  # chats with several people; needs `mention` of `says`
    "replies",  # a message can answer another one, in both directions
    "bots",  # other programs write too; needs `bot` of `says`
    "keeps",  # what people write while we are away is there when we come back
]


class Shown(msgspec.Struct, frozen=True):
    """A message of ours as a user of the chat sees it."""

    id: str
    text: str
    """Readable text, without the platform's markup."""
    raw: str
    """As it was sent."""
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    """Names of files with it."""
    buttons: tuple[str, ...] = ()
    """Data of its buttons."""
    edits: int = 0


class File(msgspec.Struct, frozen=True):
    kind: Literal["image", "voice", "audio", "video", "document"]
    name: str
    data: bytes
    mime: str = ""


class Saying(msgspec.Struct, frozen=True):
    """How a user says something; see `Harness.says`, whose options these are."""

    chat: str = ""
    user: str = ""
    chat_type: ChatType = "dm"
    thread: str = ""
    mention: bool = False
    reply_to: str = ""
    files: tuple[File, ...] = ()
    bot: bool = False


class Harness(Protocol):
    """One platform with our account and a few people in it. `chat` and `user` are short names of
    the suite's choice ("ann", "garden"), which the harness turns into ids of the platform's own
    form and keeps, or ids that came in a message or from `chat_id`. "" is a private chat and a
    person of the harness's choice; with `chat_type="group"` it is a group of its choice."""

    manifest: PlatformManifest
    troubles: frozenset[str]
    """Those that this platform can have."""
    features: frozenset[str]
    """What it can do that no manifest says: a set of `Feature`."""
    secrets: tuple[str, ...]
    """Tokens and passwords of our account: never to be seen in an error."""
    cache: Path
    """`AdapterContext.cache` of the adapters."""

    def adapter(self) -> Adapter:
        """A new adapter, not yet connected, as after a restart of the gateway: the same token,
        state, cache and lock folders each time."""
        ...

    def chat_id(self, chat: str = "", chat_type: ChatType = "dm") -> str:
        """The platform's id of a chat, as `SessionSource.chat_id` gives it."""
        ...

    def user_id(self, user: str = "") -> str:
        """The platform's id of a person, as `SessionSource.user_id` gives it."""
        ...

    async def says(
        self,
        text: str,
        *,
        chat: str = "",
        user: str = "",
        chat_type: ChatType = "dm",
        thread: str = "",
        mention: bool = False,
        reply_to: str = "",
        files: tuple[File, ...] = (),
        bot: bool = False,
    ) -> str:
        """Let a user write; return the platform's id of the message. "" is a chat and a person of
        the harness's choice. `reply_to` is the id of any message of the chat. `thread` is a name of
        the suite's choice, or an id that came in a message. A platform that does not take the text
        (blanks only) ignores the call. What we do not acknowledge is delivered again soon (within
        a second, not after the minutes that a real platform may take)."""
        ...

    async def again(self, message_id: str) -> None:
        """The platform delivers a message once more, as it does after a lost acknowledgement."""
        ...

    async def presses(self, message_id: str, data: str, *, chat: str = "", user: str = "") -> None:
        """Let a user press a button of a message of ours."""
        ...

    async def shown(self, chat: str = "") -> list[Shown]:
        """Our messages in the chat, oldest first, as they are now."""
        ...

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        """The next sends or edits go wrong in this way."""
        ...

    async def drop(self) -> None:
        """The connection breaks; the platform is there again at once."""
        ...

    async def gone(self) -> None:
        """The platform cannot be reached any more."""
        ...

    async def refuse_credentials(self) -> None:
        """From now on our token counts for nothing."""
        ...

    async def typing(self, chat: str = "") -> int:
        """How often we were seen writing."""
        ...

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        """Ours on a message."""
        ...

    async def close(self) -> None: ...


class BaseHarness:
    """What harnesses share. A platform that cannot do something leaves it as it is here."""

    manifest: PlatformManifest
    settings: Any = None
    connection: Any = None
    commands: tuple[tuple[str, str], ...] = ()
    extra: Mapping[str, Any] = {}

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self.variables: dict[str, str] = {}

    def context(self) -> AdapterContext:
        return AdapterContext(
            manifest=self.manifest,
            variable=self.variables.get,
            settings=self.settings,
            connection=self.connection,
            cache=self.cache,
            state=self.folder / "state",
            locks=self.folder / "locks",
            commands=self.commands,
            extra=self.extra,
        )

    async def presses(self, message_id: str, data: str, *, chat: str = "", user: str = "") -> None:
        raise AssertionError(f"{self.manifest.label} has no buttons")

    async def typing(self, chat: str = "") -> int:
        return 0

    async def reactions(self, message_id: str, chat: str = "") -> list[str]:
        return []


class HastyClock(SystemClock):
    """Does not wait long for anything."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.02))
