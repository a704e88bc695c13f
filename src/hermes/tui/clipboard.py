"""The clipboard of the desktop, accessed by external programs, and attached images."""

import asyncio
import base64
import binascii
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from hermes.config.environment import child_environment, search_path, variable
from hermes.core.errors import HermesError, UsageError
from hermes.core.messages import Image, image_kind
from hermes.tui.text import one_line
from hermes.util.text import human_size

TIMEOUT_SECONDS = 5.0
IMAGE_KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")  #: In order of preference.
TEXT_KINDS = ("UTF8_STRING", "STRING", "TEXT")
_X = ("xclip", "-selection", "clipboard")
_PNG_TO_BASE64 = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$i=[Windows.Forms.Clipboard]::GetImage();if($i){$m=New-Object IO.MemoryStream;"
    "$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);[Convert]::ToBase64String($m.ToArray())}"
)
_POWERSHELL = ("-NoProfile", "-NonInteractive", "-STA", "-Command")


def _from_apple(data: bytes) -> bytes:
    """AppleScript prints data as `«data PNGf8950…»`."""
    found = re.search(rb"\xc2\xabdata PNGf([0-9A-Fa-f]+)", data)
    return bytes.fromhex(found[1].decode()) if found else b""


def _from_base64(data: bytes) -> bytes:
    try:
        return base64.b64decode(data)
    except binascii.Error:
        return b""


class ClipboardReader(msgspec.Struct, frozen=True):
    picture: tuple[str, ...]  #: The command; `{kind}` is replaced by the media type of the image.
    text: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    """The command that lists the available types; without it images are PNG."""
    needs: str = ""  #: Environment variable without which the program cannot work.
    decode: Callable[[bytes], bytes] = lambda data: data


