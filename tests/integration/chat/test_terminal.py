"""`hermes chat` in a real terminal."""

import re
import shlex
import time
from pathlib import Path

import pexpect
import pytest

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Stall, Step
from tests.cases import cases
from tests.integration.chat.conftest import UNTITLED, at
from tests.screens.chat import HERMES, Chat

CASES = cases(__file__)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r\n", "\n")


def danger(call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, "terminal", '{"command":"rm -rf junk"}')


def test_tool_calls_and_their_results_are_shown(terminal):
    look = ToolCall("c1", "search_files", '{"pattern":"*.py","target":"files"}')
    with ModelServer([look, "There are none."]) as server:
        child = terminal("chat", "-q", "how many?", *at(server))
        child.expect(pexpect.EOF)
    shown = plain(child.before)
    assert "● search_files *.py files" in shown and "↳ 0 files match" in shown
    assert shown.rstrip().endswith("There are none.")


@pytest.mark.parametrize("plain", [(), ("--plain",)])
def test_a_prompt_starts_the_conversation(screen, plain):
    with ModelServer(["All pass.", "Again, all pass."]) as server:
        it = screen("fix the tests", *plain, *at(server))
        it.sees("All pass.")
        if not plain:
            it.ready()
        it.say("and now?").sees("Again, all pass.")
        it.press("ctrl-d")
        assert it.ended() == 0
        asked = [request.body["messages"][-1]["content"] for request in server.calls]
    assert asked == ["fix the tests", "and now?"]


def test_a_dangerous_command_runs_only_after_a_yes(terminal, work: Path):
    (work / "junk").mkdir()
    with ModelServer([danger("c1"), danger("c2"), "Done."]) as server:
        child = terminal("chat", "-q", "clean up", *at(server))
        child.expect("allow\\?")
        shown = plain(child.before)
        assert shown.startswith("● terminal rm -rf junk\n  ⚠ terminal wants to run this:\n")
        assert "  │ rm -rf junk\n  deletes folders" in shown and f"in the folder {work}" in shown
        child.sendline("n")
        child.expect("did not allow this")
        assert (work / "junk").is_dir()
        child.expect("allow\\?")
        child.sendline("o")
        child.expect(pexpect.EOF)
    assert not (work / "junk").exists()


def test_a_yes_for_the_session_is_not_asked_again(terminal, work: Path):
    with ModelServer([danger("c1"), danger("c2"), "Done."]) as server:
        child = terminal("chat", "-q", "clean up", *at(server))
        child.expect("allow\\?")
        child.sendline("s")
        child.expect(pexpect.EOF)
    assert plain(child.before).count("allow?") == 0


def test_always_is_written_to_the_settings(terminal, hermes_home: Path):
    (hermes_home / "config.yaml").write_text(f"# mine\nagent:\n  max_turns: 5\n{UNTITLED}")
    with ModelServer([danger(), "Done."]) as server:
        child = terminal("chat", "-q", "clean up", *at(server))
        child.expect("allow\\?")
        child.sendline("a")
        child.expect(pexpect.EOF)
    text = (hermes_home / "config.yaml").read_text()
    assert text.startswith("# mine\n")
    assert "command: rm -rf junk" in text and "command_allowlist" not in text


@pytest.mark.parametrize(("sure", "gone"), [("n", False), ("y", True)])
def test_a_whole_class_needs_a_second_yes(terminal, hermes_home: Path, work: Path, sure, gone):
    (work / "junk").mkdir()
    with ModelServer([danger(), "Done."]) as server:
        child = terminal("chat", "-q", "clean up", *at(server))
        child.expect("4. everything of the class 'recursive delete', everywhere")
        child.sendline("a4")
        child.expect("are you sure")
        child.sendline(sure)
        child.expect(pexpect.EOF)
    assert (work / "junk").exists() != gone
    assert ("command_allowlist" in (hermes_home / "config.yaml").read_text()) == gone


def test_conversation_continues_until_the_user_leaves(screen):
    with ModelServer(["First answer.", "Second answer."]) as server:
        it = screen("chat", *at(server)).ready()
        it.ask("one", "First answer.").ask("two", "Second answer.")
        assert it.leave() == 0
        assert len(server.calls[1].body["messages"]) == 4
    it.reads(CASES["conversation continues until the user leaves"])


def test_ctrl_c_stops_the_turn_and_not_the_conversation(screen, hermes):
    stalled = Step((Text("never finished"),), faults=(Stall(1),))
    with ModelServer([stalled, "Here again."]) as server:
        it = screen("chat", *at(server)).ready()
        it.say("one").sees("never").press("ctrl-c").sees("stopped by Ctrl-C")
        it.ready().ask("two", "Here again.").say("/history").sees("[interrupted by the user]")
        it.say("/quit")
        assert it.ended() == 0
        sent = server.calls[1].body["messages"][1:]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == "never fi\n\n[interrupted by the user]"
    assert "[interrupted by the user]" in hermes("sessions", "show", "20").stdout


def test_question_waits_until_it_is_answered(terminal, hermes_home: Path, work: Path):
    (work / "junk").mkdir()
    (hermes_home / "config.yaml").write_text(f"approvals:\n  timeout: 0.2\n{UNTITLED}")
    with ModelServer([danger(), "Cleaned up."]) as server:
        child = terminal("chat", "-q", "clean up", *at(server))
        child.expect("or a2: ")
        time.sleep(1)
        child.sendline("o")
        child.expect("Cleaned up.")
        child.expect(pexpect.EOF)
    assert not (work / "junk").exists()


def test_ctrl_z_suspends_and_the_chat_comes_back(work: Path, untitled: None):
    with ModelServer(["Back again."]) as server:
        shell = Chat([], work, program=["bash", "--norc", "-i"], PS1="READY> ")
        shell.sees("READY>").say(shlex.join([*HERMES, "chat", *at(server)])).ready()
        shell.type("half a sen").sees_last("❯ half a sen").press("ctrl-z").sees("Stopped")
        shell.sees_last("READY>")
        assert "half a sen" not in shell.text
        shell.say("fg").sees_last("❯ half a sen").ask("tence", "Back again.")
        assert "❯ half a sentence" in shell.lines
        shell.press("ctrl-d")
        shell.wait(lambda it: it.shown[-1] == "READY>", "the shell")
        shell.close()
