"""The text of `{"reply":"…"}` while it is still being written."""

import re

from hermes.providers.small.profile import REPLY

_START = re.compile(rf'\s*\{{\s*"{REPLY}"\s*:\s*"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PIECE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair of surrogates
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r'|\\[^u]|[^"\\]+'
)


class ReplyText:
    """Feed it the JSON as it arrives; it gives back the new text of the reply, decoded.

    For anything that is not a reply (a tool call) it stays silent. It never guesses: an escape
    that is still incomplete waits for the rest.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._inside = False
        self.taken = 0
        """How many characters of JSON were fed."""
        self.text = ""
        """All of the reply so far."""

    def feed(self, json: str) -> str:
        self._waiting += json
        self.taken += len(json)
        if not self._inside:
            start = _START.match(self._waiting)
            if start is None:
                return ""
            self._inside = True
            self._waiting = self._waiting[start.end() :]
        pieces: list[str] = []
        position = 0
        while piece := _PIECE.match(self._waiting, position):
            pieces.append(_decoded(piece[0]))
            position = piece.end()
        self._waiting = self._waiting[position:]
        new = "".join(pieces)
        self.text += new
        return new


def _decoded(piece: str) -> str:
    if piece.startswith("\\u"):
        units = bytes.fromhex(piece.replace("\\u", ""))
        return units.decode("utf-16-be", "replace")
    if piece.startswith("\\"):
        return _ESCAPES.get(piece[1], piece[1])
    return piece