class ClipboardWriter(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    needs: str = ""
    encoding: str = "utf-8"
    local: bool = True
    """It writes the clipboard of this machine, which over SSH is not that of the user."""


READERS = (
    ClipboardReader(
        ("wl-paste", "--no-newline", "--type", "{kind}"),
        ("wl-paste", "--no-newline", "--type", "text"),
        ("wl-paste", "--list-types"),
        "WAYLAND_DISPLAY",
    ),
    ClipboardReader(
        (*_X, "-t", "{kind}", "-o"), (*_X, "-o"), (*_X, "-t", "TARGETS", "-o"), "DISPLAY"
    ),
    ClipboardReader(("pngpaste", "-"), ("pbpaste",)),
    ClipboardReader(
        ("osascript", "-e", "get the clipboard as «class PNGf»"), ("pbpaste",), decode=_from_apple
    ),
    *(
        ClipboardReader(
            (shell, *_POWERSHELL, _PNG_TO_BASE64),
            (shell, *_POWERSHELL, "Get-Clipboard -Raw"),
            decode=_from_base64,
        )
        for shell in ("powershell.exe", "powershell")
    ),
)
WRITERS = (
    ClipboardWriter(("wl-copy",), "WAYLAND_DISPLAY", local=False),
    ClipboardWriter((*_X, "-i"), "DISPLAY", local=False),
    ClipboardWriter(("pbcopy",)),
    ClipboardWriter(("clip.exe",), encoding="utf-16"),
    ClipboardWriter(("tmux", "load-buffer", "-w", "-"), "TMUX", local=False),
)


def notification(text: str) -> str:
    """Return the sequence with which this terminal shows a notification, and the bell.

    Terminals know one of three sequences; the others would show it twice, or as text.
    """
    term = variable("TERM") or ""
    if variable("TMUX"):
        return "\a"  # tmux passes the bell on, and drops the sequences
    if variable("KITTY_WINDOW_ID") or "kitty" in term:
        return f"\x1b]99;o=unfocused;{text}\x1b\\\a"
    if (variable("TERM_PROGRAM") or "") in ("iTerm.app", "WezTerm", "ghostty", "WarpTerminal"):
        return f"\x1b]9;{text}\x1b\\\a"
    if variable("VTE_VERSION") or term.startswith(("foot", "rxvt")):
        return f"\x1b]777;notify;Hermes;{text}\x1b\\\a"
    return "\a"


async def clipboard_image() -> bytes:
    readers = list(_available_readers())
    for reader in readers:
        if data := await _read_image(reader):
            return data
    if readers:
        raise UsageError("there is no image in the clipboard")
    raise UsageError("the clipboard is not accessible", hint=_install_hint())


async def clipboard_text() -> str:
    """Return the text in the clipboard; "" when there is none or it is not accessible."""
    for reader in _available_readers():
        kinds = await _list_kinds(reader) if reader.kinds else ["TEXT"]
        if not any(kind.startswith("text/") or kind in TEXT_KINDS for kind in kinds):
            continue
        if data := await _read_from(reader.text):
            return data.decode("utf-8", "replace")
    return ""


async def copy_text(text: str, terminal: Callable[[str], object]) -> str:
    """Copy `text` to the clipboard and return a sentence that says how.

    Without a suitable program an OSC 52 sequence is sent by `terminal`, which writes it
    unchanged. Raises `HermesError`.
    """
    remote = variable("SSH_CONNECTION") is not None
    for writer in WRITERS:
        there = _is_available(writer.command[0], writer.needs) and not (remote and writer.local)
        # These programs stay in the background, so do not wait for the end of their output.
        quiet = asyncio.subprocess.DEVNULL
        data = text.encode(writer.encoding, "replace")
        if there and await _run(writer.command, data, output=quiet) is not None:
            return f"Copied with {writer.command[0]}."
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    if len(encoded) > 100_000:  # terminals drop longer sequences
        raise HermesError("the text is too long for the terminal to copy", hint=_install_hint())
    terminal(f"\x1b]52;c;{encoded}\x07")
    return "Copied through the terminal (OSC 52), if it allows that."


def _available_readers() -> Iterator[ClipboardReader]:
    return (each for each in READERS if _is_available(each.picture[0], each.needs))


def _is_available(program: str, needs: str) -> bool:
    if needs and variable(needs) is None:
        return False
    return shutil.which(program, path=search_path()) is not None


def _install_hint() -> str:
    if variable("WAYLAND_DISPLAY"):
        return "install the package wl-clipboard"
    if variable("DISPLAY"):
        return "install the package xclip"
    return "there is no desktop; save it to a file instead"


async def _read_image(reader: ClipboardReader) -> bytes:
    offered = await _list_kinds(reader) if reader.kinds else [IMAGE_KINDS[0]]
    kind = next((each for each in IMAGE_KINDS if each in offered), "")
    command = [word.replace("{kind}", kind) for word in reader.picture]
    return reader.decode(await _read_from(command)) if kind else b""


async def _list_kinds(reader: ClipboardReader) -> list[str]:
    return (await _read_from(reader.kinds)).decode("utf-8", "replace").split()


async def _read_from(command: tuple[str, ...] | list[str]) -> bytes:
    """Return the output of a program; empty when it fails or takes too long."""
    return await _run(command, None, output=asyncio.subprocess.PIPE) or b""


async def _run(
    command: tuple[str, ...] | list[str], data: bytes | None, *, output: int
) -> bytes | None:
    """Return the output; None when the program failed."""
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=quiet if data is None else asyncio.subprocess.PIPE,
            stdout=output,
            stderr=quiet,
            env=child_environment(),
        )
    except OSError:  # it was removed, or cannot be run
        return None
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            printed, _ = await process.communicate(data)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return (printed or b"") if process.returncode == 0 else None


MAX_IMAGE_BYTES = 20_000_000
SNIFF_BYTES = 16  #: Bytes at the start of a file that identify its type.


