"""What the actions of `hermes mcp` share: the servers, and what is known of them."""

import shutil
from difflib import get_close_matches
from pathlib import Path

from hermes.app.mcp_servers import authorisers
from hermes.cli.context import Cli
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import UsageError
from hermes.mcp.catalogue import CatalogueCache
from hermes.mcp.failures import Unavailable
from hermes.mcp.options import McpOptions
from hermes.mcp.probe import Probe, probe
from hermes.mcp.transport import Limits
from hermes.mcp.transports import Transports, program_environment


def server_named(cli: Cli, name: str) -> McpServer:
    servers = cli.load().settings.mcp_servers
    if name in servers:
        return servers[name]
    close = get_close_matches(name, servers, n=1)
    known = ", ".join(sorted(servers)) or "none; `hermes mcp add` adds one"
    raise UsageError(
        f"there is no MCP server {name!r}",
        hint=f"did you mean {close[0]}?" if close else f"there are: {known}",
    )


def cache_of(cli: Cli) -> CatalogueCache:
    return CatalogueCache(cli.home.cache / "mcp")


def tokens_folder(cli: Cli) -> Path:
    return cli.home.root / "mcp-tokens"


async def probed(cli: Cli, name: str, settings: McpServer) -> Probe:
    """Connects once; new conversations start with what was found. Raises `ToolError`."""
    options = McpOptions(cache=cli.home.cache / "mcp", folder=str(Path.cwd()))
    authoriser = authorisers(cli.home, lambda _text: None)(name, settings)
    return await probe(name, settings, options, authoriser)


def transport_of(settings: McpServer) -> str:
    """As far as the settings say."""
    if settings.command:
        return "stdio"
    return settings.transport or "http"


def fault_of(name: str, settings: McpServer) -> str:
    """What is wrong with the settings, seen without starting anything; or nothing."""
    try:
        Transports(Limits()).kinds(name, settings)
    except Unavailable as error:
        return f"{error} ({error.hint})"
    path = program_environment(settings.env).get("PATH")
    if settings.command and shutil.which(settings.command, path=path) is None:
        return f"there is no program {settings.command!r}"
    return ""
