"""Shows the events of a conversation: finished lines, the spinner and the status line."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

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
from hermes.tui.tool_view import ToolView
from hermes.util.text import many, visible

SpinnerPhase = Literal["waiting", "thinking", "writing", "tools"]

PHASE_WORDS: Mapping[SpinnerPhase, str] = {"writing": "writing", "tools": "working"}
"""The verb of a phase; other phases use one of the skin."""
FAST, SLOW = 0.1, 0.6
"""Seconds of a frame: of a symbol of one or two columns, and of a wider face or of wings."""
STOP_HINT = "ctrl-c stops"


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


WIDE_COLUMNS, MEDIUM_COLUMNS = 76, 52  #: Columns from which more parts are shown.
CONTEXT_BAR_COLUMNS = 8
CONTEXT_ROLES = ((0.95, "error"), (0.80, "warn"), (0.50, "accent"))
"""Minimum share of the context window, and the role it is painted in."""


class StatusInfo(msgspec.Struct, frozen=True):
    model: str
    share: float | None = None  #: Used share of the context window; None if unknown.
    cache: float | None = None
    """Share of the input read from the cache; None before the first call."""
    cost: float | None = None  #: Dollars of this session; None if a price is unknown.
    seconds: float = 0.0  #: Seconds since the turn began, or the duration of the last turn.
    notes: tuple[str, ...] = ()
    """Further remarks: input mode, background tasks, approvals switched off."""


def status_line(status: StatusInfo, columns: int, paint: Paint) -> str:
    """Return the status line, at most `columns` wide; the last parts are left out first."""
    model = status.model.rpartition("/")[2]
    parts = [paint("strong", cut(model, max(10, columns // 3)))]
    if status.share is not None:
        share = f"{status.share:.0%}"
        role = next((role for least, role in CONTEXT_ROLES if status.share >= least), "ok")
        if columns >= WIDE_COLUMNS:
            full = min(CONTEXT_BAR_COLUMNS, round(status.share * CONTEXT_BAR_COLUMNS))
            share = f"{'█' * full}{'░' * (CONTEXT_BAR_COLUMNS - full)} {share}"
        parts.append(paint(role, share))
    if columns >= MEDIUM_COLUMNS:
        if status.cache is not None:
            parts.append(f"cache {status.cache:.0%}")
        if status.cost is not None:
            parts.append(format_cost(status.cost))
    if columns >= WIDE_COLUMNS and status.seconds:
        parts.append(format_duration(status.seconds))
    parts += [paint("warn", note) for note in status.notes]
    gap = paint("dim", " │ ")
    while len(parts) > 1 and width(gap.join(parts)) > columns:
        parts.pop()
    return gap.join(parts)


def format_cost(dollars: float) -> str:
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars else "$0"


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
        self.used = Usage()  #: Tokens of this conversation.
        self.cost: float | None = 0.0  #: Its dollars; None if a price is unknown.
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
                unknown = self.cost is None or event.cost_usd is None
                self.cost = None if unknown else (self.cost or 0.0) + (event.cost_usd or 0.0)
            case _:
                self._show_other(event)
        self._sink.refresh(at_once=self.phase != before)

    def user_message(self, text: str) -> None:
        paint, symbol = self.display.paint, self.display.skin.branding.prompt_symbol
        first, *rest = safe(text).split("\n")
        self.gap()
        self.out([f"{paint('prompt', symbol)} {paint('user', first)}"])
        self.out([f"  {paint('user', line)}" for line in rest])
        self.gap()

    def markdown(self, text: str) -> None:
        """Print a complete Markdown text, such as the answer of a command."""
        stream = MarkdownStream(self.display.paint, self._columns())
        self.gap()
        self.out([*stream.feed(safe(text)), *stream.finish()])
        self.gap()

    def note(self, text: str, role: str = "warn") -> None:
        """Print a message in the colour of a role, wrapped between words."""
        columns, paint = self._columns(), self.display.paint
        for line in safe(text).split("\n"):
            rows = [line] if width(line) <= columns else wrap(line, columns)
            self.out([paint(role, row) for row in rows])

    def out(self, lines: list[str]) -> None:
        if lines:
            self._blank = not lines[-1]
            self._sink.lines(lines)

    def gap(self) -> None:
        if not self._blank and not self.display.compact:
            self.out([""])

    def live(self) -> list[str]:
        """Return the lines of the area: unfinished text, running tools, spinner."""
        if self.phase == "idle":
            return []
        columns, now = self._columns(), self._now()
        lines = self._text.pending(12) if self._text else []
        spinner = self._spinner.text(now, self.began, self.phase, self._tokens, columns)
        return [*lines, *self._tools.running(columns, now), spinner]

    def _begin_turn(self) -> None:
        self.phase, self.began, self._tokens = "waiting", self._now(), 0
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
                self.note(trouble_line(event))
            case Notice():
                if not event.text.startswith(STEERED):  # it was shown when the user sent it
                    self.note(event.text)
            case ApprovalAsked():
                self._questions[event.call_id] = f"⚠ {visible(event.subject)}"
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
        for line in problem_lines(end):
            self.note(line, "warn" if end.interrupted else "error")
        self.phase, self.took = "idle", self._now() - self.began
        if self.display.cost and end.cost_usd is not None:
            self.note(f"{format_cost(end.cost_usd)}, {format_duration(self.took)}", "dim")
        self.gap()
