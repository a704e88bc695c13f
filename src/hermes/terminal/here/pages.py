"""Reading a file of this machine: a page of its lines, or all of its bytes."""

import codecs
import errno
import os
from typing import BinaryIO

import msgspec

from hermes.terminal.base import Lines
from hermes.terminal.here.replacing import require_regular
from hermes.terminal.here.walk import SNIFF
from hermes.terminal.output import cut_line

COUNT_MOST = 64 * 1_048_576
"""Bytes after the page that are read to count the lines of the file."""
BLOCK = 1_048_576
SMALL = 262_144
"""A file with fewer bytes is read as a whole."""


def open_file(path: str) -> BinaryIO:
    """Opened without waiting: a pipe without a writer would never answer."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    file = os.fdopen(descriptor, "rb")
    try:
        require_regular(os.fstat(descriptor))
    except OSError:
        file.close()
        raise
    return file


_BINARY = getattr(os, "O_BINARY", 0)


def read_bytes(path: str, most: int) -> bytes:
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size <= most:
            data = file.read(most + 1)  # files of /proc say that they are empty
            if len(data) <= most:
                return data
    raise OSError(errno.EFBIG, f"it has more than {most} bytes", path)


class Line(msgspec.Struct, frozen=True):
    start: bytes
    """As much of the line as was asked for, without its end."""
    cut: bool
    crlf: bool


def read_lines(path: str, offset: int, limit: int, longest: int) -> Lines:
    page: list[Line] = []
    number = 0
    with open_file(path) as file:
        start = file.read(SMALL)
        if b"\0" in start[:SNIFF]:
            return Lines((), 0, binary=True)
        if len(start) < SMALL and (small := _page(start, offset, limit, longest)):
            return small
        file.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
        while number < offset - 1 + limit:
            line = _next_line(file, longest * 4)
            if line is None:
                break
            number += 1
            if number >= offset:
                page.append(line)
        rest, complete = _count_rest(file)
    texts = [line_text(line, longest) for line in page]
    return Lines(
        tuple(text for text, _ in texts),
        number + rest,
        complete=complete,
        crlf=any(line.crlf for line in page),
        undecodable=not all(whole for _, whole in texts),
    )


def _page(data: bytes, offset: int, limit: int, longest: int) -> Lines | None:
    """The page of a small file, in one go; None when a line needs more care."""
    data = data.removeprefix(codecs.BOM_UTF8)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    page = lines[offset - 1 : offset - 1 + limit]
    crlf = any(line.endswith(b"\r") for line in page)
    if crlf or max(map(len, page), default=0) > longest:
        return None
    try:
        text = b"\n".join(page).decode()
    except UnicodeDecodeError:
        return None
    return Lines(tuple(text.split("\n")) if page else (), len(lines))


def _next_line(file: BinaryIO, keep: int) -> Line | None:
    """The next line, of which only `keep` bytes stay in memory."""
    piece = file.readline(BLOCK)
    if not piece:
        return None
    start, length = piece[:keep], len(piece)
    while not piece.endswith(b"\n"):
        more = file.readline(BLOCK)
        if not more:
            break
        piece, length = more, length + len(more)
    return Line(start.rstrip(b"\r\n"), cut=length > keep, crlf=piece.endswith(b"\r\n"))


def line_text(line: Line, longest: int) -> tuple[str, bool]:
    """The line as text, and whether all of it was UTF-8."""
    try:
        # A cut may have gone through a character; the decoder leaves such a rest out.
        text = codecs.getincrementaldecoder("utf-8")().decode(line.start, final=not line.cut)
        whole = True
    except UnicodeDecodeError:
        text, whole = line.start.decode("utf-8", "replace"), False
    return cut_line(text, longest, more=line.cut), whole


def _count_rest(file: BinaryIO) -> tuple[int, bool]:
    """Lines from here to the end, and whether the end was reached."""
    count, last = 0, b"\n"
    for _ in range(COUNT_MOST // BLOCK):
        block = file.read(BLOCK)
        if not block:
            return count + (last != b"\n"), True
        count, last = count + block.count(b"\n"), block[-1:]
    return count, not file.read(1)
