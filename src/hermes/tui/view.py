"""Shows the events of a conversation: finished lines, the spinner and the status line."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from hermes.config.home import tilde
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    ModelCalled,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
    TextFinished,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from hermes.core.messages import STEERED
from hermes.core.model import FellBack, ReasoningDelta, Retrying, TextDelta, Usage
from hermes.tui.area import Printer
from hermes.tui.markdown.stream import MarkdownStream
from hermes.tui.skins import DisplayState, Skin
from hermes.tui.text import (
    APPROVAL_TEXTS,
    Paint,
    cut,
    format_duration,
    one_line,
    problem_lines,
    progress_lines,
    safe,
    trouble_line,
    width,
    wrap,
)
from hermes.tui.tool_view import FoldedResult, ToolView
from hermes.util.text import many, visible

SpinnerPhase = Literal["waiting", "thinking", "writing", "tools"]

PHASE_WORDS: Mapping[SpinnerPhase, str] = {"writing": "writing", "tools": "working"}
"""The verb of a phase; other phases use one of the skin."""
FAST, SLOW = 0.1, 0.6
"""Seconds of a frame: of a symbol of one or two columns, and of a wider face or of wings."""
STOP_HINT = "ctrl-c stops"
WAITING = "● waiting for you"


class SpinnerLine:
    """The line that shows that the agent works. Faces are padded to the same width."""

    def __init__(self, skin: Skin, paint: Paint, chance: random.Random) -> None:
        spinner = skin.spinner
        self._paint, self._chance = paint, chance
        self._verbs = spinner.thinking_verbs or ("thinking",)
        waiting = len(spinner.waiting_faces)
        faces = _pad_frames((*spinner.waiting_faces, *spinner.thinking_faces))
        self._waiting, self._thinking = faces[:waiting], faces[waiting:] or faces
        lefts, rights = (_pad_frames([wings[side] for wings in spinner.wings]) for side in (0, 1))
        self._wings = tuple(zip(lefts, rights, strict=True))
        self._turn: float | None = None
        self._verb = ""

    def text(self, now: float, began: float, phase: SpinnerPhase, tokens: int, columns: int) -> str:
        """Return one line; the least important parts are left out where they do not fit.

        `began` is the start of the turn. Each turn has its own verb.
        """
        if began != self._turn:
            self._turn, self._verb = began, self._chance.choice(self._verbs)
        passed = max(0.0, now - began)
        faces = (self._thinking if phase == "thinking" else self._waiting) or ("",)
        face = faces[int(passed / (FAST if width(faces[0]) <= 2 else SLOW)) % len(faces)]
        word = f"{PHASE_WORDS.get(phase, self._verb)}…"
        wings = self._wings or (("", ""),)
        left, right = wings[int(passed / SLOW) % len(wings)]
        winged = " ".join(filter(None, (left, word, right)))
        numbers = [format_duration(int(passed)) if passed >= 60 else f"{int(passed)} s"]
        count = [many(tokens, "token")] if tokens else []
        choices = (
            (face, winged, [*numbers, *count, STOP_HINT]),
            (face, winged, [*numbers, STOP_HINT]),
            (face, word, [*numbers, STOP_HINT]),
            (face, word, numbers),
            ("", word, numbers),
        )
        paint = self._paint
        for symbol, words, details in choices:
            more = " · ".join(details)
            if width(symbol) + width(words) + width(more) + 2 <= columns:
                parts = (paint("accent", symbol), paint("reasoning", words), paint("dim", more))
                return " ".join(filter(None, parts))
        return cut(word, columns)


def _pad_frames(frames: Sequence[str]) -> tuple[str, ...]:
    widest = max(map(width, frames), default=0)
    return tuple(frame + " " * (widest - width(frame)) for frame in frames)


WIDE_COLUMNS = 76  #: Columns from which the context is shown as a bar, or with its name.
CONTEXT_BAR_COLUMNS = 8
CONTEXT_BAR_SHARE = 0.5  #: Below this share of the context window the number is enough.
CONTEXT_ROLES = ((0.95, "error"), (0.80, "warn"), (0.50, "accent"))
"""Minimum share of the context window, and the role it is painted in."""


class StatusInfo(msgspec.Struct, frozen=True):
    model: str
    share: float | None = None  #: Used share of the context window; None if unknown.
    cache: float | None = None
    """Share of the input read from the cache; None before the first call."""
    cost: str = ""  #: Cost of this session; see `format_total`.
    seconds: float = 0.0  #: Seconds since the turn began, or the duration of the last turn.
    notes: tuple[str, ...] = ()  #: Further remarks, such as background tasks.
    folder: str = ""  #: The working folder with its branch.
    mode: str = ""  #: The permission mode: ask, plan, accept edits, auto.
    enter: str = ""  #: What Enter does while the agent works: steer, queue or interrupt.


MODE_ROLES = {"ask": "status", "plan": "accent"}  #: Other modes run calls without a question.


def status_line(status: StatusInfo, columns: int, paint: Paint) -> str:
    """Return the status line, at most `columns` wide; less important parts are left out first."""
    model = cut(status.model.rpartition("/")[2], max(10, columns // 3))
    share, role = "", "status"
    if status.share is not None:
        share = f"{status.share:.0%}"
        role = next((role for least, role in CONTEXT_ROLES if status.share >= least), role)
        if columns >= WIDE_COLUMNS and status.share < CONTEXT_BAR_SHARE:
            share = f"{share} context"
        elif columns >= WIDE_COLUMNS:
            full = min(CONTEXT_BAR_COLUMNS, round(status.share * CONTEXT_BAR_COLUMNS))
            share = f"{'█' * full}{'░' * (CONTEXT_BAR_COLUMNS - full)} {share}"
    cache = f"cache {status.cache:.0%}" if status.cache is not None else ""
    # Each part with its rank: the highest is left out first.
    parts = [
        (0, paint("strong", model)),
        (5, paint("status", cut_left(status.folder, max(12, columns // 3)))),
        (3, paint(role, share)),
        (7, paint("status", cache)),
        (6, paint("status", status.cost)),
        (8, paint("status", format_duration(status.seconds) if status.seconds else "")),
        (1, paint(MODE_ROLES.get(status.mode, "warn"), status.mode)),
        (2, paint("accent", f"Enter: {status.enter}" if status.enter else "")),
        *((4, paint("warn", note)) for note in status.notes),
    ]
    parts = [part for part in parts if part[1]]
    gap = paint("dim", " │ ")
    while len(parts) > 1 and width(gap.join(text for _, text in parts)) > columns:
        parts.remove(max(parts, key=lambda part: part[0]))
    return gap.join(text for _, text in parts)


def cut_left(text: str, columns: int) -> str:
    """Cut a path to `columns`, with an ellipsis at the beginning."""
    return text if width(text) <= columns else f"…{cut(text[::-1], columns)[-2::-1]}"


def format_cost(dollars: float) -> str:
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars else "$0"


def format_total(known: float, unpriced: int) -> str:
    """Format the cost of calls, of which `unpriced` have an unknown price."""
    if not unpriced:
        return format_cost(known)
    return f"over {format_cost(known)}" if known else "price unknown"


class FolderLabel:
    """The working folder for people, with its git branch, which is read once a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_at, self._text = float("-inf"), ""

    def __str__(self) -> str:
        now = time.monotonic()
        if now - self._read_at > 1:
            branch = git_branch(self._folder)
            self._read_at = now
            self._text = safe(f"{tilde(self._folder)}{f' ({branch})' if branch else ''}")
        return self._text


