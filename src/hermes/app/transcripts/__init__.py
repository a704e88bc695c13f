"""Stored sessions in forms that leave the store, and back: JSON Lines, Markdown, HTML."""
