"""What plugins and wrappers print, while the terminal is ours."""

import io
from collections.abc import Callable
from typing import TextIO


class Prints(io.TextIOBase):
    """A standard output whose lines go above the area, or through while there is none."""

    def __init__(self, note: Callable[[str], bool], stdout: TextIO) -> None:
        self._note, self._stdout = note, stdout
        self._line = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if not self._note(line):
                self._stdout.write(f"{line}\n")
        return len(text)

    def fileno(self) -> int:
        return self._stdout.fileno()

    def isatty(self) -> bool:
        return self._stdout.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read only is enough
        return self._stdout.encoding
