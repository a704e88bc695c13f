"""Names of chats, so that one can write `discord:#ops` instead of a number.

Kept in `<home>/channel_directory.json`: what adapters tell of their chats, and chats that messages
came from which were let in. A name is what people gave a chat; two chats may have the same one.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from hermes.config.home import unusable
from hermes.core.errors import UsageError
from hermes.gateway.lines import Lines
from hermes.gateway.platforms.kit.contract import AdapterError, ChatName, ChatType, SessionSource
from hermes.util import atomic
from hermes.util.plain import plain_line

log = logging.getLogger(__name__)

FILE = "channel_directory.json"
MOST = 5000
"""Chats of one platform that are kept; those seen longest ago go first."""
LONGEST_NAME = 200
LONGEST_ASKED = 10.0
"""Seconds that a platform gets to tell its chats."""
SIGNS = "#@"


class Chat(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    name: str
    type: ChatType = "dm"
    thread_id: str = ""
    account: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.account, self.id, self.thread_id


class _File(msgspec.Struct, frozen=True):
    platforms: dict[str, list[Chat]] = {}


class Directory:
    """In memory; `save` writes it when something changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chats: dict[str, dict[tuple[str, str, str], Chat]] = {}
        self._changed = False
        for platform, chats in self._read().items():
            self._chats[platform] = {chat.key: chat for chat in chats}

    def chats(self, platform: str) -> list[Chat]:
        return list(self._chats.get(platform, {}).values())

    def platforms(self) -> list[str]:
        return sorted(self._chats)

    def name_of(self, platform: str, chat_id: str, thread_id: str = "", account: str = "") -> str:
        """ "" when it is not known."""
        found = self._chats.get(platform, {}).get((account, chat_id, thread_id))
        return found.name if found else ""

    def learn(self, platform: str, chats: Iterable[ChatName], account: str = "") -> None:
        """What an adapter tells of its chats."""
        for each in chats:
            name = plain_line(each.name)[:LONGEST_NAME]
            chat = Chat(each.chat_id, name, each.chat_type, each.thread_id, account)
            self._put(platform, chat)

    def saw(self, source: SessionSource) -> None:
        """A message that was let in came from there."""
        name = source.chat_name or (source.user_name if source.chat_type == "dm" else "")
        if name and source.chat_id:
            seen = ChatName(source.chat_id, name, source.chat_type)
            self.learn(source.platform, (seen,), source.account)

    def find(self, platform: str, wanted: str, account: str = "") -> Chat:
        """The chat with this name; `#` or `@` before it and letter case do not matter. Raises
        UsageError when there is none, or more than one."""
        name = plain_line(wanted).lstrip(SIGNS).casefold()
        among = [each for each in self.chats(platform) if not account or each.account == account]
        found = [each for each in among if each.name.lstrip(SIGNS).casefold() == name]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(_written(platform, each) for each in found[:10])
            raise UsageError(
                f"{len(found)} chats of {platform} are called {wanted}",
                hint=f"name one by id: {ids}",
            )
        raise UsageError(f"no chat of {platform} is called {wanted}", hint=_known(among))

    def save(self) -> None:
        """Raises ConfigError when it cannot be written."""
        if not self._changed:
            return
        data = _File({platform: self.chats(platform) for platform in self.platforms()})
        text = msgspec.json.format(msgspec.json.encode(data), indent=2)
        try:
            atomic.write_bytes(self._path, text + b"\n", mode=0o600)
        except OSError as error:
            raise unusable(self._path, error) from error
        self._changed = False

    def _put(self, platform: str, chat: Chat) -> None:
        held = self._chats.setdefault(platform, {})
        before = held.pop(chat.key, None)
        held[chat.key] = chat
        self._changed = self._changed or before != chat
        while len(held) > MOST:
            del held[next(iter(held))]

    def _read(self) -> dict[str, list[Chat]]:
        """A damaged file is left alone until there is something to write: names come again."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File).platforms
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            log.warning("the directory of chats begins anew: %s: %s", self._path, error)
            return {}
        except OSError as error:
            raise unusable(self._path, error) from error


async def learn_names(directory: Directory, lines: Lines, target: str) -> None:
    """Names of chats as the platform of a target has them now. What cannot be asked for stays."""
    platform = target.partition(":")[0].partition("@")[0].strip().lower()
    for line in lines:
        if line.manifest.name != platform:
            continue
        try:
            async with asyncio.timeout(LONGEST_ASKED):
                chats = await line.adapter.chats()
        except (AdapterError, TimeoutError) as error:
            log.warning("%s does not tell its chats: %s", line.manifest.label, error)
        else:
            directory.learn(platform, chats, line.adapter.account)


def _written(platform: str, chat: Chat) -> str:
    thread = f":{chat.thread_id}" if chat.thread_id else ""
    return f"{platform}:{chat.id}{thread}"


def _known(chats: Sequence[Chat]) -> str:
    names = sorted({each.name for each in chats if each.name})
    if not names:
        return "no names are known yet; name it by id"
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"there are {', '.join(names[:10])}{more}"
