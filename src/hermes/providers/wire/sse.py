"""Server-sent events out of a byte stream.

Only the data of an event is kept: on all three wires the JSON itself says what it is.
"""


class EventSplitter:
    """Takes chunks, whose borders mean nothing, and gives the data of each whole event.

    Comments and events without data are dropped.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that `chunk` completes."""
        if self._rest:
            self._rest.append(chunk)
            if b"\n" not in chunk:
                return []
            chunk = b"".join(self._rest)
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n")
        *blocks, rest = chunk.split(b"\n\n")
        self._rest = [rest] if rest else []
        return [data for block in blocks if (data := _data_of(block))]

    def end(self) -> bytes:
        """What is left at the end of the stream, as it came."""
        return b"".join(self._rest)


def looks_like_events(body: bytes) -> bool:
    return body.lstrip()[:6].startswith((b"data:", b"event:", b"id:", b":", b"retry:"))


def all_events(body: bytes) -> list[bytes]:
    """The data of the events in a whole body; the last one may lack its blank line."""
    return EventSplitter().feed(body + b"\n\n")


def _data_of(block: bytes) -> bytes:
    if block.startswith(b"data:") and b"\n" not in block:
        return block[5:].lstrip()
    name, mark, data = block.partition(b"\ndata:")
    if mark and b"\n" not in data and name.startswith(b"event:"):
        return data.lstrip()
    lines = [line[5:].lstrip() for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)
