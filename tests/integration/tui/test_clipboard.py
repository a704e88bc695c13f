"""Clipboard programs, played by small scripts, and attached pictures."""

import base64
from pathlib import Path

import pytest

from hermes.core.errors import HermesError, UsageError
from hermes.tui import clipboard
from hermes.tui.clipboard import (
    MAX_IMAGE_BYTES,
    ImageAttachments,
    clipboard_image,
    clipboard_text,
    copy_text,
    dropped_images,
    parse_path,
)
from tests.cases import cases

CASES = cases(__file__)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
VARIABLES = ("WAYLAND_DISPLAY", "DISPLAY", "TMUX", "SSH_CONNECTION")


class Desk:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        monkeypatch.setenv("HERMES_HOME", str(folder / "home"))
        monkeypatch.setenv("PATH", str(folder))
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)

    def has(self, program: str, script: str, **variables: str) -> None:
        path = self.folder / program
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\ncd {self.folder}\n{script}\n")
        path.chmod(0o755)
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)

    def got(self) -> bytes:
        return (self.folder / "got").read_bytes()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / "picture").write_bytes(PNG)
    return Desk(tmp_path, monkeypatch)


WL_PASTE = """
case "$*" in
  *list-types*) printf 'text/html\\nimage/jpeg\\nimage/png\\n' ;;
  *image/png*) cat picture ;;
  *) printf 'a text' ;;
esac
"""
XCLIP = CASES["xclip"]


async def test_a_picture_on_wayland(desk: Desk) -> None:
    desk.has("wl-paste", WL_PASTE, WAYLAND_DISPLAY="wayland-0")
    images = ImageAttachments()
    assert await images.paste() == "#1 clipboard 264 B"
    assert images.take()[0].url == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert await clipboard_text() == "a text"


async def test_a_picture_on_x(desk: Desk) -> None:
    desk.has("xclip", XCLIP, DISPLAY=":0")
    assert await clipboard_image() == PNG
    assert await clipboard_text() == ""


async def test_a_picture_on_a_mac(desk: Desk) -> None:
    desk.has("osascript", f"printf '«data PNGf{PNG.hex().upper()}»'")
    assert await clipboard_image() == PNG
    desk.has("pngpaste", "cat picture; printf more")
    assert await clipboard_image() == PNG + b"more"


async def test_a_picture_on_windows(desk: Desk) -> None:
    desk.has("powershell.exe", f"printf '{base64.b64encode(PNG).decode()}\\r\\n'")
    assert await clipboard_image() == PNG


async def test_errors_distinguish_missing_picture_from_missing_program(desk, monkeypatch):
    with pytest.raises(UsageError, match="is not accessible") as refused:
        await clipboard_image()
    assert "no desktop" in refused.value.hint
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    with pytest.raises(UsageError) as refused:
        await clipboard_image()
    assert refused.value.hint == "install the package wl-clipboard"
    monkeypatch.delenv("WAYLAND_DISPLAY")
    monkeypatch.setenv("DISPLAY", ":0")
    with pytest.raises(UsageError) as refused:
        await clipboard_image()
    assert refused.value.hint == "install the package xclip"
    desk.has("xclip", "echo STRING")
    with pytest.raises(UsageError, match="no image in the clipboard"):
        await clipboard_image()


async def test_a_program_that_hangs_is_given_up(desk, monkeypatch):
    monkeypatch.setattr(clipboard, "TIMEOUT_SECONDS", 0.2)
    desk.has("xclip", "exec sleep 600", DISPLAY=":0")
    with pytest.raises(UsageError, match="no image"):
        await clipboard_image()


