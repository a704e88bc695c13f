"""Configured MCP servers: parse, find, probe and describe them. Shared by `hermes mcp`."""

import asyncio
import itertools
import re
import shlex
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Coroutine, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from hermes.app.log_files import start_logging, stop_logging
from hermes.app.mcp import authorizers
from hermes.cli.context import Cli, table
from hermes.cli.terminal import one_line
from hermes.config.dotenv import is_secret_variable
from hermes.config.environment import search_path
from hermes.config.settings import McpServer
from hermes.core.errors import HermesError, ToolError, UsageError
from hermes.mcp import (
    CatalogCache,
    McpLimits,
    McpOptions,
    ProbeResult,
    RemoteTool,
    ServerCatalog,
    ServerUnavailable,
    TransportFactory,
    probe,
    program_environment,
)
from hermes.mcp.oauth import McpLogin, may_carry_tokens
from hermes.security import Redactor
from hermes.util.text import human_duration, plain_line

# The arguments of `hermes mcp add` as settings, with secrets separated.

OAUTH, HEADER = "oauth", "header"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_ENV = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*[=:]\s*(.*)")
_REFERENCE = re.compile(r"\$\{\w+\}")


class ServerArguments(msgspec.Struct, frozen=True):
    settings: dict[str, Any]  #: Written to config.yaml, with `${NAME}` in place of secrets.
    variables: dict[str, str]  #: The secrets, written to .env.


def check_server_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, -, _ and ., at most 32, for example: tickets"
        raise UsageError(f"{name!r} cannot be the name of an MCP server", hint=hint)
    return name


def variable_prefix(name: str) -> str:
    """Return the prefix of the variables that hold the secrets of a server."""
    return f"MCP_{_variable_name(name)}_"


def parse_server_arguments(
    args: Namespace, read_token: Callable[[], str], taken: Collection[str]
) -> ServerArguments:
    """Check the arguments and convert them. Raises `UsageError`.

    `read_token` returns the token for `--auth header`. Variables in `taken` are already in use.
    """
    if bool(args.url) == bool(args.command):
        hint = "hermes mcp add time --command uvx --args mcp-server-time"
        raise UsageError("say either --url or --command", hint=hint)
    secrets = _Secrets(args.name, taken)
    if args.url:
        return _remote_settings(args, read_token, secrets)
    return _program_settings(args, secrets)


def _program_settings(args: Namespace, secrets: "_Secrets") -> ServerArguments:
    for flag in ("auth", "transport", "header"):
        if getattr(args, flag):
            raise UsageError(f"--{flag} is for servers with --url")
    command, arguments = args.command, list(args.args or [])
    if not arguments and shutil.which(command, path=search_path()) is None:
        command, *arguments = _split(command)
    settings: dict[str, Any] = {"command": command}
    if arguments:
        settings["args"] = arguments
    env = {}
    for text in args.env:
        name, value = _parse_pair(_ENV, text, "--env", "--env LOG_LEVEL=debug")
        env[name] = secrets.apart(name, value) if is_secret_variable(name) else value
    if env:
        settings["env"] = env
    return ServerArguments(settings, secrets.variables)


def _remote_settings(
    args: Namespace, read_token: Callable[[], str], secrets: "_Secrets"
) -> ServerArguments:
    if args.args or args.env:
        raise UsageError("--args and --env are for servers with --command")
    _check_url(args.url, args.auth)
    settings: dict[str, Any] = {"url": args.url}
    if args.transport:
        settings["transport"] = args.transport
    if args.auth == OAUTH:
        settings["auth"] = OAUTH
    pairs = [
        _parse_pair(_HEADER, text, "--header", "--header 'X-Api-Key=secret'")
        for text in args.header
    ]
    if args.auth == HEADER and not pairs:
        token = read_token()
        pairs = [("Authorization", token if " " in token else f"Bearer {token}")]
    headers = {name: secrets.apart(name, value) for name, value in pairs}
    if headers:
        settings["headers"] = headers
    return ServerArguments(settings, secrets.variables)


def is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and url.isprintable() and " " not in url


def _check_url(url: str, auth: str | None) -> None:
    if not is_web_address(url):
        raise UsageError(f"{url!r} is not a web address", hint="start it with https://")
    if auth == OAUTH and not may_carry_tokens(url):
        hint = "begin the url with https://; only a server on this machine may do without"
        raise UsageError("a login needs https, so that it cannot be read on the way", hint=hint)


class _Secrets:
    """Collects values for .env and returns references to them."""

    def __init__(self, server: str, taken: Collection[str]) -> None:
        self._prefix, self._taken = variable_prefix(server), taken
        self.variables: dict[str, str] = {}

    def apart(self, name: str, value: str) -> str:
        """Store a value and return its reference. A reference is returned unchanged."""
        if not value or _REFERENCE.search(value):
            return value
        plain = f"{self._prefix}{_variable_name(name)}"
        names = itertools.chain([plain], (f"{plain}_{number}" for number in itertools.count(2)))
        used = {*self._taken, *self.variables}
        variable = next(each for each in names if each not in used)
        self.variables[variable] = value
        return f"${{{variable}}}"


