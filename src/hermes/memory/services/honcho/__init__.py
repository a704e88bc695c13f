"""Honcho, a service that reasons about its users (docs.honcho.dev, API v3).

A profile is a workspace, a user and the agent are peers in it, a conversation is a session of both.
What Honcho concludes about the user is recalled.
"""

from hermes.memory.services.honcho.cli import register_cli
from hermes.memory.services.honcho.provider import Provider

__all__ = ["Provider", "register_cli"]
