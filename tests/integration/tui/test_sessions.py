"""Undo, retry, branch and resume in the terminal UI, and events from the background."""

import re
import subprocess
from pathlib import Path

import pytest

from hermes.core.testing import ModelServer, Stall
from tests.cases import cases
from tests.integration.tui.conftest import call, run, said
from tests.screens.chat import GREETING

CASES = cases(__file__)

SESSION = re.compile(r"\b\d{8}_\d{6}_[0-9a-f]{8}\b")


def users(server: ModelServer) -> list[str]:
    """What the user said, in the last request."""
    messages = server.calls[-1].body["messages"]
    return [each["content"] for each in messages if each["role"] == "user"]


def test_undo_retry_branch_and_resume_with_a_recap(chat) -> None:
    with ModelServer(["One.", "Two.", "Uno.", "Branched.", "Back."]) as server:
        it = chat(server, rows=60)
        it.ask("first", "One.").ask("second", "Two.").say("/undo")
        it.reads("❯ /undo\n\nTaken back from: second\n1 question left.").say("/retry")
        it.reads("❯ /retry\n\nUno.")
        assert users(server) == ["first"]
        it.ask("/title My plan", "Title: My plan").ask("/branch other", "This is a copy now")
        it.ask("third", "Branched.")
        assert users(server) == ["first", "third"]
        it.say("/resume My plan").sees("Back in My plan.").ask("fourth", "Back.")
        assert users(server) == ["first", "fourth"]
        assert it.leave() == 0
        again = chat(server, "--continue", "My plan")
        again.reads("❯ first\n  Uno.\n❯ fourth\n  Back.")


def test_a_file_change_is_rolled_back(chat, work: Path) -> None:
    (work / "plan.txt").write_text("one\n")
    change = call("patch", path="plan.txt", old_string="one\n", new_string="two\n")
    with ModelServer([change, "Changed."]) as server:
        it = chat(server)
        it.ask("change it", "Changed.")
        assert (work / "plan.txt").read_text() == "two\n"
        it.ask("/rollback all", "1 file  change it").say("/rollback diff 1").sees("-one").sees(
            "+two"
        )
        it.ready().ask("/rollback 1", "/rollback 1 undoes this.")
    assert (work / "plan.txt").read_text() == "one\n"


def test_process_notices_reach_a_new_conversation(chat, work) -> None:
    begin = call("terminal", command="sleep 0.2", background=True, notify_on_complete=True)
    with ModelServer([begin, "Started.", "It has ended."]) as server:
        it = chat(server)
        it.ask("/new", "A new conversation").ask("begin", "Started.").sees("It has ended.")


def test_a_slow_command_is_seen_and_can_be_stopped(chat, settings) -> None:
    settings("memory:\n  flush_min_turns: 1\n")
    with ModelServer(["Noted.", Stall(0, 60), "Still here."]) as server:
        it = chat(server)
        it.ask("I use tabs", "Noted.").say("/new").sees_last("working…").press("ctrl-c")
        it.sees("stopped by Ctrl-C").gone("working…").ask("are you there?", "Still here.")
        assert "I use tabs" in str(server.calls[-1].body["messages"]), "the old one goes on"


def test_news_of_a_background_process_leave_what_is_typed_alone(chat, work: Path) -> None:
    begin = call(
        "terminal",
        command="while [ ! -e go ]; do sleep 0.02; done; echo built",
        background=True,
        notify_on_complete=True,
    )
    with ModelServer([begin, "Started.", "It is built."]) as server:
        it = chat(server)
        it.ask("build", "Started.").type("half a sen").sees_last("❯ half a sen")
        (work / "go").touch()
        it.sees("[background process proc_").sees("It is built.").type("tence")
        it.sees_last("❯ half a sentence").gone("ctrl-c stops")
        assert it.input == ["❯ half a sentence"]
        assert "exit code 0" in said(server)


def test_a_worktree_of_its_own(chat, work: Path) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run([*git, "init", "-q"], cwd=work, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], cwd=work, check=True)
    with ModelServer([run("pwd; touch made"), "Here."]) as server:
        it = chat(server, "--worktree", columns=200)
        it.ask("where?", "Here.")
        shown = [line.strip() for line in it.lines if line.startswith("   /")]
        (folder,) = (Path(line) for line in shown)
        assert folder.parent.parent == work.resolve()
        assert (folder / "made").exists()
        assert it.leave() == 0
        it.sees(str(folder))
    assert not (work / "made").exists()


PLUGIN = CASES["plugin"]


@pytest.fixture
def plugin(settings, hermes_home: Path) -> None:
    folder = hermes_home / "plugins" / "loud"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: loud\nversion: '1'\ndescription: a test\n")
    (folder / "__init__.py").write_text(PLUGIN)
    settings("plugins:\n  enabled: [loud]\n")


def test_plugin_output_is_printed_above_the_input_area(chat, plugin: None) -> None:
    with ModelServer(["Hello."]) as server:
        it = chat(server)
        it.sees("the plugin is here").type("half a sen").sees_last("❯ half a sen")
        it.ask("tence", "Hello.").say("/shout it works")
        it.reads(CASES["plugin output is printed above the"])
        assert it.shown[-1] == "❯"
        it.say("/nap").sees("asleep").press("ctrl-d")
        assert it.ended() == 0, "a command that never ends does not delay the exit"


WRAPPER = CASES["wrapper"]


def test_widgets_of_a_wrapper_stay_in_their_place(screen, work: Path) -> None:
    (work / "mine.py").write_text(WRAPPER)
    with ModelServer(["\n".join(f"- item {number}" for number in range(200))]) as server:
        it = screen("run", "mine.py", f"{server.url}/v1", columns=60).ready()
        it.sees_last("0 messages").say("list").sees("• item 199").sees_last("2 messages")
        it.ready()
        assert it.shown[-5:-3] == ["2 messages", "~" * 60]
        assert it.shown[-1] == "❯"
        listed = [line for line in it.everything if line.startswith("• item")]
        assert listed == [f"• item {number}" for number in range(200)]
        assert sum("messages" in line for line in it.everything) == 1
        assert it.leave() == 0


BROKEN_WRAPPER = CASES["broken wrapper"]
F2, F3 = "\x1bOQ", "\x1bOR"


def test_errors_of_a_wrapper_are_shown_and_the_conversation_continues(screen, work: Path) -> None:
    (work / "mine.py").write_text(BROKEN_WRAPPER)
    with ModelServer(["Still here."]) as server:
        it = screen("run", "mine.py", f"{server.url}/v1").ready()
        it.sees_last("all is well").type(F2)
        it.sees("hermes: unexpected error: LookupError('no such key')").type(F3 + F3)
        it.ask("are you there?", "Still here.").ready()
        assert "Traceback" not in it.text
        assert it.leave() == 0


CRASHING_WRAPPER = CASES["crashing wrapper"]


@pytest.mark.parametrize("kind", ["xterm-256color", "dumb"])
def test_failing_command_of_a_wrapper_is_shown_and_the_conversation_continues(screen, work, kind):
    (work / "mine.py").write_text(CRASHING_WRAPPER)
    with ModelServer(["Still here."]) as server:
        it = screen("run", "mine.py", f"{server.url}/v1", TERM=kind)
        it.sees("/help" if kind == "dumb" else GREETING).say("/crash now")
        it.sees("/crash failed: LookupError: no such thing").say("are you there?")
        it.sees("Still here.")
        assert "Traceback" not in it.text
        assert it.leave() == 0
