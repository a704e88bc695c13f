"""`hermes mcp serve` where it cannot start."""

import sys

from tests.unit.cli.terminal import Hermes


def test_missing_packages_are_named_with_the_command_that_installs_them(hermes_home, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    found = Hermes("mcp", hermes_home)("serve")
    assert found.code != 0
    assert "the packages for MCP clients are missing" in found.err
    assert "hermes setup mcp-server" in found.err


def test_terminal_without_http_is_refused(hermes_home):
    found = Hermes("mcp", hermes_home)("serve", typed="")
    assert found.code != 0
    assert "an MCP client starts this command" in found.err
