"""What the actions of `hermes mcp` share: the servers, and what is known of them."""

import asyncio
import shutil
from collections.abc import Coroutine
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from hermes.app.log_files import start_logging, stop_logging
from hermes.app.mcp import authorizers
from hermes.cli.commands.mcp.given import is_web_address
from hermes.cli.context import Cli
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import ToolError, UsageError
from hermes.mcp import (
    CatalogCache,
    McpLimits,
    McpOptions,
    ProbeResult,
    ServerUnavailable,
    TransportFactory,
    probe,
    program_environment,
)
from hermes.security import Redactor
from hermes.util.plain import plain_line

T = TypeVar("T")


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


def cache_of(cli: Cli) -> CatalogCache:
    return CatalogCache(cli.home.cache / "mcp")


def tokens_folder(cli: Cli) -> Path:
    return cli.home.root / "mcp-tokens"


async def probed(cli: Cli, name: str, settings: McpServer) -> ProbeResult:
    """Connects once; new conversations start with what was found. Raises `ToolError`, with
    nothing in it that could drive a terminal."""
    options = McpOptions(cache=cli.home.cache / "mcp", folder=str(Path.cwd()))
    authorizer = authorizers(cli.home)(name, settings)
    try:
        return await probe(name, settings, options, authorizer)
    except ToolError as error:
        error.args = (plain_line(str(error)),)
        raise


def awaited(cli: Cli, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. What is logged meanwhile, such as the last words of a program, goes to
    the files of `hermes logs` and not to the terminal."""
    loaded = cli.load()
    start_logging(cli.home, loaded.settings.logging, Redactor(loaded.secrets()))
    try:
        return asyncio.run(work)
    finally:
        stop_logging()


def transport_of(settings: McpServer) -> str:
    """As far as the settings say."""
    if settings.command:
        return "stdio"
    return settings.transport or "http"


def fault_of(name: str, settings: McpServer) -> str:
    """What is wrong with the settings, seen without starting anything; or nothing."""
    try:
        TransportFactory(McpLimits()).kinds(name, settings)
    except ServerUnavailable as error:
        return f"{error} ({error.hint})"
    if settings.url and not is_web_address(settings.url):
        return "its `url` is no web address (begin it with https://)"
    path = program_environment(settings.env).get("PATH")
    if settings.command and shutil.which(settings.command, path=path) is None:
        return f"there is no program {settings.command!r}"
    return ""
