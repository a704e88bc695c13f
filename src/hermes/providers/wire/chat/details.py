"""`reasoning_details`: signed or encrypted blocks of thinking, streamed in pieces."""

from collections import defaultdict
from typing import Any

Detail = dict[str, Any]

_GROWING = ("text", "summary", "data")


class _Block:
    def __init__(self) -> None:
        self.fields: Detail = {}
        self._grown: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, piece: Detail) -> None:
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                self._grown[name].append(value)
                self.fields.setdefault(name, "")  # The order of the fields stays.
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def whole(self) -> Detail:
        return self.fields | {name: "".join(pieces) for name, pieces in self._grown.items()}

    def continued_by(self, piece: Detail) -> bool:
        """Providers number carelessly: another id, or text after a signature, begins anew."""
        fields, new_id = self.fields, piece.get("id")
        if any(fields.get(name) != piece.get(name) for name in ("index", "type")):
            return False
        if piece.get("index") is None and piece.get("data"):
            return False
        if new_id and fields.get("id") and new_id != fields["id"]:
            return False
        return not (fields.get("signature") and piece.get("text"))


class Details:
    """Puts pieces together so that each block goes back as the provider made it."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    def add(self, pieces: list[Detail]) -> str:
        """Takes the pieces of one chunk and gives the text in them."""
        earlier = self._blocks[::-1]  # What comes together is not one block.
        for piece in pieces:
            self._block_of(piece, earlier).add(piece)
        texts = [piece.get("text") or piece.get("summary") for piece in pieces]
        return "".join([text for text in texts if isinstance(text, str)])

    def whole(self) -> tuple[Detail, ...]:
        return tuple(block.whole() for block in self._blocks)

    def _block_of(self, piece: Detail, earlier: list[_Block]) -> _Block:
        """The block that `piece` continues, or a new one."""
        for block in earlier:
            if block.continued_by(piece):
                return block
        self._blocks.append(_Block())
        return self._blocks[-1]
