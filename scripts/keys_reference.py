"""Writes docs/reference/keys.md: the keys of the terminal. `--check` only compares.

It is an error if a table misses a key of the program or names one that the program lacks.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from generated_page import row, write_or_check
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.key_binding.defaults import load_key_bindings
from prompt_toolkit.keys import Keys

from hermes.config.settings import DisplaySettings
from hermes.tui.clipboard import ImageAttachments
from hermes.tui.completion import InputCompleter
from hermes.tui.input import InputField, input_keys
from hermes.tui.questions import Questions
from hermes.tui.skins import DisplayState, find_skin
from hermes.tui.terminal_ui import ui_keys
from hermes.tui.text import Depth

HEAD = """\
# Keys

Written by `make docs` from `scripts/keys_reference.py`, which fails if a key is missing.

Most terminals send Alt as Escape; if Alt does nothing, press Escape and then the key.
`/terminal-setup` shows what your terminal supports. The guide is
[life in the terminal](../guide/terminal.md).
"""

Table = dict[tuple[str, ...], str]
"""Keys, as prompt_toolkit names them, and their effect."""

TYPING: Table = {
    ("enter",): "send; in the menu, take what is chosen; behind a backslash, a new line",
    ("escape enter", "c-j"): "a new line; so does Shift-Enter where the terminal tells it apart",
    ("tab",): "complete a command, a name or a file; take what the menu offers",
    ("escape",): "close the menu",
    ("left", "right"): "move; Right at the end takes the grey suggestion",
    ("c-f",): "as Right",
    ("backspace", "delete"): "delete a sign or a folded paste; with nothing typed, a picture",
    ("c-w",): "delete back to a blank",
    ("escape backspace",): "delete the word before",
    ("escape d", "c-delete"): "delete the word behind",
    ("c-r",): "look for something typed before",
    ("c-v",): "paste from the clipboard: text, else a picture",
    ("escape v",): "attach the picture in the clipboard",
    ("c-x c-e",): "write the message in your editor",
    ("c-l",): "clear the screen; the scrollback stays",
}
ALWAYS: Table = {
    (
        "c-c",
    ): "stop the turn or a slow command; decline; clear the input; twice in 2 s with an empty "
    "input: leave",
    ("escape",): "stop the turn or a slow command",
    ("escape escape",): "with an empty input: go back to an earlier question",
    ("s-tab",): "the next permission mode",
    ("c-o",): "show the latest folded result in full; again for the one before",
    ("c-d",): "leave, when nothing is typed; else delete the sign under the cursor",
    ("c-z",): "put Hermes aside; `fg` brings it back",
    ("tab",): "answer a question that came while you were typing",
}
SEARCHING: Table = {
    ("c-r",): "an older one",
    ("c-s",): "a newer one",
    ("enter", "tab", "escape"): "take it, without sending it",
    ("c-g",): "stop looking; what was typed before comes back",
}
CONSENT: Table = {
    ("escape",): "no",
    ("left", "right", "up", "down", "enter"): "choose with arrows; Enter alone means no",
    ("v",): "show all of what would be done",
}
ANSWERING = """
`o` or `y` means once, `s` in this session, `a` always, `d` or `n` no. After `s` and `a` the number
of a scope follows, and `y` where a second confirmation is needed. In the first half second no key
says yes: it may be meant for the message."""
QUESTION: Table = {
    ("up", "down"): "choose an answer",
    ("enter",): "send the chosen one, its number, or your own words",
    ("escape",): "no answer",
}
USUAL: Table = {
    ("c-a", "home"): "to the beginning of the line",
    ("c-e", "end"): "to its end",
    ("up", "down"): "a line up or down; beyond the first or last one, what was typed before",
    ("escape b", "escape f"): "a word back or on",
    ("c-k",): "delete to the end of the line",
    ("c-u",): "delete to its beginning",
    ("c-y",): "put back what was deleted last",
    ("c-_",): "undo",
}
SPELLED = {"enter": "Enter", "escape": "Escape", "tab": "Tab", "backspace": "Backspace",
    "delete": "Delete", "left": "Left", "right": "Right", "up": "Up", "down": "Down",
    "home": "Home", "end": "End"}  # fmt: skip
OUR_WAY = {"c-m": "enter", "c-i": "tab", "c-h": "backspace"}
"""Usual names of keys that prompt_toolkit names differently."""
UNNAMED = {str(Keys.Any.value), str(Keys.BracketedPaste.value)}
"""Ordinary typing and pastes."""


def reference() -> str:
    """Return the whole page."""
    skins = Path("skins")  # does not exist, so the bundled skin is used
    display = DisplayState(DisplaySettings(), find_skin("default", skins), Depth.NONE)
    entry = InputField(
        display,
        InputCompleter(folder=skins, references=lambda _fragment: ()),
        ImageAttachments(),
        history=Path("history"),
        redact=str,
        send=str,
        tell=str,
        repaint=str,
    )
    questions = Questions(display, cast("Any", None))
    agree("typing", TYPING | SEARCHING, bound(input_keys(entry)))
    agree("always", ALWAYS, bound(ui_keys(cast("Any", None))))  # the keys are not pressed
    agree("consent", CONSENT, bound(questions._approval_keys()))  # noqa: SLF001 - no other way
    agree("question", QUESTION, bound(questions._typed.control.key_bindings))  # noqa: SLF001 - as above
    agree("usual", USUAL, bound(load_key_bindings()), others=True)
    parts = [HEAD.rstrip()]
    parts += table("Typing", TYPING)
    parts += table("At any time", ALWAYS)
    parts += table("While you look for something typed before", SEARCHING)
    parts += table("When your approval is requested", CONSENT)
    parts += [ANSWERING]
    parts += table("When you are asked something", QUESTION)
    parts += table("As in a shell", USUAL)
    return "\n".join(parts) + "\n"


def bound(keys: KeyBindingsBase | None) -> set[str]:
    """Return the bound keys; the keys of a sequence are separated by spaces."""
    if keys is None:
        return set()
    return {" ".join(map(named, binding.keys)) for binding in keys.bindings}


def named(key: Keys | str) -> str:
    name = str(key.value if isinstance(key, Keys) else key)
    return OUR_WAY.get(name, name)


def agree(what: str, listed: Table, there: set[str], *, others: bool = False) -> None:
    """Exit with a message if a table does not match the bound keys. `others` may be unlisted."""
    names = {name for keys in listed for name in keys}
    wrong = names - there | (set() if others else there - names - UNNAMED)
    if wrong:
        sys.exit(f"scripts/keys_reference.py, {what}: {', '.join(sorted(wrong))}")


def table(title: str, held: Table) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield row("key", "what it does")
    yield row("---", "---")
    yield from (row(spelled(keys), text) for keys, text in held.items())


def spelled(keys: Iterable[str]) -> str:
    return ", ".join(sequence(each) for each in keys)


def sequence(keys: str) -> str:
    first, _, rest = keys.partition(" ")
    if first == "escape" and rest and rest != "escape":
        return f"Alt-{SPELLED.get(rest) or rest.upper()}"
    return " ".join(SPELLED.get(key) or chord(key) for key in keys.split())


def chord(key: str) -> str:
    """Return `Ctrl-R` for `c-r`; a letter alone is shown as typed."""
    if key.startswith("s-"):
        return f"Shift-{SPELLED[key[2:]]}"
    if key.startswith("c-"):
        rest = key[2:]
        return f"Ctrl-{SPELLED.get(rest) or rest.upper()}"
    return f"`{key}`"


if __name__ == "__main__":
    sys.exit(write_or_check("keys.md", reference))
