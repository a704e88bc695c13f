"""Typing in a conversation: all scripts, pastes, the menu of commands, references, history."""

from pathlib import Path

from hermes.core.testing import ModelServer
from tests.integration.tui.conftest import said

FAMILY = "👨‍👩‍👧"


def test_wide_signs_are_typed_edited_and_answered(chat) -> None:
    with ModelServer(["漢字です。 🎉", "Here: 🇩🇪."]) as server:
        it = chat(server, columns=40)
        it.type("漢字x語 🎉!").sees_last("❯ 漢字x語 🎉!").press(
            "left", "left", "left", "left", "backspace"
        )
        it.sees_last("❯ 漢字語 🎉!")
        assert it.settled().screen.cursor.x == 6
        it.ask("", "漢字です。 🎉").type(f"a{FAMILY}b").press("left", "backspace").sees_last("❯ ab")
        it.ask("", "Here: ").reads("❯ 漢字語 🎉!\n\n漢字です。 🎉\n\n❯ ab\n\nHere: 🇩🇪.")
        assert [said(server, number) for number in (0, 1)] == ["漢字語 🎉!", "ab"]


def test_a_paste_of_5000_lines_is_collapsed_and_sent_whole(chat) -> None:
    text = "\n".join(f"pasted line {number}" for number in range(5_000))
    with ModelServer(["Long."]) as server:
        it = chat(server)
        it.type("look at ").paste(text).sees_last("❯ look at [pasted #1: 5,000 lines]")
        it.say(" please").reads("❯ look at [pasted #1: 5,000 lines] please\n\nLong.")
        assert said(server) == f"look at {text} please"


def test_the_menu_of_commands_and_an_unknown_one(chat) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        it.type("/re").sees_last("/retry")
        menu = [line.split()[0] for line in it.settled().input[1:] if line]
        assert menu[:5] == ["/retry", "/resume", "/review", "/reasoning", "/reload"]
        it.press("down", "tab").sees_last("❯ /retry").gone("ask the last question again")
        it.press("enter").sees("nothing was asked yet").ready().type("/statusb")
        it.press("tab").sees_last("❯ /statusbar").press("ctrl-u")
        it.ask("/stauts", "Did you mean /status?")
        it.ask("/qqqq", "There is no command /qqqq. /help lists them.")


def test_a_file_is_referred_to_and_completed(chat, work: Path) -> None:
    (work / "notes.txt").write_text("buy milk\n")
    (work / "other.md").write_text("one\ntwo\nthree\nfour\n")
    with ModelServer(["Milk."]) as server:
        it = chat(server)
        it.type("what is in @not").sees_last("notes.txt").press("tab")
        it.sees_last("❯ what is in @notes.txt").gone(" file").say(" and @file:other.md:2-3 ?")
        it.reads("❯ what is in @notes.txt and @file:other.md:2-3 ?\n\nMilk.")
        assert "buy milk" in said(server)
        assert "two\nthree" in said(server)
        assert "four" not in said(server)


def test_the_next_start_knows_what_was_typed(chat) -> None:
    with ModelServer(["One.", "Two."]) as server:
        first = chat(server)
        first.ask("the first", "One.").type("two").press("alt-enter").ask("lines", "Two.")
        assert first.leave() == 0
        it = chat(server)
        it.press("up").sees_last("❯ two")
        assert it.settled().input == ["❯ two", "  lines"]
        it.press("up", "up").sees_last("❯ the first")
        assert it.settled().input == ["❯ the first"]


def test_joined_emoji_are_written_whole_in_two_columns(chat) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        it.type(f"a{FAMILY}b").wait(
            lambda it: f"\x1b7{FAMILY}\x1b8\x1b[2C".encode() in it.raw, "the family"
        )
        assert it.settled().screen.cursor.x == 6


def test_long_input_is_wrapped_between_words(chat) -> None:
    with ModelServer(["Yes."]) as server:
        it = chat(server, columns=40)
        it.type("please look at every single repository of mine")
        it.sees_last("of mine")
        assert it.input == ["❯ please look at every single repository", "  of mine"]
        it.ask("", "Yes.")
        assert "❯ please look at every single repository" in it.lines
        assert "  of mine" in it.lines
