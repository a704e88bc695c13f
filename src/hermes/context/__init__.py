"""Context engines: they shorten a conversation that no longer fits the context of its model.

`ContextEngine` is the documented interface; `CompactionPolicy` decides when an engine runs.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.context.compressor import (
        CompressionOptions, CompressionSizes, ContextCompressor, compute_sizes,
    )
    from hermes.context.conversation import estimate_messages_tokens_rough, message_text
    from hermes.context.discovery import bundled_engines, find_engine, list_engines
    from hermes.context.engine import (
        BuiltinEngine, ContextEngine, Dict, Dicts, SummaryAnswer, SummaryModel,
    )
    from hermes.context.notes import (
        SUMMARY_PREFIX, Summary, SummaryNotes, add_facts, extract_facts, is_summary, join_request,
        latest_request, merge_summaries, read_summary, split_request, touched_files, user_text,
        write_summary,
    )
    from hermes.context.policy import CompactionPolicy, Compressed, TokenCounter, needs_compaction
    from hermes.context.summary import (
        UnusableReply, ask_models, clean_reply, is_refusal, missing_lines,
    )
    # fmt: on
    # isort: on

__all__ = [
    "SUMMARY_PREFIX", "BuiltinEngine", "CompactionPolicy", "Compressed", "CompressionOptions",
    "CompressionSizes", "ContextCompressor", "ContextEngine", "Dict", "Dicts",
    "Summary", "SummaryAnswer", "SummaryModel", "SummaryNotes", "TokenCounter", "UnusableReply",
    "add_facts", "ask_models", "bundled_engines", "clean_reply", "compute_sizes",
    "estimate_messages_tokens_rough", "extract_facts", "find_engine", "is_refusal", "is_summary",
    "join_request", "latest_request", "list_engines", "merge_summaries", "message_text",
    "missing_lines", "needs_compaction", "read_summary", "split_request", "touched_files",
    "user_text", "write_summary",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
