"""However a conversation ends, the terminal is as it was before."""

import os
import shlex
import signal
from pathlib import Path

import psutil
import pytest

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Slow, Step
from tests.integration.chat.conftest import at
from tests.integration.tui.conftest import BUSY, run
from tests.screens.chat import HERMES, Chat

SHELL = ["bash", "--norc", "--noediting", "-i"]


@pytest.fixture
def shell(work: Path, untitled: None):
    """A shell, in which the conversation is started."""
    it = Chat([], work, program=SHELL, columns=100, rows=30, PS1="$ ")
    it.wait(lambda it: it.shown[-1] == "$", "the prompt of the shell")
    yield it
    it.close()


def begin(shell: Chat, server: ModelServer) -> list[object]:
    """How the terminal was before."""
    before = shell.modes
    shell.say(f"{shlex.join([*HERMES, 'chat', *at(server)])}; echo ended $?")
    shell.sees("Alt-Enter begins").ready()
    assert not shell.is_restored
    return before


def ended(shell: Chat, code: int, before: list[object]) -> None:
    shell.sees(f"ended {code}")
    shell.wait(lambda it: it.shown[-1] == "$", "the prompt of the shell")
    assert shell.is_restored
    assert shell.modes == before


def hermes_pid(shell: Chat) -> int:
    (child,) = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
    return int(child)


def test_ctrl_d(shell: Chat) -> None:
    with ModelServer(["Hello."]) as server:
        before = begin(shell, server)
        shell.ask("hello", "Hello.").press("ctrl-d")
        ended(shell, 0, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_while_a_tool_runs(shell: Chat, number: signal.Signals, code: int) -> None:
    with ModelServer([run(BUSY)]) as server:
        before = begin(shell, server)
        shell.say("build it").sees_last("working…").type("half a sen").sees_last("❯ half a sen")
        os.kill(hermes_pid(shell), number)
        ended(shell, code, before)
        assert "half a sen" not in shell.text and "ctrl-c stops" not in shell.text


def test_ctrl_z_and_back_while_an_answer_streams(shell: Chat) -> None:
    answer = Step((Text("one two three four five"),), faults=(Slow(0.05),))
    with ModelServer([answer]) as server:
        before = begin(shell, server)
        shell.say("count").sees("one").press("ctrl-z").sees("Stopped")
        shell.wait(lambda it: it.shown[-1] == "$", "the prompt of the shell")
        assert shell.is_restored
        assert shell.modes == before
        shell.say("fg").sees("one two three four five").ready()
        assert not shell.is_restored
        shell.press("ctrl-d")
        shell.wait(lambda it: it.shown[-1] == "$", "the prompt of the shell")
        shell.say("echo ended $?")
        ended(shell, 0, before)


def test_killed_conversation_can_be_continued(shell: Chat, work: Path) -> None:
    with ModelServer([run(BUSY), run("echo again", "c2"), "It is built."]) as server:
        begin(shell, server)
        shell.say("build it").sees_last("working…")
        shell.wait(lambda _it: (work / "begun").exists(), "the tool's start")
        os.kill(hermes_pid(shell), signal.SIGKILL)
        shell.sees("ended 137").say("stty sane; printf '\\033[?2004l\\033[?25h'; clear")
        shell.wait(lambda it: it.shown == ["$"], "a clear screen")
        shell.say(shlex.join([*HERMES, "chat", "--continue", *at(server)]))
        shell.sees("The last turn was interrupted and continues now")
        shell.reads("""
❯ build it
  ● 1 tool call
The last turn was interrupted and continues now; tool calls that finished are not repeated.

▪ terminal echo again ✓
   again

It is built.
""")


def test_closing_the_window_ends_everything(chat, work: Path) -> None:
    with ModelServer([run(BUSY)]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…")
        it.wait(lambda _it: (work / "begun").exists(), "the tool's start")
        started = psutil.Process(it.pid).children(recursive=True)
        assert started
        assert it.hung_up() != 0
        psutil.wait_procs(started)


def test_a_suspended_conversation_ends_with_its_terminal(shell: Chat) -> None:
    with ModelServer([]) as server:
        begin(shell, server)
        pid = hermes_pid(shell)
        shell.press("ctrl-z").sees("Stopped")
        left = psutil.Process(pid)
        shell.close()
        left.wait(30)
