"""Slack on this machine: its Web API, Socket Mode and files, as its documentation has them."""

from tests.fakes.slack.server import FakeSlack

__all__ = ["FakeSlack"]
