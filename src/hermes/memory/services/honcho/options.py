"""`<home>/honcho.json`, and what is fixed about the service."""

from typing import Literal, get_args

import msgspec

from hermes.memory.services.about import About, ServiceTool, searching
from hermes.memory.services.options import Options as CommonOptions

Mode = Literal["hybrid", "context", "tools"]
Level = Literal["minimal", "low", "medium", "high", "max"]
MODES: tuple[str, ...] = get_args(Mode)
LEVELS: tuple[str, ...] = get_args(Level)
CHARS_PER_TOKEN = 4


class Options(CommonOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    enabled: bool = True
    """Otherwise nothing is sent, recalled or offered."""
    user_peer: str = ""
    """What the owner is called; empty: `owner`. Other users have names of their own."""
    ai_peer: str = "hermes"
    """What the agent is called."""
    mode: Mode = "hybrid"
    """Whether what fits is recalled (context), looked for with tools (tools), or both."""
    reasoning: Level = "low"
    """How hard Honcho thinks when it is asked."""
    dialectic_chars: int = 0
    """Most characters of what Honcho is asked to think about between turns, which it charges for;
    0: it is not asked."""
    sessions: dict[str, str] = msgspec.field(default_factory=dict)
    """Folder: the session that conversations begun there belong to."""


ASK = ServiceTool(
    "honcho_ask",
    "Ask Honcho a question about the user.",
    "question",
    lambda service, question: {"answer": service.ask(question)},
)
ABOUT = About(
    "honcho",
    "Honcho",
    (searching("honcho_search"), ASK),
    key="HONCHO_API_KEY",
    key_url="https://app.honcho.dev/api-keys",
    address="https://api.honcho.dev",
    address_variable="HONCHO_BASE_URL",
    own_server=True,
)
