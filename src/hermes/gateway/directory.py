"""Names of chats, and the targets that users write, such as `discord:#ops`.

The directory is stored in `<home>/channel_directory.json`. It holds the chats that adapters report,
and those that authorized messages came from. Several chats may have the same name.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from hermes.config.home import unusable
from hermes.core.errors import UsageError
from hermes.gateway.platforms.registry import addresses, home_variable
from hermes.gateway.supervisor import ConnectionRegistry
from hermes.sdk.platforms import (
    AdapterError,
    ChatInfo,
    ChatTarget,
    ChatType,
    PlatformManifest,
    SessionSource,
)
from hermes.util import files
from hermes.util.text import plain_line

log = logging.getLogger(__name__)

FILE = "channel_directory.json"
MAX_CHATS = 5000  #: Chats per platform; the ones seen longest ago are dropped first.
MAX_NAME = 200
CHATS_SECONDS = 10.0  #: Seconds that a platform has to list its chats.
NAME_SIGNS = "#@"
NO_NAMES_HINT = "no names are known yet; name it by id"


class KnownChat(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    name: str
    type: ChatType = "dm"
    thread_id: str = ""
    account: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.account, self.id, self.thread_id


class _DirectoryFile(msgspec.Struct, frozen=True):
    platforms: dict[str, list[KnownChat]] = {}


class ChatDirectory:
    """The known chats, in memory; `save` writes changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chats: dict[str, dict[tuple[str, str, str], KnownChat]] = {}
        self._changed = False
        try:
            read = msgspec.json.decode(path.read_bytes(), type=_DirectoryFile).platforms
        except FileNotFoundError:
            read = {}
        except msgspec.DecodeError as error:  # names are learned again, and the file is overwritten
            log.warning("the directory of chats begins anew: %s: %s", path, error)
            read = {}
        except OSError as error:
            raise unusable(path, error) from error
        for platform, chats in read.items():
            self._chats[platform] = {chat.key: chat for chat in chats}

    def chats(self, platform: str) -> list[KnownChat]:
        return list(self._chats.get(platform, {}).values())

    def platforms(self) -> list[str]:
        return sorted(self._chats)

    def name_of(self, platform: str, chat_id: str, thread_id: str = "", account: str = "") -> str:
        """Return the name of a chat; "" if it is not known."""
        found = self._chats.get(platform, {}).get((account, chat_id, thread_id))
        return found.name if found else ""

    def add_chats(self, platform: str, chats: Iterable[ChatInfo], account: str = "") -> None:
        for each in chats:
            name = plain_line(each.name)[:MAX_NAME]
            chat = KnownChat(each.chat_id, name, each.chat_type, each.thread_id, account)
            known = self._chats.setdefault(platform, {})
            before = known.pop(chat.key, None)
            known[chat.key] = chat
            self._changed = self._changed or before != chat
            while len(known) > MAX_CHATS:
                del known[next(iter(known))]

    def note_source(self, source: SessionSource) -> None:
        """Add the chat of an authorized message."""
        name = source.chat_name or (source.user_name if source.chat_type == "dm" else "")
        if name and source.chat_id:
            seen = ChatInfo(source.chat_id, name, source.chat_type)
            self.add_chats(source.platform, (seen,), source.account)

    def find(self, platform: str, wanted: str, account: str = "") -> KnownChat:
        """Return the chat with this name, ignoring a leading `#` or `@` and letter case. Raises
        `UsageError` if there is none, or more than one."""
        name = plain_line(wanted).lstrip(NAME_SIGNS).casefold()
        among = [each for each in self.chats(platform) if not account or each.account == account]
        found = [each for each in among if each.name.lstrip(NAME_SIGNS).casefold() == name]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(
                f"{platform}:{each.id}{each.thread_id and f':{each.thread_id}'}"
                for each in found[:10]
            )
            raise UsageError(
                f"{len(found)} chats of {platform} are called {wanted}",
                hint=f"name one by id: {ids}",
            )
        names = sorted({each.name for each in among if each.name})
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        hint = f"there are {', '.join(names[:10])}{more}" if names else NO_NAMES_HINT
        raise UsageError(f"no chat of {platform} is called {wanted}", hint=hint)

    def save(self) -> None:
        """Write the file if something changed. Raises `ConfigError` if that fails."""
        if not self._changed:
            return
        data = _DirectoryFile({platform: self.chats(platform) for platform in self.platforms()})
        text = msgspec.json.format(msgspec.json.encode(data), indent=2)
        try:
            files.write_bytes(self._path, text + b"\n", mode=0o600)
        except OSError as error:
            raise unusable(self._path, error) from error
        self._changed = False


async def refresh_names(
    directory: ChatDirectory, connections: ConnectionRegistry, target: str
) -> None:
    """Ask the platform of a target for its current chats. Errors are logged; known names stay."""
    platform = target.partition(":")[0].partition("@")[0].strip().lower()
    for connection in connections:
        if connection.manifest.name != platform:
            continue
        try:
            async with asyncio.timeout(CHATS_SECONDS):
                chats = await connection.adapter.chats()
        except (AdapterError, TimeoutError) as error:
            log.warning("%s does not tell its chats: %s", connection.manifest.label, error)
        else:
            directory.add_chats(platform, chats, connection.adapter.account)


