"""Text that comes in pieces, handed on so that no line is cut in two."""

from collections.abc import Callable

LONGEST_HELD = 8_192
"""Characters of an unfinished line that are held back; a longer one is handed on in parts."""
KEPT_BACK = 1_024
"""Characters of such a line that stay, so that the cut falls between two words if it can."""


class WholeLines:
    """Hands on whole lines as they are complete. What judges a line (a redactor, say) then never
    sees half a word. Text between `BEGIN` and `END` marks of a key stays together."""

    def __init__(self, give: Callable[[str], None]) -> None:
        self._give = give
        self._held = ""

    def add(self, text: str) -> None:
        self._held += text
        end = max(self._held.rfind("\n"), self._held.rfind("\r")) + 1
        if end and not _inside_key(self._held[:end]):
            self._pass_on(end)
        elif len(self._held) > LONGEST_HELD:
            most = LONGEST_HELD - KEPT_BACK
            self._pass_on(self._held.rfind(" ", 0, most) + 1 or most)

    def _pass_on(self, end: int) -> None:
        whole, self._held = self._held[:end], self._held[end:]
        self._give(whole)

    def flush(self) -> None:
        if self._held:
            held, self._held = self._held, ""
            self._give(held)


def _inside_key(text: str) -> bool:
    """A block such as a private key has begun and not ended."""
    return text.rfind("-----BEGIN") > text.rfind("-----END")
