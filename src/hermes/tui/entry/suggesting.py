"""The rest of what was typed before, in grey behind the cursor."""

from prompt_toolkit.auto_suggest import AutoSuggest, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from hermes.tui.entry.history import EntryHistory

SHORTEST = 2
"""Characters from which something is suggested."""


class FromHistory(AutoSuggest):
    """The newest entry that begins like what is typed; of several lines, the first one."""

    def __init__(self, history: EntryHistory) -> None:
        self._history = history

    def get_suggestion(self, _buffer: Buffer, document: Document) -> Suggestion | None:
        typed = document.text
        if len(typed.strip()) < SHORTEST or "\n" in typed or not document.is_cursor_at_the_end:
            return None
        for entry in self._history.newest_first():
            if entry.startswith(typed):
                rest = entry[len(typed) :].partition("\n")[0]
                if rest:
                    return Suggestion(rest)
        return None
