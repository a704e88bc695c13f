"""Context engines: they shorten a conversation that no longer fits the context of its model.

`ContextEngine` is the documented interface; `CompactionPolicy` decides when an engine runs.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.context.compressor import CompressionOptions, ContextCompressor
    from hermes.context.discovery import bundled_engines, find_engine, list_engines
    from hermes.context.engine import ContextEngine, NoEngine, SummaryAnswer, SummaryModel
    from hermes.context.policy import CompactionPolicy, TokenCounter, needs_compaction

__all__ = [
    "CompactionPolicy", "CompressionOptions", "ContextCompressor", "ContextEngine", "NoEngine",
    "SummaryAnswer", "SummaryModel", "TokenCounter", "bundled_engines", "find_engine",
    "list_engines", "needs_compaction",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
