"""Line mode: renderers for events, questions to the user, and the conversation in plain lines."""

import argparse
import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import msgspec

from hermes import tui
from hermes.agent import Agent
from hermes.app import App, CommandHandler
from hermes.cli.context import Cli, ProgressLine
from hermes.cli.extensions import ask_hook_approval
from hermes.core.approval_text import render_approval
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    to_json,
)
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta
from hermes.core.ports import ApprovalAnswer
from hermes.util.text import visible

ANSWERS = {
    **dict.fromkeys(("y", "yes", "o", "once"), ApprovalAnswer.ONCE),
    **dict.fromkeys(("s", "session"), ApprovalAnswer.SESSION),
    **dict.fromkeys(("a", "always"), ApprovalAnswer.ALWAYS),
}
"""`session` and `always` may be followed by the number of a scope."""


class TerminalApprover:
    """Reads answers from the terminal. For an approval, anything but a clear yes is a no.

    The question is an event among others, so the renderer shows it in its turn and then calls
    `shown`; only then is the answer read.
    """

    def __init__(self, stdin: TextIO, stdout: TextIO) -> None:
        self._stdin, self._stdout = stdin, stdout
        self._on_screen = asyncio.Event()

    def shown(self) -> None:
        self._on_screen.set()

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        given = (await self._answer()).strip().lower()
        word = given.rstrip("0123456789").strip()
        answer, number = ANSWERS.get(word), given.removeprefix(word).strip()
        if answer is None or (number and answer == ApprovalAnswer.ONCE):
            return ApprovalAnswer.DENY
        if answer == ApprovalAnswer.ONCE or not question.scopes:
            return ApprovalAnswer.ONCE
        if not 0 < int(number or 1) <= len(question.scopes):
            return ApprovalAnswer.DENY
        scope = question.scopes[int(number or 1) - 1]
        if scope.confirm:
            self._stdout.write(f"  {visible(scope.label)}: are you sure? [y/N]: ")
            self._stdout.flush()
            if (await read_line(self._stdin)).strip().lower() not in ("y", "yes"):
                return ApprovalAnswer.DENY
        return ApprovalAnswer(answer.value, scope.value, confirmed=scope.confirm)

    async def clarify(self, question: QuestionAsked) -> str:
        """Read the answer; a number selects a choice."""
        answer = (await self._answer()).strip()
        choices = dict(enumerate(question.choices, 1))
        return choices.get(int(answer), answer) if answer.isdecimal() else answer

    async def secret(self, name: str, prompt: str, how: str) -> str:
        """Read a value without echo; return "" if the user skips it."""
        lines = [f"  🔑 {prompt} ({name})", *([f"     {how}"] if how else [])]
        self._stdout.write("\n".join(lines) + "\n     not shown; Enter skips it: ")
        self._stdout.flush()
        with echo_off(self._stdin):
            try:
                return (await read_line(self._stdin)).strip()
            finally:
                self._stdout.write("\n")

    async def _answer(self) -> str:
        self._on_screen.clear()
        await self._on_screen.wait()
        try:
            return await read_line(self._stdin)
        except asyncio.CancelledError:
            self._stdout.write("\n")  # end the line, as Enter would have
            raise


@contextmanager
def echo_off(stream: TextIO) -> Iterator[None]:
    """Switch the echo of the terminal off."""
    import termios  # not on every system

    before = termios.tcgetattr(stream)
    hidden = termios.tcgetattr(stream)
    hidden[3] &= ~termios.ECHO
    termios.tcsetattr(stream, termios.TCSAFLUSH, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSAFLUSH, before)


async def read_line(stream: TextIO) -> str:
    """Read a line without a thread, which would survive a timeout or Ctrl-C."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(stream.fileno(), wake)
    try:
        await ready
    finally:
        loop.remove_reader(stream.fileno())
    # A terminal hands over whole lines, so this does not block.
    return stream.readline()


# Renderers of the agent's events.

INDENT = "  "
ARGUMENT_WIDTH = 60
PREVIEW_WIDTH = 76
CHOICES = "[o]nce, [N]o; [s]ession or [a]lways, without a number 1, for:"


class ErrorResult(msgspec.Struct):
    error: str


class JsonRenderer:
    """Prints each event as a JSON object on its own line."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    def show(self, event: Event) -> None:
        self._stdout.write(to_json(event).decode() + "\n")
        self._stdout.flush()


class AnswerRenderer:
    """Prints only the final answer to stdout, and problems to stderr."""

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self._stdout, self._stderr = stdout, stderr

    def show(self, event: Event) -> None:
        if not isinstance(event, TurnFinished):
            return
        if event.text:
            self._stdout.write(event.text + "\n")
            self._stdout.flush()
        if not event.completed:
            for line in tui.problem_lines(event):
                self._stderr.write(line + "\n")


