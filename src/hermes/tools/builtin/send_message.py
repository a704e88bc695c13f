"""send_message, made for each session by whoever starts it."""

from hermes.tools.registry import given_tool

ENTRY = given_tool("send_message", "messaging", emoji="📨")
