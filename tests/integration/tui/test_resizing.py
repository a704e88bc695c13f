"""The window changes its size while an answer streams."""

import random
import time
from pathlib import Path

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Slow, Step
from tests.integration.chat.conftest import at
from tests.integration.tui.conftest import run
from tests.screens.chat import HERMES
from tests.screens.tmux import Tmux

FAMILY = "👨‍👩‍👧"
LINES = 100
ANSWER = "\n".join(f"- line {number:04} of the answer" for number in range(LINES)) + "\n\nAll said."
STREAM = Step((Text(ANSWER),), faults=(Slow(0.003),))
"""More than a second."""


def numbers(lines: list[str]) -> list[int]:
    return [int(line[7:11]) for line in lines if line.startswith("• line ")]


def test_a_storm_of_resizes_neither_doubles_nor_loses_a_line(chat) -> None:
    """In a terminal that cuts long lines."""
    chance = random.Random(8)
    with ModelServer([STREAM]) as server:
        it = chat(server, columns=100)
        it.say("say it").sees("line 0001").type("typed meanwhile")
        while not any("All said." in line for line in it.everything):
            it.resize(chance.randint(40, 140), 30)
            it.look(0.03)
        it.resize(100, 30).gone("ctrl-c stops").settled()
        shown = it.everything
        assert numbers(shown) == list(range(LINES))
        assert it.input == ["❯ typed meanwhile"]
        assert [line for line in shown if line.startswith("❯")] == ["❯ say it", "❯ typed meanwhile"]
        assert sum("lab-model │" in line for line in shown) == 1


def test_a_storm_of_resizes_in_tmux(untitled, work: Path) -> None:
    """In a terminal that breaks long lines anew; its height changes too. Nothing of the area is
    wider than 60 columns: what is broken just while it is drawn may leave a line behind."""
    chance = random.Random(1)
    with ModelServer([STREAM]) as server:
        it = Tmux([*HERMES, "chat", *at(server)], work, columns=100, rows=30)
        try:
            it.sees("Alt-Enter begins").say("say it").sees("line 0001").type("typed meanwhile")
            while "All said." not in it.text:
                it.resize(chance.randint(60, 140), chance.randint(12, 40))
                time.sleep(chance.random() / 20)
            lines = it.resize(100, 30).settled(1.0).everything
            assert numbers(lines) == list(range(LINES))
            prompts = [line.rstrip() for line in lines if line.startswith("❯")]
            assert prompts == ["❯ say it", "❯ typed meanwhile"]
            assert sum("lab-model │" in line for line in lines) == 1
        finally:
            it.close()


def test_a_conversation_in_tmux(untitled, work: Path) -> None:
    """Signs of several characters, and a window that becomes narrow and wide again."""
    with ModelServer([f"Here: {FAMILY}, 漢字.", "Last."]) as server:
        it = Tmux([*HERMES, "chat", *at(server)], work, columns=80, rows=20)
        try:
            it.sees("Alt-Enter begins").type(f"漢x字 {FAMILY}").settled()
            it.press("Left", "Left", "Left", "BSpace", "Enter").sees("Here: ")
            it.settled().resize(45, 20)
            it.settled().resize(80, 20)
            it.settled().say("again")
            it.sees("Last.")
            talk = it.settled().text.split("\n")[4:-3]
            assert talk == [
                f"❯ 漢字 {FAMILY}", "", f"Here: {FAMILY}, 漢字.", "",
                "❯ again", "", "Last.", "",
            ]  # fmt: skip
        finally:
            it.close()


FULL_SCREEN = "\n".join(f"- row {number}" for number in range(41))
"""tmux moves the first rows of the screen to the history when lines become longer."""
WORDS = 160
PARAGRAPH = Step(
    (Text(" ".join(f"word{number}" for number in range(WORDS))),), faults=(Slow(0.02),)
)


def test_a_paragraph_is_not_repeated_when_the_window_becomes_narrower(untitled, work: Path) -> None:
    with ModelServer([FULL_SCREEN, PARAGRAPH]) as server:
        it = Tmux([*HERMES, "chat", *at(server)], work, columns=120, rows=35)
        try:
            it.sees("Alt-Enter begins").say("fill the screen").sees("row 40").settled()
            it.say("say it").sees("word30")
            for columns in (80, 40, 80, 120):
                it.resize(columns, 35)
                time.sleep(0.5)
            it.sees(f"word{WORDS - 1}").settled()
            lines = it.everything
            words = " ".join(lines[lines.index("❯ say it") :]).split()
            assert [word for word in words if word.startswith("word")] == [
                f"word{number}" for number in range(WORDS)
            ]
            assert sum("lab-model │" in line for line in lines) == 1
            assert sum("───" in line for line in lines) == 1
        finally:
            it.close()


def test_a_question_is_not_repeated_when_the_window_becomes_narrower(untitled, work: Path) -> None:
    (work / "junk").mkdir()
    with ModelServer([FULL_SCREEN, run("rm -rf junk"), "Done."]) as server:
        it = Tmux([*HERMES, "chat", *at(server)], work, columns=120, rows=35)
        try:
            it.sees("Alt-Enter begins").say("fill the screen").sees("row 40").settled()
            it.say("clean up").sees("[o] once").settled()
            for columns in (80, 40, 80, 40, 120):
                it.resize(columns, 35)
                time.sleep(0.5)
            lines = it.settled().everything
            assert sum("⚠ terminal" in line for line in lines) == 1
            assert sum("waiting for you" in line for line in lines) == 1
            it.type("d").sees("Done.")
            assert sum("lab-model │" in line for line in lines) == 1
        finally:
            it.close()
