"""Prompt-cache marks on OpenAI-format dicts: the documented helper for plugins and scripts.

The wires of Hermes mark messages when they encode them; see `codec`.
"""

from collections.abc import Sequence
from typing import Any

from hermes.core.errors import ConfigError
from hermes.providers.wire.codec import MAX_CACHE_MARKS, cache_control

Dict = dict[str, Any]
TTLS = ("5m", "1h")


def apply_anthropic_cache_control(
    api_messages: Sequence[Dict], cache_ttl: str = "5m", native_anthropic: bool = False
) -> list[Dict]:
    """Return the messages with the system prompt and the last three others marked.

    The input is not changed. A message that cannot carry a mark gives its slot to an earlier one.
    """
    if cache_ttl not in TTLS:
        raise ConfigError(
            f"a prompt cache cannot be kept for {cache_ttl!r}",
            hint=f"prompt_caching.cache_ttl is one of {', '.join(TTLS)}",
        )
    marked = list(api_messages)
    mark = cache_control(cache_ttl)
    slots, first = MAX_CACHE_MARKS, 0
    if marked and marked[0].get("role") == "system":
        first = 1
        if (system := _marked(marked[0], mark, native=native_anthropic)) is not None:
            marked[0], slots = system, slots - 1
        slots = min(slots, MAX_CACHE_MARKS - 1)
    for place in range(len(marked) - 1, first - 1, -1):
        if not slots:
            break
        if (carrier := _marked(marked[place], mark, native=native_anthropic)) is not None:
            marked[place], slots = carrier, slots - 1
    return marked


def _marked(message: Dict, mark: dict[str, str], *, native: bool) -> Dict | None:
    """Return a marked copy; None when the message cannot carry a mark."""
    content = message.get("content")
    if message.get("role") == "tool":
        return {**message, "cache_control": mark} if native else None
    if content is None or content == "":
        return {**message, "cache_control": mark}
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content, "cache_control": mark}]}
    if not isinstance(content, list) or not content or not isinstance(content[-1], dict):
        return None
    return {**message, "content": [*content[:-1], {**content[-1], "cache_control": mark}]}
