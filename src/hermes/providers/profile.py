"""What is known of a model: facts and quirks, as data."""

from typing import Literal

import msgspec

from hermes.core.usage import Price

ReasoningForm = Literal["", "effort", "object", "budget", "adaptive", "switch", "enable_thinking"]
"""How effort is asked for: not at all; `reasoning_effort: "low"`; `reasoning: {"effort": "low"}`;
Anthropic's `thinking` with a budget of tokens; the same left to the model, with
`output_config.effort`; `thinking: {"type": "enabled"}`; `enable_thinking: true`."""


class Profile(msgspec.Struct, frozen=True):
    context_length: int = 128_000
    max_output: int | None = None
    """Longest reply in tokens; None when it is not known."""
    price: Price | None = None
    """None when the price is not known."""
    images: bool | None = None
    """Whether it sees images; None when it is not known."""
    tools: bool = True
    reasoning: ReasoningForm = ""
    developer_role: bool = False
    """The system message is sent with the role `developer`."""
    thinking_field: str = ""
    """Name under which earlier reasoning is sent back, or empty."""
    cache_marks: bool = False
    """Only prefixes marked with `cache_control` are cached."""
    max_tokens_field: str = "max_tokens"
    temperature: bool = True
    """False where a temperature is refused."""
    streaming: Literal["both", "always", "never"] = "both"
    """Which of streamed and whole replies the endpoint can give."""
    stream_usage: bool = True
    """False where `stream_options` is refused."""
    strict: bool = False
    """Refuses fields of messages that it does not know, such as those of another provider."""
    nine_letter_ids: bool = False
    """Ids of tool calls must be nine letters or digits."""
    small: bool = False
    """Too small for native tool calls; `providers.small` speaks for it."""
    acts: bool = False
    """It is an agent: it does things before it answers, which must not be done twice."""
    extra_body: dict[str, object] = {}
    """Fields added to every request."""
    keep_alive: bool = True
    """False where the server may drop a connection between two requests."""
