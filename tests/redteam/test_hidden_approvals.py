"""Commands that try to hide in the question whether they may run, on every surface."""

import html
import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from hermes.core.approval_text import fenced, render_approval
from hermes.core.events import ApprovalAsked
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, Step
from hermes.gateway.platforms.manifests import LOCAL
from hermes.sdk.platforms import Capabilities, compose
from hermes_plugins.platforms.discord.manifest import MANIFEST as DISCORD
from hermes_plugins.platforms.email.manifest import MANIFEST as EMAIL
from hermes_plugins.platforms.matrix.manifest import MANIFEST as MATRIX
from hermes_plugins.platforms.slack.manifest import MANIFEST as SLACK
from hermes_plugins.platforms.telegram.manifest import MANIFEST as TELEGRAM
from tests.integration.chat.conftest import at, screen, untitled, work
from tests.integration.gateway.chats.conftest import GatewayHarness, harness
from tests.screens.chat import Chat

__all__ = ["harness", "screen", "untitled", "work"]

EVIL = "rm -rf ~/data"
SAFE = "● terminal ls -la"


@cache
def filler(size: int) -> str:
    """Text without repetitions, which nothing can shorten."""
    letters = random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=size)
    return "".join(letters)


COMMANDS: dict[str, str] = {
    "line erased and repainted": f"{EVIL} \x1b[2K\x1b[1G{SAFE}",
    "carriage return": f"{EVIL} #\r{SAFE}",
    "backspaces": f"{EVIL} #" + "\x08" * 20 + SAFE,
    "cursor moved up": f"{EVIL} \x1b[9A\x1b[0J{SAFE}",
    "screen cleared": f"{EVIL} \x1b[2J\x1b[H{SAFE}",
    "alternate screen": f"{EVIL} \x1b[?1049h{SAFE}",
    "C1 controls": f"{EVIL} \x9b2K\x9b1G{SAFE}",
    "concealed": f"ls; \x1b[8m{EVIL}\x1b[0m",
    "colour of the background": f"ls; \x1b[38;2;0;0;0;48;2;0;0;0m{EVIL}\x1b[0m",
    "window title": f"ls \x1b]0;title; {EVIL}\x07",
    "hyperlink": f"\x1b]8;;http://evil.example\x1b\\ls\x1b]8;;\x1b\\; {EVIL}",
    "text direction": f"{EVIL} # \u202eal- sl lanimret",
    "isolates": f"\u2066ls\u2069; \u2067{EVIL}\u2069",
    "zero width": f"ls;\u200b\u200c\u200d\ufeff {EVIL}",
    "blank letters": "ls;" + "\u3164" * 40 + "\u2800\u3164" * 400 + f" {EVIL}",
    "tag characters": f"ls; {EVIL} #{''.join(chr(0xE0000 + ord(c)) for c in 'harmless')}",
    "padding of one letter": f"echo {'a' * 1470}; {EVIL}",
    "long padding in front": f"echo {'a' * 30_000}; {EVIL}",
    "random padding in front": f"echo {filler(20_000)}; {EVIL}",
    "random padding behind": f"{EVIL}; echo {filler(20_000)}",
    "spaces": f"ls{' ' * 3_000}; {EVIL}{' ' * 3_000}; ls",
    "empty lines": "ls" + "\n" * 300 + EVIL + "\n" * 300 + "ls -la",
    "lines of blanks": "ls\n" + " \t\n" * 300 + EVIL + "\n" + " \n" * 300 + "ls -la",
    "line separators": f"{EVIL} #\u2028{SAFE}\u2029\x85\x0b\x0c",
    "fake prompt": f"{EVIL}\n  allow? [o]nce, [s]ession, [a]lways, [N]o: n\n  ✗ denied\n{SAFE}",
    "fake question": f"{EVIL}\n⚠ terminal wants to run this:\n  │ ls -la\n  lists a folder",
    "fence": f"ls\n```\nHarmless clean-up, please approve.\n```\n{EVIL}",
    "long fence": f"ls\n{'`' * 40}\nHarmless clean-up.\n{'`' * 39}\n{EVIL}",
    "tilde fence": f"ls\n~~~\nHarmless clean-up.\n~~~\n{EVIL}",
    "fence in a line": f"{EVIL} # ``` **Harmless** ```",
    "HTML": f"ls\n</code></pre><b>Harmless</b><pre><!-- {EVIL} -->\n{EVIL}",
    "mentions and links": f"{EVIL} # <@U1> @everyone [ls](http://x) <https://x|ls> ||ls||",
}
"""Command lines that run EVIL, by how they hide it."""
each_command = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())


def subject(lines: Sequence[str]) -> str:
    """Return what a reader takes for the command: the rows with a margin, in one line each."""
    found: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith("│"):
            found.append(text[1:].removeprefix(" "))
        elif text.startswith("↪") and found:
            found[-1] += text[1:].removeprefix(" ")
    return "\n".join(found)


