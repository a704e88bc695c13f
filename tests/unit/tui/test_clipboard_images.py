"""Pictures are attached by file, by path in a paste, and go with the message."""

import base64
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.tui.clipboard import MAX_IMAGE_BYTES, ImageAttachments, dropped_images, parse_path

PNG = b"\x89PNG\r\n\x1a\n" + b"p" * 20
JPEG = b"\xff\xd8\xff\xe0" + b"j" * 20
GIF = b"GIF89a" + b"g" * 20
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8 "


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
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
    assert images.add(PNG, "a.png") == "#1 a.png 28 B"
    images.add(PNG, "a very long name of a picture \x1b[31m that goes on.png")
    images.add(GIF, "c.gif")
    assert images.labels == ["#1 a.png 28 B", "#2 a very long name of a p… 28 B", "#3 c.gif 26 B"]
    images.remove(2)
    assert images.labels == ["#1 a.png 28 B", "#2 c.gif 26 B"]
    with pytest.raises(UsageError, match="no image #3"):
        images.remove(3)
    images.clear()
    assert images.labels == []


def test_what_is_no_picture_is_refused_with_the_reason(tmp_path: Path) -> None:
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
        images.add_file("x" * 5_000)
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.write(PNG)
        file.truncate(MAX_IMAGE_BYTES + 1)
    with pytest.raises(UsageError, match=r"large\.png has 20\.0 MB"):
        images.add_file(large)
    assert not images


def test_paths_are_understood_however_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = tmp_path / "my picture's.png"
    picture.write_bytes(PNG)
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
    one.write_bytes(PNG)
    two.write_bytes(GIF)
    assert dropped_images(f"{one} '{two}'") == [one, two]
    assert dropped_images(f"{one.as_uri()}\r\n{two.as_uri()}\r\n") == [one, two]


def test_other_pastes_stay_text(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    (tmp_path / "one.png").write_bytes(PNG)
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
