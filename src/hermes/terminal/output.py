"""Command output, bounded in memory: the beginning and the end are kept."""

import asyncio
import codecs
from collections.abc import Callable

import msgspec

from hermes.util.lazy import late_pattern

HEAD_SHARE = 0.4
"""Share of the space used for the beginning; the end, where errors are, gets the rest."""


class OutputLimits(msgspec.Struct, frozen=True):
    """The setting `tool_output`."""

    max_bytes: int = 50_000
    max_lines: int = 2_000
    max_line_length: int = 2_000


class HeadAndTail:
    """Accepts any number of bytes and keeps at most `max_bytes` of them."""

    def __init__(self, limits: OutputLimits) -> None:
        self._max_lines = limits.max_lines
        self._head_size = int(limits.max_bytes * HEAD_SHARE)
        self._tail_size = limits.max_bytes - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._dropped_lines = 0

    @property
    def total(self) -> int:
        """Number of bytes added so far."""
        return len(self._head) + self._dropped + len(self._tail)

    def add(self, data: bytes) -> None:
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        # Trim rarely, so that many small pieces stay cheap.
        if len(self._tail) > 2 * self._tail_size + 65_536:
            self._trim()

    def text(self) -> tuple[str, bool]:
        """Return the kept text, and whether something was omitted."""
        self._trim()
        if not self._dropped:
            kept = (bytes(self._head) + bytes(self._tail)).decode("utf-8", "replace")
            return self._limit_lines(kept)
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail).lstrip(bytes(range(0x80, 0xC0))).decode("utf-8", "replace")
        lines = f"{self._dropped_lines} lines, " if self._dropped_lines else ""
        note = f"[… {lines}{self._dropped} bytes left out …]"
        text, _ = self._limit_lines(f"{head}\n{note}\n{tail}", note)
        return text, True

    def since(self, position: int) -> tuple[bytes, int]:
        """Return what was added since byte `position`, and how many bytes of it were omitted."""
        self._trim()
        tail_begin = len(self._head) + self._dropped
        if position >= tail_begin:
            return bytes(self._tail[position - tail_begin :]), 0
        head = bytes(self._head[position:])
        missing = tail_begin - max(position, len(self._head))
        note = b"\n[\xe2\x80\xa6 %d bytes left out \xe2\x80\xa6]\n" % missing if missing else b""
        return head + note + bytes(self._tail), missing

    def numbered_lines(self) -> list[tuple[int, str]]:
        """Return the kept lines with their numbers, from 1. Omitted lines leave a gap."""
        self._trim()
        head = bytes(self._head) if self._dropped else bytes(self._head + self._tail)
        lines = _split_lines(head)
        found = list(enumerate(lines, 1))
        if self._dropped:
            first = self._head.count(b"\n") + self._dropped_lines + 1
            found += enumerate(_split_lines(bytes(self._tail)), first)
        return found

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_size
        if excess > 0:
            self._dropped_lines += self._tail.count(b"\n", 0, excess)
            del self._tail[:excess]
            self._dropped += excess

    def _limit_lines(self, text: str, dropped: str = "") -> tuple[str, bool]:
        """`dropped` is the line about omitted bytes, which may be among the lines left out."""
        lines = text.split("\n")
        excess = len(lines) - 1 - self._max_lines
        if excess <= 0:
            return text, False
        head = int(self._max_lines * HEAD_SHARE)
        number = excess
        if dropped and dropped in lines[head : head + excess]:
            number += self._dropped_lines - 2  # the note, and the line that it splits
        note = f"[… {number} lines left out …]"
        return "\n".join([*lines[:head], note, *lines[head + excess :]]), True


_ESCAPES = late_pattern(
    r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(\x07|\x1b\\)?|[()][0-9A-Z]|[@-Z\\^_=>78])"
)
_CONTROLS = late_pattern(r"[\x00-\x08\x0b-\x1f\x7f]")


def plain_text(output: str) -> str:
    """Return the output as a person would see it: no colours, no overwritten progress lines."""
    lines = _ESCAPES.sub("", output).split("\n")
    shown = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return _CONTROLS.sub("", shown).rstrip()


def _split_lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n") if text else []


def cut_line(text: str, longest: int, *, more: bool = False) -> str:
    """Return at most `longest` characters, with a mark if the rest was omitted."""
    if len(text) <= longest and not more:
        return text
    return text[:longest] + " [… line cut]"


SHOW_INTERVAL = 0.1  #: Seconds between two updates shown to the user.
MAX_SHOWN_BYTES = 16_384  #: Bytes per update, so that endless output does not flood the screen.


class Capture:
    """Collects the output of a command and shows it to the user while the command runs.

    Must be created and used in the event loop's thread.
    """

    def __init__(self, limits: OutputLimits, show: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._kept = HeadAndTail(limits)
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        self._kept.add(data)
        self._pending += data
        if len(self._pending) > 2 * MAX_SHOWN_BYTES:
            del self._pending[MAX_SHOWN_BYTES:-MAX_SHOWN_BYTES]
        if self._timer is None:
            self._timer = self._loop.call_later(SHOW_INTERVAL, self._flush)

    def finish(self) -> tuple[str, bool]:
        """Show the rest and return the kept text, and whether it was truncated."""
        self._flush()
        return self._kept.text()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            text = self._decoder.decode(bytes(self._pending[-MAX_SHOWN_BYTES:]))
            self._pending.clear()
            if text:
                self._show(text)
