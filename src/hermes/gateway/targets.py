"""Where messages go, as people write it.

origin                        where the work was asked for
telegram                      the home channel of the platform
telegram:-100123              a chat, by id
telegram:-100123:17           a thread of it
discord:#ops                  a chat, by its name
telegram:@channelname         a public channel or group that nobody wrote from yet
slack@work:C0123              a chat of one of several accounts

For jobs and scripts there is also `local`: files of this machine. Nobody sends messages there.
"""

import contextlib
import re
from collections.abc import Callable, Mapping

from hermes.core.errors import UsageError
from hermes.gateway.directory import SIGNS, Directory
from hermes.gateway.platforms.kit.contract import Manifest, Target
from hermes.gateway.platforms.registry import home_variable

ORIGIN, LOCAL = "origin", "local"
MATRIX_THREAD = ":$"
"""Ids of Matrix hold colons; its threads are events."""
MOST_LISTED = 50
PUBLIC = {"telegram": re.compile(r"@[A-Za-z]\w{3,31}", re.ASCII)}
"""Names that a platform knows itself, also of chats that we have never seen."""


class Targets:
    """`platforms` are those that are configured."""

    def __init__(
        self,
        platforms: Mapping[str, Manifest],
        variable: Callable[[str], str | None],
        directory: Directory,
    ) -> None:
        self._platforms = {name: each for name, each in platforms.items() if each.chats}
        self._variable, self._directory = variable, directory

    def resolve(self, text: str, origin: Target | None = None) -> Target:
        """Raises UsageError that says what there is."""
        written = text.strip()
        if written == ORIGIN:
            if origin is None:
                raise UsageError("there is no chat this was asked in", hint=self._hint())
            return origin
        named, colon, rest = written.partition(":")
        platform, _, account = named.strip().partition("@")
        platform = platform.lower()
        if platform not in self._platforms:
            raise UsageError(_missing(platform), hint=self._hint())
        if not colon or not rest.strip():
            return self._home_or_say(platform, account)
        return self._chat(platform, rest.strip(), account)

    def home(self, platform: str, account: str = "") -> Target | None:
        """The home channel of a platform, if it has one."""
        found = self._platforms.get(platform)
        said = (self._variable(home_variable(found)) or "").strip() if found else ""
        return self._chat(platform, said, account) if said else None

    def homes(self) -> dict[str, Target]:
        """Without those whose name is not known (yet)."""
        found: dict[str, Target] = {}
        for name in self._platforms:
            with contextlib.suppress(UsageError):
                if target := self.home(name):
                    found[name] = target
        return found

    def lines(self) -> list[str]:
        """What can be written, a line each."""
        lines: list[str] = []
        homes = self.homes()
        for name, manifest in self._platforms.items():
            home = homes.get(name)
            called = self._variable(f"{home_variable(manifest)}_NAME") or ""
            about = called or (home.chat_id if home else "")
            lines.append(f"{name} (home channel: {about})" if home else f"{name} (no home channel)")
            chats = [chat for chat in self._directory.chats(name) if chat.name]
            for chat in chats[-MOST_LISTED:]:
                where = f"{name}@{chat.account}" if chat.account else name
                thread = f":{chat.thread_id}" if chat.thread_id else ""
                lines.append(f"{where}:{chat.id}{thread} ({chat.type}: {chat.name})")
        return lines

    def _chat(self, platform: str, rest: str, account: str) -> Target:
        chat, thread = split_chat(platform, rest)
        if _is_name(platform, chat) and not self._is_id(platform, chat):
            try:
                found = self._directory.find(platform, rest, account)
            except UsageError:
                if platform not in PUBLIC or not PUBLIC[platform].fullmatch(chat):
                    raise
            else:
                return Target(platform, found.id, found.thread_id, found.account)
        return Target(platform, chat, thread, account)

    def _is_id(self, platform: str, text: str) -> bool:
        return any(chat.id == text for chat in self._directory.chats(platform))

    def _home_or_say(self, platform: str, account: str) -> Target:
        home = self.home(platform, account)
        if home is None:
            variable = home_variable(self._platforms[platform])
            raise UsageError(
                f"{platform} has no home channel",
                hint=f"send /sethome there, set {variable}, or name a chat: {platform}:CHAT",
            )
        return home

    def _hint(self) -> str:
        names = ", ".join(self._platforms) or "no platforms with chats"
        return f"there are {names}; `{ORIGIN}` where a chat asked"


def _missing(platform: str) -> str:
    if platform == LOCAL:
        return f"{LOCAL!r} is a file, which jobs write: a message goes to a chat"
    return f"there is no platform {platform!r}" if platform else "no target was named"


def _is_name(platform: str, chat: str) -> bool:
    """`#ops`, `@news`, or with the server before it: `home/#ops`."""
    return platform != "matrix" and (chat[0] in SIGNS or "/#" in chat)


def split_chat(platform: str, rest: str) -> tuple[str, str]:
    """A chat and its thread."""
    if platform == "email":
        return rest, ""
    if platform == "matrix":
        chat, dollar, thread = rest.partition(MATRIX_THREAD)
        return chat, f"${thread}" if dollar else ""
    chat, _, thread = rest.partition(":")
    return chat.strip() or rest, thread.strip()