async def test_programs_get_no_keys(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    desk.has("xclip", "env > got", DISPLAY=":0")
    await copy_text("text", lambda _: None)
    assert b"DISPLAY=:0" in desk.got()
    assert b"sk-secret" not in desk.got()


@pytest.mark.parametrize(("program", "variable", "encoding"), CASES["text is copied by the"])
async def test_a_text_is_copied_by_the_program_that_is_there(desk, program, variable, encoding):
    desk.has(program, "cat > got", **({variable: "x"} if variable else {}))
    said = await copy_text("viel Spaß 漢字", lambda _: pytest.fail("not the terminal"))
    assert said == f"Copied with {program}."
    assert desk.got().decode(encoding) == "viel Spaß 漢字"


async def test_copy_does_not_wait_for_a_background_process(desk: Desk) -> None:
    desk.has("wl-copy", "cat > got; sleep 30 &", WAYLAND_DISPLAY="wayland-0")
    assert await copy_text("text", lambda _: None) == "Copied with wl-copy."


async def test_without_a_program_the_terminal_is_asked(desk: Desk) -> None:
    written: list[str] = []
    assert "OSC 52" in await copy_text("täxt", written.append)
    assert written == [f"\x1b]52;c;{base64.b64encode('täxt'.encode()).decode()}\x07"]
    desk.has("xclip", "exit 1", DISPLAY=":0")
    assert "OSC 52" in await copy_text("täxt", written.append)
    with pytest.raises(HermesError, match="too long for the terminal"):
        await copy_text("x" * 100_000, written.append)


async def test_over_ssh_the_clipboard_of_the_far_machine_is_left_alone(desk, monkeypatch):
    desk.has("pbcopy", "cat > got")
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 5 192.0.2.2 22")
    assert "OSC 52" in await copy_text("text", lambda _: None)


PICTURE = b"\x89PNG\r\n\x1a\n" + b"p" * 20
JPEG = b"\xff\xd8\xff\xe0" + b"j" * 20
GIF = b"GIF89a" + b"g" * 20
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8 "


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PICTURE, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
def test_the_content_decides_what_a_picture_is(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "misleading.txt").write_bytes(data)
    images = ImageAttachments()
    images.add_file(tmp_path / "misleading.txt")
    (image,) = images.take()
    assert image.url == f"data:{kind};base64,{base64.b64encode(data).decode()}"
    assert not images


def test_labels_are_short_and_numbered(tmp_path: Path) -> None:
    images = ImageAttachments()
    assert images.add(PICTURE, "a.png") == "#1 a.png 28 B"
    images.add(PICTURE, "a very long name of a picture \x1b[31m that goes on.png")
    images.add(GIF, "c.gif")
    assert images.labels == ["#1 a.png 28 B", "#2 a very long name of a p… 28 B", "#3 c.gif 26 B"]
    images.remove(2)
    assert images.labels == ["#1 a.png 28 B", "#2 c.gif 26 B"]
    with pytest.raises(UsageError, match="no image #3"):
        images.remove(3)
    images.clear()
    assert images.labels == []


def test_invalid_picture_is_refused_with_the_reason(tmp_path: Path) -> None:
    images = ImageAttachments()
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(UsageError, match=r"text\.png is not an image") as refused:
        images.add_file(tmp_path / "text.png")
    assert refused.value.hint == "use PNG, JPEG, GIF or WebP"
    with pytest.raises(UsageError, match="there is no file"):
        images.add_file(tmp_path / "missing.png")
    with pytest.raises(UsageError, match="is not a file"):
        images.add_file(tmp_path)
    with pytest.raises(UsageError, match="cannot read"):
        images.add_file("x" * 5000)
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.write(PICTURE)
        file.truncate(MAX_IMAGE_BYTES + 1)
    with pytest.raises(UsageError, match=r"large\.png has 20\.0 MB"):
        images.add_file(large)
    assert not images


def test_paths_are_understood_however_they_are_written(tmp_path, monkeypatch):
    picture = tmp_path / "my picture's.png"
    picture.write_bytes(PICTURE)
    monkeypatch.setenv("HOME", str(tmp_path))
    for written in (
        str(picture),
        f'"{picture}"',
        str(picture).replace(" ", "\\ ").replace("'", "\\'"),
        picture.as_uri(),
        "~/my picture's.png",
        f"  {picture}  ",
    ):
        assert parse_path(written, Path("/")) == picture
        assert dropped_images(written) == [picture], written
    assert parse_path("my picture's.png", tmp_path) == picture


def test_several_pictures_dropped_at_once(tmp_path: Path) -> None:
    one, two = tmp_path / "one.png", tmp_path / "and two.gif"
    one.write_bytes(PICTURE)
    two.write_bytes(GIF)
    assert dropped_images(f"{one} '{two}'") == [one, two]
    assert dropped_images(f"{one.as_uri()}\r\n{two.as_uri()}\r\n") == [one, two]


def test_other_pastes_stay_text(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    (tmp_path / "one.png").write_bytes(PICTURE)
    for text in (
        str(tmp_path / "notes.txt"),
        f"see {tmp_path / 'one.png'}",
        f"{tmp_path / 'one.png'} is what I mean",
        str(tmp_path / "missing.png"),
        "'just quoted'",
        "'unfinished",
        "/" * 10_000,
        "/a\0b",
        "~nobody-of-that-name/x.png",
        "",
    ):
        assert dropped_images(text) == []