class ImageAttachments:
    def __init__(self) -> None:
        self._pictures: list[tuple[str, Image]] = []  #: With their names and sizes.

    def __len__(self) -> int:
        return len(self._pictures)

    @property
    def labels(self) -> list[str]:
        """Short labels for the image bar: `#1 cat.png 1.2 MB`."""
        return [f"#{number} {label}" for number, (label, _) in enumerate(self._pictures, start=1)]

    def add(self, data: bytes, name: str) -> str:
        """Attach an image and return its label. Raises `UsageError` for other data."""
        kind = _check_image(name, data[:SNIFF_BYTES], len(data))
        encoded = base64.b64encode(data).decode("ascii")
        label = f"{one_line(name, 24)} {human_size(len(data))}"
        self._pictures.append((label, Image(f"data:{kind};base64,{encoded}")))
        return self.labels[-1]

    def add_file(self, written: str | Path) -> str:
        """Attach a file and return its label; see `parse_path`. Raises `UsageError`."""
        path = parse_path(str(written), Path.cwd())
        try:
            if not path.exists():
                raise UsageError(f"there is no file {path}")
            if not path.is_file():
                raise UsageError(f"{path} is not a file")
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                _check_image(path.name, file.read(SNIFF_BYTES), size)  # before reading all of it
                file.seek(0)
                return self.add(file.read(MAX_IMAGE_BYTES + 1), path.name)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error

    async def paste(self) -> str:
        """Attach the image in the clipboard and return its label. Raises `UsageError`."""
        return self.add(await clipboard_image(), "clipboard")

    def remove(self, number: int) -> None:
        """Remove an image by the number of its label. Raises `UsageError`."""
        if not 0 < number <= len(self._pictures):
            raise UsageError(f"there is no image #{number}")
        del self._pictures[number - 1]

    def clear(self) -> None:
        self._pictures.clear()

    def put_back(self, images: Sequence[Image]) -> None:
        """Attach images again that were taken for a message that was not sent."""
        self._pictures += [("image", image) for image in images]

    def take(self) -> tuple[Image, ...]:
        """Return all images, for a message that is sent now, and forget them."""
        taken = tuple(image for _label, image in self._pictures)
        self.clear()
        return taken


def _check_image(name: str, start: bytes, size: int) -> str:
    """Return the media type of an image. Raises `UsageError`."""
    kind = image_kind(start)
    if not kind:
        raise UsageError(f"{name} is not an image", hint="use PNG, JPEG, GIF or WebP")
    if size > MAX_IMAGE_BYTES:
        problem = f"{name} has {human_size(size)}; the limit is {human_size(MAX_IMAGE_BYTES)}"
        raise UsageError(problem, hint="attach a smaller image")
    return kind


def parse_path(written: str, folder: Path) -> Path:
    """Return the path of a file as it was typed, pasted or dropped: quoted, with escaped spaces,
    as a file: URL, relative to `folder` or with `~`."""
    written = written.strip()
    if not os.path.lexists(_resolve(written, folder)):
        with suppress(ValueError):  # a quote character that is part of the name, or several words
            (written,) = shlex.split(written)
    return _resolve(written, folder)


def dropped_images(pasted: str) -> list[Path]:
    """Return the images if a paste consists only of their absolute paths, else nothing.

    A relative path may be meant as a word.
    """
    text = pasted.strip()
    if not text.startswith(("/", "~/", "file://", "'", '"')) or len(text) > 4_096:
        return []
    if _is_image(_resolve(text, Path("/"))):
        return [_resolve(text, Path("/"))]
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    if not all(word.startswith(("/", "~/", "file://")) for word in words):
        return []
    paths = [_resolve(word, Path("/")) for word in words]
    return paths if all(map(_is_image, paths)) else []


def _resolve(written: str, folder: Path) -> Path:
    if written.lower().startswith("file://"):
        written = unquote(urlsplit(written).path)
    try:
        return folder / Path(written.partition("\0")[0]).expanduser()
    except RuntimeError:  # `~` of an unknown user
        return folder / written


def _is_image(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return bool(image_kind(file.read(SNIFF_BYTES)))
    except OSError:
        return False
