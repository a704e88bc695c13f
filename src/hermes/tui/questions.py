"""Questions of the agent to the user: approval, clarification, secrets. One at a time."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.widgets import TextArea

from hermes.core.approval_text import render_approval
from hermes.core.errors import Interrupted
from hermes.core.events import ApprovalAsked, QuestionAsked
from hermes.core.ports import ApprovalAnswer
from hermes.tui.skins import DisplayState
from hermes.tui.text import COLOUR, hanging_rows, safe, width

if TYPE_CHECKING:
    from hermes.tui.terminal_ui import TerminalUI

Kind = Literal["", "approval", "clarify", "secret", "sudo"]
MAX_SUBJECT_ROWS = 12  #: Rows of the subject that are shown; `v` prints all of it.
MAX_BUTTON_CHARS = 24  #: Longer options are shown one per line.
GRACE_SECONDS = 0.5
"""Seconds after a question appeared in which a key belongs to the message being typed."""
ANSWERS = (
    ("o", ApprovalAnswer.ONCE, "once"),
    ("s", ApprovalAnswer.SESSION, "in this session"),
    ("a", ApprovalAnswer.ALWAYS, "always"),
    ("d", ApprovalAnswer.DENY, "deny"),
)
ALIASES = {"y": "o", "n": "d"}


class ApprovalDialog:
    """The steps of an approval: how long, then for which calls, then sometimes a confirmation."""

    def __init__(self, question: ApprovalAsked) -> None:
        self._scopes = question.scopes
        self._chosen: ApprovalAnswer | None = None  #: Waits for its scope or a confirmation.

    @property
    def options(self) -> list[tuple[str, ApprovalAnswer, str]]:
        """The key, answer and label of each option of this step. The last one is the default."""
        deny, chosen = ANSWERS[-1], self._chosen
        if chosen is None:
            long = ("session", "always") if not self._scopes else ()
            return [each for each in ANSWERS if each[1].value not in long]
        if chosen.scope:
            confirmed = ApprovalAnswer(chosen.value, chosen.scope, confirmed=True)
            return [("y", confirmed, "yes, I am sure"), deny]
        return [
            *(
                (str(number), ApprovalAnswer(chosen.value, scope.value), scope.label)
                for number, scope in enumerate(self._scopes, 1)
            ),
            deny,
        ]

    def choose(self, answer: ApprovalAnswer) -> ApprovalAnswer | None:
        """Take an option; return the answer if nothing more has to be chosen."""
        if answer.value in ("once", "deny") or answer.confirmed:
            return answer
        scope = next((each for each in self._scopes if each.value == answer.scope), None)
        if scope is not None and not scope.confirm:
            return answer
        self._chosen = answer
        return None


class Questions:
    """Implements `Approver`, `Clarifier` and the secret reader of skills."""

    def __init__(self, display: DisplayState, ui: "TerminalUI") -> None:
        self._display, self._ui, self._now = display, ui, time.monotonic
        self.kind: Kind = ""
        self._lines: Callable[[int], list[str]] = lambda _columns: []
        """Returns the question in rows of at most so many columns."""
        self._asked = ApprovalAsked("", "", "", "")
        self._dialog = ApprovalDialog(self._asked)
        self._choices: tuple[str, ...] = ()
        self._chosen = 0
        self._shown_at = 0.0
        self._answer: asyncio.Future[Any] | None = None
        self._lock = asyncio.Lock()
        self._control: Any = None
        self.is_deferred = False
        """The question is shown, but the input keeps the focus until the user presses Tab."""
        self._buttons = FormattedTextControl(
            lambda: ANSI(self._text()),
            focusable=True,
            key_bindings=self._approval_keys(),
            get_cursor_position=self._cursor,
        )
        self._typed = self._field(password=False)
        self._hidden = self._field(password=True)
        self.widgets = self._build_widgets()

    async def ask(self, question: ApprovalAsked) -> ApprovalAnswer:
        self._asked, self._dialog = question, ApprovalDialog(question)
        lines = partial(self._approval_lines, question, MAX_SUBJECT_ROWS)
        self._chosen = len(self._dialog.options) - 1
        async with self._open("approval", lines, self._buttons) as answer:
            approval: ApprovalAnswer = await answer
            return approval

    def _approval_lines(self, question: ApprovalAsked, most: int, columns: int) -> list[str]:
        """Return the request in rows of at most `columns`, of the subject at most `most`."""
        paint = self._display.paint
        asked = render_approval(question, columns=columns - 2, rows=most)
        rows, hidden = [paint("strong", row) for row in asked.subject], bool(asked.hidden)
        if question.effect == "write" and question.subject.startswith("--- "):
            # The colours of syntax are loaded with the first edit.
            from hermes.tui.tool_view import question_diff_rows

            diff = question_diff_rows(question.subject, columns - 2, paint, most)
            rows, hidden = diff or (rows, hidden)
        facts = (hanging_rows(paint, "warn", "  ", fact, columns) for fact in asked.facts)
        return [
            *hanging_rows(paint, "warn", "⚠ ", asked.title, columns),
            *(f"  {row}" for row in rows),
            *(row for fact in facts for row in fact),
            *([paint("dim", "  v shows all of it")] if hidden else []),
        ]

    async def clarify(self, question: QuestionAsked) -> str:
        paint = self._display.paint

        def lines(columns: int) -> list[str]:
            asked = safe(question.question).split("\n")
            rows = [hanging_rows(paint, "accent", "? ", each, columns) for each in asked]
            return [row for found in rows for row in found]

        self._choices, self._chosen = question.choices, 0
        self._typed.text = ""
        async with self._open("clarify", lines, self._typed) as answer:
            return str(await answer)

    async def secret(self, name: str, prompt: str, how: str) -> str:
        """Read a value without echo; "" when the user skips it. Raises `Interrupted`."""
        paint = self._display.paint

        def lines(columns: int) -> list[str]:
            asked = f"{safe(prompt)} ({name})"
            rows = hanging_rows(paint, "accent", "? ", asked, columns)
            below = hanging_rows(paint, "dim", "  ", safe(how), columns)
            return [*rows, *below] if how else rows

        self._hidden.text = ""
        kind: Kind = "sudo" if name == "SUDO_PASSWORD" else "secret"
        async with self._open(kind, lines, self._hidden) as answer:
            try:
                return str(await answer).strip()
            finally:
                self._hidden.buffer.reset()

    @asynccontextmanager
    async def _open(
        self, kind: Kind, lines: Callable[[int], list[str]], control: Any
    ) -> AsyncIterator["asyncio.Future[Any]"]:
        async with self._lock:
            self._answer = asyncio.get_running_loop().create_future()
            self.kind, self._lines, self._shown_at = kind, lru_cache(2)(lines), self._now()
            self._control, self.is_deferred = control, bool(self._ui.typed.text)
            if not self.is_deferred:
                self._ui.focus(control)
            try:
                yield self._answer
            finally:
                self.kind, self._answer, self.is_deferred = "", None, False
                self._ui.focus(None)

    @property
    def is_focused(self) -> bool:
        """True while keys go to a question."""
        return bool(self.kind) and not self.is_deferred

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
        lines = list(self._lines(self._ui.columns()))
        if self.is_deferred:
            lines.append(paint("accent", "  Press Tab to answer; your message is kept."))
        elif self.kind == "approval":
            texts = [(f"[{key}] ", safe(words)) for key, _, words in self._dialog.options]
            looks = [("text", " ")] * len(texts)
            looks[self._chosen] = "strong", "▸"
            buttons = [
                hanging_rows(paint, role, f"  {mark}{key}", words, self._ui.columns())
                for (role, mark), (key, words) in zip(looks, texts, strict=True)
            ]
            row = "".join(each[0] for each in buttons)
            long = any(len(rows) > 1 or width(rows[0]) > MAX_BUTTON_CHARS + 3 for rows in buttons)
            fits = not long and width(row) <= self._ui.columns()
            lines += [row] if fits else [each for rows in buttons for each in rows]
        elif self.kind == "clarify":
            for number, choice in enumerate(self._choices):
                mark = paint("accent", "›") if number == self._chosen else " "
                first, *rest = hanging_rows(
                    paint, "text", f"{number + 1}. ", safe(choice), self._ui.columns() - 3
                )
                lines += [f" {mark} {first}", *(f"   {row}" for row in rest)]
            how = "↑ ↓ Enter, or your own words" if self._choices else "Enter sends"
            lines.append(paint("dim", f"  {how}"))
        else:
            lines.append(paint("dim", "   not shown; Enter alone skips it"))
        return "\n".join(lines)

    def _cursor(self) -> Point:
        """Return the place of the marked button, where the cursor of the terminal stands."""
        lines = COLOUR.sub("", self._text()).split("\n")
        rows = (row for row in range(len(lines) - 1, -1, -1) if "▸" in lines[row])
        row = next(rows, len(lines) - 1)
        return Point(max(0, lines[row].find("▸")), row)

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
        keys.add("escape", eager=True)(lambda _event: self._resolve(ApprovalAnswer.DENY))
        keys.add(Keys.Any)(self._press)
        keys.add("enter")(lambda event: self._decide(self._dialog.options[self._chosen][1], event))
        for key, by in (("left", -1), ("up", -1), ("right", 1), ("down", 1)):
            keys.add(key)(lambda _event, by=by: self._step(len(self._dialog.options), by))
        keys.add("v")(lambda _event: self._show_all())
        return keys

    def _show_all(self) -> None:
        most = len(self._asked.subject) + 3  # more rows than it can have
        self._ui.out(self._approval_lines(self._asked, most, self._ui.columns()))

    def _step(self, count: int, by: int) -> None:
        if count:
            self._chosen = (self._chosen + by) % count

    def _press(self, event: KeyPressEvent) -> None:
        answers = {key: answer for key, answer, _ in self._dialog.options}
        answer = answers.get(event.data) or answers.get(ALIASES.get(event.data, ""))
        if answer is None:
            self._defer(event)
        else:
            self._decide(answer, event)

    def _decide(self, answer: ApprovalAnswer, event: KeyPressEvent) -> None:
        if self._now() - self._shown_at < GRACE_SECONDS:
            self._defer(event)
        elif done := self._dialog.choose(answer):
            self._resolve(done)
        else:  # marks the narrowest scope, but never the confirmation
            self._chosen = 0 if not answer.scope else len(self._dialog.options) - 1

    def _defer(self, event: KeyPressEvent) -> None:
        """A key that is not an answer belongs to the message: give the focus back to the input."""
        if event.data.isprintable():
            self.is_deferred = True
            self._ui.focus(None)
            self._ui.typed.insert_text(event.data)
