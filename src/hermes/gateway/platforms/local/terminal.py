"""A person at the terminal, or at the other end of a pipe: lines in, answers out."""

import asyncio
import sys
import threading
from typing import TextIO

from hermes.gateway.platforms.local.line import Streams
from hermes.gateway.platforms.local.platform import LocalPlatform
from hermes.gateway.platforms.local.wire import Press, Say, Shown

CHAT = USER = "terminal"
PRESS = ":"
"""`:2` presses the second button of the message that has some."""


class Terminal:
    """A platform with one chat. Lives as long as its adapter, over reconnections."""

    def __init__(self, lines: TextIO | None = None, out: TextIO | None = None) -> None:
        self._lines, self._out = lines or sys.stdin, out or sys.stdout
        self._platform = LocalPlatform(shown=self.show)
        self._choices: Shown | None = None
        self._last = ("", "")
        """The id and text of what was printed last."""
        self._reading = False

    async def joined(self) -> Streams:
        if not self._reading:
            self._reading = True
            loop = asyncio.get_running_loop()
            # A thread, since reading a terminal cannot be interrupted; it ends with the process.
            threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        return await self._platform.joined()

    def show(self, shown: Shown) -> None:
        """Of text that only grew, what is new."""
        name, before = self._last
        grew = name == shown.id and shown.text.startswith(before)
        if new := shown.text[len(before) if grew else 0 :]:
            self._out.write(f"{new}\n")
        self._last = (shown.id, shown.text)
        extra = [f"[file: {file}]" for file in shown.media]
        extra += [f"[{PRESS}{n} {each.label}]" for n, each in enumerate(shown.buttons, 1)]
        if extra:
            self._out.write("  ".join(extra) + "\n")
        if shown.buttons:
            self._choices = shown
        self._out.flush()

    def heard(self, line: str) -> None:
        """A line that was typed."""
        text = line.rstrip("\n")
        self._last = ("", "")
        number = text.removeprefix(PRESS)
        if text.startswith(PRESS) and number.isdecimal() and self._choices is not None:
            buttons = self._choices.buttons
            if 1 <= int(number) <= len(buttons):
                data = buttons[int(number) - 1].data
                self._platform.press(Press(self._choices.id, data, USER))
                return
        if text.strip():
            self._platform.say(Say(CHAT, USER, text))

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in self._lines:
            try:
                loop.call_soon_threadsafe(self.heard, line)
            except RuntimeError:  # the gateway has ended
                return
