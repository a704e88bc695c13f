"""Outgoing messages: what is stored, and the files that texts name."""

from typing import Any

import pytest

from hermes.core.errors import AttachmentRefused, UsageError
from hermes.core.ports import AttachedFile
from hermes.gateway.directory import ChatDirectory, TargetResolver
from hermes.gateway.outbox import MAX_FILES, GatewayOutbox, attach_files, hide_tags
from hermes.gateway.supervisor import ConnectionRegistry
from hermes.sdk.platforms import Capabilities, ChatInfo, PlatformManifest
from hermes.store.records import OutboxItem
from hermes.util.concurrency import SystemClock

DISCORD = PlatformManifest("discord", "Discord", "x:X", Capabilities(max_chars=100))


class Queue:
    """Records the messages that are stored."""

    def __init__(self) -> None:
        self.items: list[OutboxItem] = []

    async def enqueue(self, items: Any, _due: float) -> list[int]:
        self.items += items
        return list(range(len(self.items)))


class Adapter:
    """Reports the chats of the platform and counts how often it was asked."""

    account, manifest = "", DISCORD

    def __init__(self) -> None:
        self.asked = 0

    async def chats(self) -> list[ChatInfo]:
        self.asked += 1
        return [ChatInfo("11", "#ops", "group")]


async def test_platform_is_asked_for_an_unknown_chat_before_it_is_refused(tmp_path):
    queue, adapter, clock = Queue(), Adapter(), SystemClock()
    connections = ConnectionRegistry(clock)
    targets = TargetResolver(
        {"discord": DISCORD}, lambda _name: None, ChatDirectory(tmp_path / "d.json"), connections
    )
    outbox = GatewayOutbox(queue, targets, clock)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no chat of discord is called #ops"):
        await outbox.send("discord:#ops", "hello")
    connections.add(adapter)  # type: ignore[arg-type]
    await outbox.send("discord:#ops", "hello")
    await outbox.send("discord:#ops", "again")
    assert b'"11"' in queue.items[0].target
    assert adapter.asked == 1
    with pytest.raises(UsageError, match="#opps"):
        await outbox.send("discord:#opps", "hello")


CAN = Capabilities(4096, media_out=("image", "document"))


class Workplace:
    """`Attachments` with a few files."""

    def __init__(self, *paths: str, redacted: bool = False) -> None:
        self._paths, self._redacted = paths, redacted
        self.asked: list[str] = []

    async def attach(self, path: str, max_bytes: int) -> AttachedFile:
        self.asked.append(path)
        if not path.startswith("/folder/"):
            raise AttachmentRefused("is outside this conversation's folder")
        if path not in self._paths:
            raise AttachmentRefused("does not exist", missing=True)
        if max_bytes < 3:
            raise AttachmentRefused("is too large")
        return AttachedFile(path.rpartition("/")[2], f"/copies{path}", 3, self._redacted)


async def test_tag_on_a_line_of_its_own_becomes_a_file():
    place = Workplace("/folder/my picture.png")
    text, (media,) = await attach_files("Here:\nMEDIA:/folder/my picture.png\nNice?", place, CAN)
    assert text == "Here:\nNice?"
    assert (media.kind, media.name, media.mime, media.size, media.path) == (
        "image", "my picture.png", "image/png", 3, "/copies/folder/my picture.png",
    )  # fmt: skip


async def test_tag_is_found_inside_a_line_and_in_quotes():
    for line in (
        "See `MEDIA:/folder/a.pdf` for it",
        "See MEDIA:/folder/a.pdf for it",
        "See (MEDIA:/folder/a.pdf). for it",
        "See **MEDIA:/folder/a.pdf** for it",
        "See <MEDIA: /folder/a.pdf> for it",
    ):
        text, (media,) = await attach_files(line, Workplace("/folder/a.pdf"), CAN)
        assert text.startswith("See")
        assert text.endswith("for it")
        assert "MEDIA" not in text
        assert media.path == "/copies/folder/a.pdf"


