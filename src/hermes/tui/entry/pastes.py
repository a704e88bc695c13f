"""Long pastes: the input shows a short placeholder, the message has the text."""

import re

from hermes.core.errors import UsageError
from hermes.util.plain import plain
from hermes.util.text import human_size, many

MOST_LINES, MOST_CHARACTERS = 5, 1_000
"""What has more is collapsed."""
MOST_BYTES = 10_000_000
MOST_REMEMBERED = 20_000
"""Characters of a paste that the history keeps in full."""

_PLACEHOLDER = re.compile(r"\[pasted #\d+: ([\d,]+ (?:lines?|characters?))\]")


class Pastes:
    """Those of a conversation. Numbers are never used again: what was sent before can be sent once
    more from the history."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def placed(self, text: str) -> str:
        """What to put into the input. Raises `UsageError` for a paste that is too large."""
        if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
            raise UsageError(
                f"the paste has more than {human_size(MOST_BYTES)}",
                hint="save it to a file and name the file",
            )
        text = plain(text)
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= MOST_LINES and len(text) <= MOST_CHARACTERS:
            return text
        size = many(lines, "line") if lines > 1 else many(len(text), "character")
        placeholder = f"[pasted #{len(self._texts) + 1}: {size}]"
        self._texts[placeholder] = text
        return placeholder

    def whole(self, text: str) -> str:
        """`text` with what was pasted instead of the placeholders."""
        return _PLACEHOLDER.sub(lambda found: self._texts.get(found[0], found[0]), text)

    def folded(self, text: str, before: str) -> str:
        """The placeholders of `before` put back where their texts stand in `text` unchanged."""
        for start, end in self.spans(before):
            pasted = self._texts[before[start:end]]
            text = text.replace(pasted, before[start:end], 1)
        return text

    def remembered(self, text: str) -> str:
        """`text` for a history that outlives the pastes: they are kept unless they are long."""

        def kept(found: re.Match[str]) -> str:
            pasted = self._texts.get(found[0])
            if pasted is None:
                return found[0]
            return pasted if len(pasted) <= MOST_REMEMBERED else f"[pasted: {found[1]}]"

        return _PLACEHOLDER.sub(kept, text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where in `text` placeholders stand."""
        if not self._texts or "[pasted #" not in text:
            return []
        return [each.span() for each in _PLACEHOLDER.finditer(text) if each[0] in self._texts]
