"""Tool calls of the chat-completions wire, put together from their pieces."""

from typing import Any

import msgspec

from hermes.providers.wire.replies import ReplyDraft


class FunctionPiece(msgspec.Struct):
    name: str | None = None
    arguments: Any = None
    """A piece of JSON text; some servers send the object."""


class CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None
    extra_content: dict[str, Any] | None = None


class _Call:
    def __init__(self) -> None:
        self.id, self.name = "", ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] | None = None

    def add(self, piece: CallPiece) -> None:
        self.id = self.id or piece.id or ""
        self.extra = piece.extra_content or self.extra
        if piece.function is None:
            return
        self.name = self.name or piece.function.name or ""
        if arguments := piece.function.arguments:
            text = arguments if isinstance(arguments, str) else _json(arguments)
            self.arguments.append(text)

    def is_over(self, piece: CallPiece) -> bool:
        """Whether `piece` begins another call, although it stands in the place of this one."""
        if piece.id and self.id:
            return piece.id != self.id or self._repeated(piece)
        return self._repeated(piece)

    def _repeated(self, piece: CallPiece) -> bool:
        """A name and arguments once more, after arguments that are complete."""
        function = piece.function
        if function is None or not (function.name and function.arguments and self.arguments):
            return False
        if not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            msgspec.json.decode("".join(self.arguments))
        except msgspec.DecodeError:
            return False
        return True


class CallPieces:
    """Knows which call a piece belongs to, also where servers leave out or repeat the index."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._open: dict[int | str, _Call] = {}
        self._last: int | str = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: list[CallPiece]) -> None:
        for position, piece in enumerate(pieces):
            place = self._place(piece, position if len(pieces) > 1 else None)
            call = self._open.get(place)
            if call is None or call.is_over(piece):
                call = self._open[place] = _Call()
                self._calls.append(call)
            call.add(piece)
            self._last = place

    def _place(self, piece: CallPiece, position: int | None) -> int | str:
        if piece.index is not None:
            return piece.index
        return piece.id or (self._last if position is None else position)

    def finish(self, draft: ReplyDraft) -> None:
        for call in self._calls:
            if call.name or call.arguments:
                draft.add_call(call.id, call.name, "".join(call.arguments), call.extra)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