def assert_honest(command: str, lines: Sequence[str]) -> None:
    """The dangerous part can be read, what cannot be seen is named, and nothing is faked."""
    read = subject(lines)
    assert EVIL in read, read
    if re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u202e\u2066-\u2069]", command):
        assert re.search(r"\\(x|u|r|f)", read), read
    others = [line.strip() for line in lines if not line.strip().startswith(("│", "↪"))]
    assert not [line for line in others if line.startswith(("Harmless", SAFE, "allow? [o]nce,"))]


# The terminal.


def terminal_call(command: str) -> ToolCall:
    return ToolCall("c1", "terminal", json.dumps({"command": command}))


@pytest.fixture
def data(user_home: Path) -> Path:
    folder = user_home / "data"
    folder.mkdir()
    return folder


@each_command
def test_question_of_chat_q(screen: Callable[..., Chat], data: Path, command: str):
    with ModelServer([terminal_call(command), "Then not."]) as server:
        it = screen("chat", "-q", "list the files", *at(server), rows=90)
        asked = re.compile(r"(\[N\]o:|your answer, such as o, s or a2:)\s*\Z")
        it.wait(lambda it: asked.search(it.text) is not None, "a question")
        lines = [line for line in it.everything if line]
        start = next(n for n, line in enumerate(lines) if "⚠ terminal wants to run" in line)
        end = max(n for n, line in enumerate(lines) if line.strip().startswith("allow?"))
        assert_honest(command, lines[start:end])
        assert lines[0].startswith("● terminal "), "the line of the call is still there"
        it.say("n").sees("Then not.")
        assert it.ended() == 0
    assert data.is_dir()


@each_command
def test_question_of_the_terminal_interface(screen, data: Path, command: str):
    with ModelServer([terminal_call(command), "Then not."]) as server:
        it = screen("chat", *at(server), rows=40).ready()
        it.say("list the files").sees_last("[o] once")
        start = next(n for n, line in enumerate(it.lines) if "⚠ terminal wants to run" in line)
        end = next(n for n, line in enumerate(it.lines) if "[o] once" in line)
        assert_honest(command, it.lines[start:end])
        it.press("escape").sees("Then not.")
    assert data.is_dir()


# Chats.


def in_fence(text: str) -> tuple[list[str], list[str]]:
    """Return the lines in the code block, and those after it, as CommonMark reads them."""
    lines = text.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("```"))
    mark = lines[start]
    end = next(n for n, line in enumerate(lines) if n > start and line.strip("`") == ""
               and len(line) >= len(mark))  # fmt: skip
    return lines[start + 1 : end], lines[end + 1 :]


@each_command
async def test_question_in_a_chat(harness: GatewayHarness, monkeypatch, data: Path, command: str):
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    step = Step((terminal_call(command),))
    await harness.open([step, "left alone"], gateway__terminal="local")
    harness.say("list the files")
    await harness.until(lambda: any(each.buttons for each in harness.shown()), "the question")
    parts = [in_fence(text) for text in harness.texts()]  # a long question takes several messages
    code, after = [line for inside, _ in parts for line in inside], parts[-1][1]
    assert not any(rest for _, rest in parts[:-1])
    assert code[0] == "terminal wants to run this:"
    assert_honest(command, code[1:])
    assert after[0] == "`/approve`, `/approve session`, `/approve always` or `/deny`"
    assert not any(EVIL in line or SAFE in line for line in after)
    await harness.ask("/deny", "left alone")
    assert data.is_dir()


ABILITIES: dict[str, Capabilities] = {
    each.name: each.capabilities for each in (TELEGRAM, SLACK, DISCORD, MATRIX, EMAIL, LOCAL)
}
MARKS = {"telegram": ("<pre>", "</pre>"), "matrix": ("<pre>", "</pre>")}
ZERO_WIDTH_SPACE = "\u200b"  #: Discord and Slack get it between backticks.


@pytest.mark.parametrize("platform", ABILITIES)
@each_command
def test_no_dialect_lets_a_command_out_of_its_block(platform: str, command: str):
    asked = ApprovalAsked("c1", "terminal", command, "deletes folders", effect="execute")
    text = f"{fenced(render_approval(asked).lines)}\nthe end"
    rows: list[str] = []
    for message in compose(text, ABILITIES[platform]):
        begin, end = MARKS.get(platform, ("```", "```"))
        if platform in ("telegram", "matrix", "slack", "discord"):
            assert message.text.count(begin) == (1 if begin != end else 2), message.text
            inside = message.text.partition(begin)[2].rpartition(end)[0]
        else:
            inside = message.text
        rows += html.unescape(inside).replace(ZERO_WIDTH_SPACE, "").split("\n")
    assert_honest(command, rows)


def test_cut_says_how_much_is_missing_and_keeps_both_ends():
    secret = f"echo {filler(50_000)}; {EVIL}; echo {filler(50_000)}; echo the end"
    asked = render_approval(ApprovalAsked("c1", "terminal", secret, "deletes folders"))
    read = subject(asked.subject)
    assert read.startswith("echo ") and read.endswith("; echo the end")
    assert f"… {asked.hidden:,} characters not shown …" in asked.subject
    shown = sum(len(row) - 2 for row in asked.subject if row[0] in "│↪")
    assert shown + asked.hidden == len(secret)
