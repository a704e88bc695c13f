"""Questions of the agent to the user: approval, clarification, secrets. One at a time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.widgets import TextArea

from hermes.core.errors import Interrupted
from hermes.core.events import ApprovalAsked, QuestionAsked
from hermes.core.ports import ApprovalAnswer
from hermes.tui.skins import DisplayState
from hermes.tui.text import safe

if TYPE_CHECKING:
    from hermes.tui.terminal_ui import TerminalUI

Kind = Literal["", "approval", "clarify", "secret", "sudo"]
MAX_SUBJECT_LINES = 12  #: Lines of the subject that are shown; `v` prints all of it.
GRACE_SECONDS = 0.5
"""Seconds after a question appeared in which a key belongs to the message being typed."""
ANSWERS = (
    ("o", ApprovalAnswer.ONCE, "once"),
    ("s", ApprovalAnswer.SESSION, "in this session"),
    ("a", ApprovalAnswer.ALWAYS, "always"),
    ("d", ApprovalAnswer.DENY, "deny"),
)


class Questions:
    """Implements `Approver`, `Clarifier` and the secret reader of skills."""

    def __init__(self, display: DisplayState, ui: "TerminalUI") -> None:
        self._display, self._ui, self._now = display, ui, time.monotonic
        self.kind: Kind = ""
        self._lines: list[str] = []
        self._full_subject = ""
        self._choices: tuple[str, ...] = ()
        self._chosen = 0
        self._shown_at = 0.0
        self._answer: asyncio.Future[Any] | None = None
        self._lock = asyncio.Lock()
        self._control: Any = None
        self.is_deferred = False
        """The question is shown, but the input keeps the focus until the user presses Tab."""
        self._buttons = FormattedTextControl(
            lambda: ANSI(self._text()), focusable=True, key_bindings=self._approval_keys()
        )
        self._typed = self._field(password=False)
        self._hidden = self._field(password=True)
        self.widgets = self._build_widgets()

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        paint = self._display.paint
        subject = safe(question.subject).split("\n")
        more = len(subject) - MAX_SUBJECT_LINES
        lines = [paint("warn", f"⚠ {question.tool}: {safe(question.reason)}")]
        lines += [f"  {paint('strong', line)}" for line in subject[:MAX_SUBJECT_LINES]]
        lines += [paint("dim", f"  … {more} more lines; v shows all")] if more > 0 else []
        self._full_subject, self._chosen = question.subject, len(ANSWERS) - 1
        async with self._open("approval", lines, self._buttons) as answer:
            approval: ApprovalAnswer = await answer
            return approval

    async def clarify(self, question: QuestionAsked) -> str:
        paint = self._display.paint
        lines = [paint("accent", f"? {line}") for line in safe(question.question).split("\n")]
        self._choices, self._chosen = question.choices, 0
        self._typed.text = ""
        async with self._open("clarify", lines, self._typed) as answer:
            return str(await answer)

    async def secret(self, name: str, prompt: str, how: str) -> str:
        """Read a value without echo; "" when the user skips it. Raises `Interrupted`."""
        paint = self._display.paint
        lines = [paint("accent", f"🔑 {safe(prompt)} ({name})")]
        lines += [paint("dim", f"   {safe(how)}")] if how else []
        self._hidden.text = ""
        kind: Kind = "sudo" if name == "SUDO_PASSWORD" else "secret"
        async with self._open(kind, lines, self._hidden) as answer:
            try:
                return str(await answer).strip()
            finally:
                self._hidden.buffer.reset()

    @asynccontextmanager
    async def _open(
        self, kind: Kind, lines: list[str], control: Any
    ) -> AsyncIterator["asyncio.Future[Any]"]:
        async with self._lock:
            self._answer = asyncio.get_running_loop().create_future()
            self.kind, self._lines, self._shown_at = kind, lines, self._now()
            self._control, self.is_deferred = control, bool(self._ui.typed.text)
            if not self.is_deferred:
                self._ui.focus(control)
            try:
                yield self._answer
            finally:
                self.kind, self._answer, self.is_deferred = "", None, False
                self._ui.focus(None)

    def resume(self) -> None:
        if self.is_deferred:
            self.is_deferred, self._shown_at = False, self._now() - GRACE_SECONDS
            self._ui.focus(self._control)

    def decline(self) -> None:
        """Answer with deny or ""; a question for a secret raises `Interrupted` instead."""
        if self.kind not in ("secret", "sudo"):
            self._resolve(ApprovalAnswer.DENY if self.kind == "approval" else "")
        elif self._answer is not None and not self._answer.done():
            self._answer.set_exception(Interrupted())

    def _resolve(self, answer: Any) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _build_widgets(self) -> dict[str, ConditionalContainer]:
        head = Window(FormattedTextControl(lambda: ANSI(self._text())), wrap_lines=True)
        buttons = Window(self._buttons, wrap_lines=True, dont_extend_height=True)
        hidden = HSplit([head, self._hidden])
        clarify = HSplit([head, self._typed])
        asked: dict[str, AnyContainer]
        asked = {"approval": buttons, "clarify": clarify, "secret": hidden, "sudo": hidden}

        def shown(kind: str, body: AnyContainer) -> ConditionalContainer:
            return ConditionalContainer(body, Condition(lambda: self.kind == kind))

        return {f"{kind}_widget": shown(kind, body) for kind, body in asked.items()}

    def _text(self) -> str:
        paint = self._display.paint
        lines = list(self._lines)
        if self.is_deferred:
            lines.append(paint("accent", "  Press Tab to answer; your message is kept."))
        elif self.kind == "approval":
            texts = [f"[{key}] {words}" for key, _, words in ANSWERS]
            buttons = [f" {text}" for text in texts]
            buttons[self._chosen] = paint("strong", f"▸{texts[self._chosen]}")
            lines.append("  " + "  ".join(buttons))
        elif self.kind == "clarify":
            for number, choice in enumerate(self._choices):
                mark = paint("accent", "›") if number == self._chosen else " "
                lines.append(f" {mark} {number + 1}. {safe(choice)}")
            how = "↑ ↓ Enter, or your own words" if self._choices else "Enter sends"
            lines.append(paint("dim", f"  {how}"))
        else:
            lines.append(paint("dim", "   not shown; Enter alone skips it"))
        return "\n".join(lines)

    def _field(self, *, password: bool) -> TextArea:
        field = TextArea(
            multiline=False, password=password, height=1, prompt="  › ", focus_on_click=False
        )
        field.control.key_bindings = keys = KeyBindings()
        keys.add("enter")(lambda _event: self._resolve(self._answer_text(field.text)))
        keys.add("escape", eager=True)(lambda _event: self._resolve(""))
        keys.add("up")(lambda _event: self._step(len(self._choices), -1))
        keys.add("down")(lambda _event: self._step(len(self._choices), 1))
        return field

    def _answer_text(self, typed: str) -> str:
        """Return the typed answer, the choice with the typed number, or the marked choice."""
        if self.kind != "clarify" or not self._choices:
            return typed
        if not typed.strip():
            return self._choices[self._chosen]
        number = int(typed) if typed.strip().isdecimal() else 0
        return self._choices[number - 1] if 0 < number <= len(self._choices) else typed

    def _approval_keys(self) -> KeyBindings:
        keys = KeyBindings()
        for key, answer, _words in ANSWERS:
            keys.add(key)(lambda event, answer=answer: self._decide(answer, event))
        keys.add("y")(lambda event: self._decide(ApprovalAnswer.ONCE, event))
        keys.add("n")(lambda event: self._decide(ApprovalAnswer.DENY, event))
        keys.add("escape", eager=True)(lambda _event: self._resolve(ApprovalAnswer.DENY))
        keys.add(Keys.Any)(self._defer)
        keys.add("enter")(lambda event: self._decide(ANSWERS[self._chosen][1], event))
        keys.add("left")(lambda _event: self._step(len(ANSWERS), -1))
        keys.add("right")(lambda _event: self._step(len(ANSWERS), 1))
        keys.add("v")(lambda _event: self._ui.show_text(self._full_subject))
        return keys

    def _step(self, count: int, by: int) -> None:
        if count:
            self._chosen = (self._chosen + by) % count

    def _decide(self, answer: ApprovalAnswer, event: KeyPressEvent) -> None:
        if self._now() - self._shown_at >= GRACE_SECONDS:
            self._resolve(answer)
        else:
            self._defer(event)

    def _defer(self, event: KeyPressEvent) -> None:
        """A key that is not an answer belongs to the message: give the focus back to the input."""
        if event.data.isprintable():
            self.is_deferred = True
            self._ui.focus(None)
            self._ui.typed.insert_text(event.data)
