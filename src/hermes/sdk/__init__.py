"""The public surface for extensions: everything that a plugin may import from Hermes.

This module has what every kind of extension needs; `hermes.sdk.platforms`, `hermes.sdk.memory`,
`hermes.sdk.context` and `hermes.sdk.terminal` have what one kind needs, and `hermes.sdk.testing`
the tests that an extension has to pass. Importing it loads nothing else.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.config.environment import child_environment, search_path, variable
    from hermes.config.home import Home, current_home, tilde
    from hermes.core.cancel import CancelToken
    from hermes.core.errors import (
        BudgetSpent, ConfigError, HermesError, ProviderError, StoreCorrupt, StoreError,
        ToolArgumentsInvalid, ToolDenied, ToolError, ToolTimedOut, UsageError,
    )
    from hermes.core.messages import (
        COMPACTED, NOT_THE_USER, TODO_LIST, Assistant, Image, Message, System, Text, ToolCall,
        ToolResult, User, from_dict, to_dict,
    )
    from hermes.core.model import BYTES_PER_TOKEN, message_tokens, text_tokens
    from hermes.core.ports import Clock, HookName
    from hermes.core.tool import Concern, Effect, Tool, ToolContext
    from hermes.plugins import PluginContext
    from hermes.security import Redactor
    from hermes.security.injection import scan as scan_injection
    from hermes.store import is_unspaced, similar_words
    from hermes.store.sqlite.health import transaction, with_retries
    from hermes.tools.registry import ToolDeps, ToolEntry, tool
    from hermes.tools.web_pages import plain_text, sanitize_html
    from hermes.util.circuit_breaker import CircuitBreaker
    from hermes.util.concurrency import SystemClock, in_thread
    from hermes.util.extras import install_hint
    from hermes.util.files import file_lock, write_bytes, write_text
    from hermes.util.http import is_loopback
    from hermes.util.http import HttpError, LateTls, fetch, fetch_blocking
    from hermes.util.text import clean, cut_middle, human_size, many
    # fmt: on
    # isort: on

API_VERSION = (1, 3)
"""Major and minor version of this surface. An addition raises the minor number, and a change that
can break an extension raises the major number."""

__all__ = [
    "API_VERSION", "BYTES_PER_TOKEN", "COMPACTED", "NOT_THE_USER", "TODO_LIST", "Assistant",
    "BudgetSpent", "CancelToken", "CircuitBreaker", "Clock", "Concern", "ConfigError", "Effect",
    "HermesError", "Home", "HookName", "HttpError", "Image", "LateTls", "Message",
    "PluginContext", "ProviderError", "Redactor", "StoreCorrupt", "StoreError", "System",
    "SystemClock", "Text", "Tool", "ToolArgumentsInvalid", "ToolCall", "ToolContext",
    "ToolDenied", "ToolDeps", "ToolEntry", "ToolError", "ToolResult", "ToolTimedOut", "UsageError",
    "User",
    "child_environment", "clean", "current_home", "cut_middle", "fetch", "fetch_blocking",
    "file_lock", "from_dict", "human_size", "in_thread", "install_hint", "is_loopback",
    "is_unspaced", "many", "message_tokens", "plain_text", "sanitize_html", "scan_injection",
    "search_path", "similar_words", "text_tokens", "tilde", "to_dict", "tool", "transaction",
    "variable", "with_retries", "write_bytes", "write_text",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
