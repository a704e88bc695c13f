"""Token counts of the chat-completions wire, in the spellings in use."""

from typing import Any

import msgspec

from hermes.core.usage import Usage
from hermes.providers.wire.replies import count

Number = float | None


class PromptDetails(msgspec.Struct):
    cached_tokens: Number = None
    cache_write_tokens: Number = None
    cache_creation_input_tokens: Number = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: Number = None


class UsageWire(msgspec.Struct):
    prompt_tokens: Number = None
    completion_tokens: Number = None
    total_tokens: Number = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    prompt_cache_hit_tokens: Number = None
    """DeepSeek."""
    cached_tokens: Number = None
    """Moonshot."""
    reasoning_tokens: Number = None
    cost: Any = None
    """OpenRouter: US dollars. Others put an object here."""

    def usage(self) -> Usage:
        prompt, output = count(self.prompt_tokens), count(self.completion_tokens)
        details = self.prompt_tokens_details or PromptDetails()
        cached = self.cached_tokens or self.prompt_cache_hit_tokens or details.cached_tokens
        written = details.cache_write_tokens or details.cache_creation_input_tokens
        read = min(count(cached), prompt)
        write = min(count(written), prompt - read)
        # Some leave the thinking out of the output and count it only in the total.
        unseen = max(0, count(self.total_tokens) - prompt - output)
        thought = self.completion_tokens_details or OutputDetails()
        reasoning = count(thought.reasoning_tokens or self.reasoning_tokens)
        return Usage(
            input=prompt - read - write,
            output=output + unseen,
            cache_read=read,
            cache_write=write,
            reasoning=max(reasoning, unseen),
        )

    @property
    def cost_usd(self) -> float | None:
        cost = self.cost.get("total_cost") if isinstance(self.cost, dict) else self.cost
        return float(cost) if isinstance(cost, int | float) else None
