"""Permission modes in the conversation."""

from pathlib import Path
from typing import Any

from hermes.core.testing import ModelServer
from tests.integration.tui.conftest import call, run, said
from tests.screens.chat import Chat

WRITE = call("write_file", path="new.txt", content="hello\n")


def test_shift_tab_goes_through_the_modes(chat) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        it.sees_last("accept edits").press("shift-tab")
        it.wait(lambda it: "│ auto" in it.text or "│ plan" in it.text, "the next mode")
        if "│ auto" in it.text:  # where the system can confine commands
            it.sees("cannot be undone").press("shift-tab")
        it.sees_last("│ plan").press("shift-tab").sees_last("│ ask").press("shift-tab")
        it.sees_last("│ accept edits")
        it.ask("/permissions plan", "Permission mode: plan").sees_last("│ plan")
        it.ask("/permissions nonsense", "is not a mode").sees_last("│ plan")
        it.ask("/new", "A new conversation").sees_last("│ plan")


def test_plan_mode_changes_nothing_and_the_model_knows(chat, work: Path) -> None:
    reads, writes = run("ls", "c1"), run("touch made", "c2")
    with ModelServer([WRITE, reads, writes, "Here is a plan.", "Done."]) as server:
        it = chat(server, "--permission-mode", "plan")
        it.ask("add a file", "Here is a plan.")
        assert not (work / "new.txt").exists() and not (work / "made").exists()
        messages = server.calls[3].body["messages"]
        results = [each["content"] for each in messages if each["role"] == "tool"]
        assert [("plan mode" in each) for each in results] == [True, False, True]
        asked = [each["content"] for each in messages if each["role"] == "user"]
        assert asked[0].startswith("add a file") and "Plan mode is on" in asked[0]
        it.press("shift-tab").sees_last("│ ask").ask("do it", "Done.")
        assert "Plan mode is off" in said(server)
        it.press("escape", "escape").sees_last("▸ do it").sees_last("add a file")
        assert "Plan mode" not in it.text


def test_ask_mode_shows_the_diff_of_an_edit_before_it_happens(chat, work: Path) -> None:
    with ModelServer([WRITE, "Written."]) as server:
        it = chat(server, "--permission-mode", "ask")
        it.say("write it").sees_last("[o] once").sees_last("+ hello").sees_last("waiting for you")
        assert not (work / "new.txt").exists()
        row = next(at for at, line in enumerate(it.lines) if "+ hello" in line)
        assert it.screen.buffer[row][it.lines[row].index("+")].fg != "default"
        assert "❯" not in it.shown[-1], "the question has the only prompt"
        it.settled(0.6).type("o").sees("Written.").sees("⚠ write_file new.txt → allowed once")
        assert (work / "new.txt").read_text() == "hello\n"


def test_the_diff_in_a_question_looks_as_the_diff_after_it(chat, work: Path) -> None:
    (work / "sum.py").write_text("def total(prices):\n    return sum(prices) - 1\n")
    read = call("read_file", "c1", path="sum.py")
    edit = call("patch", "c2", path="sum.py", old_string="(prices) - 1", new_string="(prices) - 2")
    with ModelServer([read, edit, "Edited."]) as server:
        it = chat(server, "--permission-mode", "ask", COLORTERM="truecolor")
        it.say("edit it").sees_last("[o] once").sees_last("prices) - 2")
        asked = looks(it, "prices) - 2")
        assert len({look.bg for look in asked}) == 2, "a band, and the changed word in it"
        assert len({look.fg for look in asked}) > 2, "colours of the syntax"
        it.settled(0.6).type("o").sees("Edited.").ready()
        assert looks(it, "prices) - 2") == asked


def looks(it: Chat, text: str) -> list[Any]:
    """The looks of the characters of a line of code on the screen."""
    row = next(at for at, line in enumerate(it.lines) if text in line)
    start, end = it.lines[row].index("return"), it.lines[row].index(text) + len(text)
    cells = it.screen.buffer[row]
    return [cells[at]._replace(data="") for at in range(start, end)]


def test_ask_mode_asks_before_a_command_changes_a_file(chat, work: Path) -> None:
    (work / "new.txt").write_text("hello\n")
    looks, changes = run("cat new.txt", "c1"), run("sed -i s/hello/bye/ new.txt", "c2")
    with ModelServer([looks, changes, "Changed."]) as server:
        it = chat(server, "--permission-mode", "ask")
        it.say("change it").sees_last("[o] once").sees_last("changes files of the workspace")
        assert (work / "new.txt").read_text() == "hello\n"
        it.settled(0.6).type("o").sees("Changed.").ready()
        assert (work / "new.txt").read_text() == "bye\n"


def test_wrong_mode_is_reported_at_the_start(hermes) -> None:
    done = hermes("chat", "-q", "hello", "--permission-mode", "nonsense")
    assert done.returncode == 2
    assert "accept-edits" in done.stderr
