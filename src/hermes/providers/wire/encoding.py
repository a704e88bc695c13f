"""Encoded JSON, put together without encoding it again."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import is_
from typing import Any

import msgspec

from hermes.core.messages import Message, WireForm
from hermes.core.model import ToolSpec
from hermes.core.openai_format import made_call_id

EMPTY = b"[]"
_SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def joined(arrays: Iterable[msgspec.Raw]) -> msgspec.Raw:
    """One JSON array with the elements of all."""
    inner = [bytes(array)[1:-1] for array in arrays]
    return msgspec.Raw(b"[" + b",".join([part for part in inner if part]) + b"]")


@lru_cache(maxsize=64)
def encoded_tools(
    form: Callable[[ToolSpec], dict[str, Any]], tools: tuple[ToolSpec, ...]
) -> msgspec.Raw:
    """The tools as `form` writes them, encoded once for all the calls that offer them."""
    return msgspec.Raw(msgspec.json.encode([form(spec) for spec in tools]))


def safe_call_id(call_id: str) -> str:
    """An id that every endpoint takes; the same for a call and its result."""
    return call_id if _SAFE_ID.fullmatch(call_id) else made_call_id("", call_id, 0)


class Growing:
    """The wire forms of a conversation that grows from request to request: what was sent before is
    only compared, not looked up again."""

    def __init__(self, form: WireForm) -> None:
        self._form = form
        self._messages: list[Message] = []
        self._encoded: list[msgspec.Raw] = []

    def encoded(self, messages: Sequence[Message]) -> list[msgspec.Raw]:
        """A list of the caller's own."""
        same = len(messages) >= len(self._messages) and all(map(is_, self._messages, messages))
        if not same:
            self._messages, self._encoded = [], []
        new = messages[len(self._messages) :]
        self._messages += new
        self._encoded += [message.wire(self._form) for message in new]
        return self._encoded[:]
