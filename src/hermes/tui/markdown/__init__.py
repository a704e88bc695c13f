"""Markdown on a terminal, while it arrives."""

from hermes.tui.markdown.stream import MarkdownStream

__all__ = ["MarkdownStream"]
