"""Progress of long work on one line of the terminal."""

from typing import TextIO

BAR = 24


class ProgressLine:
    """Shows a bar on a terminal and, elsewhere, a line at the start and at each quarter."""

    def __init__(self, stream: TextIO, *, in_bytes: bool = True) -> None:
        self._stream = stream
        self._in_bytes = in_bytes
        self._label = ""
        self._quarter = self._permille = -1
        self._open = False

    def report(self, label: str, done: int, total: int) -> None:
        """`done` of `total` (bytes, unless told otherwise) of the work called `label`."""
        share = min(done / total, 1.0) if total else 0.0
        if label == self._label and int(share * 1000) == self._permille:
            return
        self._permille = int(share * 1000)
        amount = f" of {total / 1e6:,.0f} MB" if self._in_bytes else ""
        if self._stream.isatty():
            full = round(share * BAR)
            bar = "█" * full + "░" * (BAR - full)
            text = f"{label} {bar} {share:4.0%}{amount}"
            self._stream.write(f"\r\x1b[K{text}")
            self._open = True
        elif label != self._label or int(share * 4) != self._quarter:
            self._stream.write(f"{label}: {share:.0%}{amount}\n")
        self._label, self._quarter = label, int(share * 4)
        if share >= 1.0:
            self.end()
        self._stream.flush()

    def say(self, text: str) -> None:
        self.end()
        self._stream.write(text + "\n")
        self._stream.flush()

    def end(self) -> None:
        if self._open:
            self._stream.write("\n")
            self._open = False
