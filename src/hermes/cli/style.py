"""Colour and glyphs for people, plain text for everything else."""

from typing import TextIO

import msgspec

from hermes.config.environment import no_color, term_is_dumb


class Style(msgspec.Struct, frozen=True):
    """How to dress text. Without colour every method returns its text unchanged."""

    colour: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        return cls(colour=stream.isatty() and not no_color() and not term_is_dumb())

    def plain(self, text: str) -> str:
        return text

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def accent(self, text: str) -> str:
        return self._wrap("36", text)

    def bad(self, text: str) -> str:
        return self._wrap("31", text)

    def warn(self, text: str) -> str:
        return self._wrap("33", text)

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text
