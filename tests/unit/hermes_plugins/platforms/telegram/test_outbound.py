"""Splitting messages into Telegram messages."""

from pathlib import Path

import pytest

from hermes.sdk.platforms import Button, Media, OutgoingMessage, SendRefused
from hermes_plugins.platforms.telegram.client import (
    build_menu,
    command_name,
    command_names,
    message_number,
    send_thread,
    typing_thread,
)
from hermes_plugins.platforms.telegram.outbound import (
    keyboard,
    send_method,
    split_parts,
    utf16_length,
)
from tests.cases import cases


def file(folder: Path, name: str, kind: str, mime: str = "", size: int = 3) -> Media:
    path = folder / name
    with path.open("wb") as data:
        data.truncate(size)
    return Media(kind, name, mime, path=str(path))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "kind", "size", "method"), cases(__file__)["methods"])
def test_each_file_goes_the_way_that_shows_it_best(tmp_path, name, kind, size, method):
    media = file(tmp_path, name, kind, size=size)
    assert send_method(media, Path(media.path)) == method


def test_short_text_is_the_caption_of_the_first_file_and_long_text_precedes_it(tmp_path):
    files = tuple(file(tmp_path, f"{n}.png", "image") for n in range(2))
    short = split_parts(OutgoingMessage("hi", media=files, silent=True), 1000)
    assert [(p.text, p.method, p.silent) for p in short] == [
        ("hi", "photo", True),
        ("", "photo", True),
    ]
    words = "😀" * 513  # 1026 UTF-16 units
    long = split_parts(OutgoingMessage(words, media=files, reply_to="5:9"), 1000)
    assert [(p.method, p.reply_to) for p in long] == [
        ("message", "5:9"),
        ("photo", ""),
        ("photo", ""),
    ]


def test_the_length_that_counts_is_what_people_see(tmp_path: Path) -> None:
    text = "<b>x</b>" * 500
    parts = split_parts(
        OutgoingMessage(text, plain="x" * 500, media=(file(tmp_path, "a.png", "image"),)), 99
    )
    assert len(parts) == 1


@pytest.mark.parametrize("data", ["", "x" * 65, "ü" * 33])
def test_buttons_that_telegram_would_refuse_are_refused(data: str) -> None:
    with pytest.raises(SendRefused):
        split_parts(OutgoingMessage("?", buttons=(Button("Yes", data),)), 99)


def test_buttons_stand_two_by_two() -> None:
    board = keyboard([Button(str(n), str(n)) for n in range(5)])
    assert board is not None
    assert [len(row) for row in board.inline_keyboard] == [2, 2, 1]
    assert keyboard(()) is None


def test_emoji_count_twice() -> None:
    assert (utf16_length("a"), utf16_length("😀"), utf16_length("ü")) == (1, 2, 1)


def test_the_menu_takes_only_what_telegram_takes() -> None:
    commands = [("reload-mcp", "x" * 300), ("/stop", "Stop"), ("ümlaut", "no"), ("a" * 33, "no")]
    shown = {each.command: each.description for each in build_menu([*commands, ("stop", "again")])}
    assert list(shown) == ["reload_mcp", "stop"]
    assert (len(shown["reload_mcp"]), shown["stop"]) == (256, "Stop")
    assert len(build_menu([(f"c{n}", "x") for n in range(150)])) == 100
    assert build_menu([("quiet", "")])[0].description == "quiet"


def test_names_of_the_menu_are_turned_back() -> None:
    names = command_names([("reload-mcp", ""), ("set_home", "")])
    assert command_name("/reload_mcp", names) == "/reload-mcp"
    assert command_name("/set_home", names) == "/set_home"
    assert command_name("/unknown_one", names) == "/unknown_one"


def test_the_general_topic_is_left_out_where_telegram_refuses_it() -> None:
    assert (send_thread(""), send_thread("1"), send_thread("17")) == (None, None, 17)
    assert (typing_thread(""), typing_thread("1"), typing_thread("17")) == (None, 1, 17)


@pytest.mark.parametrize(
    ("name", "number"), [("-100:5", 5), ("5", 5), ("", 0), ("a:b", 0), ("5:²", 0), ("5:-5", 0)]
)
def test_message_number_is_parsed_from_the_message_id(name: str, number: int) -> None:
    assert message_number(name) == number
