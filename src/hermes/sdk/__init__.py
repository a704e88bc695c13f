"""The public surface for extensions: everything that a plugin may import from Hermes.

This module has what every kind of extension needs; `hermes.sdk.platforms`, `hermes.sdk.memory`,
`hermes.sdk.context` and `hermes.sdk.terminal` have what one kind needs, and `hermes.sdk.testing`
the tests that an extension has to pass. Importing it loads nothing else.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.core.cancel import CancelToken
    from hermes.core.errors import (
        ConfigError,
        HermesError,
        ToolArgumentsInvalid,
        ToolDenied,
        ToolError,
        ToolTimedOut,
        UsageError,
    )
    from hermes.core.ports import Clock
    from hermes.core.tool import Effect, Tool, ToolContext
    from hermes.util.concurrency import SystemClock
    from hermes.util.text import clean, cut_middle, human_size

API_VERSION = (1, 0)
"""Major and minor version of this surface. An addition raises the minor number, and a change that
can break an extension raises the major number."""

__all__ = [
    "API_VERSION", "CancelToken", "Clock", "ConfigError", "Effect", "HermesError", "SystemClock",
    "Tool", "ToolArgumentsInvalid", "ToolContext", "ToolDenied", "ToolError", "ToolTimedOut",
    "UsageError", "clean", "cut_middle", "human_size",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
