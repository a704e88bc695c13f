"""What becomes of the agent's words and files on a platform."""

from pathlib import Path

from hermes.gateway.events import Outgoing
from hermes.gateway.platforms.base import Capabilities
from hermes.gateway.platforms.kit.composing import compose

TELEGRAM = Capabilities(4096, "utf16", "telegram", media_out=("image", "document"))


def anything(_path: str) -> bool:
    return True


def nothing(_path: str) -> bool:
    return False


def test_an_answer_is_in_the_dialect_and_also_plain() -> None:
    assert compose("**yes** & no", TELEGRAM, anything) == [
        Outgoing("<b>yes</b> &amp; no", plain="yes & no")
    ]


def test_a_long_answer_is_several_messages() -> None:
    parts = compose("word " * 2000, TELEGRAM, anything)
    assert len(parts) == 3
    assert all(len(part.text) <= 4096 and part.plain for part in parts)


def test_a_blank_answer_is_no_message() -> None:
    assert compose("  \n ", TELEGRAM, anything) == []


def test_a_file_becomes_a_message_of_its_own(tmp_path: Path) -> None:
    picture = tmp_path / "my picture.png"
    picture.write_bytes(b"png")
    text, file = compose(f"Here:\nMEDIA:{picture}\nNice?", TELEGRAM, anything)
    assert text.text == "Here:\nNice?"
    (media,) = file.media
    assert (media.kind, media.name, media.mime, media.size, media.path) == (
        "image",
        "my picture.png",
        "image/png",
        3,
        str(picture),
    )


def test_a_tag_is_found_inside_a_line_and_in_quotes(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(b"x")
    for line in (
        f"See `MEDIA:{file}` for it",
        f"See MEDIA:{file} for it",
        f"See (MEDIA:{file}). for it",
    ):
        text, sent = compose(line, TELEGRAM, anything)
        assert "MEDIA" not in text.text
        assert text.text.startswith("See")
        assert sent.media[0].path == str(file)


def test_the_same_file_goes_out_once(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(b"x")
    assert len(compose(f"MEDIA:{file}\nMEDIA:{file}", TELEGRAM, anything)) == 1


def test_a_file_that_may_not_go_out_is_only_named(tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text("key")
    (message,) = compose(f"MEDIA:{secret}", TELEGRAM, nothing)
    assert message.text == "[file not sent: id_rsa]"
    assert message.media == ()


def test_a_file_the_platform_cannot_take_is_only_named(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"12345")
    for limits in (Capabilities(100), Capabilities(100, media_out=("image",), max_upload_bytes=4)):
        assert [m.text for m in compose(f"MEDIA:{picture}", limits, anything)] == [
            "[file not sent: a.png]"
        ]


def test_a_picture_goes_as_a_document_where_there_are_no_pictures(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"1")
    limits = Capabilities(100, media_out=("document",))
    assert compose(f"MEDIA:{picture}", limits, anything)[0].media[0].kind == "document"


def test_a_file_that_is_not_there_and_code_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(b"x")
    text = f"MEDIA:/no/such/file\n```\nMEDIA:{file}\n```"
    (message,) = compose(text, TELEGRAM, anything)
    assert "MEDIA:/no/such/file" in message.text
    assert f"<pre>MEDIA:{file}</pre>" in message.text
