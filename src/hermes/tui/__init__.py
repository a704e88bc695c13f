"""The conversation on a terminal: what it looks like and how it is typed."""
