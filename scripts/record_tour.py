"""Walks through the everyday features in a terminal, in a wide and in a narrow window, and records
pictures of them, docs/images/tour-*.svg.

A shell runs in a pseudo-terminal, in a folder made for it, and the program runs in the shell; its
tools really run. Only the model is scripted. Each step waits for what must be seen, and the run
ends at the first step where it is not, with the screen.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
# The imports below need these folders: the emulated terminal is part of the tests.
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from record_session import CHECK, IMAGES, PRICES, call, cells, svg  # noqa: E402

from hermes.core.messages import Text  # noqa: E402
from hermes.core.testing import ModelServer, Stall, Step, StepLike  # noqa: E402
from tests.screens.chat import PROMPT, WORKING, Chat  # noqa: E402
from tests.screens.emulated import Unseen  # noqa: E402

SIZES = {"": (120, 35), "-narrow": (60, 20)}
"""Columns and rows, by the end of the names of the pictures."""
SETTINGS = """\
sessions: {auto_title: false}
display: {background: dark, links: on}
"""
SERVER = '''\
"""An MCP server with one tool."""
import json, sys

TOOL = {"name": "now", "description": "Return the time", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True}}
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "clock", "version": "1.0"}},
        "tools/list": {"tools": [TOOL]},
    }
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
'''
MCP = '{"mcpServers": {"calendar": {"command": "python3", "args": ["../clock.py"]}}}\n'
FILES = {
    "home/config.yaml": SETTINGS,
    "home/commands/explain.md": "---\ndescription: explain a file\n---\nExplain $1 briefly.\n",
    ".gitconfig": "[user]\nname = Ann\nemail = ann@example.com\n[init]\ndefaultBranch = main\n",
    "shop/prices.py": PRICES,
    "shop/check.py": CHECK,
    "shop/notes.txt": "buy milk\n",
    "shop/.mcp.json": MCP,
    "shop/.claude/commands/tidy.md": "Tidy $ARGUMENTS.\n",
    "shared/read.me": "",
    "clock.py": SERVER,
}
STORY = "Once upon a time a small shop had one price for everything, and the price was wrong. "
BUSY = "while [ ! -e ../go ]; do sleep 0.05; done; rm ../go; echo built"
"""A command that runs until the file `go` exists."""
OLD, NEW = "sum(prices) - discount / 100", "sum(prices) * (1 - discount / 100)"

REPLIES: dict[str, tuple[StepLike, ...]] = {
    "what is in this folder": ("Two programs, `prices.py` and `check.py`, and `notes.txt`.",),
    "tell me a story": (Step((Text(STORY * 3),), faults=(Stall(12),)),),
    "what did you say": ("I began a story about a small shop.",),
    "build it": (call(1, "terminal", command=BUSY), "It is built."),
    "then test it": ("Tested.",),
    "replace the notes": (
        call(1, "write_file", path="notes.txt", content="nothing\n"),
        "I leave the notes as they are: I have not read them.",
    ),
    "fix the discount": (
        call(1, "read_file", path="prices.py"),
        call(2, "patch", path="prices.py", old_string=OLD, new_string=NEW),
        "The discount is now a share of the sum, see prices.py:2 and https://example.com/vat.",
    ),
    "remove the build folder": (call(1, "terminal", command="rm -rf build"), "Removed."),
    "plan a change": (
        call(1, "write_file", path="plan.txt", content="x\n"),
        "The plan: round the total to cents.",
    ),
    "count to sixty": (call(1, "terminal", command="seq 1 60"), "Counted."),
    "Explain prices.py": ("It adds prices and subtracts a discount.",),
    "look at": ("Which file?",),
    "Tidy check.py": ("It is tidy.",),
    "what did I run": ("You ran `git status`.",),
    "Write the file AGENTS.md": ("AGENTS.md says how to run check.py.",),
    "Review the": ("One remark: the discount is not checked.",),
    "Commit the": (call(1, "terminal", command="git commit -qam 'Fix the discount'"), "Committed."),
    "two lines": ("I see both.",),
    "add a line": (
        call(1, "read_file", path="notes.txt"),
        call(2, "patch", path="notes.txt", old_string="milk\n", new_string="milk\nbuy tea\n"),
        "Added.",
    ),
}
"""What the model replies, call by call, by the beginning of the last message that has one."""


def reply(request: Any) -> StepLike:
    messages = request.body["messages"]
    for at in range(len(messages) - 1, 0, -1):
        content = messages[at]["content"]
        if messages[at]["role"] == "user" and isinstance(content, str):
            for part, steps in REPLIES.items():
                if content.startswith(part):
                    done: int = sum(each["role"] == "assistant" for each in messages[at:])
                    return steps[min(done, len(steps) - 1)]
    return "A summary of the conversation."


class Tour(Chat):
    """A shell in a terminal, in which `hermes` is typed."""

    def __init__(self, folder: Path, server: ModelServer, columns: int, rows: int) -> None:
        self.folder, self.work, self.server = folder, folder / "shop", server
        self.start = 0
        super().__init__(
            ["--norc", "--noprofile", "-i"], self.work, columns=columns, rows=rows,
            program=["bash"], HOME=str(folder), HERMES_HOME=str(folder / "home"), PS1="$ ",
            COLORTERM="truecolor", KITTY_WINDOW_ID="1", BASH_SILENCE_DEPRECATION_WARNING="1",
            PATH=f"{folder / 'bin'}:{os.environ['PATH']}",
        )  # fmt: skip

    def shows(self, *texts: str) -> Self:
        """Wait for texts that came since the step began, wherever their lines are broken."""

        def seen(it: Tour) -> bool:
            words = " ".join(" ".join(it.everything[it.start :]).split())
            return all(text in words for text in texts)

        return self.wait(seen, " and ".join(map(repr, texts)))

    def back(self) -> Self:
        """Wait for the prompt of the shell."""
        return self.wait(lambda it: it.shown[-1] == "$", "the prompt of the shell")

    def shell(self, command: str, *texts: str) -> Self:
        return self.say(command).shows(*texts).back()

    def holds(self, name: str, *texts: str) -> Self:
        """Wait until a file holds texts."""
        path = self.folder / name
        return self.wait(
            lambda _it: path.exists() and all(text in path.read_text() for text in texts),
            f"{texts} in {name}",
        )

    def sent(self, *texts: str) -> Self:
        """Wait until the last request holds texts."""
        return self.wait(
            lambda it: all(text in it.server.calls[-1].raw.decode() for text in texts),
            f"{texts} on the wire",
        )

    def wrote(self, sequence: bytes) -> Self:
        return self.wait(lambda it: sequence in it.raw, repr(sequence))

    def go(self) -> Self:
        (self.folder / "go").touch()
        return self


STEPS: list[tuple[str, Callable[[Tour], object], str]] = [
    ("setup: a list to choose from", lambda it: it.say("hermes setup model")
        .shows("type to filter").type("custom").shows("by its URL"), "setup"),
    ("setup: every answer is saved", lambda it: it.press("enter").shows("URL, such as")
        .say(f"{it.server.url}/v1").shows("API key (not").say("").shows("▸ demo-model")
        .press("enter").shows("now using demo-model on custom", "Try it").say("").back()
        .holds("home/config.yaml", "demo-model", it.server.url), ""),
    ("prices of an own endpoint", lambda it: it.shell(
        "hermes config set providers.custom.models.demo-model.price '{input: 2, output: 8}'",
        "set in"), ""),
    ("mcp add NAME -- COMMAND", lambda it: it.shell(
        "hermes mcp add clock -- python3 ../clock.py", "added clock", "1 tool", "now"), ""),
    ("mcp import", lambda it: it.say("hermes mcp import .mcp.json").shows("calendar")
        .say("y").shows("calendar").back().holds("home/config.yaml", "calendar"), ""),
    ('hermes "PROMPT"', lambda it: it.say('hermes "what is in this folder?"')
        .shows("Two programs").ready().shows("shop (main)", "accept edits"), ""),
    ("Esc stops an answer", lambda it: it.say("tell me a story").shows("Once upon", "ctrl-c stops")
        .press("escape").shows("stopped by Esc").ready(), ""),
    ("the interrupted answer is on the wire", lambda it: it.ask("what did you say?", "I began")
        .sent("[interrupted by the user]"), ""),
    ("and in the export and the history", lambda it: it.ask("/export ../story.md", "story.md")
        .holds("story.md", "[interrupted by the user]")
        .say("/history").shows("[interrupted by the user]").ready(), "interrupted"),
    ("a message steers, with the mode shown", lambda it: it.say("build it").shows("Enter: steer")
        .say("in blue").shows("↪ in blue").go().shows("It is built.").ready().sent("in blue"), ""),
    ("/busy queue: a message waits", lambda it: it.ask("/busy queue", "queue").say("build it")
        .shows("Enter: queue").say("then test it").shows("⧗ then test it"), "queue"),
    ("Esc returns queued text to the input", lambda it: it.press("escape").shows("stopped by Esc")
        .sees_last("❯ then test it").press("ctrl-c").ready().ask("/busy steer", "steer"), ""),
    ("Esc Esc goes back to an earlier question", lambda it: it.press("escape", "escape")
        .shows("▸ build it").press("down", "down").shows("▸ what did you say?"), "back"),
    ("and puts it into the input", lambda it: it.press("enter").shows("❯ what did you say?")
        .press("ctrl-c").ready(), ""),
    ("Ctrl-C twice with text typed in between does not leave", lambda it: it.type("/resume x")
        .press("ctrl-c").ready().type("/model ").press("ctrl-c").ready(), ""),
    ("Ctrl-C right after a stop does not leave", lambda it: it.say("tell me a story")
        .shows("Once upon").press("ctrl-c").shows("stopped by Ctrl-C").ready().press("ctrl-c")
        .settled().ready(), ""),
    ("write_file refuses an unread file", lambda it: it.ask("replace the notes", "I leave")
        .shows("✗").holds("shop/notes.txt", "buy milk"), ""),
    # There is no auto where commands cannot be confined.
    ("Shift-Tab changes the permission mode", lambda it: it.press("shift-tab")
        .wait(lambda it: "│ auto" in it.text or "│ plan" in it.text, "the next mode")
        .press(*["shift-tab"] * ("│ auto" in it.text)).sees_last("│ plan"), ""),
    ("plan mode changes nothing", lambda it: it.ask("plan a change", "The plan")
        .shows("plan mode: write_file"), ""),
    ("ask mode shows the diff before an edit", lambda it: it.press("shift-tab").sees_last("│ ask")
        .say("fix the discount").shows("[o] once", "waiting for you").sees_last("1 - discount")
        .holds("shop/prices.py", OLD), "diff"),
    ("the edit happens when it is allowed", lambda it: it.settled(0.6).type("o").shows("a share of")
        .ready().holds("shop/prices.py", NEW).press("shift-tab").sees_last("│ accept edits"), ""),
    ("paths and addresses are links", lambda it: it.wrote(b"\x1b]8;;https://example.com/vat")
        .wrote(b"]8;;file://"), ""),
    ("a dangerous command waits for you", lambda it: it.say("remove the build folder")
        .shows("[o] once", "waiting for you").wrote(b"\x1b]99;"), ""),
    ("always names its scopes", lambda it: it.settled(0.6).type("a")
        .shows("exactly this in ~/shop", "everywhere"), "scopes"),
    ("Esc refuses", lambda it: it.press("escape").shows("not allowed").ready(), ""),
    ("!command", lambda it: it.say("!git status --short").shows("M prices.py").ready()
        .ask("what did I run?", "You ran").sent("git status --short"), ""),
    ("Ctrl-O shows a folded result", lambda it: it.ask("count to sixty", "Counted.")
        .press("ctrl-o").shows("7 8 9 10 11"), ""),
    ("Shift-Enter", lambda it: it.type("two lines:").press("shift-enter").type("second")
        .sees_last("  second").press("enter").shows("I see both.").ready(), ""),
    ("/diff", lambda it: it.ask("/diff", "Changes since"), ""),
    ("/init", lambda it: it.ask("/init", "how to run check.py"), ""),
    ("/review", lambda it: it.ask("/review", "One remark"), ""),
    ("/commit", lambda it: it.ask("/commit", "Committed."), ""),
    ("/context", lambda it: it.say("/context").shows("free").ready(), "context"),
    ("/cost with the price that was set", lambda it: it.say("/cost").shows("cost $0.").ready(), ""),
    ("/permissions", lambda it: it.say("/permissions")
        .shows("Permission mode: accept-edits").ready(), ""),
    ("/mcp", lambda it: it.say("/mcp").shows("clock", "calendar").ready(), ""),
    ("/memory", lambda it: it.say("/memory")
        .shows("nothing is remembered yet").ready(), ""),
    ("/add-dir", lambda it: it.say("/add-dir ../shared")
        .shows("belongs to the workspace").ready(), ""),
    ("/vim", lambda it: it.ask("/vim on", "Vim mode: on").type("x").press("escape")
        .sees_last("vim: normal").type("dd").type("i").ask("/vim off", "Vim mode: off"), ""),
    ("commands as Markdown files", lambda it: it.ask("/explain prices.py", "It adds prices")
        .say("/tidy check.py").shows(".claude/commands/tidy.md").ready()
        .ask("/tidy check.py", "It is tidy."), ""),
    ("/model", lambda it: it.say("/model").shows("price: $2 in, $8 out").press("down")
        .shows("▸ other-model"), ""),
    ("the chosen model answers", lambda it: it.press("enter").shows("From now on: other-model")
        .ready().ask("/model demo-model", "From now on: demo-model"), ""),
    ("/theme", lambda it: it.say("/theme").shows("Choose a skin").press("down"), "theme"),
    ("Esc leaves the skin as it was", lambda it: it.press("escape").ready(), ""),
    ("/rollback", lambda it: it.say("/rollback").shows("▸ fix the discount"), "rollback"),
    ("the files are restored", lambda it: it.press("enter").shows("restored: prices.py").ready()
        .holds("shop/prices.py", OLD), ""),
    ("/compact", lambda it: it.say("/compact").shows("nothing to compact").ready(), ""),
    ("/new and /resume", lambda it: it.ask("/new", "A new conversation").say("/resume")
        .shows("Continue a conversation", "▸ what is in this folder?"), "resume"),
    ("the conversation is continued", lambda it: it.press("enter").shows("Back in").ready(), ""),
    ("an unknown command and a missing file are reported", lambda it: it.say("/foo")
        .shows("There is no command /foo").ready().ask("look at @nope.txt", "Which file?")
        .shows("no such file"), ""),
    ("Ctrl-C twice with an empty input leaves", lambda it: it.settled(2.1).press("ctrl-c")
        .settled(0.2).press("ctrl-c").back(), ""),
    ("--continue skips an empty conversation", lambda it: it.say("hermes").ready().press("ctrl-d")
        .back().say("hermes --continue").shows("It is tidy.").ready().press("ctrl-d").back(), ""),
    ("sessions browse", lambda it: it.say("hermes sessions browse").shows("type to filter")
        .shows("▸ what is in this folder?"), ""),
    ("Esc cancels", lambda it: it.press("escape").back(), ""),
    ("git.auto_commit: one commit per turn", lambda it: it
        .shell("hermes config set git.auto_commit true", "set in")
        .say('hermes "add a line"').shows("Added.").ready().press("ctrl-d").back()
        .shell("git log -1 --format=%s", "add a line"), "commit"),
]  # fmt: skip


def record(suffix: str, to: Path, screens: bool) -> None:
    """Walk through all steps in one window, and save its pictures."""
    columns, rows = SIZES[suffix]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        (folder / "bin").mkdir()
        (folder / "bin/hermes").write_text(f'#!/bin/sh\nexec {sys.executable} -I -m hermes "$@"\n')
        (folder / "bin/hermes").chmod(0o755)
        environment = {**os.environ, "HOME": str(folder)}
        for command in ("git init -q", "git add .", "git commit -qm Begin"):
            subprocess.run(command.split(), cwd=folder / "shop", env=environment, check=True)
        server = stack.enter_context(ModelServer(reply, models=["demo-model", "other-model"]))
        it = Tour(folder, server, columns, rows)
        stack.callback(it.close)
        it.back()
        for number, (title, act, picture) in enumerate(STEPS, 1):
            try:
                if it.shown[-1] in ("$", PROMPT) and WORKING not in it.text:
                    it.press("ctrl-l").wait(
                        lambda it: sum(map(bool, it.lines)) < 4, "a clear screen"
                    )
                it.start = len(it.everything) - len(it.lines)
                act(it)
            except Unseen as error:
                raise Unseen(f"{columns}x{rows} step {number}, {title}: {error}") from None
            screen = f"\n{it.settled(0.05).text}\n" if screens else ""
            sys.stdout.write(f"ok {columns}x{rows} {number:2} {title}{screen}\n")
            if picture:
                drawn = svg(cells(it.settled(0.05).screen), columns, "dark")
                (to / f"tour-{picture}{suffix}.svg").write_text(drawn, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Record docs/images/tour-*.svg.")
    parser.add_argument("--to", type=Path, default=IMAGES, metavar="FOLDER", help="write there")
    parser.add_argument("--screens", action="store_true", help="print the screen after each step")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(record, suffix, args.to, args.screens) for suffix in SIZES]
    failures = [str(error) for run in runs if (error := run.exception())]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
