"""cronjob, made for each session by whoever starts it."""

from hermes.tools.registry import given_tool

ENTRY = given_tool("cronjob", "cronjob", emoji="⏰")