class TerminalRenderer:
    """Prints text as it arrives, and a line for each tool call and its result."""

    def __init__(
        self,
        stdout: TextIO,
        paint: "tui.Paint",
        *,
        reasoning: bool = False,
        question_shown: Callable[[], None] = lambda: None,
    ) -> None:
        self._stdout, self._paint, self._reasoning = stdout, paint, reasoning
        self._question_shown = question_shown
        self._at_line_start = True
        self._trouble = ""  #: The error of the last failed model call of this turn.

    def show(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._write(event.text)
            case ReasoningDelta() if self._reasoning:
                self._write(self._paint("dim", event.text))
            case TextFinished():
                self._end_line()
            case ApprovalAsked() | QuestionAsked():
                self._ask(event)
                self._question_shown()
            case ApprovalAnswered() | QuestionAnswered():
                self._at_line_start = True
            case _:
                for line in self._lines(event):
                    self._line(line)

    def _ask(self, event: ApprovalAsked | QuestionAsked) -> None:
        paint = self._paint
        if isinstance(event, QuestionAsked):
            question = paint("strong", visible(event.question))
            self._line(f"{paint('accent', '?')} {question}")
            for number, choice in enumerate(event.choices, 1):
                self._line(f"  {number}. {visible(choice)}")
            self._write("  your number or words: " if event.choices else "  your answer: ")
            return
        asked = render_approval(event, columns=shutil.get_terminal_size().columns - len(INDENT))
        self._line(f"{INDENT}{paint('warn', f'⚠ {asked.title}')}")
        for row in asked.subject:
            self._line(f"{INDENT}{paint('strong', row)}")
        for fact in asked.facts:
            self._line(f"{INDENT}{paint('warn', fact)}")
        if not event.scopes:
            self._write(f"{INDENT}{paint('strong', 'allow?')} [o]nce, [N]o: ")
            return
        self._line(f"{INDENT}{paint('strong', 'allow?')} {CHOICES}")
        for number, scope in enumerate(event.scopes, 1):
            sure = " (asks again)" if scope.confirm else ""
            self._line(f"{INDENT * 2}{number}. {visible(scope.label)}{sure}")
        self._write(f"{INDENT}your answer, such as o, s or a2: ")

    def _lines(self, event: Event) -> list[str]:
        """Return the lines for an event other than text; most have none."""
        paint = self._paint
        match event:
            case ToolStarted(call=call):
                name = tui.one_line(visible(call.name), ARGUMENT_WIDTH)
                return [f"{paint('accent', '●')} {name} {brief_arguments(call.arguments)}"]
            case ToolFinished():
                mark = paint("error", "✗") if event.failed else paint("dim", "↳")
                outcome = f"{self._preview(readable_result(event.result))} ({event.seconds:.1f} s)"
                return [f"  {mark} {paint('dim', outcome)}"]
            case Retrying() | FellBack():
                line = tui.trouble_line(event, self._trouble)
                self._trouble = event.error
                return [paint("warn", line)]
            case Notice():
                return [paint("warn", visible(event.text))]
            case TurnFinished():
                lines = tui.problem_lines(event, self._trouble)
                self._trouble = ""
                return [paint("error", line) for line in lines]
            case _:
                return [
                    paint("dim", "  " * line.startswith("  ") + self._preview(line))
                    for line in tui.progress_lines(event)
                ]

    def _preview(self, text: str) -> str:
        return tui.one_line(visible(text), PREVIEW_WIDTH)

    def _write(self, text: str) -> None:
        self._stdout.write(text)
        self._stdout.flush()
        self._at_line_start = text.endswith("\n")

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(text + "\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")


def brief_arguments(arguments: str) -> str:
    """Return the argument values of a call, with long ones shortened."""
    try:
        values = list(msgspec.json.decode(arguments, type=dict[str, Any]).values())
    except msgspec.DecodeError:
        values = [arguments]
    return tui.one_line(visible("  ".join(map(str, values))), ARGUMENT_WIDTH)


def readable_result(result: str) -> str:
    """Return a tool result for display: of an error object, its message."""
    if not result.startswith('{"error"'):
        return result
    try:
        return msgspec.json.decode(result, type=ErrorResult).error
    except msgspec.DecodeError:
        return result


# The conversation in plain lines; see `tui.plain`.

HINT = "A backslash at the end continues on the next line; /help lists the commands."
LINE_MODE_COMMANDS = (
    "history", "resume", "save", "image", "paste", "copy", "terminal-setup", "quit",
)  # fmt: skip
"""Terminal commands that work without the full screen interface."""


class LineMode:
    """The conversation in line mode. The agent needs `approver`, so it exists before `open`."""

    def __init__(self, cli: Cli, *, verbose: bool) -> None:
        self._cli = cli
        self.approver = TerminalApprover(cli.stdin, cli.stdout)
        self._renderer = TerminalRenderer(
            cli.stdout, cli.paint, reasoning=verbose, question_shown=self.approver.shown
        )
        self.progress, self.approve_hook = ProgressLine(cli.stderr), ask_hook_approval(cli)
        self._talk: tui.PlainConversation | None = None

    def open(self, app: App, agent: Agent, folder: Path) -> "tui.PlainConversation":
        cli, expand = self._cli, tui.reference_expander(app, folder, self._cli.note)
        self._talk = tui.PlainConversation(
            app, agent, self._renderer, cli.stdout, lambda: read_line(cli.stdin), expand
        )
        return self._talk

    @property
    def talk(self) -> "tui.PlainConversation":
        if self._talk is None:
            raise RuntimeError("there is no conversation yet")
        return self._talk

    @property
    def handlers(self) -> dict[str, CommandHandler]:
        commands = tui.TerminalCommands(self.talk, self._cli.home.root / "skins").handlers
        return {name: commands[name] for name in LINE_MODE_COMMANDS}

    async def run(self) -> int:
        models = self.talk.agent.models
        self._cli.say(f"Hermes: {models.name} on {models.provider}. {HINT}")
        if self.talk.agent.abandoned:
            await self.talk.ask(None)
        return await self.talk.run()


# The renderer for `hermes chat -q`.


def renderer_for(args: argparse.Namespace, cli: Cli, approver: TerminalApprover) -> "tui.Renderer":
    """Return the renderer that the flags of `hermes chat -q` ask for."""
    if args.json:
        return JsonRenderer(cli.stdout)
    if args.quiet or not cli.stdout.isatty():
        return AnswerRenderer(cli.stdout, cli.stderr)
    return TerminalRenderer(
        cli.stdout, cli.paint, reasoning=args.verbose, question_shown=approver.shown
    )
