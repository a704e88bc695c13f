"""Connecting once, for `hermes mcp test`."""

import pytest

from hermes.config.settings import McpServer
from hermes.core.errors import ToolError
from hermes.mcp import McpOptions, probe
from tests.integration.mcp.stage import Stage, methods, only, program


async def test_a_probe_says_what_a_server_offers(stage: Stage) -> None:
    found = await probe("srv", program(tools=only("echo")))
    assert found.transport == "stdio"
    assert (found.server_info.name, found.server_info.version) == ("scripted", "1.2")
    assert found.server_info.protocol == "2025-11-25"
    assert found.server_info.instructions == "Be nice."
    assert [tool.name for tool in found.tools] == ["act", "drop.table", "echo", "look-up"]
    assert found.resources == ("file:///a (a, text/plain): A",)
    assert found.prompts == ("greet",)
    assert found.connect_seconds > 0


async def test_probed_tools_are_cached_for_the_next_session(stage: Stage) -> None:
    path = stage.folder / "heard"
    settings = program(env={"HEARD": str(path)})
    await probe("srv", settings, McpOptions(cache=stage.folder / "cache"))
    path.unlink()
    assert "mcp_srv_echo" in await stage.tools(stage.hub(settings))
    assert methods(path) == []


async def test_a_server_that_cannot_be_reached_is_a_clear_error() -> None:
    with pytest.raises(ToolError, match="there is no program 'no-such-program'"):
        await probe("srv", McpServer(command="no-such-program"))


async def test_omitted_tools_are_reported() -> None:
    found = await probe("srv", program("liar"))
    assert len(found.problems) == 10
