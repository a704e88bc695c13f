"""Walks through the everyday features in tmux, in a wide and in a narrow window, and records
pictures of them, docs/images/tour-*.svg.

A shell runs in tmux, in a folder made for it, and the program runs in the shell; its tools really
run. Only the model is scripted, except in the step with the embedded model. Each step waits for
what must be seen, and the run ends at the first step where it is not, with the screen.
`table()` is the list of features and steps in docs/guide/tour.md.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parents[1]
# The imports below need these folders: the terminal is part of the tests.
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from record_session import CHECK, IMAGES, PRICES, call, cells, svg  # noqa: E402

from hermes.context import SUMMARY_PREFIX  # noqa: E402
from hermes.core.messages import Text  # noqa: E402
from hermes.core.testing import ModelServer, Stall, Step, StepLike  # noqa: E402
from hermes.providers.local.weights import find_weights  # noqa: E402
from tests.screens.chat import PROMPT, STARTING, WORKING  # noqa: E402
from tests.screens.emulated import KEYS, Unseen  # noqa: E402
from tests.screens.tmux import Tmux  # noqa: E402

SIZES = {"": (120, 35), "-narrow": (60, 20)}
"""Columns and rows, by the end of the names of the pictures."""
SETTINGS = """\
sessions: {auto_title: false}
display: {background: dark, links: on}
providers: {custom: {models: {demo-model: {context_length: 60000}}}}
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
    "shop/.hermes/commands/check.md": "Run both checks.\n",
    "shop/a.txt": "The shop sells apples, pears and plums. " * 800,
    "shop/b.txt": "The shop opens at nine and closes at six. " * 800,
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
    "rename the notes": (call(1, "terminal", command="mv notes.txt list.txt"), "Kept."),
    "compute": (call(1, "terminal", command='python3 -c "print(6 * 7)"'), "It is 42."),
    "count to many": (call(1, "terminal", command="seq 1 200000"), "Counted."),
    "write a plan": (call(1, "write_file", path="plan.txt", content="x\n"), "Planned."),
    "Run both checks": ("Two checks.",),
    "Translate hello": ("bonjour",),
    "read @a.txt": ("It sells fruit.",),
    "read @b.txt": ("It opens at nine.",),
    "and now?": ("Now we go on.",),
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
        call(2, "terminal", command="touch plan.txt"),
        "The plan: round the total to cents.",
    ),
    "count up": (call(1, "terminal", command="seq 1 24"), "Counted."),
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


