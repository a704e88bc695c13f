"""What becomes of the agent's words and files on a platform."""

from hermes.gateway.platforms.kit.compose import compose
from hermes.gateway.platforms.kit.contract import Capabilities, Media, OutgoingMessage

TELEGRAM = Capabilities(4096, "utf16", "telegram", media_out=("image", "document"))


def test_an_answer_is_in_the_dialect_and_also_plain() -> None:
    assert compose("**yes** & no", TELEGRAM) == [
        OutgoingMessage("<b>yes</b> &amp; no", plain="yes & no")
    ]


def test_a_long_answer_is_several_messages() -> None:
    parts = compose("word " * 2000, TELEGRAM)
    assert len(parts) == 3
    assert all(len(part.text) <= 4096 and part.plain for part in parts)


def test_a_blank_answer_is_no_message() -> None:
    assert compose("  \n ", TELEGRAM) == []


def test_a_file_becomes_a_message_of_its_own() -> None:
    picture = Media("image", "a.png", "image/png", 3, path="/copies/a.png")
    text, file = compose("Here:", TELEGRAM, [picture])
    assert (text.text, text.media) == ("Here:", ())
    assert file == OutgoingMessage(media=(picture,))
