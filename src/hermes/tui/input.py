"""The input field: keys, keyboard protocols, cursor steps, pastes, attachments and the editor."""

import asyncio
import contextlib
import re
import signal
import tempfile
from collections.abc import Callable, Coroutine
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from prompt_toolkit.application import get_app, in_terminal
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, has_focus, has_selection
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import (
    KeyBindings,
    KeyBindingsBase,
    KeyPressEvent,
    merge_key_bindings,
)
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import (
    Processor,
    TabsProcessor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.widgets import TextArea
from wcwidth import grapheme_boundary_before, iter_graphemes

from hermes.core.errors import HermesError, UsageError
from hermes.core.messages import Image, Text, User
from hermes.tui.area import FrameOutput
from hermes.tui.clipboard import ImageAttachments, clipboard_text, dropped_images
from hermes.tui.completion import InputCompleter
from hermes.tui.history import HistorySearch, HistorySuggest, InputHistory
from hermes.tui.skins import DisplayState
from hermes.tui.text import TAB, cut, width
from hermes.util.text import human_size, many, plain

# Terminals disagree on the width of some characters: emoji of several parts, flags, keycaps. A
# wrong guess would shift everything after them. Joined emoji are shown whole, in two columns (see
# `FrameOutput.placeholder`); of others the input field shows the parts, which have the same width
# everywhere. The message keeps what was typed.

_FLAG, _LETTER = 0x1F1E6, ord("A")
_HIDDEN = re.compile(
    "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"  # parts of emoji
    "\u202a-\u202e\u2066-\u2069"  # direction marks, which also affect the text after them
    "\u200b\u200e\u200f\u2060\ufeff\u00ad]"
)


class GlyphProcessor(Processor):
    """Shows each character so that its width is known, wraps between words, and shows as much of a
    suggestion as fits into the row."""

    def __init__(self, margin: Callable[[], int]) -> None:
        self._margin = margin  #: Returns the columns of the prompt.

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        given = transformation_input
        fragments, row = given.fragments, max(1, given.width - self._margin())
        suggestion: StyleAndTextTuples = []
        if fragments and "auto-suggestion" in fragments[-1][0] and fragments[-1][1]:
            suggestion, fragments = fragments[-1:], fragments[:-1]
        text = "".join(text for _, text, *_ in fragments)
        if text.isascii() and len(text) <= row:
            return Transformation([*fragments, *_cut_suggestion(suggestion, row, len(text))])
        parts = _visible_parts(text)
        used = _wrap_parts(parts, row) if "\t" not in text else sum(map(width, parts))
        styles = [style for style, *_ in explode_text_fragments(fragments)]
        positions = list(accumulate(map(len, parts), initial=0))
        shown: StyleAndTextTuples = [
            (style, part) for style, part in zip(styles, parts, strict=True) if part
        ]
        return Transformation(
            [*shown, *_cut_suggestion(suggestion, row, used)],
            lambda at: positions[min(at, len(positions) - 1)] + max(0, at - len(positions) + 1),
            lambda at: next((number for number, each in enumerate(positions) if each >= at), at),
        )


def _cut_suggestion(suggestion: StyleAndTextTuples, row: int, used: int) -> StyleAndTextTuples:
    return [(style, cut(text, row - used % row - 1)) for style, text, *_ in suggestion]


def _visible_parts(text: str) -> list[str]:
    """Return what is shown for each character of a line."""
    if text.isascii():
        return list(text)
    output = get_app().output
    parts: list[str] = []
    for cluster in iter_graphemes(text):
        if "\u200d" in cluster and cluster[0] >= "\u2190" and isinstance(output, FrameOutput):
            parts += [output.placeholder(cluster), *[""] * (len(cluster) - 1)]
            continue
        for sign in cluster:
            parts.append(_visible_part(sign, text[len(parts) - 1 : len(parts)]))
    return parts


def _wrap_parts(parts: list[str], row: int) -> int:
    """Fill up rows before words that would be broken; return the columns that are used.

    A space that would begin a row is hidden.
    """
    column = used = at = 0
    while at < len(parts):
        if parts[at] == " ":
            if at and not column:
                parts[at] = ""
            else:
                column, used = (column + 1) % row, used + 1
            at += 1
            continue
        end = next((each for each in range(at, len(parts)) if parts[each] == " "), len(parts))
        columns = [width(part) for part in parts[at:end]]
        if column and column + sum(columns) > row >= sum(columns):
            parts[at - 1] += " " * (row - column)
            used, column = used + row - column, 0
        for each in columns:
            if column + each > row:  # a wide character does not fit
                used, column = used + row - column, 0
            used, column = used + each, (column + each) % row
        at = end
    return used


def _visible_part(sign: str, before: str) -> str:
    if sign.isascii() or sign < "\u00ad":
        return sign
    if _FLAG <= ord(sign) < _FLAG + 26:
        return chr(ord(sign) - _FLAG + _LETTER)
    if sign == "\u200d":  # a joiner, hidden after an emoji
        return "" if before >= "\u2190" or _HIDDEN.match(before) else sign
    return "" if _HIDDEN.match(sign) else sign


MAX_PASTE_LINES, MAX_PASTE_CHARS = 5, 1_000  #: Longer pastes are collapsed.
MAX_PASTE_BYTES = 10_000_000
MAX_HISTORY_CHARS = 20_000  #: Pastes of up to so many characters are written to the history.

_PLACEHOLDER = re.compile(r"\[pasted #\d+: ([\d,]+ (?:lines?|characters?))\]")


class PasteStore:
    """Long pastes of a conversation: the input shows a placeholder, the message has the text.

    Numbers are never reused, so a message from the history can be sent again.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """Return the text for the input: the paste, or a placeholder if it is long.

        Raises `UsageError` for a paste that is too large.
        """
        if len(text) > MAX_PASTE_BYTES or len(text.encode("utf-8", "replace")) > MAX_PASTE_BYTES:
            raise UsageError(
                f"the paste has more than {human_size(MAX_PASTE_BYTES)}",
                hint="save it to a file and name the file",
            )
        text = plain(text)
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MAX_PASTE_LINES and len(text) <= MAX_PASTE_CHARS:
            return text
        size = many(lines, "line") if lines > 1 else many(len(text), "character")
        placeholder = f"[pasted #{len(self._texts) + 1}: {size}]"
        self._texts[placeholder] = text
        return placeholder

    def expand(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def restore_placeholders(self, text: str, before: str) -> str:
        """Replace unchanged pastes in `text` by the placeholders that `before` has for them."""
        for start, end in self.spans(before):
            pasted = self._texts[before[start:end]]
            text = text.replace(pasted, before[start:end], 1)
        return text

    def for_history(self, text: str) -> str:
        """Return `text` for the history file: with the pastes, unless they are very long."""

        def kept(found: re.Match[str]) -> str:
            pasted = self._texts.get(found[0])
            if pasted is None:
                return found[0]
            return pasted if len(pasted) <= MAX_HISTORY_CHARS else f"[pasted: {found[1]}]"

        return _PLACEHOLDER.sub(kept, text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        if not self._texts or "[pasted #" not in text:
            return []
        return [each.span() for each in _PLACEHOLDER.finditer(text) if each[0] in self._texts]


MAX_GRAPHEME_CHARS = 64  #: Characters that are searched for the end of a grapheme.


class CursorSteps:
    """Units of cursor movement and deletion: a placeholder, or a grapheme."""

    def __init__(self, pastes: PasteStore) -> None:
        self._pastes = pastes

    def before(self, text: str, at: int) -> int:
        """Return the start of the unit before `at`."""
        if at <= 0:
            return 0
        for start, end in self._pastes.spans(text):
            if start < at <= end:
                return start
        start = max(0, at - MAX_GRAPHEME_CHARS)
        return start + int(grapheme_boundary_before(text[start:at], at - start))

    def after(self, text: str, at: int) -> int:
        """Return the end of the unit that begins at `at`."""
        if at >= len(text):
            return len(text)
        for start, end in self._pastes.spans(text):
            if start <= at < end:
                return end
        return at + len(next(iter(iter_graphemes(text[at : at + MAX_GRAPHEME_CHARS]))))

    def snap(self, text: str, at: int, came_from: int) -> int:
        """Return `at`, or the edge of the unit around it in the direction of the movement."""
        back = came_from > at
        for start, end in self._pastes.spans(text):
            if start < at < end:
                return start if back else end
        if at <= 0 or at >= len(text) or text[at].isascii():
            return at
        line = text.rfind("\n", 0, at) + 1
        start = max(line, at - MAX_GRAPHEME_CHARS)
        begun = start + int(grapheme_boundary_before(text[start : at + 1], at + 1 - start))
        if begun == at:
            return at
        return begun if back else self.after(text, begun)

    def widen(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Return the range, widened to complete placeholders."""
        for first, last in self._pastes.spans(text):
            if first < end and start < last:
                start, end = min(start, first), max(end, last)
        return start, end


def _snap_cursor(buffer: Buffer, steps: CursorSteps) -> None:
    """Keep the cursor out of graphemes and placeholders, whichever key moves it."""
    last = buffer.cursor_position

    def changed(_: Buffer) -> None:
        nonlocal last
        last = buffer.cursor_position  # an edit puts the cursor at a valid position

    def moved(_: Buffer) -> None:
        nonlocal last
        at, came_from = buffer.cursor_position, last
        last = at
        if at != came_from:
            buffer.cursor_position = steps.snap(buffer.text, at, came_from)

    buffer.on_text_changed += changed
    buffer.on_cursor_position_changed += moved


class UserInput(msgspec.Struct, frozen=True):
    text: str  #: The text as shown, with placeholders for long pastes.
    images: tuple[Image, ...] = ()
    expanded: str = ""  #: The text with the pastes, if it has placeholders.
    shown: bool = False  #: The text is on the screen already.
    replaces: int | None = None
    """Position of the earlier question before which the conversation continues with this one."""

    @property
    def shell_command(self) -> str:
        """The command that the user runs with `!`, or ""."""
        return self.text[1:].strip() if self.text.startswith("!") and not self.images else ""

    @property
    def is_command(self) -> bool:
        return self.text.startswith("/") and not self.images

    @property
    def message(self) -> User:
        return User((Text(self.expanded or self.text), *self.images))


class InputField:
    """The input field and its parts, which its keys use. The prompt follows the current skin."""

    def __init__(
        self,
        display: DisplayState,
        completer: InputCompleter,
        images: ImageAttachments,
        *,
        history: Path,
        redact: Callable[[str], str],
        send: Callable[[str], object],
        tell: Callable[[str], object],
        repaint: Callable[[], object],
    ) -> None:
        """`history` is the history file; `redact` removes secrets from it.

        `send` is called with the typed text, in which pastes are placeholders (see
        `PasteStore.expand`); the attached images are in `images`. `tell` shows a message to the
        user, `repaint` clears the screen and paints the area.
        """
        self._display, self.completer, self.images = display, completer, images
        self.send, self.tell, self.repaint = send, tell, repaint
        self.pastes = PasteStore()
        self.steps = CursorSteps(self.pastes)
        entries = InputHistory(history, lambda text: redact(self.pastes.for_history(text)))
        self.search = HistorySearch(entries)
        tabs = TabsProcessor(tabstop=TAB, char1=" ", char2=" ")
        self.area = TextArea(
            multiline=True,
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(min=1, max=max(1, get_app().output.get_size().rows // 3)),
            get_line_prefix=self._before_row,
            completer=completer,
            complete_while_typing=Condition(lambda: completer.wants(self.area.document)),
            auto_suggest=HistorySuggest(entries),
            history=entries,
            input_processors=[GlyphProcessor(self._margin), tabs],
        )
        completer.offers.on_update = self._refresh_menu
        _snap_cursor(self.area.buffer, self.steps)

    def _margin(self) -> int:
        return width(self._display.skin.branding.prompt_symbol) + 1

    def _before_row(self, line: int, wrapped: int) -> AnyFormattedText:
        paint = self._display.paint
        if line or wrapped:
            return " " * self._margin()
        if self.search.active:
            half = get_app().output.get_size().columns // 2
            return ANSI(paint("accent", f"{cut(self.search.prompt, half)} "))
        return ANSI(paint("prompt", f"{self._display.skin.branding.prompt_symbol} "))

    def _refresh_menu(self) -> None:
        """Reopen the menu with offers that came late, unless the user has chosen already."""
        buffer, state = self.area.buffer, self.area.buffer.complete_state
        chosen = state is not None and state.complete_index is not None
        is_current = get_app().current_buffer is buffer
        if not chosen and is_current and self.completer.wants(buffer.document):
            buffer.complete_state = None
            buffer.start_completion()

    def show_error(self, error: HermesError) -> None:
        self.tell(f"{error}: {error.hint}" if error.hint else str(error))


# Terminals send the same bytes for Enter and Shift-Enter, and for Escape and the beginning of other
# keys, unless they are asked for the keyboard protocol of kitty or for modifyOtherKeys of xterm.

KEYBOARD_ON, KEYBOARD_OFF = "\x1b[>1u\x1b[>4;1m\x1b[0m", "\x1b[<u\x1b[>4m\x1b[0m"
_EXTENDED_KEY = re.compile(r"\x1b\[(?:27;(\d+);(\d+)~|(\d+)(?:;(\d+))?u|(\d+);(\d{2,})([A-H~]))")
_UNFINISHED_KEY = re.compile(r"\x1b(\[[\d;]*)?$")
_SHIFT, _ALT, _CTRL, _LOCKS = 1, 2, 4, 64 | 128
_PRIVATE_KEYS = {
    **{57399 + number: str(number) for number in range(10)},
    **dict(zip(range(57409, 57416), "./*-+\r=", strict=True)),
    57417: "\x1b[D", 57418: "\x1b[C", 57419: "\x1b[A", 57420: "\x1b[B", 57421: "\x1b[5~",
    57422: "\x1b[6~", 57423: "\x1b[H", 57424: "\x1b[F", 57425: "\x1b[2~", 57426: "\x1b[3~",
}  # fmt: skip
"""Keys of the number pad in the protocol of kitty."""
_CTRL_SIGNS = {" ": "\0", "2": "\0", "@": "\0", "/": "\x1f", "-": "\x1f", "6": "\x1e"}


def legacy_keys(data: str) -> str:
    """Replace the sequences of both protocols by those that every terminal sends.

    Enter with Shift or Ctrl becomes Ctrl-J, which begins a new line.
    """
    return _EXTENDED_KEY.sub(_legacy_key, data) if "\x1b[" in data else data


def _legacy_key(found: re.Match[str]) -> str:
    xterm_modifiers, xterm_key, key, modifiers, first, held, final = found.groups()
    if final:  # an arrow or another function key, with the state of the locks
        held_keys = (int(held) - 1) & ~_LOCKS
        if held_keys:
            return f"\x1b[{first};{held_keys + 1}{final}"
        return f"\x1b[{first}~" if final == "~" else f"\x1b[{final}"
    code = int(xterm_key or key)
    mask = (int(xterm_modifiers or modifiers or 1) - 1) & ~_LOCKS
    alt = "\x1b" if mask & _ALT else ""
    if code in (13, 57414):
        return f"{alt}\r" if alt or not mask & (_SHIFT | _CTRL) else "\n"
    if code == 9 and mask & _SHIFT:
        return "\x1b[Z"
    if code == 127:
        return "\x17" if mask & _CTRL else f"{alt}\x7f"
    if code in _PRIVATE_KEYS or 57344 <= code <= 63743:  # others are modifiers and media keys
        return _PRIVATE_KEYS.get(code, "")
    sign = chr(code) if code < 0x110000 else ""
    if mask & _SHIFT and len(sign.upper()) == 1:
        sign = sign.upper()
    if mask & _CTRL:
        is_control = len(sign) == 1 and "@" <= sign.upper() <= "_"
        sign = _CTRL_SIGNS.get(sign) or (chr(ord(sign.upper()) & 0x1F) if is_control else sign)
    return alt + sign


PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"


def read_keys(terminal: Input) -> None:
    """Use `KeyParser` for this input, if it is a VT100 terminal."""
    if isinstance(terminal, Vt100Input):
        terminal.vt100_parser = KeyParser(terminal.vt100_parser.feed_key_callback)


class KeyParser(Vt100Parser):
    """Understands the keyboard protocols, and reads a bracketed paste in linear time.

    prompt_toolkit searches everything received so far with each new piece, so that ten megabytes
    would take a minute.
    """

    def reset(self, request: bool = False) -> None:
        super().reset(request)
        self._pieces: list[str] = []
        self._tail = ""  #: The end of the received text, where the end mark may have begun.
        self._begun = ""  #: The beginning of a sequence of a keyboard protocol.

    def feed(self, data: str) -> None:
        if not self._in_bracketed_paste:
            keys, mark, pasted = (self._begun + data).partition(PASTE_BEGIN)
            self._begun = ""
            if not mark and (unfinished := _UNFINISHED_KEY.search(keys)):
                keys, self._begun = keys[: unfinished.start()], unfinished[0]
            super().feed(legacy_keys(keys) + mark)
            if pasted:
                self.feed(pasted)
            return
        self._pieces.append(data)
        tail = self._tail + data
        end = tail.find(PASTE_END)
        if end < 0:
            self._tail = tail[1 - len(PASTE_END) :]
            return
        whole = "".join(self._pieces)
        end += len(whole) - len(tail)
        self._in_bracketed_paste = False
        self._pieces, self._tail = [], ""
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, whole[:end]))
        self.feed(whole[end + len(PASTE_END) :])

    def flush(self) -> None:
        if self._begun:
            begun, self._begun = self._begun, ""
            super().feed(begun)
        super().flush()


async def edit_in_editor(text: str) -> str:
    """Open `text` in the user's editor and return the result. Raises `HermesError`.

    The area is hidden while the editor uses the terminal.
    """
    from hermes.config.edit import editor_command  # loads the YAML editor, which is slow

    command = editor_command()
    # A folder of its own, so that backup files of the editor are removed with it.
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        file = Path(folder, "message.md")
        file.touch(mode=0o600)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        async with in_terminal():
            code = await _run_editor([*command, str(file)])
        if code:
            raise HermesError(f"{command[0]} ended with code {code}; the message is unchanged")
        try:
            return file.read_bytes().decode("utf-8", "replace").removesuffix("\n")
        except OSError as error:
            raise HermesError(f"the message cannot be read: {error.strerror}") from error


async def _run_editor(command: list[str]) -> int:
    # The terminal sends Ctrl-C to the editor too, which handles it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    process = None
    try:
        process = await asyncio.create_subprocess_exec(*command)
        return await process.wait()
    except OSError as error:
        raise UsageError(f"cannot start {command[0]}: {error.strerror}") from error
    finally:
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
        signal.signal(signal.SIGINT, before)


def insert_paste(field: InputField, text: str) -> None:
    """Insert a pasted text, or attach the images if it consists of paths of images."""
    if paths := dropped_images(text):
        for path in paths:
            try:
                field.images.add_file(path)
            except UsageError as error:
                field.show_error(error)
                field.area.buffer.insert_text(f"{path} ", fire_event=False)
        return
    try:
        placed = field.pastes.collapse(text)
    except UsageError as error:
        field.show_error(error)
    else:
        field.area.buffer.insert_text(placed, fire_event=False)


async def attach_from_clipboard(field: InputField) -> None:
    await field.images.paste()
    get_app().invalidate()


async def paste_from_clipboard(field: InputField) -> None:
    """Paste the text in the clipboard, or attach the image in it."""
    if text := await clipboard_text():
        insert_paste(field, text)
    else:
        await attach_from_clipboard(field)


async def edit_message(field: InputField) -> None:
    before = field.area.text
    text = plain(await edit_in_editor(field.pastes.expand(before)))
    text = field.pastes.restore_placeholders(text, before)
    field.area.buffer.document = Document(text, len(text))


def run_in_background(field: InputField, work: Coroutine[Any, Any, None]) -> None:

    async def report_failure() -> None:
        try:
            await work
        except HermesError as error:
            field.show_error(error)

    get_app().create_background_task(report_failure())


def input_keys(field: InputField) -> KeyBindingsBase:
    groups = (_send_keys, _move_keys, _delete_keys, _attach_keys, _search_keys)
    return merge_key_bindings([group(field) for group in groups])


def _send_keys(field: InputField) -> KeyBindings:
    keys, typing = KeyBindings(), has_focus(field.area)
    keys.add("enter", filter=typing)(lambda event: _on_enter(event.current_buffer, field))
    keys.add("escape", filter=typing & has_completions)(
        lambda event: event.current_buffer.cancel_completion()
    )
    keys.add("c-l", filter=typing)(lambda _event: field.repaint())

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n", fire_event=False)

    @keys.add("tab", filter=typing)
    def _complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is None or not state.completions:
            event.app.create_background_task(_open_menu(buffer, field))
            return
        if state.current_completion is None:
            buffer.go_to_completion(0)
        _accept_completion(buffer, field)

    return keys


def _on_enter(buffer: Buffer, field: InputField) -> None:
    if buffer.complete_state and buffer.complete_state.current_completion:
        _accept_completion(buffer, field)
    elif buffer.text.endswith("\\") and buffer.document.is_cursor_at_the_end:
        buffer.delete_before_cursor()
        buffer.insert_text("\n", fire_event=False)
    elif buffer.text.strip() or len(field.images):
        text = buffer.text
        buffer.append_to_history()
        buffer.reset()
        field.send(text)


async def _open_menu(buffer: Buffer, field: InputField) -> None:
    """Open the completion menu; a single completion is accepted at once."""
    document = buffer.document
    asked = CompleteEvent(completion_requested=True)
    found = [each async for each in field.completer.get_completions_async(document, asked)]
    if buffer.document != document:
        return
    if len(found) == 1:
        buffer.apply_completion(found[0])
        _accept_completion(buffer, field)
    elif found:
        buffer.complete_state = CompletionState(document, found)
        buffer.on_completions_changed.fire()


def _accept_completion(buffer: Buffer, field: InputField) -> None:
    """Accept the chosen completion, and complete what follows a folder or command."""
    buffer.complete_state = None
    before = buffer.document.text_before_cursor
    if before.endswith((" ", "/")) and field.completer.wants(buffer.document):
        buffer.start_completion()


def _move_keys(field: InputField) -> KeyBindings:
    keys, typing, steps = KeyBindings(), has_focus(field.area), field.steps

    @keys.add("left", filter=typing & ~has_selection)
    def _left(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.cursor_position = steps.before(buffer.text, buffer.cursor_position)

    @keys.add("right", filter=typing & ~has_selection)
    @keys.add("c-f", filter=typing & ~has_selection)
    def _right(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.suggestion and buffer.document.is_cursor_at_the_end:
            buffer.insert_text(buffer.suggestion.text)
        else:
            buffer.cursor_position = steps.after(buffer.text, buffer.cursor_position)

    return keys


def _delete_keys(field: InputField) -> KeyBindings:
    keys, steps = KeyBindings(), field.steps
    typing = has_focus(field.area) & ~has_selection

    @keys.add("backspace", filter=typing)
    def _before(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if not buffer.text and len(field.images):
            field.images.remove(len(field.images))
        start = steps.before(buffer.text, buffer.cursor_position)
        buffer.delete_before_cursor(buffer.cursor_position - start)
        if field.completer.wants(buffer.document):
            buffer.start_completion()

    @keys.add("delete", filter=typing)
    def _after(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.delete(steps.after(buffer.text, buffer.cursor_position) - buffer.cursor_position)

    def word(command: str, *combinations: tuple[str, ...], back: bool, blanks: bool) -> None:
        """Delete a word as the readline command does, but never a part of a placeholder."""
        named = get_by_name(command)

        def delete(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            document, at = buffer.document, buffer.cursor_position
            if back:
                start = at + (document.find_start_of_previous_word(WORD=blanks) or -at)
                span = (start, at)
            else:
                span = (at, at + (document.find_next_word_ending() or 0))
            wide = steps.widen(buffer.text, *span)
            if wide == span:
                named.call(event)
                return
            buffer.cursor_position = wide[1]
            event.app.clipboard.set_text(buffer.delete_before_cursor(wide[1] - wide[0]))

        for combination in combinations:
            keys.add(*combination, filter=typing)(delete)

    word("unix-word-rubout", ("c-w",), back=True, blanks=True)
    word("backward-kill-word", ("escape", "backspace"), back=True, blanks=False)
    word("kill-word", ("escape", "d"), ("c-delete",), back=False, blanks=False)
    return keys


def _attach_keys(field: InputField) -> KeyBindings:
    keys, typing = KeyBindings(), has_focus(field.area)
    keys.add(Keys.BracketedPaste, filter=typing)(lambda event: insert_paste(field, event.data))

    def background(work: Callable[[InputField], Coroutine[Any, Any, None]], *keys_: str) -> None:
        keys.add(*keys_, filter=typing)(lambda _event: run_in_background(field, work(field)))

    background(attach_from_clipboard, "escape", "v")
    background(paste_from_clipboard, "c-v")
    background(edit_message, "c-x", "c-e")
    return keys


def _search_keys(field: InputField) -> KeyBindings:
    keys, search, typing = KeyBindings(), field.search, has_focus(field.area)
    searching = typing & Condition(lambda: search.active)
    keys.add("c-r", filter=typing & ~searching)(lambda event: search.begin(event.current_buffer))
    keys.add("c-r", filter=searching)(lambda _event: search.older())
    keys.add("c-s", filter=searching)(lambda _event: search.newer())
    keys.add(Keys.Any, filter=searching)(lambda event: search.type(event.data))
    keys.add("backspace", filter=searching)(lambda _event: search.shorten())
    for key in ("enter", "tab", "escape"):
        keys.add(key, filter=searching)(lambda _event: search.take())
    keys.add("c-g", filter=searching)(lambda _event: search.cancel())
    return keys
