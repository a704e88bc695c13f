"""The one estimate of how many tokens a request has."""

from collections.abc import Sequence

from hermes.core.messages import Message
from hermes.core.model import ToolSpec
from hermes.core.tokens import messages_tokens, tools_tokens

LEAST, MOST = 0.2, 3.0
"""Bounds of the calibration. A smaller count is none of this request, and is passed over; a larger
one is believed, since compacting too early does less harm than too late."""


class Accountant:
    """Counts the prefix of every request (system prompt, tools) with its messages, and learns from
    the counts the API reports how this model counts.

    What was counted by the API is not estimated again, so an estimate costs what is new.
    """

    def __init__(self, prefix: Sequence[Message] = (), tools: Sequence[ToolSpec] = ()) -> None:
        self._fixed = messages_tokens(prefix) + tools_tokens(tools)
        self._factor = 1.0
        self._counted: tuple[Message | None, int, int] = (None, 0, 0)
        """The last message of a counted request, how many there were, and their tokens."""

    def tokens(self, messages: Sequence[Message]) -> int:
        """Of a request with these messages, the prefix included."""
        last, many, counted = self._counted
        if last is not None and len(messages) >= many and messages[many - 1] is last:
            return counted + round(self._factor * messages_tokens(messages[many:]))
        return round(self._factor * (self._fixed + messages_tokens(messages)))

    def reported(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """The API counted so many tokens in a request with these messages."""
        if prompt_tokens <= 0 or not messages:
            return
        last, many, counted = self._counted
        if last is not None and len(messages) >= many and messages[many - 1] is last:
            guess = counted / self._factor + messages_tokens(messages[many:])
        else:
            guess = self._fixed + messages_tokens(messages)
        factor = prompt_tokens / guess
        if factor < LEAST:
            return
        self._factor = min(factor, MOST)
        self._counted = (messages[-1], len(messages), prompt_tokens)

    def shortened(self, before: Sequence[Message], after: Sequence[Message]) -> int:
        """Tokens of a request with `after`, which was made of `before`."""
        share = (self._fixed + messages_tokens(after)) / (self._fixed + messages_tokens(before))
        return round(self.tokens(before) * share)

    def adopt(self, messages: Sequence[Message], tokens: int) -> None:
        """The conversation is this one from now on, and has so many tokens until the API says."""
        if messages:
            self._counted = (messages[-1], len(messages), tokens)