def _parse_pair(form: re.Pattern[str], text: str, flag: str, example: str) -> tuple[str, str]:
    found = form.fullmatch(text)
    if found is None or not all(c.isprintable() for c in found[2]):
        # Do not repeat the text: it can hold a secret.
        raise UsageError(f"{flag} takes NAME=VALUE on one line", hint=f"for example: {example}")
    return found[1], found[2]


def _split(command: str) -> list[str]:
    """Split a command given in one word, such as `npx -y server`."""
    try:
        return shlex.split(command) or [command]
    except ValueError as error:
        raise UsageError(
            f"--command cannot be taken apart: {error}", hint="use --args for arguments"
        ) from error


def _variable_name(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


T = TypeVar("T")


def server_named(cli: Cli, name: str) -> McpServer:
    servers = cli.load().settings.mcp_servers
    if name in servers:
        return servers[name]
    close = get_close_matches(name, servers, n=1)
    known = ", ".join(sorted(servers)) or "none; `hermes mcp add` adds one"
    hint = f"did you mean {close[0]}?" if close else f"there are: {known}"
    raise UsageError(f"there is no MCP server {name!r}", hint=hint)


def catalog_cache(cli: Cli) -> CatalogCache:
    return CatalogCache(cli.home.cache / "mcp")


def tokens_folder(cli: Cli) -> Path:
    return cli.home.root / "mcp-tokens"


async def probe_server(cli: Cli, name: str, settings: McpServer) -> ProbeResult:
    """Connect once and cache the result for new conversations.

    Raises `ToolError` with control characters removed from the message.
    """
    options = McpOptions(cache=cli.home.cache / "mcp", folder=str(Path.cwd()))
    authorizer = authorizers(cli.home)(name, settings)
    try:
        return await probe(name, settings, options, authorizer)
    except ToolError as error:
        error.args = (plain_line(str(error)),)
        raise


def run_logged(cli: Cli, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` with log records in the log files instead of on the terminal."""
    loaded = cli.load()
    start_logging(cli.home, loaded.settings.logging, Redactor(loaded.secrets()))
    try:
        return asyncio.run(work)
    finally:
        stop_logging()


def transport_name(settings: McpServer) -> str:
    """Return the transport that the settings name."""
    return "stdio" if settings.command else settings.transport or "http"


def find_fault(name: str, settings: McpServer) -> str:
    """Return what is wrong with the settings, without starting the server; "" if nothing is."""
    try:
        TransportFactory(McpLimits()).kinds(name, settings)
    except ServerUnavailable as error:
        return f"{error} ({error.hint})"
    if settings.url and not is_web_address(settings.url):
        return "its `url` is not a web address (it must start with https://)"
    path = program_environment(settings.env).get("PATH")
    if settings.command and shutil.which(settings.command, path=path) is None:
        return f"there is no program {settings.command!r}"
    return ""


# Descriptions for a terminal. Text of a server is always cleaned first.

WIDTH = 70


def describe_place(cli: Cli, settings: McpServer) -> str:
    """Return the program or the address without secrets."""
    if settings.command:
        text = shlex.join((settings.command, *settings.args))
    elif not is_web_address(settings.url):
        return "?"  # it cannot be parsed, so any part may be a secret
    else:
        parts = urlsplit(settings.url)
        text = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return plain_line(Redactor(cli.load().secrets()).redact(text))


def describe_effect(tool: RemoteTool) -> str:
    """Describe the effect of a call, as the server declares it."""
    if tool.read_only:
        return "reads, also elsewhere" if tool.open_world else "reads"
    return "may destroy" if tool.destructive else "may do anything"


def tool_facts(tool: RemoteTool, offered: bool = True) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "may": describe_effect(tool),
        "asks_first": not tool.read_only,
        "offered": offered,
    }


def tool_rows(tools: Sequence[RemoteTool]) -> list[str]:
    def cell(text: str) -> str:
        return one_line(plain_line(text), WIDTH)

    return table(
        [(cell(tool.name), describe_effect(tool), cell(tool.description)) for tool in tools]
    )


def error_line(error: HermesError) -> str:
    """Return an error and its hint on one line."""
    hint = f" ({plain_line(error.hint)})" if error.hint else ""
    return f"{plain_line(str(error))}{hint}"


def login_state(login: McpLogin | None, url: str) -> str:
    now = time.time()
    if login is None:
        return "not signed in"
    if login.url != url:
        return "signed in at another address"
    if not login.is_usable(now):
        return "the login has ended"
    if login.wanted:
        return "signed in, but the server wants more rights"
    if login.expires_at is None or login.refresh_token:
        return "signed in"
    return f"signed in for {human_duration(login.expires_at - now)}"


def cached_or_probed_tools(
    cli: Cli, name: str, settings: McpServer, *, refresh: bool = False
) -> ServerCatalog:
    """Return the cached catalog of the server, or connect to get it. Raises `HermesError`."""
    known = None if refresh else catalog_cache(cli).load(name, settings)
    if known is not None:
        return known
    cli.note(f"connecting to {name} …")
    found = run_logged(cli, probe_server(cli, name, settings))
    return ServerCatalog(found.tools, bool(found.resources), bool(found.prompts), found.problems)