class Tour(Tmux):
    """A shell in a terminal, in which `hermes` is typed."""

    def __init__(self, folder: Path, server: ModelServer, columns: int, rows: int) -> None:
        self.folder, self.work, self.server = folder, folder / "shop", server
        self.start = 0  #: Rows that had scrolled out when the step began.
        self.skipped = ""  #: Why the step could not be shown on this machine.
        variables = {
            "HOME": str(folder), "HERMES_HOME": str(folder / "home"), "PS1": "$ ",
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "COLORTERM": "truecolor",
            "BASH_SILENCE_DEPRECATION_WARNING": "1",
        }  # fmt: skip
        shell = ["bash", "--norc", "--noprofile", "-i"]
        super().__init__(
            [
                "env",
                "-u",
                "TMUX",
                *(f"{name}={value}" for name, value in variables.items()),
                *shell,
            ],
            self.work,
            columns=columns,
            rows=rows,
            socket=folder / "tmux.socket",
        )

    def press(self, *keys: str) -> Self:
        """Keys by name, or as tmux takes them."""
        for key in keys:
            if key not in KEYS:
                return super().press(*keys)
            super().press("-H", *(f"{byte:02x}" for byte in KEYS[key].encode()))
        return self

    def say(self, text: str) -> Self:
        return self.type(text).press("enter")

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.split("\n")]

    @property
    def since(self) -> str:
        """What came since the step began, wherever its lines are broken."""
        rows = self("capture-pane", "-p", "-S", "-", "-t", "it").rstrip().split("\n")
        scrolled = int(self("display", "-p", "-t", "it", "#{history_size}"))
        return " ".join(" ".join(rows[self.start if self.start <= scrolled else 0 :]).split())

    def begin(self) -> None:
        """Begin a step, with a clear screen where that is possible."""
        if self.lines[-1] in ("$", PROMPT) and WORKING not in self.text:
            self.press("ctrl-l").wait(lambda it: sum(map(bool, it.lines)) < 4, "a clear screen")
        self.start = int(self("display", "-p", "-t", "it", "#{history_size}"))

    def ready(self) -> Self:
        """Until nothing runs and something can be typed."""
        return self.wait(
            lambda it: (
                (text := it.text).endswith(f"\n{PROMPT}")
                and not any(word in text for word in (STARTING, WORKING))
            ),
            "the prompt",
        )

    def shows(self, *texts: str) -> Self:
        """Wait for texts that came since the step began."""

        def seen(it: Tour) -> bool:
            words = it.since
            return all(text in words for text in texts)

        return self.wait(seen, " and ".join(map(repr, texts)))

    def ask(self, question: str, answer: str) -> Self:
        """Say something, and wait for the end of the answer."""
        return self.say(question).shows(answer).ready()

    def back(self) -> Self:
        """Wait for the prompt of the shell."""
        return self.wait(lambda it: it.lines[-1] == "$", "the prompt of the shell")

    def leave(self) -> Self:
        return self.press("ctrl-d").back()

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

    def once(self, text: str) -> Self:
        """Wait until a text stands on the screen once, and not twice."""
        return self.settled().wait(
            lambda it: " ".join(it.text.split()).count(text) == 1, f"{text!r} once"
        )

    def narrowed(self) -> Self:
        """Make the window narrower and wide again."""
        columns, rows = map(
            int, self("display", "-p", "-t", "it", "#{pane_width} #{pane_height}").split()
        )
        for each in (columns - 15, columns - 25, columns):
            self.resize(each, rows)
            time.sleep(0.6)  # nothing settles while an answer streams
        return self

    def go(self) -> Self:
        (self.folder / "go").touch()
        return self

    def embedded(self) -> Self:
        """Talk to the embedded model, if its weights are on this machine."""
        weights = find_weights("0.5b")
        cache = os.environ.get("HERMES_TEST_CACHE") or Path.home() / ".cache" / "hermes-tests"
        file = Path(cache, "models", weights.file) if weights else Path()
        if not file.is_file():
            self.skipped = "the weights of the embedded model are not on this machine"
            return self
        models = self.folder / "home" / "models"
        models.mkdir(exist_ok=True)
        (models / file.name).symlink_to(file)
        self.say("hermes").ready().ask("what is in this folder?", "Two programs")
        self.ask("/model local:0.5b", "From now on").say("say hello")
        for last in (False, False, True):  # it is slow on a busy machine
            try:
                self.shows("can run a larger model").ready()
                break
            except Unseen:
                if last:
                    raise
        if "compact" in self.since:
            raise Unseen("no compaction")
        return self


class TourStep(NamedTuple):
    features: str  #: Keys of `FEATURES`.
    title: str
    act: Callable[[Tour], object]
    picture: str = ""


