"""Text of a model made safe for the terminal, although it arrives in pieces."""

import re

from hermes.tui.cells import safe

LONGEST_ESCAPE = 4096
"""Characters after which an escape sequence without an end counts as ended."""
_KEPT = re.compile(r"([\n\t])")
_ESCAPE = re.compile("[\x1b\x90\x98\x9b\x9d-\x9f]")
"""What begins an escape sequence."""


class Cleaner:
    """`safe` for a stream: what comes out does not depend on where the pieces were cut.

    Line ends become `\\n`. Tabs stay, because what they become depends on the whole line.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        if not self._held and text.isprintable():
            return text
        return self._steered(self._held + text, ended=False)

    def finish(self) -> str:
        return self._steered(self._held, ended=True)

    def _steered(self, text: str, *, ended: bool) -> str:
        """An escape sequence may be cut: from it on everything waits for the end of its line."""
        self._held = "\r" if text.endswith("\r") and not ended else ""
        text = text.removesuffix(self._held).replace("\r\n", "\n").replace("\r", "\n")
        clean = []
        while (found := _ESCAPE.search(text)) is not None:
            escape = found.start()
            clean.append(_clean(text[:escape]))
            end = text.find("\n", escape, escape + LONGEST_ESCAPE)
            if end < 0:
                if len(text) - escape < LONGEST_ESCAPE and not ended:
                    self._held = text[escape:] + self._held
                    return "".join(clean)
                end = min(len(text), escape + LONGEST_ESCAPE)
            clean.append(safe(text[escape:end]))
            text = text[end:]
        return "".join([*clean, _clean(text)])


def _clean(text: str) -> str:
    if text.isprintable():
        return text
    return "".join([each if each in "\n\t" else safe(each) for each in _KEPT.split(text)])
