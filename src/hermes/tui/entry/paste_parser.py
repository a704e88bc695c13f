"""Reading long pastes from the terminal.

prompt_toolkit looks through all that has come so far with every piece that comes: ten megabytes
would take a minute.
"""

from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

END = "\x1b[201~"


def read_pastes_quickly(terminal: Input) -> None:
    """From now on, where it is a terminal of this kind."""
    if isinstance(terminal, Vt100Input):
        terminal.vt100_parser = PasteParser(terminal.vt100_parser.feed_key_callback)


class PasteParser(Vt100Parser):
    def reset(self, request: bool = False) -> None:
        super().reset(request)
        self._pieces: list[str] = []
        self._tail = ""
        """The end of what has come, in which the end mark may have begun."""

    def feed(self, data: str) -> None:
        if not self._in_bracketed_paste:
            super().feed(data)
            return
        self._pieces.append(data)
        tail = self._tail + data
        end = tail.find(END)
        if end < 0:
            self._tail = tail[1 - len(END) :]
            return
        whole = "".join(self._pieces)
        end += len(whole) - len(tail)
        self._in_bracketed_paste = False
        self._pieces, self._tail = [], ""
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, whole[:end]))
        self.feed(whole[end + len(END) :])