FEATURES = {
    # Defects that a trial of other terminal agents' users found.
    "B1": "An interrupted answer stays: on the wire, in the history and in exports",
    "B2": "*Always* says what it covers, the narrowest first, and asks again for harm",
    "B3": "A message sent while the agent works steers it or waits; the status line says which",
    "B4": "Ctrl-C twice leaves only with an empty input and no key between",
    "B5": "`--continue` and lists skip empty conversations",
    "B7": "`write_file` does not replace a file that was not read",
    "B8": "`hermes setup` drops no answer",
    "B9": "A question waits without a deadline and says *waiting for you*",
    "B11": "An unknown command gets a harmless suggestion",
    "B12": "`/verbose` and `/details` alone change nothing",
    "B13": "Resizing while an answer streams prints nothing twice",
    "B14": "A switch to the embedded model compacts nothing",
    "B15": "Messages that wait return to the input after a stop",
    "B16": "`/sessions` finds titles",
    "B17": "A missing `@file` is reported",
    "B18": "`/model` refuses an unknown provider",
    "B19": "`hermes models` lists the embedded models on a fresh install",
    "B20": "`hermes backup` does not write into the working folder",
    "B22": "`hermes skills search` finds bundled skills",
    "B23": "A refused connection is named as such",
    "B25": "Harmless `python3 -c` is not asked about",
    "B26": "`approvals.effects.write_file: ask` asks",
    "B27": "Quick commands can be prompts",
    "options": "Unknown options get a suggestion; `hermes help COMMAND`",
    "json": "`sessions list --json` carries no system prompt; search marks nothing oddly",
    "lines": "A folded result says how many lines there are, and shows the last ones",
    "wrap": "Long messages break between words",
    "rollback": "`/rollback` lists the turns of this session only",
    "emoji": "An emoji of several parts stays whole in the input",
    "snapshot": "`/snapshot create` works in a new home",
    "auth": "`auth add` says which model answers from then on",
    "cron": "`cron run` runs the job",
    "gateway": "`gateway setup` without a terminal says why nothing was asked",
    "copy": "`/copy` without an answer says so once",
    "prices": "An unknown price is not zero; prices of an own endpoint can be set",
    # What users of other terminal agents expect.
    "pickers": "Lists with arrow keys and preview: `/resume`, `/model`, `/skin`, `/rollback`, "
    "`sessions browse`, `setup`",
    "escape": "Escape stops; Escape Escape goes back to an earlier question to edit it",
    "modes": "Permission modes with Shift-Tab, shown in the status line; plan refuses changes",
    "diff": "An edit is shown as a diff before it happens",
    "shell": "`!command`, also while the agent works",
    "prompt": '`hermes "prompt"`',
    "commands": "`/diff /init /review /compact /context /mcp /memory /permissions /cost /export "
    "/add-dir /theme /vim`",
    "context": "`/context` shows what fills the context window",
    "expand": "A folded result is expanded afterwards",
    "markdown": "Commands as Markdown files: of the home, of the project, of `.claude/commands`",
    "keys": "Shift-Enter, links, a notification when a question waits (in tmux the bell)",
    "mcp": "`mcp add NAME -- command`, import of `.mcp.json`",
    "commit": "`/commit`, and one commit per turn",
    "larger": "A larger embedded model is offered where it fits",
}
"""What the tour shows."""
ELSEWHERE = {
    "Answers of the embedded model that do not end": "tests/unit/providers/test_small_model.py",
    "The first run without a network": "tests/integration/extras/test_install.py",
    "The first hour, step by step": "tests/docs/test_first_hour.py",
    "A home that cannot be written": "tests/integration/cli/test_main.py",
    "Titles of weak models": "tests/unit/app/test_sessions.py",
}
"""What a tour cannot show, and the tests of it."""


