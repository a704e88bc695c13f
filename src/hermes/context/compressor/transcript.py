"""The messages as a text that a model can sum up, in parts that fit it."""

import msgspec

from hermes.context.compressor.prune import short_arguments
from hermes.context.compressor.reading import calls_of, cut_to, is_result, text_of
from hermes.context.engine import Dict, Dicts
from hermes.core.tokens import text_tokens
from hermes.util.text import cut_middle

RESULT_CHARS = (1_500, 600, 200)
"""How much of a result is shown; less when the whole does not fit otherwise, or is too dear."""
WORTH = 2
"""Tokens that are read for each token of the summary, before results are shown shorter ..."""
WORTH_ANYWAY = 6_000
"""... and tokens that are always worth reading."""
SAID = 4
"""How many times as much is shown of what somebody said."""
CALL_CHARS = 600


class Part(msgspec.Struct, frozen=True):
    messages: Dicts
    text: str


def parts_of(messages: Dicts, room: int, summary_tokens: int) -> list[Part]:
    """Parts of at most `room` tokens, in as few as can be, for a summary of so many."""
    parts: list[Part] = []
    worth = max(WORTH * summary_tokens, WORTH_ANYWAY)
    for chars in RESULT_CHARS:
        parts = _packed(messages, room, chars)
        if len(parts) <= 1 and sum(text_tokens(part.text) for part in parts) <= worth:
            break
    return parts


def _packed(messages: Dicts, room: int, chars: int) -> list[Part]:
    parts: list[Part] = []
    taken: Dicts = []
    texts: list[str] = []
    size = 0
    for message in messages:
        text = cut_to(rendered(message, chars), room)
        tokens = text_tokens(text) + 1
        if taken and size + tokens > room:
            parts.append(Part(taken, "\n".join(texts)))
            taken, texts, size = [], [], 0
        taken.append(message)
        texts.append(text)
        size += tokens
    return [*parts, Part(taken, "\n".join(texts))] if taken else parts


def rendered(message: Dict, chars: int) -> str:
    """Without what the model thought; images are marks."""
    text, role = text_of(message), message.get("role")
    if is_result(message):
        lines = [f"[result of {message.get('name') or 'a tool'}]", cut_middle(text, chars)]
    else:
        lines = [f"[{role}]", cut_middle(text, SAID * chars)]
    lines += [
        f"[call] {call.name} {cut_middle(short_arguments(call.arguments), CALL_CHARS)}"
        for call in calls_of(message)
    ]
    return "\n".join(filter(None, lines))
