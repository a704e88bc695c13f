"""Rendering of streamed Markdown on a terminal."""

from hermes.tui.markdown.stream import MarkdownStream

__all__ = ["MarkdownStream"]
