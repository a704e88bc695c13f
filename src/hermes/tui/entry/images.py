"""Pictures that go with a message."""

import base64
import os
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from hermes.app.references.files import image_kind
from hermes.core.errors import UsageError
from hermes.core.messages import Image
from hermes.tui.cells import one_line
from hermes.tui.entry.clipboard import clipboard_image
from hermes.util.text import human_size

MOST_BYTES = 20_000_000
SNIFF = 16
"""First bytes of a file that tell what it is."""
NAME_COLUMNS = 24
MOST_PATH = 4_096
FORMATS = "PNG, JPEG, GIF or WebP"


class Picture(msgspec.Struct, frozen=True):
    name: str
    size: int
    image: Image


class Images:
    """Those attached to the message that is being typed."""

    def __init__(self) -> None:
        self._pictures: list[Picture] = []

    def __len__(self) -> int:
        return len(self._pictures)

    @property
    def labels(self) -> list[str]:
        """Short, for the image bar: `#1 cat.png 1.2 MB`."""
        return [
            f"#{number} {one_line(each.name, NAME_COLUMNS)} {human_size(each.size)}"
            for number, each in enumerate(self._pictures, start=1)
        ]

    def add(self, data: bytes, name: str) -> str:
        """Its label. Raises `UsageError` for what is no picture."""
        kind = image_kind(data[:SNIFF])
        if not kind:
            raise UsageError(f"{name} is no picture", hint=f"use {FORMATS}")
        if len(data) > MOST_BYTES:
            raise _too_large(name, len(data))
        encoded = base64.b64encode(data).decode("ascii")
        self._pictures.append(Picture(name, len(data), Image(f"data:{kind};base64,{encoded}")))
        return self.labels[-1]

    def add_file(self, written: str | Path) -> str:
        """Its label; `written` is a path in any of the ways of `path_of`. Raises `UsageError`."""
        path = path_of(str(written), Path.cwd())
        return self.add(_data(path), path.name)

    async def paste(self) -> str:
        """Add the picture in the clipboard; its label. Raises `UsageError`."""
        return self.add(await clipboard_image(), "clipboard")

    def remove(self, number: int) -> None:
        """By the number of its label; those behind it move up. Raises `UsageError`."""
        if not 0 < number <= len(self._pictures):
            raise UsageError(f"there is no picture #{number}")
        del self._pictures[number - 1]

    def clear(self) -> None:
        self._pictures.clear()

    def take(self) -> tuple[Image, ...]:
        """All of them, for a message that is sent now."""
        taken = tuple(each.image for each in self._pictures)
        self.clear()
        return taken


def path_of(written: str, folder: Path) -> Path:
    """The file that a path means as it was typed, pasted or dropped: quoted, with escaped blanks,
    as a file: address, relative to `folder` or with `~`."""
    written = written.strip()
    if not os.path.lexists(_path(written, folder)):
        try:
            words = shlex.split(written)
        except ValueError:  # a quote that is part of the name
            words = []
        if len(words) == 1:
            return _path(words[0], folder)
    return _path(written, folder)


def dropped_images(pasted: str) -> list[Path]:
    """The pictures whose paths a paste consists of; none when there is anything else in it, or a
    path that is not absolute: that may be meant as a word."""
    text = pasted.strip()
    if not text.startswith(("/", "~/", "file://", "'", '"')) or len(text) > MOST_PATH:
        return []
    if _is_image(_path(text, Path("/"))):
        return [_path(text, Path("/"))]
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    if not all(word.startswith(("/", "~/", "file://")) for word in words):
        return []
    paths = [_path(word, Path("/")) for word in words]
    return paths if all(map(_is_image, paths)) else []


def _path(written: str, folder: Path) -> Path:
    if written.lower().startswith("file://"):
        written = unquote(urlsplit(written).path)
    try:
        return folder / Path(written.partition("\0")[0]).expanduser()
    except RuntimeError:  # the home of nobody
        return folder / written


def _is_image(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return bool(image_kind(file.read(SNIFF)))
    except OSError:
        return False


def _data(path: Path) -> bytes:
    try:
        if not path.exists():
            raise UsageError(f"there is no file {path}")
        if not path.is_file():
            raise UsageError(f"{path} is no file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not image_kind(file.read(SNIFF)):
                raise UsageError(f"{path.name} is no picture", hint=f"use {FORMATS}")
            if size > MOST_BYTES:
                raise _too_large(path.name, size)
            file.seek(0)
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _too_large(name: str, size: int) -> UsageError:
    most = human_size(MOST_BYTES)
    return UsageError(
        f"{name} has {human_size(size)}, and a picture may have {most}", hint="make it smaller"
    )
