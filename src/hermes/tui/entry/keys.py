"""The keys of the input. Those that stop, leave, suspend and speak belong to the conversation."""

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.filters import Condition, has_completions, has_focus, has_selection
from prompt_toolkit.key_binding import (
    KeyBindings,
    KeyBindingsBase,
    KeyPressEvent,
    merge_key_bindings,
)
from prompt_toolkit.key_binding.bindings.named_commands import get_by_name
from prompt_toolkit.keys import Keys

from hermes.tui.entry import attaching
from hermes.tui.entry.parts import Entry


def input_keys(entry: Entry) -> KeyBindingsBase:
    """They work while the input has the keyboard."""
    return merge_key_bindings(
        [_sending(entry), _moving(entry), _deleting(entry), _attaching(entry), _searching(entry)]
    )


def _sending(entry: Entry) -> KeyBindings:
    keys, typing = KeyBindings(), has_focus(entry.area)

    @keys.add("enter", filter=typing)
    def _enter(event: KeyPressEvent) -> None:
        _send_or_go_on(event.current_buffer, entry)

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n", fire_event=False)

    @keys.add("tab", filter=typing)
    def _complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is None or not state.completions:
            event.app.create_background_task(_offer(buffer, entry))
            return
        if state.current_completion is None:
            buffer.go_to_completion(0)
        _accept(buffer, entry)

    @keys.add("escape", filter=typing & has_completions)
    def _close(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @keys.add("c-l", filter=typing)
    def _repaint(_event: KeyPressEvent) -> None:
        entry.repaint()

    return keys


def _send_or_go_on(buffer: Buffer, entry: Entry) -> None:
    if buffer.complete_state and buffer.complete_state.current_completion:
        _accept(buffer, entry)
    elif buffer.text.endswith("\\") and buffer.document.is_cursor_at_the_end:
        buffer.delete_before_cursor()
        buffer.insert_text("\n", fire_event=False)
    elif buffer.text.strip() or len(entry.images):
        text = buffer.text
        buffer.append_to_history()
        buffer.reset()
        entry.send(text)


async def _offer(buffer: Buffer, entry: Entry) -> None:
    """Show the menu; what is alone in it is taken."""
    document = buffer.document
    asked = CompleteEvent(completion_requested=True)
    found = [each async for each in entry.completer.get_completions_async(document, asked)]
    if buffer.document != document:
        return
    if len(found) == 1:
        buffer.apply_completion(found[0])
        _accept(buffer, entry)
    elif found:
        buffer.complete_state = CompletionState(document, found)
        buffer.on_completions_changed.fire()


def _accept(buffer: Buffer, entry: Entry) -> None:
    """Take the chosen completion; what follows a folder or a command is offered at once."""
    buffer.complete_state = None
    before = buffer.document.text_before_cursor
    if before.endswith((" ", "/")) and entry.completer.wants(buffer.document):
        buffer.start_completion()


def _moving(entry: Entry) -> KeyBindings:
    keys, typing, steps = KeyBindings(), has_focus(entry.area), entry.steps

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


def _deleting(entry: Entry) -> KeyBindings:
    keys, steps = KeyBindings(), entry.steps
    typing = has_focus(entry.area) & ~has_selection

    @keys.add("backspace", filter=typing)
    def _before(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if not buffer.text and len(entry.images):
            entry.images.remove(len(entry.images))
        start = steps.before(buffer.text, buffer.cursor_position)
        buffer.delete_before_cursor(buffer.cursor_position - start)
        if entry.completer.wants(buffer.document):
            buffer.start_completion()

    @keys.add("delete", filter=typing)
    def _after(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.delete(steps.after(buffer.text, buffer.cursor_position) - buffer.cursor_position)

    def word(command: str, *, back: bool, blanks: bool) -> None:
        """Delete a word as `command` does, but never a part of a placeholder."""
        named = get_by_name(command)

        def delete(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            document, at = buffer.document, buffer.cursor_position
            if back:
                start = at + (document.find_start_of_previous_word(WORD=blanks) or -at)
                span = (start, at)
            else:
                span = (at, at + (document.find_next_word_ending() or 0))
            wide = steps.covered(buffer.text, *span)
            if wide == span:
                named.call(event)
                return
            buffer.cursor_position = wide[1]
            event.app.clipboard.set_text(buffer.delete_before_cursor(wide[1] - wide[0]))

        for combination in _WORD_KEYS[command]:
            keys.add(*combination, filter=typing)(delete)

    word("unix-word-rubout", back=True, blanks=True)
    word("backward-kill-word", back=True, blanks=False)
    word("kill-word", back=False, blanks=False)
    return keys


_WORD_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "unix-word-rubout": (("c-w",),),
    "backward-kill-word": (("escape", "backspace"),),
    "kill-word": (("escape", "d"), ("c-delete",)),
}


def _attaching(entry: Entry) -> KeyBindings:
    keys, typing = KeyBindings(), has_focus(entry.area)

    @keys.add(Keys.BracketedPaste, filter=typing)
    def _paste(event: KeyPressEvent) -> None:
        attaching.paste(entry, event.data)

    @keys.add("escape", "v", filter=typing)
    def _picture(_event: KeyPressEvent) -> None:
        attaching.beside(entry, attaching.attach_from_clipboard(entry))

    @keys.add("c-v", filter=typing)
    def _clipboard(_event: KeyPressEvent) -> None:
        attaching.beside(entry, attaching.paste_from_clipboard(entry))

    @keys.add("c-o", filter=typing)
    @keys.add("c-x", "c-e", filter=typing)
    def _edit(_event: KeyPressEvent) -> None:
        attaching.beside(entry, attaching.edit(entry))

    return keys


def _searching(entry: Entry) -> KeyBindings:
    keys, search, typing = KeyBindings(), entry.search, has_focus(entry.area)
    searching = typing & Condition(lambda: search.active)

    @keys.add("c-r", filter=typing)
    def _begin(event: KeyPressEvent) -> None:
        if search.active:
            search.older()
        else:
            search.begin(event.current_buffer)

    @keys.add("c-s", filter=searching)
    def _newer(_event: KeyPressEvent) -> None:
        search.newer()

    @keys.add(Keys.Any, filter=searching)
    def _type(event: KeyPressEvent) -> None:
        search.type(event.data)

    @keys.add("backspace", filter=searching)
    def _shorten(_event: KeyPressEvent) -> None:
        search.shorten()

    @keys.add("enter", filter=searching)
    @keys.add("tab", filter=searching)
    @keys.add("escape", filter=searching)
    def _take(_event: KeyPressEvent) -> None:
        search.take()

    @keys.add("c-g", filter=searching)
    def _cancel(_event: KeyPressEvent) -> None:
        search.cancel()

    return keys
