"""The types that all packages share: messages, events, errors, tools and the interfaces between
layers.

Its modules are its surface: `from hermes.core.errors import ToolError` names the topic.
"""

__all__ = [
    "cancel", "errors", "events", "messages", "model", "ports", "testing", "tool",
]  # fmt: skip
