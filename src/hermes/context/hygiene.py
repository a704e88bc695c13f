"""The safety net of services that load long histories, before an agent sees a message."""

from collections.abc import Sequence

from hermes.core.messages import Message
from hermes.core.tokens import messages_tokens

SHARE = 0.85
"""Of the context length; above the agent's own threshold on purpose."""
LEAST_MESSAGES = 4


def needs_compaction(
    history: Sequence[Message], context_length: int, *, reported: int = 0, enabled: bool = True
) -> bool:
    """Whether `history` would hardly leave room for a turn.

    `reported` is the prompt size the API told last; without it an estimate serves.
    """
    if not enabled or len(history) < LEAST_MESSAGES:
        return False
    return (reported or messages_tokens(history)) >= SHARE * context_length
