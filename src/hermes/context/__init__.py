"""Context engines: they shorten a conversation that no longer fits the context of its model.

`ContextEngine` is the documented interface; `CompactionPolicy` decides when an engine runs.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.context.compressor import CompressionOptions, ContextCompressor
    from hermes.context.discovery import find_engine, list_engines
    from hermes.context.engine import ContextEngine, NoEngine, SummaryAnswer, SummaryModel
    from hermes.context.policy import CompactionPolicy, TokenCounter, needs_compaction

_MODULES = {
    "CompactionPolicy": "policy",
    "CompressionOptions": "compressor",
    "ContextCompressor": "compressor",
    "ContextEngine": "engine",
    "NoEngine": "engine",
    "SummaryAnswer": "engine",
    "SummaryModel": "engine",
    "TokenCounter": "policy",
    "find_engine": "discovery",
    "list_engines": "discovery",
    "needs_compaction": "policy",
}

__all__ = [
    "CompactionPolicy",
    "CompressionOptions",
    "ContextCompressor",
    "ContextEngine",
    "NoEngine",
    "SummaryAnswer",
    "SummaryModel",
    "TokenCounter",
    "find_engine",
    "list_engines",
    "needs_compaction",
]


def __getattr__(name: str) -> Any:
    # Lazy: a chat needs one engine, and none of the modules that compress until it is long.
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
