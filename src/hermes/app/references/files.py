"""Attaching a file: its text, some of its lines, or the image it is."""

import base64
import codecs
import threading
from pathlib import Path
from typing import BinaryIO

import msgspec

from hermes.app.references.blocks import fenced_text
from hermes.app.references.desk import Attached, Desk, NotAttached
from hermes.app.references.written import Lines, Reference
from hermes.core.messages import Image
from hermes.terminal.local.files import open_file
from hermes.util.text import clean, human_size, many
from hermes.util.threads import in_thread

MOST_IMAGE = 5_000_000
"""Bytes. Endpoints refuse larger ones."""
SNIFF = 8_192
BLOCK = 1_048_576
IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
DOCUMENTS = (b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"7z\xbc\xaf", b"\x7fELF")
"""How files begin that are no text, even when no byte tells."""
WIDE_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The longer ones first: one begins with another."""
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))


class Content(msgspec.Struct, frozen=True):
    data: bytes
    size: int
    """Bytes of the whole, or of the lines that were asked for."""
    lines: Lines | None = None
    """Those that are there."""


async def attach_file(reference: Reference, real: str, lines: Lines | None, desk: Desk) -> Attached:
    """Raises `NotAttached` and `OSError`."""
    if lines is not None and (lines.first < 1 or lines.last < lines.first):
        raise NotAttached("lines are written as :10 or :10-20, from 1")
    stop = threading.Event()
    try:
        return await in_thread(_attached, reference, real, lines, desk, stop)
    finally:
        stop.set()


def _attached(
    reference: Reference, real: str, lines: Lines | None, desk: Desk, stop: threading.Event
) -> Attached:
    with open_file(real) as file:
        start = file.read(SNIFF)
        file.seek(0)
        if kind := image_kind(start):
            return _image(reference, real, kind, file, desk)
        encoding = next((name for mark, name in WIDE_BOMS.items() if start.startswith(mark)), "")
        if not encoding and is_binary(start):
            raise NotAttached("it is a binary file")
        if lines is not None and not encoding:
            content = _some_lines(file, lines, desk.most_bytes, stop)
        else:
            content = _whole(file, desk.most_bytes)
    if not encoding and b"\0" in content.data:
        raise NotAttached("it is a binary file")
    text, remark = _decoded(content.data, encoding)
    if lines is not None and encoding:
        chosen = text.splitlines(keepends=True)[lines.first - 1 : lines.last]
        _require_lines(len(chosen), lines, text.count("\n") + 1)
        content = Content(b"", 0, Lines(lines.first, lines.first + len(chosen) - 1))
        text = "".join(chosen)
    return Attached(
        key=f"file {real} {lines}",
        written=reference.written,
        detail=_detail(text, content),
        text=fenced_text(desk.redact(clean(text)), Path(real).suffix) if text else "[empty]",
        warnings=(f"{reference.written}: {remark}",) if remark else (),
        size=content.size if content.size > len(content.data) else 0,
    )


def _detail(text: str, content: Content) -> str:
    if content.lines is None:
        count = text.count("\n") + (not text.endswith("\n") and bool(text))
        return many(count, "line")
    first, last = content.lines.first, content.lines.last
    return f"line {first}" if first == last else f"lines {first}-{last}"


def image_kind(start: bytes) -> str:
    """The media type of an image, by its first bytes; "" for anything else."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in IMAGES.items() if start.startswith(mark)), "")


def is_binary(start: bytes) -> bool:
    """By the first bytes of a file: a document, a NUL, or too many control characters."""
    if start.startswith(DOCUMENTS) or b"\0" in start:
        return True
    return len(start) - len(start.translate(None, _CONTROL)) > len(start) // 10


def _image(reference: Reference, real: str, kind: str, file: BinaryIO, desk: Desk) -> Attached:
    if not desk.images:
        raise NotAttached("the model does not see images")
    data = file.read(MOST_IMAGE + 1)
    if len(data) > MOST_IMAGE:
        raise NotAttached(f"the image has more than {human_size(MOST_IMAGE)}")
    encoded = base64.b64encode(data).decode("ascii")
    return Attached(
        key=f"file {real} None",
        written=reference.written,
        detail=f"{kind}, {human_size(len(data))}",
        text="[the image is part of this message]",
        image=Image(f"data:{kind};base64,{encoded}"),
    )


def _whole(file: BinaryIO, most: int) -> Content:
    data = file.read(most + 1)
    size = file.seek(0, 2) if len(data) > most else len(data)
    return Content(data[:most], size)


def _some_lines(file: BinaryIO, wanted: Lines, most: int, stop: threading.Event) -> Content:
    """Reads on until the last line that is wanted, and keeps no more than `most` bytes."""
    kept = bytearray()
    size, number, begun = 0, 1, False
    while number <= wanted.last and (piece := file.readline(BLOCK)):
        if stop.is_set():
            raise NotAttached("stopped")
        if number >= wanted.first:
            size += len(piece)
            kept += piece[: most - len(kept)]
            if size > most:
                break
        begun = not piece.endswith(b"\n")
        number += not begun
    last = number if begun else number - 1
    _require_lines(size, wanted, last)
    return Content(bytes(kept), size, Lines(wanted.first, last))


def _require_lines(found: int, wanted: Lines, last: int) -> None:
    if not found:
        raise NotAttached(f"there is no line {wanted.first}: it has {many(last, 'line')}")


def _decoded(data: bytes, encoding: str) -> tuple[str, str]:
    """The text, and what the user should know about how it was read."""
    if encoding:
        return data.decode(encoding, "replace"), ""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":  # where the reading stopped
            return data[: error.start].decode("utf-8"), ""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if sum(char > "\x7f" for char in text) > 2 * bad:
        return text, "some of it is not UTF-8 and is shown as \ufffd"
    return data.decode("cp1252", "replace"), "it is not UTF-8 and was read as Windows-1252"
