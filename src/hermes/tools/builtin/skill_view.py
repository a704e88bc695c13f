"""skill_view, made for each session by whoever starts it."""

from hermes.tools.registry import given_tool

ENTRY = given_tool("skill_view", "skills", emoji="📚")
