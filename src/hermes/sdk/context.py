"""What a context engine needs: the interface, and the parts that the built-in engine is made of.

`ContextEngine` is the documented interface. The other names read and shorten a conversation in the
OpenAI format: budgets, the words of the user, facts, notes with their format, checks of a reply.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.context import (
        SUMMARY_PREFIX, BuiltinEngine, CompressionOptions, CompressionSizes, ContextEngine, Dict,
        Dicts, Summary, SummaryAnswer, SummaryModel, SummaryNotes, UnusableReply, add_facts,
        ask_models, clean_reply, compute_sizes, extract_facts, find_engine, is_summary,
        join_request, latest_request, merge_summaries, message_text, missing_lines, read_summary,
        split_request, touched_files, user_text, write_summary,
    )
    from hermes.context import estimate_messages_tokens_rough as estimate_tokens
    from hermes.context.notes import ACTIVE, AFTER_END, END, IN_TAIL, IN_USERS, INTRO
    from hermes.context.summary import LEAST_CHARS
    # fmt: on
    # isort: on

__all__ = [
    "ACTIVE", "AFTER_END", "END", "INTRO", "IN_TAIL", "IN_USERS", "LEAST_CHARS", "SUMMARY_PREFIX",
    "BuiltinEngine", "CompressionOptions", "CompressionSizes", "ContextEngine", "Dict", "Dicts",
    "Summary", "SummaryAnswer", "SummaryModel", "SummaryNotes", "UnusableReply", "add_facts",
    "ask_models", "clean_reply", "compute_sizes", "estimate_tokens", "extract_facts", "find_engine",
    "is_summary", "join_request", "latest_request", "merge_summaries", "message_text",
    "missing_lines", "read_summary", "split_request", "touched_files", "user_text", "write_summary",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