def table() -> str:
    """Return the list of features and the steps that show them, as Markdown."""
    steps: dict[str, list[int]] = {key: [] for key in FEATURES}
    for number, step in enumerate(STEPS, 1):
        for key in step.features.split():
            steps[key].append(number)
    rows = [
        *((text, ", ".join(map(str, steps[key]))) for key, text in FEATURES.items()),
        *((text, f"not in the tour: `{test}`") for text, test in ELSEWHERE.items()),
    ]
    return "\n".join(("| feature | steps |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)))


SET_WRITE = "hermes config set approvals.effects.write_file"
QUICK = "hermes config set quick_commands.tr '{type: prompt, command: \"Translate $ARGUMENTS\"}'"
PRICE = "hermes config set providers.custom.models.demo-model.price '{input: 2, output: 8}'"
NOWHERE = "http://127.0.0.1:9/v1"
PERSON = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}"

STEPS = [TourStep(*each) for each in (
    ("B19", "the embedded models on a fresh install", lambda it: it.shell(
        "HERMES_HOME=../fresh hermes models", "0.5b", "not downloaded")),
    ("pickers", "setup: a list to choose from", lambda it: it.say("hermes setup model")
        .shows("type to filter").type("custom").shows("by its URL"), "setup"),
    ("B8", "setup: every answer is saved", lambda it: it.press("enter").shows("URL, such as")
        .say(f"{it.server.url}/v1").shows("API key (not").say("").shows("▸ demo-model")
        .press("enter").shows("now using demo-model on custom", "Try it").say("").back()
        .holds("home/config.yaml", "demo-model", it.server.url)),
    ("prices", "an unknown price is not zero", lambda it: it.say("hermes").ready()
        .ask("what is in this folder?", "Two programs").ask("/cost", "unknown").leave()),
    ("prices", "prices of an own endpoint", lambda it: it.shell(PRICE, "set in")),
    ("mcp", "mcp add NAME -- COMMAND", lambda it: it.shell(
        "hermes mcp add clock -- python3 ../clock.py", "added clock", "1 tool", "now")),
    ("mcp", "mcp import", lambda it: it.say("hermes mcp import .mcp.json").shows("calendar")
        .say("y").shows("calendar").back().holds("home/config.yaml", "calendar"), "mcp"),
    ("options wrap", "unknown options", lambda it: it.shell(
        "hermes chat --modle x", "there is no option --modle", "did you mean --model?",
        "shows the options")),
    ("options", "help of a command", lambda it: it.shell(
        "hermes help mcp add", "usage: hermes mcp add", "show this help")),
    ("B22", "skills search", lambda it: it.shell(
        "hermes skills search pdf", "ocr-and-documents", "Read PDF")),
    ("B23", "a refused connection", lambda it: it.shell(
        f"hermes chat -q hello --base-url {NOWHERE} --model x", "connection refused",
        "nothing listens there")),
    ("cron", "cron run", lambda it: it.shell(
        "hermes cron create 'every 2h' 'look at the shop' --name look", "look").shell(
        "hermes cron run look", "✓ look: ok")),
    ("gateway", "gateway setup without a terminal", lambda it: it.shell(
        "hermes gateway setup </dev/null 2>&1 | tail -2", "this is not a terminal")),
    ("prompt", 'hermes "PROMPT"', lambda it: it.say('hermes "what is in this folder?"')
        .shows("Two programs").ready().shows("shop (main)", "accept edits"), "prompt"),
    ("escape", "Esc stops an answer", lambda it: it.say("tell me a story")
        .shows("Once upon", "ctrl-c stops").press("escape").shows("stopped by Esc").ready()),
    ("B1", "the interrupted answer is on the wire", lambda it: it.ask("what did you say?",
        "I began").sent("[interrupted by the user]")),
    ("B1 commands", "and in the export and the history", lambda it: it
        .ask("/export ../story.md", "story.md").holds("story.md", "[interrupted by the user]")
        .say("/history").shows("[interrupted by the user]").ready(), "interrupted"),
    ("B13", "a resize while an answer streams", lambda it: it.say("tell me a story")
        .shows("Once upon").narrowed().press("escape").shows("stopped by Esc").ready()
        .once("Once upon a time a small")),
    ("B3", "a message steers, with the mode shown", lambda it: it.say("build it")
        .shows("Enter: steer").say("in blue, see @check.py").shows("↪ in blue").go()
        .shows("It is built.").ready().sent("in blue", "from prices import total")),
    ("shell", "!command while the agent works", lambda it: it.say("build it").shows("working…")
        .say("!touch ../go; echo mine").shows("mine", "It is built.").ready(), "shell"),
    ("B3", "/busy queue: a message waits", lambda it: it.ask("/busy queue", "queue").say("build it")
        .shows("Enter: queue").say("then test it").shows("⧗ then test it"), "queue"),
    ("B15", "Esc returns queued text to the input", lambda it: it.press("escape")
        .shows("stopped by Esc").sees_last("❯ then test it").press("ctrl-c").ready()
        .ask("/busy steer", "steer")),
    ("escape", "Esc Esc goes back to an earlier question", lambda it: it.press("escape", "escape")
        .shows("▸ build it").press(*["down"] * 4).shows("▸ what did you say?"), "back"),
    ("escape", "and puts it into the input, to be changed", lambda it: it.press("enter")
        .shows("❯ what did you say?", "goes back to before").press("backspace").type(" again?"),
        "edit"),
    ("escape", "the changed question replaces it", lambda it: it.press("enter")
        .shows("back to before", "I began").ready()),
    ("B4", "Ctrl-C twice with text typed in between does not leave", lambda it: it
        .type("/resume x").press("ctrl-c").ready().type("/model ").press("ctrl-c").ready()),
    ("B4", "Ctrl-C right after a stop does not leave", lambda it: it.say("tell me a story")
        .shows("Once upon").press("ctrl-c").shows("stopped by Ctrl-C").ready().press("ctrl-c")
        .settled().ready()),
    ("B7", "write_file refuses an unread file", lambda it: it.ask("replace the notes", "I leave")
        .shows("✗").holds("shop/notes.txt", "buy milk")),
    # There is no auto where commands cannot be confined.
    ("modes", "Shift-Tab changes the permission mode", lambda it: it.press("shift-tab")
        .wait(lambda it: "│ auto" in it.text or "│ plan" in it.text, "the next mode")
        .press(*["shift-tab"] * ("│ auto" in it.text)).sees_last("│ plan")),
    ("modes", "plan mode changes nothing", lambda it: it.ask("plan a change", "The plan")
        .shows("plan mode: write_file", "plan mode: terminal"), "plan"),
    ("diff B9", "ask mode shows the diff before an edit", lambda it: it.press("shift-tab")
        .sees_last("│ ask").say("fix the discount").shows("[o] once", "waiting for you")
        .sees_last("1 - discount").holds("shop/prices.py", OLD), "diff"),
    ("diff", "the edit happens when it is allowed", lambda it: it.settled(0.6).type("o")
        .shows("a share of").ready().holds("shop/prices.py", NEW), "edited"),
    ("modes", "ask mode asks about commands that change files", lambda it: it
        .say("rename the notes").shows("changes files of the workspace", "[o] once").settled(0.6)
        .press("escape").shows("not allowed").ready().press("shift-tab")
        .sees_last("│ accept edits")),
    ("keys", "paths and addresses are links", lambda it: it
        .wrote(b"\x1b]8;;https://example.com/vat").wrote(b"]8;;file://")),
    ("B25", "a harmless one-liner is not asked about", lambda it: it.ask("compute", "It is 42.")),
    ("keys B9", "a dangerous command waits for you", lambda it: it.say("remove the build folder")
        .shows("[o] once", "waiting for you").wrote(b"\a")),
    ("B2", "always names its scopes", lambda it: it.settled(0.6).type("a")
        .shows("exactly this in ~/shop", "everywhere"), "scopes"),
    ("escape", "Esc refuses", lambda it: it.press("escape").shows("not allowed").ready()),
    ("shell", "!command", lambda it: it.say("!git status --short").shows("M prices.py").ready()
        .ask("what did I run?", "You ran").sent("git status --short")),
    ("lines", "a folded result", lambda it: it.ask("count to many", "Counted.")
        .shows("more lines", "200000")),
    ("expand", "Ctrl-O shows a folded result", lambda it: it.ask("count up", "Counted.")
        .press("ctrl-o").shows("7 8 9 10 11"), "expand"),
    ("keys", "Shift-Enter", lambda it: it.type("two lines:").press("shift-enter").type("second")
        .sees_last("  second").press("enter").shows("I see both.").ready()),
    ("emoji", "an emoji of several parts", lambda it: it.type(f"hi {PERSON}!").sees_last("!")
        .press("backspace", "backspace").type("you").sees_last("❯ hi you").press("ctrl-c")
        .ready()),
    ("commands", "/diff", lambda it: it.ask("/diff", "Changes since"), "changes"),
    ("commands", "/init", lambda it: it.ask("/init", "how to run check.py")),
    ("commands", "/review", lambda it: it.ask("/review", "One remark")),
    ("commit", "/commit", lambda it: it.ask("/commit", "Committed.")),
    ("context commands", "/context", lambda it: it.say("/context").shows("free").ready(),
        "context"),
    ("commands prices", "/cost with the price that was set", lambda it: it.say("/cost")
        .shows("cost $0.").ready(), "cost"),
    ("commands", "/permissions", lambda it: it.say("/permissions")
        .shows("Permission mode: accept-edits").ready()),
    ("commands", "/mcp", lambda it: it.say("/mcp").shows("clock", "calendar").ready()),
    ("commands", "/memory", lambda it: it.say("/memory")
        .shows("nothing is remembered yet").ready()),
    ("commands", "/add-dir", lambda it: it.say("/add-dir ../shared")
        .shows("belongs to the workspace").ready()),
    ("commands", "/vim", lambda it: it.ask("/vim on", "Vim mode: on").type("x").press("escape")
        .sees_last("vim: normal").type("dd").type("i").ask("/vim off", "Vim mode: off")),
    ("markdown", "commands as Markdown files", lambda it: it
        .ask("/explain prices.py", "It adds prices").ask("/check", "Check it")
        .ask("/check", "Two checks.")
        .say("/tidy check.py").shows(".claude/commands/tidy.md").ready()
        .ask("/tidy check.py", "It is tidy."), "markdown"),
    ("pickers", "/model", lambda it: it.say("/model").shows("price: $2 in, $8 out").press("down")
        .shows("▸ other-model").press("up").shows("▸ demo-model"), "model"),
    ("pickers", "the chosen model answers", lambda it: it.press("down", "enter")
        .shows("From now on: other-model").ready()
        .ask("/model demo-model", "From now on: demo-model")),
    ("B18", "/model refuses an unknown provider", lambda it: it.say("/model nosuch:abc")
        .shows("nosuch").ready().sees_last("demo-model │")),
    ("pickers commands", "/theme", lambda it: it.say("/theme").shows("Choose a skin")
        .press("down"), "theme"),
    ("pickers", "Esc leaves the skin as it was", lambda it: it.press("escape").ready()),
    ("pickers", "/rollback", lambda it: it.say("/rollback").shows("▸ fix the discount"),
        "rollback"),
    ("pickers", "the files are restored", lambda it: it.press("enter")
        .shows("restored: prices.py").ready().holds("shop/prices.py", OLD)),
    ("B12", "/verbose and /details show the mode", lambda it: it.say("/verbose").shows("all")
        .ready().say("/details").shows("collapsed").ready()),
    ("snapshot", "/snapshot create", lambda it: it.ask("/snapshot create", "napshot")),
    ("B16", "/title, and /sessions finds it", lambda it: it.ask("/title My talk", "My talk")
        .say("/sessions talk").shows("My talk", "/resume ID or TITLE").ready()),
    ("rollback copy", "/new: nothing to roll back or to copy", lambda it: it
        .ask("/new", "A new conversation").say("/rollback").shows("no files were changed").ready()
        .say("/copy").shows("no answer").ready()),
    ("pickers B5", "/resume", lambda it: it.say("/resume")
        .shows("Continue a conversation", "▸ My talk"), "resume"),
    ("pickers", "the conversation is continued", lambda it: it.press("enter").shows("Back in")
        .ready()),
    ("B11 B17", "an unknown command and a missing file are reported", lambda it: it.say("/foo")
        .shows("There is no command /foo").ready().ask("look at @nope.txt", "Which file?")
        .shows("no such file")),
    ("B4", "Ctrl-C twice with an empty input leaves", lambda it: it.settled(2.1).press("ctrl-c")
        .settled(0.2).press("ctrl-c").back()),
    ("B5", "--continue skips an empty conversation", lambda it: it.say("hermes").ready()
        .press("ctrl-d").back().say("hermes --continue").shows("It is tidy.").ready().leave()),
    ("pickers B5", "sessions browse", lambda it: it.say("hermes sessions browse")
        .shows("type to filter", "▸ My talk"), "browse"),
    ("pickers", "Esc cancels", lambda it: it.press("escape").back()),
    ("json", "sessions list --json and search", lambda it: it.shell(
        "hermes sessions list --json | grep -c system_prompt", "0").shell(
        "hermes sessions search discount", "discount").gone(">>>")),
    ("B20", "a backup is not written into the folder", lambda it: it.shell(
        "hermes backup && git status --short --ignored", "~/home/backups").gone("?? hermes")),
    ("commit", "git.auto_commit: one commit per turn", lambda it: it
        .shell("hermes config set git.auto_commit true", "set in")
        .say('hermes "add a line"').shows("Added.").ready().leave()
        .shell("git log -1 --format=%s", "add a line"), "commit"),
    ("B26", "approvals.effects.write_file: ask", lambda it: it.shell(f"{SET_WRITE} ask", "set in")
        .say("hermes").ready().say("write a plan").shows("[o] once", "+ x").settled(0.6)
        .type("o").shows("Planned.").ready().leave().shell(f"{SET_WRITE} allow", "set in")),
    ("B27 commands", "/compact, and a quick command that is a prompt", lambda it: it
        .shell(QUICK, "set in").say("hermes").ready().ask("/tr hello", "bonjour")
        .ask("read @a.txt", "It sells fruit.").ask("read @b.txt", "It opens at nine.")
        .ask("and now?", "Now we go on.").say("/compact").shows("Compacted: ").ready(), "compact"),
    ("commands", "the conversation goes on", lambda it: it.ask("what is in this folder?",
        "Two programs").sent(SUMMARY_PREFIX[:30]).leave()),
    ("auth", "auth add", lambda it: it.shell(
        "hermes auth add openrouter --api-key sk-or-v1-0123456789abcdef", "added",
        "the model is still demo-model")),
    ("larger B14", "the embedded model, and a larger one", lambda it: it.embedded()),
)]  # fmt: skip


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
        for number, step in enumerate(STEPS, 1):
            try:
                it.begin()
                step.act(it)
            except Unseen as error:
                raise Unseen(f"{columns}x{rows} step {number}, {step.title}: {error}") from None
            name = f"tour-{step.picture}{suffix}.svg"
            if it.skipped:
                skipped = name if step.picture else "step"
                sys.stdout.write(f"skipped {skipped}: {it.skipped}\n")
                it.skipped = ""
                continue
            time.sleep(0.2)  # while the agent works the screen never settles
            screen = f"\n{it.text}\n" if screens else ""
            sys.stdout.write(f"ok {columns}x{rows} {number:2} {step.title}{screen}\n")
            sys.stdout.flush()
            if step.picture:
                drawn = svg(cells(it.screen), columns, "dark")
                (to / name).write_text(drawn, "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Record docs/images/tour-*.svg.")
    parser.add_argument("--to", type=Path, default=IMAGES, metavar="FOLDER", help="write there")
    parser.add_argument("--screens", action="store_true", help="print the screen after each step")
    parser.add_argument("--table", action="store_true", help="print the features and their steps")
    args = parser.parse_args()
    if args.table:
        print(table())
        return 0
    if shutil.which("tmux") is None:
        print("the tour needs tmux: apt install tmux, or brew install tmux", file=sys.stderr)
        return 2
    args.to.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(record, suffix, args.to, args.screens) for suffix in SIZES]
    failures = [str(error) for run in runs if (error := run.exception())]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
