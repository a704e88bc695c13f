"""Discord on this machine: its HTTP API, its gateway and its CDN, as its documentation has them."""

from tests.fakes.discord.server import FakeDiscord

__all__ = ["FakeDiscord"]