ORIGIN, LOCAL = "origin", "local"
MAX_LISTED = 50


class TargetResolver:
    """Resolves targets. `platforms` are the configured ones.

    origin: the chat in which the work was requested
    telegram: the home channel of the platform
    telegram:-100123: a chat, by id
    telegram:-100123:17: a thread of it
    discord:#ops: a chat, by name
    telegram:@channelname: a public channel or group that has not written yet
    slack@work:C0123: a chat of one of several accounts

    Jobs and scripts can also use `local`, a file on this machine; no messages are sent there.
    """

    def __init__(
        self,
        platforms: Mapping[str, PlatformManifest],
        variable: Callable[[str], str | None],
        directory: ChatDirectory,
        connections: ConnectionRegistry | None = None,
    ) -> None:
        """`connections` are asked for chats that are newer than the directory."""
        self.manifests = platforms
        self._platforms = {name: each for name, each in platforms.items() if each.chats}
        self._variable, self._directory, self._connections = variable, directory, connections

    async def find(self, text: str) -> ChatTarget:
        """Resolve a target, if needed with the help of its platform. Raises `UsageError`."""
        try:
            return self.resolve(text)
        except UsageError:
            if self._connections is None:
                raise
        await refresh_names(self._directory, self._connections, text)
        return self.resolve(text)

    def resolve(self, text: str, origin: ChatTarget | None = None) -> ChatTarget:
        """Return the target that a text means. Raises `UsageError` with the possible ones."""
        written = text.strip()
        if written == ORIGIN:
            if origin is None:
                raise UsageError("there is no chat this was asked in", hint=self._hint())
            return origin
        named, colon, rest = written.partition(":")
        platform, _, account = named.strip().partition("@")
        platform = platform.lower()
        if platform not in self._platforms:
            unknown = f"there is no platform {platform!r}" if platform else "no target was named"
            if platform == LOCAL:
                unknown = f"{LOCAL!r} is a file, which jobs write: a message goes to a chat"
            raise UsageError(unknown, hint=self._hint())
        if not colon or not rest.strip():
            if home := self.home(platform, account):
                return home
            variable = home_variable(self._platforms[platform])
            raise UsageError(
                f"{platform} has no home channel",
                hint=f"send /sethome there, set {variable}, or name a chat: {platform}:CHAT",
            )
        return self._chat(platform, rest.strip(), account)

    def home(self, platform: str, account: str = "") -> ChatTarget | None:
        found = self._platforms.get(platform)
        said = (self._variable(home_variable(found)) or "").strip() if found else ""
        return self._chat(platform, said, account) if said else None

    def homes(self) -> dict[str, ChatTarget]:
        """Return the home channels by platform, without those whose name is not known (yet)."""
        found: dict[str, ChatTarget] = {}
        for name in self._platforms:
            with contextlib.suppress(UsageError):
                if target := self.home(name):
                    found[name] = target
        return found

    def describe_homes(self, platforms: Iterable[str]) -> str:
        homes = self.homes()
        return ", ".join(
            f"{name} (home channel {homes[name].chat_id})" if name in homes else name
            for name in platforms
        )

    def describe(self) -> list[str]:
        """Return the possible targets, one line each."""
        lines: list[str] = []
        homes = self.homes()
        for name, manifest in self._platforms.items():
            home = homes.get(name)
            called = self._variable(f"{home_variable(manifest)}_NAME") or ""
            about = called or (home.chat_id if home else "")
            lines.append(f"{name} (home channel: {about})" if home else f"{name} (no home channel)")
            chats = [chat for chat in self._directory.chats(name) if chat.name]
            for chat in chats[-MAX_LISTED:]:
                where = f"{name}@{chat.account}" if chat.account else name
                thread = f":{chat.thread_id}" if chat.thread_id else ""
                lines.append(f"{where}:{chat.id}{thread} ({chat.type}: {chat.name})")
        return lines

    def _chat(self, platform: str, rest: str, account: str) -> ChatTarget:
        chat, thread = split_chat(platform, rest)
        # A name is written `#ops`, `@news`, or with its server, `home/#ops`.
        written = addresses(platform)
        is_name = written.names and (chat[0] in NAME_SIGNS or "/#" in chat)
        if is_name and not any(each.id == chat for each in self._directory.chats(platform)):
            try:
                found = self._directory.find(platform, rest, account)
            except UsageError:
                if not re.fullmatch(written.public_names, chat, re.ASCII):
                    raise
            else:
                return ChatTarget(platform, found.id, found.thread_id, found.account)
        return ChatTarget(platform, chat, thread, account)

    def _hint(self) -> str:
        names = ", ".join(self._platforms) or "no platforms with chats"
        return f"there are {names}; `{ORIGIN}` where a chat asked"


def split_chat(platform: str, rest: str) -> tuple[str, str]:
    mark = addresses(platform).thread_mark
    if not mark:
        return rest, ""
    chat, found, thread = rest.partition(mark)
    return chat.strip() or rest, f"{found[1:]}{thread.strip()}"
