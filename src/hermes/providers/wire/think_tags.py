"""Thinking that a model writes into its text, between tags."""

_CLOSING = {
    "<think>": "</think>",
    "<REASONING_SCRATCHPAD>": "</REASONING_SCRATCHPAD>",
}


class ThinkTags:
    """Takes a text in pieces and parts what is said from what is thought.

    A tag may be torn over pieces. A tag in backticks is being talked about, so it stays. A block
    that is never closed is thinking when it began a line (the reply was cut), and text when it
    stood inside a sentence.
    """

    def __init__(self) -> None:
        self.said: list[str] = []
        self.thought: list[str] = []
        self._held = ""
        """The end of the last piece, when it may be the beginning of a tag."""
        self._opening = ""
        """The tag we are inside of."""
        self._inline = False
        self._block: list[str] = []
        """What was thought since that tag."""
        self._last = "\n"
        """The last character said."""

    def feed(self, piece: str) -> tuple[str, str]:
        """What `piece` adds to what is said, and to what is thought."""
        if not (self._held or self._opening) and "<" not in piece:
            return self._say(piece), ""
        text, self._held = self._held + piece, ""
        said, thought = "", ""
        while text:
            if self._opening:
                more, text = self._inside(text)
                thought += more
            else:
                more, text = self._outside(text)
                said += more
        return said, thought

    def end(self) -> str:
        """What is said after all, once no more pieces come."""
        held, self._held = self._held, ""
        if not self._opening:
            return self._say(held)
        self._block.append(held)
        block, opening = "".join(self._block), self._opening
        self._opening = ""
        if self._inline:
            return self._say(opening + block)
        self.thought.append(block)
        return ""

    def _outside(self, text: str) -> tuple[str, str]:
        """What is said up to the next tag, and what comes after that tag."""
        found = [(at, tag) for tag in _CLOSING if (at := text.find(tag)) >= 0]
        if not found:
            text, self._held = _torn(text, *_CLOSING)
            return self._say(text), ""
        at, tag = min(found)
        before = text[at - 1] if at else self._last
        if before == "`":
            return self._say(text[: at + len(tag)]), text[at + len(tag) :]
        said = self._say(text[:at])
        self._opening, self._block = tag, []
        self._inline = self._last != "\n"
        return said, text[at + len(tag) :]

    def _inside(self, text: str) -> tuple[str, str]:
        """What is thought up to the closing tag, and what comes after it."""
        closing = _CLOSING[self._opening]
        thought, tag, rest = text.partition(closing)
        if not tag:
            thought, self._held = _torn(thought, closing)
        self._block.append(thought)
        if tag:
            self.thought.append("".join(self._block))
            self._opening, self._last = "", "\n"
            rest = rest.lstrip() if not self.said else rest
        return thought, rest

    def _say(self, text: str) -> str:
        if self.thought and not self.said:
            text = text.lstrip()  # Between the thinking and the answer there is only space.
        if text:
            self.said.append(text)
            self._last = text[-1]
        return text


def _torn(text: str, *tags: str) -> tuple[str, str]:
    """`text` without its end, and the end, when that may be the beginning of a tag."""
    at = text.rfind("<")
    if at >= 0 and any(tag.startswith(text[at:]) for tag in tags):
        return text[:at], text[at:]
    return text, ""
