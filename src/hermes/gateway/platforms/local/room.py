"""What was said and shown on a local platform, and the journal it is written to."""

import itertools
import secrets
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from hermes.gateway.platforms.local.wire import (
    Edited,
    Kept,
    Press,
    Recorded,
    Said,
    Say,
    Send,
    Shown,
    line,
)


class Room:
    """All chats. With a journal, another process that opens it goes on where this one was."""

    def __init__(self, journal: Path | None = None) -> None:
        self.waiting: dict[str, deque[Said]] = {}
        """What the gateway does not have yet, by chat, oldest first."""
        self.said: dict[str, Said] = {}
        self.shown: dict[str, Shown] = {}
        self.reactions: dict[str, list[str]] = {}
        self.typed: dict[str, int] = {}
        self._numbers = itertools.count(1)
        # Without a journal nobody knows which names were given before.
        self._mark = "" if journal else f"{secrets.token_hex(4)}-"
        self._journal: BinaryIO | None = None
        if journal is not None:
            self._replay(journal)
            self._journal = journal.open("ab")

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def say(self, message: Say) -> Said:
        """A person writes; waits for the gateway."""
        answered = self.shown.get(message.reply_to) or self.said.get(message.reply_to)
        said = Said(
            id=f"in-{self._mark}{next(self._numbers)}",
            chat=message.chat,
            user=message.user,
            text=message.text,
            chat_type=message.chat_type,
            thread=message.thread,
            reply_to=message.reply_to,
            reply_text=answered.text if answered else "",
            reply_to_us=message.reply_to in self.shown,
            files=message.files,
            bot=message.bot,
            at=time.time(),
        )
        return self._wait(said)

    def press(self, press: Press) -> Said:
        """Raises KeyError when there is no such message, or it has no such button."""
        shown = self.shown[press.id]
        if press.data not in {button.data for button in shown.buttons}:
            raise KeyError(press.data)
        kinds = [said.chat_type for said in self.said.values() if said.chat == shown.chat]
        said = Said(
            id=f"in-{self._mark}{next(self._numbers)}",
            chat=shown.chat,
            user=press.user,
            chat_type=kinds[-1] if kinds else "dm",
            thread=shown.thread,
            reply_to=shown.id,
            button=press.data,
            at=time.time(),
        )
        return self._wait(said)

    def again(self, message_id: str) -> None:
        """As if the gateway had never said that it has it."""
        said = self.said[message_id]
        queue = self.waiting.setdefault(said.chat, deque())
        if said not in queue:
            queue.append(said)

    def kept(self, message_id: str) -> str:
        """The gateway has it; its chat, or "" when nobody waited for that."""
        said = self.said.get(message_id)
        queue = self.waiting.get(said.chat) if said else None
        if said is None or not queue or queue[0].id != message_id:
            return ""
        self._record(Kept(message_id))
        queue.popleft()
        return said.chat

    def show(self, message: Send) -> Shown:
        shown = Shown(
            id=f"out-{self._mark}{next(self._numbers)}",
            chat=message.chat,
            text=message.text,
            key=message.key,
            thread=message.thread,
            reply_to=message.reply_to,
            media=message.media,
            buttons=message.buttons,
            at=time.time(),
        )
        self._record(shown)
        self.shown[shown.id] = shown
        return shown

    def edit(self, message_id: str, text: str) -> Shown:
        """Raises KeyError when there is no such message of ours."""
        before = self.shown[message_id]
        if before.text == text:
            return before
        self._record(Edited(message_id, text))
        return self._edit(before, text)

    def find(self, key: str) -> str | None:
        return next((shown.id for shown in self.shown.values() if shown.key == key), None)

    def react(self, message_id: str, emoji: str, *, on: bool) -> None:
        ours = self.reactions.setdefault(message_id, [])
        if on and emoji not in ours:
            ours.append(emoji)
        elif not on and emoji in ours:
            ours.remove(emoji)

    def typing(self, chat: str) -> None:
        self.typed[chat] = self.typed.get(chat, 0) + 1

    def chats(self) -> dict[str, str]:
        """Chats and their types."""
        return {said.chat: said.chat_type for said in self.said.values()}

    def _wait(self, said: Said) -> Said:
        self._record(said)
        self._keep(said)
        return said

    def _keep(self, said: Said) -> None:
        self.said[said.id] = said
        self.waiting.setdefault(said.chat, deque()).append(said)

    def _edit(self, before: Shown, text: str) -> Shown:
        after = msgspec.structs.replace(before, text=text, edits=before.edits + 1)
        self.shown[after.id] = after
        return after

    def _record(self, entry: Recorded) -> None:
        if self._journal is not None:
            self._journal.write(line(entry))
            self._journal.flush()

    def _replay(self, journal: Path) -> None:
        count = 0
        for entry in records(journal):
            match entry:
                case Said():
                    self._keep(entry)
                case Kept(id=message_id):
                    self.kept(message_id)
                case Shown():
                    self.shown[entry.id] = entry
                case Edited(id=message_id, text=text):
                    self._edit(self.shown[message_id], text)
            count += isinstance(entry, Said | Shown)
        self._numbers = itertools.count(count + 1)


def records(journal: Path) -> Iterator[Recorded]:
    """What a journal says, oldest first. A last line that was cut off by a crash is left out."""
    if not journal.exists():
        return
    decoder = msgspec.json.Decoder(Recorded)
    with journal.open("rb") as file:
        for entry in file:
            if entry.endswith(b"\n"):
                yield decoder.decode(entry)
