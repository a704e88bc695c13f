"""What is known of a model: facts and quirks, as data."""

import re

import msgspec

from hermes.core.usage import Price


class Profile(msgspec.Struct, frozen=True):
    context_length: int = 128_000
    price: Price | None = None
    """None when the price is not known."""
    developer_role: bool = False
    """The system message is sent with the role `developer`."""
    thinking_field: str = ""
    """Name under which earlier reasoning is sent back, or empty."""
    small: bool = False
    """Too small for native tool calls; `providers.small` speaks for it."""
    extra_body: dict[str, object] = {}
    """Fields added to every request."""
    keep_alive: bool = True
    """False where the server may drop a connection between two requests."""


SMALL_CONTEXT = 4096
"""What servers on this machine give a small model unless told otherwise."""

_SMALL = re.compile(r"(?<![\d.])(0\.\d+|1(\.\d+)?)b\b")


def profile_for(model: str, base: Profile, *, on_this_machine: bool = False) -> Profile:
    """`base` with what the model's name tells.

    A model of fewer than two billion parameters (`qwen2.5-coder:1.5b`) that runs on this machine
    is treated as small.
    """
    name = model.lower()
    developer = base.developer_role or "gpt-5" in name or "codex" in name
    small = base.small or (on_this_machine and _SMALL.search(name) is not None)
    context = min(base.context_length, SMALL_CONTEXT) if small else base.context_length
    return msgspec.structs.replace(
        base, developer_role=developer, small=small, context_length=context
    )
