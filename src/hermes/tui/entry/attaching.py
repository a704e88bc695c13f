"""What comes into the input other than by typing: pastes, pictures, and a text from an editor."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from prompt_toolkit.application import get_app
from prompt_toolkit.document import Document

from hermes.core.errors import HermesError, UsageError
from hermes.tui.entry.clipboard import clipboard_text
from hermes.tui.entry.editor import edited
from hermes.tui.entry.images import dropped_images
from hermes.tui.entry.parts import Entry
from hermes.util.plain import plain


def paste(entry: Entry, text: str) -> None:
    """Put a text into the input, or attach the pictures whose paths it consists of."""
    if paths := dropped_images(text):
        _attach_files(entry, paths)
        return
    try:
        placed = entry.pastes.placed(text)
    except UsageError as error:
        _tell(entry, error)
    else:
        entry.area.buffer.insert_text(placed, fire_event=False)


async def attach_from_clipboard(entry: Entry) -> None:
    await entry.images.paste()
    get_app().invalidate()


async def paste_from_clipboard(entry: Entry) -> None:
    """The text in the clipboard, else the picture."""
    if text := await clipboard_text():
        paste(entry, text)
    else:
        await attach_from_clipboard(entry)


async def edit(entry: Entry) -> None:
    """In the user's editor, with what was pasted."""
    before = entry.area.text
    text = plain(await edited(entry.pastes.whole(before)))
    text = entry.pastes.folded(text, before)
    entry.area.buffer.document = Document(text, len(text))


def beside(entry: Entry, work: Coroutine[Any, Any, None]) -> None:
    """Do something that takes its time; the user is told why it failed."""

    async def told() -> None:
        try:
            await work
        except HermesError as error:
            _tell(entry, error)

    get_app().create_background_task(told())


def _attach_files(entry: Entry, paths: list[Path]) -> None:
    for path in paths:
        try:
            entry.images.add_file(path)
        except UsageError as error:
            _tell(entry, error)
            entry.area.buffer.insert_text(f"{path} ", fire_event=False)


def _tell(entry: Entry, error: HermesError) -> None:
    entry.tell(f"{error}: {error.hint}" if error.hint else str(error))