def git_branch(folder: Path) -> str:
    """Return the checked out branch, or the beginning of the commit; "" outside of a repository."""
    try:
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.is_file():  # a worktree or a submodule
                git = place / git.read_text("utf-8").removeprefix("gitdir:").strip()
            if git.is_dir():
                head = (git / "HEAD").read_text("utf-8").strip()
                return head.removeprefix("ref: refs/heads/") if "ref: " in head else head[:8]
    except (OSError, UnicodeError):
        return ""
    return ""


Phase = Literal["idle", "waiting", "thinking", "writing", "tools"]


class EventView:
    """Renders one conversation. All methods are called in the thread of the event loop."""

    def __init__(
        self,
        display: DisplayState,
        sink: Printer,
        columns: Callable[[], int],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.display = display
        self._sink, self._columns, self._now = sink, columns, now
        self._tools = ToolView(display)
        self._text: MarkdownStream | None = None
        self._reasoning, self._thinking_since = "", 0.0  #: The unfinished line, and its start.
        self._questions: dict[str, str] = {}
        self._blank = True  #: Whether the last printed line was empty.
        self.phase: Phase = "idle"
        self.began = self.took = 0.0
        self._trouble = ""  #: The error of the last failed model call of this turn.
        self.used = Usage()  #: Tokens of this conversation.
        self._cost, self._unpriced = 0.0, 0  #: Its dollars, and calls of unknown price.
        self.folder = FolderLabel(Path.cwd())
        self._tokens = 0
        self._spinner = SpinnerLine(display.skin, display.paint, random.Random())

    def show(self, event: Event) -> None:
        before = self.phase
        match event:
            case TurnStarted():
                self._begin_turn()
            case ModelCalled():
                self.phase = "waiting"
            case ReasoningDelta():
                self._add_reasoning(event.text)
            case TextDelta():
                self._add_text(event.text)
            case TextFinished():
                self._end_text(event.text)
            case ToolStarted() | ToolOutput() | ToolFinished():
                self._show_tool(event)
            case SubagentStarted() | SubagentProgress() | SubagentFinished():
                self._tools.subagent(event)
            case TurnFinished():
                self._end_turn(event)
            case UsageReported():
                self.used += event.usage
                self._cost += event.cost_usd or 0.0
                self._unpriced += event.cost_usd is None
            case _:
                self._show_other(event)
        self._sink.refresh(at_once=self.phase != before)

    def user_message(self, text: str) -> None:
        paint, symbol = self.display.paint, self.display.skin.branding.prompt_symbol
        rows = [row for line in safe(text).split("\n") for row in wrap(line, self._columns() - 2)]
        self.gap()
        self.out([f"{paint('prompt', symbol)} {paint('user', rows[0])}"])
        self.out([f"  {paint('user', row)}" for row in rows[1:]])
        self.gap()

    def markdown(self, text: str) -> None:
        """Print a complete Markdown text, such as the answer of a command."""
        paint = self.display.paint
        # Commands show many names as code, which would be loud in its colour.
        quiet = Paint(
            {**paint.colours, "code": paint.colours["tool"]},
            paint.depth,
            background=paint.background,
        )
        stream = MarkdownStream(quiet, self._columns())
        self.gap()
        self.out([*stream.feed(safe(text)), *stream.finish()])
        self.gap()

    def note(self, text: str, role: str = "warn") -> None:
        """Print a message in the colour of a role, wrapped between words."""
        columns, paint = self._columns(), self.display.paint
        for line in safe(text).split("\n"):
            rows = [line] if width(line) <= columns else wrap(line, columns)
            self.out([paint(role, row) for row in rows])

    @property
    def folded_results(self) -> Sequence[FoldedResult]:
        """The results that were not shown completely and not expanded since, the latest last."""
        return self._tools.folded

    def expand_last_result(self) -> bool:
        """Print the latest folded result completely; the next call prints the one before.

        Returns False when there is none.
        """
        if not self._tools.folded:
            return False
        self.gap()
        self.out(self._tools.folded.pop().rows(self.display, self._columns()))
        self.gap()
        return True

    def out(self, lines: list[str]) -> None:
        if lines:
            self._blank = not lines[-1]
            self._sink.lines(lines)

    def gap(self) -> None:
        if not self._blank and not self.display.compact:
            self.out([""])

    @property
    def cost(self) -> str:
        """The cost of this conversation; "" before the first model call and if all were free, as
        those of a local model are."""
        return format_total(self._cost, self._unpriced) if self._cost or self._unpriced else ""

    def live(self, *, waiting: bool = False) -> list[str]:
        """Return the lines of the area: unfinished text, running tools, spinner.

        `waiting` is true while a question to the user is open.
        """
        if waiting:
            return [self.display.paint("accent", WAITING)]
        if self.phase == "idle":
            return []
        columns, now = self._columns(), self._now()
        lines = self._text.pending(12) if self._text else []
        spinner = self._spinner.text(now, self.began, self.phase, self._tokens, columns)
        return [*lines, *self._tools.running(columns, now), spinner]

    def _begin_turn(self) -> None:
        self.phase, self.began, self._tokens = "waiting", self._now(), 0
        self._trouble = ""
        self._spinner = SpinnerLine(self.display.skin, self.display.paint, random.Random())
        if label := self.display.skin.branding.response_label:
            self.out([self.display.paint("accent", safe(label))])

    def _add_reasoning(self, text: str) -> None:
        self.phase = "thinking"
        self._tokens += 1
        self._thinking_since = self._thinking_since or self._now()
        *lines, self._reasoning = safe(self._reasoning + text).split("\n")
        for line in lines if self._shows_thinking else ():
            self.note(line, "reasoning")

    @property
    def _shows_thinking(self) -> bool:
        return self.display.reasoning or self.display.thinking == "full"

    def _end_reasoning(self) -> None:
        if not self._thinking_since:
            return
        rest, seconds = self._reasoning, self._now() - self._thinking_since
        self._reasoning, self._thinking_since = "", 0.0
        if self._shows_thinking:
            if rest:
                self.note(rest, "reasoning")
            self.gap()
        elif self.display.thinking != "hidden":
            self.note(f"∴ thought for {format_duration(seconds)}", "dim")

    def _add_text(self, text: str) -> None:
        self._end_reasoning()
        self.phase = "writing"
        self._tokens += 1
        if not self.display.streaming:
            return
        if self._text is None:
            self.gap()
            self._text = MarkdownStream(self.display.paint, self._columns())
        self._text.width = self._columns()
        self.out(self._text.feed(text))

    def _end_text(self, text: str) -> None:
        self._end_reasoning()
        if self._text is not None:
            self.out(self._text.finish())
            self._text = None
        elif text and not self.display.streaming:
            self.markdown(text)
        self.gap()

    def _show_tool(self, event: ToolStarted | ToolOutput | ToolFinished) -> None:
        self._end_reasoning()
        self.phase = "tools"
        match event:
            case ToolStarted():
                self._tools.started(event)
            case ToolOutput():
                self._tools.output(event)
            case ToolFinished():
                self.out(self._tools.finished(event, self._columns()))

    def _show_other(self, event: Event) -> None:
        paint, columns = self.display.paint, self._columns()
        match event:
            case Retrying() | FellBack():
                # The reply will be requested again; what was printed stays on the screen.
                if self._text is not None:
                    self.out([*self._text.finish(), paint("warn", "— interrupted —")])
                    self._text = None
                self._reasoning, self._thinking_since = "", 0.0
                self.note(trouble_line(event, self._trouble))
                self._trouble = event.error
            case Notice():
                if not event.text.startswith(STEERED):  # it was shown when the user sent it
                    self.note(event.text)
            case ApprovalAsked():
                subject = event.subject
                if event.effect == "write" and subject.startswith("--- "):  # a diff
                    subject = f"{event.tool} {subject.split(chr(10))[1].removeprefix('+++ ')}"
                self._questions[event.call_id] = f"⚠ {visible(subject)}"
            case QuestionAsked():
                self._questions[event.call_id] = f"? {event.question}"
            case ApprovalAnswered():
                asked = self._questions.pop(event.call_id, "⚠")
                answer = paint("strong", APPROVAL_TEXTS.get(event.answer, event.answer))
                self.out([f"{paint('warn', one_line(asked, columns - 30))} → {answer}"])
            case QuestionAnswered():
                asked = self._questions.pop(event.call_id, "?")
                answer = one_line(event.answer, columns) or "no answer"
                self.out([paint("accent", one_line(asked, columns)), f"  {answer}"])
            case _:
                self.out([paint("dim", one_line(line, columns)) for line in progress_lines(event)])

    def _end_turn(self, end: TurnFinished) -> None:
        self._end_reasoning()
        if self._text is not None:
            self.out(self._text.finish())
            self._text = None
        self.out(self._tools.stop_all())
        for line in problem_lines(end, self._trouble):
            self.note(line, "warn" if end.interrupted else "error")
        self.phase, self.took = "idle", self._now() - self.began
        if self.display.cost and end.cost_usd is not None:
            self.note(f"{format_cost(end.cost_usd)}, {format_duration(self.took)}", "dim")
        self.gap()
