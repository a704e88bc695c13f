"""How answers, thoughts and tool calls look on the screen."""

import re
from pathlib import Path

from hermes.core.messages import Text, Thinking
from hermes.core.testing import ModelServer, Step
from hermes.tui.area import ASK_BACKGROUND
from tests.cases import cases
from tests.integration.tui.conftest import call, run

CASES = cases(__file__)

MARKDOWN = CASES["markdown"]
REST = CASES["rest"]


def test_markdown_on_a_wide_screen(chat) -> None:
    with ModelServer([MARKDOWN]) as server:
        it = chat(server, columns=100)
        it.say("how?")
        it.reads(f"""
❯ how?

Plan

A bold word, code and a link (https://example.org/page) in a paragraph that is broken.

1. first
2. second with more words than fit into a narrow window
{REST}
""")


def test_markdown_on_a_narrow_screen(chat) -> None:
    with ModelServer([MARKDOWN]) as server:
        it = chat(server, columns=40)
        it.say("how?")
        it.reads(f"""
❯ how?

Plan

A bold word, code and a link
(https://example.org/page) in a
paragraph that is broken.

1. first
2. second with more words than fit into
   a narrow window
{REST}
""")


def test_ten_thousand_lines_are_all_in_the_scrollback_in_order(chat) -> None:
    answer = "\n".join(f"line {number:05}  " for number in range(10_000))
    with ModelServer([f"```\n{answer}\n```\n\nThat is all."]) as server:
        it = chat(server)
        it.say("count").sees_last("ctrl-c stops").type("typed meanwhile").sees("That is all.")
        it.gone("ctrl-c stops").sees_last("❯ typed meanwhile")
        shown = [line.strip() for line in it.everything]
        assert [line for line in shown if line.startswith("line ")] == [
            f"line {number:05}" for number in range(10_000)
        ]
        assert it.input == ["❯ typed meanwhile"]
        for once in ("typed meanwhile", "That is all.", "lab-model │"):
            assert sum(once in line for line in shown) == 1, once


def test_texts_of_all_kinds(chat, work: Path) -> None:
    """Right to left, wide, with line ends of Windows; what would steer the terminal does not."""
    steering = (
        "a \x1b[31mred\x1b[0m \x1b]0;title\x07word \x1b[2J\x1b[?1049h\x9b2J\x1bc bell\x07 end."
    )
    (work / "steering").write_text("one\x1b[2Jtwo\x1b]0;other\x07\r\n\x1b[31mred\n\x1b[?25l")
    with ModelServer(
        [
            "שלום עולם, mixed.\n\nمرحبا بالعالم",
            "漢字とかな混じりの文章は、幅が二倍です。🎉 👍🏽 e\u0301.",
            "one\r\ntwo\r\n\r\n- item\r\n- last\r\n",
            steering,
            run("cat steering"),
            "Looked.",
        ]
    ) as server:
        it = chat(server, columns=40)
        for question, end in CASES["texts of all kinds"]:
            it.say(question).sees(end).ready()
        it.reads(CASES["texts of all kinds again"])
        assert it.screen.title == ""
        assert b"\x1b[31mred" not in it.raw
        assert it.leave() == 0
        assert it.is_restored


def test_a_tool_line_tells_how_long_it_took_and_what_came_out(chat, work: Path) -> None:
    (work / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 8)))
    patch = call(
        "patch", path="notes.txt", old_string="line 4\n", new_string="line four\nand a half\n"
    )
    with ModelServer(
        [run("sleep 0.2; printf '1\\n2\\n3\\n4\\n'"), run("exit 3", "c2"), patch, "Done."]
    ) as server:
        it = chat(server)
        it.ask("work", "Done.")
        assert any(
            re.fullmatch(r"▪ terminal sleep 0\.2; .* · 0\.[2-9] s ✓", line) for line in it.lines
        )
        it.reads(CASES["tool line tells how long it"])


def test_thoughts_are_folded_until_they_are_wanted(chat) -> None:
    thought = Step((Thinking("First this.\nThen that."), Text("So it is.")))
    with ModelServer([thought, thought]) as server:
        it = chat(server)
        it.ask("why?", "So it is.").ask("/reasoning show", "Thinking is shown.").say("why, again?")
        it.reads(CASES["thoughts are folded until they are"])


def test_the_status_bar_leaves_out_what_has_no_room(chat) -> None:
    shapes = {
        120: r"lab-model │ \S+/work │ \d+% context │ cache \d+% │ price unknown │ \S+ s │ acc.*",
        74: r"lab-model │ …\S+/work │ \d+% │ price unknown │ accept edits",
        50: r"lab-model │ …\S+/work │ \d+% │ accept edits",
    }
    with ModelServer(["Hello."]) as server:
        it = chat(server, columns=120)
        it.ask("hello", "Hello.")
        for columns, shape in shapes.items():
            it.resize(columns, 30)
            it.wait(lambda it, shape=shape: bool(re.fullmatch(shape, it.shown[-3])), shape)
        it.ask("/statusbar off", "❯").gone("lab-model │").ask("/statusbar on", "❯")
        it.sees_last("lab-model │")


def test_colours_follow_a_light_background(chat) -> None:
    with ModelServer(["**Hello.**"]) as server:
        it = chat(server)
        assert ASK_BACKGROUND.encode() in it.raw
        it.type("\x1b]11;rgb:ffff/ffff/ffff\x1b\\").type("ab").sees_last("❯ ab")
        before = len(it.raw)
        it.press("ctrl-u").ask("hello", "Hello.")
        assert b"38;5;110m" not in it.raw[before:], "the light blue of dark backgrounds"


def test_links_can_be_switched_on(chat, settings, work: Path) -> None:
    (work / "notes.txt").write_text("")
    settings("display: {links: 'on'}\n")
    with ModelServer(["See notes.txt and https://example.org/page."]) as server:
        it = chat(server)
        it.ask("where?", "See notes.txt and https://example.org/page.")
        assert f"\x1b]8;;{(work / 'notes.txt').as_uri()}\x1b\\notes.txt".encode() in it.raw
        assert b"\x1b]8;;https://example.org/page\x1b\\" in it.raw