async def test_several_tags_may_stand_in_one_line():
    place = Workplace("/folder/a.pdf", "/folder/b c.png")
    text, files = await attach_files(
        "Both: `MEDIA:/folder/a.pdf` (MEDIA:/folder/b c.png) and MEDIA:/etc/passwd", place, CAN
    )
    outside = "is outside this conversation's folder"
    assert text == f"Both: and file not sent: /etc/passwd {outside}"
    assert [media.name for media in files] == ["a.pdf", "b c.png"]


async def test_same_file_is_sent_once():
    text = "MEDIA:/folder/a.pdf\nMEDIA:/folder/a.pdf"
    assert len((await attach_files(text, Workplace("/folder/a.pdf"), CAN))[1]) == 1


async def test_file_outside_the_folder_is_named_with_the_reason():
    place = Workplace()
    for tag in ("MEDIA:/proc/self/environ", "MEDIA:~/Documents/my tax.txt"):
        path = tag.removeprefix("MEDIA:")
        text, files = await attach_files(f"ok\n{tag}\nbye", place, CAN)
        assert text == f"ok\nfile not sent: {path} is outside this conversation's folder\nbye"
        assert files == ()
    text, _ = await attach_files("See MEDIA:/etc/passwd for it", place, CAN)
    assert text == "See file not sent: /etc/passwd is outside this conversation's folder for it"


async def test_control_characters_of_a_path_are_not_shown():
    text, _ = await attach_files("MEDIA:/x\x1b[2Ky\u202e.txt", Workplace(), CAN)
    assert text == "file not sent: /x?[2Ky?.txt is outside this conversation's folder"


async def test_file_that_does_not_exist_is_named():
    text, _ = await attach_files("MEDIA:/folder/gone.txt", Workplace(), CAN)
    assert text == "file not sent: /folder/gone.txt does not exist"


async def test_files_the_platform_does_not_take_are_not_copied():
    place = Workplace("/folder/a.png")
    text, files = await attach_files("MEDIA:/folder/a.png", place, Capabilities(100))
    assert text == "file not sent: /folder/a.png cannot be sent: this platform takes no such files"
    assert (files, place.asked) == ((), [])
    small = Capabilities(100, media_out=("image",), max_upload_bytes=2)
    text, _ = await attach_files("MEDIA:/folder/a.png", place, small)
    assert text == "file not sent: /folder/a.png is too large"


async def test_picture_is_sent_as_a_document_where_there_are_no_pictures():
    can = Capabilities(100, media_out=("document",))
    _, (media,) = await attach_files("MEDIA:/folder/a.png", Workplace("/folder/a.png"), can)
    assert media.kind == "document"


async def test_redacted_copy_is_announced():
    place = Workplace("/folder/a.txt", redacted=True)
    text, files = await attach_files("MEDIA:/folder/a.txt", place, CAN)
    assert text == "keys and passwords were removed from a.txt"
    assert len(files) == 1


async def test_code_blocks_are_left_alone():
    text = "```\nMEDIA:/folder/a.pdf\n```"
    assert await attach_files(text, Workplace("/folder/a.pdf"), CAN) == (text, ())


async def test_number_of_files_and_looks_is_limited():
    paths = [f"/folder/{number}.png" for number in range(MAX_FILES + 2)]
    text, files = await attach_files(
        "\n".join(f"MEDIA:{path}" for path in paths), Workplace(*paths), CAN
    )
    assert len(files) == MAX_FILES
    assert text.count("one file too many") == 2
    place = Workplace()
    await attach_files("MEDIA:/folder/x " + "word " * 5000, place, CAN)
    assert len(place.asked) <= 12


def test_tags_of_an_unfinished_text_become_names():
    assert hide_tags("Look:\nMEDIA:/folder/a.png") == "Look:\n📎 a.png"
    assert hide_tags("plain") == "plain"
