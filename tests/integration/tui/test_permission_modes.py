"""Permission modes in the conversation."""

from pathlib import Path

from hermes.core.testing import ModelServer
from tests.integration.tui.conftest import call, run, said

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
        it.say("write it").sees_last("[o] once").sees_last("+hello").sees_last("waiting for you")
        assert not (work / "new.txt").exists()
        row = next(at for at, line in enumerate(it.lines) if "+hello" in line)
        assert it.screen.buffer[row][it.lines[row].index("+")].fg != "default"
        assert "❯" not in it.shown[-1], "the question has the only prompt"
        it.settled(0.6).type("o").sees("Written.").sees("⚠ write_file new.txt → allowed once")
        assert (work / "new.txt").read_text() == "hello\n"


def test_wrong_mode_is_reported_at_the_start(hermes) -> None:
    done = hermes("chat", "-q", "hello", "--permission-mode", "nonsense")
    assert done.returncode == 2
    assert "accept-edits" in done.stderr
