"""`tools.mcp_tool`: the tools of MCP servers."""

from hermes.app.documented.process import Process, process, tell
from hermes.app.documented.workshop import workshop
from hermes.app.mcp import make_hub
from hermes.core.tool import Tool


def discover_mcp_tools() -> list[str]:
    """Asks the servers of `mcp_servers` for their tools; from then on `model_tools` has them too.
    The names of these tools. A server that does not answer is told on standard error."""
    shop = workshop()
    if not shop.mcp_tools:
        shop.mcp_tools = tuple(process().run(_tools(process())))
    return [tool.name for tool in shop.mcp_tools]


async def _tools(shared: Process) -> list[Tool]:
    if not shared.loaded.settings.mcp_servers:
        return []
    hub = make_hub(shared.home, shared.loaded, tell)
    shared.at_end.append(hub.close)
    found: list[Tool] = await hub.tools()
    return found
