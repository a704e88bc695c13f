"""Output of a command, bounded in memory: the beginning and the end are kept."""

import codecs

import msgspec

HEAD_SHARE = 0.4
"""How much of the room goes to the beginning; the end, where errors are, gets the rest."""


class OutputLimits(msgspec.Struct, frozen=True):
    """The setting `tool_output`."""

    max_bytes: int = 50_000
    max_lines: int = 2_000
    max_line_length: int = 2_000


class HeadAndTail:
    """Takes any number of bytes and keeps at most `max_bytes` of them."""

    def __init__(self, limits: OutputLimits) -> None:
        self._max_lines = limits.max_lines
        self._head_room = int(limits.max_bytes * HEAD_SHARE)
        self._tail_room = limits.max_bytes - self._head_room
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = self._head_room - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        # Trimmed now and then only, so that many small pieces stay cheap.
        if len(self._tail) > 2 * self._tail_room + 65_536:
            self._trim()

    def text(self) -> tuple[str, bool]:
        """What was kept, and whether something was left out."""
        self._trim()
        if not self._dropped:
            kept = (bytes(self._head) + bytes(self._tail)).decode("utf-8", "replace")
            return self._fewer_lines(kept)
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail).lstrip(bytes(range(0x80, 0xC0))).decode("utf-8", "replace")
        text, _ = self._fewer_lines(f"{head}\n[… {self._dropped} bytes left out …]\n{tail}")
        return text, True

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_room
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def _fewer_lines(self, text: str) -> tuple[str, bool]:
        lines = text.split("\n")
        excess = len(lines) - 1 - self._max_lines
        if excess <= 0:
            return text, False
        head = int(self._max_lines * HEAD_SHARE)
        note = f"[… {excess} lines left out …]"
        return "\n".join([*lines[:head], note, *lines[head + excess :]]), True


def cut_line(text: str, longest: int, *, more: bool = False) -> str:
    """At most `longest` characters, with a mark where the rest was left out."""
    if len(text) <= longest and not more:
        return text
    return text[:longest] + " [… line cut]"
