"""`hermes mcp add`, `import`, `configure`, `login` and `logout`: add and change MCP servers."""

import asyncio
import itertools
import math
import re
import shlex
import shutil
import sys
import webbrowser
from argparse import REMAINDER, ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.cli.commands.mcp import (
    COMMAND,
    NAME,
    REFERENCE,
    cached_or_probed_tools,
    catalog_cache,
    describe_place,
    error_line,
    is_web_address,
    probe_server,
    remove_server,
    run_logged,
    server_named,
    tokens_folder,
    tool_rows,
    variable_name,
)
from hermes.cli.context import YES, Cli, OneOf, arg, flag, repeated, table
from hermes.cli.output import show_login_url
from hermes.cli.session import split_names
from hermes.config import edit
from hermes.config.environment import expand, is_secret_variable, search_path, variable, variables
from hermes.config.home import tilde
from hermes.config.settings import McpServer
from hermes.core.errors import Interrupted, ToolError, UsageError
from hermes.mcp import ProbeResult, RemoteTool, ServerUnauthorized, offered_tools
from hermes.mcp.oauth import (
    LoginOptions,
    LoginStore,
    McpLoginPrompt,
    login,
    logout,
    may_carry_tokens,
)
from hermes.util.concurrency import SystemClock, in_thread
from hermes.util.text import many, plain_line

# The arguments of `hermes mcp add` as settings, with secrets separated.

OAUTH, HEADER = "oauth", "header"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_ENV = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*[=:]\s*(.*)")


class ServerArguments(msgspec.Struct, frozen=True):
    settings: dict[str, Any]  #: Written to config.yaml, with `${NAME}` in place of secrets.
    variables: dict[str, str]  #: The secrets, written to .env.


def parse_server_arguments(
    args: Namespace, read_token: Callable[[], str], taken: Collection[str]
) -> ServerArguments:
    """Check the arguments and convert them. Raises `UsageError`.

    `read_token` returns the token for `--auth header`. Variables in `taken` are already in use.
    """
    if not _NAME.fullmatch(args.name):
        hint = "use letters, digits, -, _ and ., at most 32, for example: tickets"
        raise UsageError(f"{args.name!r} cannot be the name of an MCP server", hint=hint)
    if bool(args.url) == bool(args.command):
        hint = "hermes mcp add time -- uvx mcp-server-time"
        raise UsageError("say either --url, or the command after --", hint=hint)
    secrets: dict[str, str] = {}

    def refer(name: str, value: str) -> str:
        """Store a value for .env and return its reference. A reference is returned unchanged."""
        if not value or REFERENCE.search(value):
            return value
        plain = variable_name(args.name, name)
        names = itertools.chain([plain], (f"{plain}_{number}" for number in itertools.count(2)))
        variable = next(each for each in names if each not in {*taken, *secrets})
        secrets[variable] = value
        return f"${{{variable}}}"

    if args.url:
        settings = _remote_settings(args, read_token, refer)
    else:
        settings = _program_settings(args, refer)
    return ServerArguments(settings, secrets)


Refer = Callable[[str, str], str]
"""Takes the name and the value of a secret; returns what stands for it in config.yaml."""


def _program_settings(args: Namespace, refer: Refer) -> dict[str, Any]:
    for name in ("auth", "transport", "header"):
        if getattr(args, name):
            raise UsageError(f"--{name} is for servers with --url")
    command, arguments = args.command, list(args.args or [])
    if not arguments and shutil.which(command, path=search_path()) is None:
        try:  # a command given in one word, such as `npx -y server`
            command, *arguments = shlex.split(command) or [command]
        except ValueError as error:
            problem = f"--command cannot be taken apart: {error}"
            raise UsageError(problem, hint="use --args for arguments") from error
    env = {}
    for text in args.env:
        name, value = _parse_pair(_ENV, text, "--env", "--env LOG_LEVEL=debug")
        env[name] = refer(name, value) if is_secret_variable(name) else value
    more = {"args": arguments, "env": env}
    return {"command": command, **{name: value for name, value in more.items() if value}}


def _remote_settings(
    args: Namespace, read_token: Callable[[], str], refer: Refer
) -> dict[str, Any]:
    if args.args or args.env:
        raise UsageError("--args and --env are for servers with --command")
    if not is_web_address(args.url):
        raise UsageError(f"{args.url!r} is not a web address", hint="start it with https://")
    if args.auth == OAUTH and not may_carry_tokens(args.url):
        hint = "begin the url with https://; only a server on this machine may do without"
        raise UsageError("a login needs https, so that it cannot be read on the way", hint=hint)
    pairs = [
        _parse_pair(_HEADER, text, "--header", "--header 'X-Api-Key=secret'")
        for text in args.header
    ]
    if args.auth == HEADER and not pairs:
        token = read_token()
        pairs = [("Authorization", token if " " in token else f"Bearer {token}")]
    headers = {name: refer(name, value) for name, value in pairs}
    auth = OAUTH if args.auth == OAUTH else ""
    more = {"transport": args.transport, "auth": auth, "headers": headers}
    return {"url": args.url, **{name: value for name, value in more.items() if value}}


def _parse_pair(form: re.Pattern[str], text: str, flag: str, example: str) -> tuple[str, str]:
    found = form.fullmatch(text)
    if found is None or not all(c.isprintable() for c in found[2]):
        # Do not repeat the text: it can hold a secret.
        raise UsageError(f"{flag} takes NAME=VALUE on one line", hint=f"for example: {example}")
    return found[1], found[2]


# `hermes mcp configure`: the tools of a server that the agent gets, and time limits.

SECONDS = ("timeout", "connect_timeout", "idle_timeout")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def _names(text: str) -> list[str]:
    return list(split_names([text]))


@COMMAND.action(
    "configure",
    "choose the tools of a server, switch it on and off",
    NAME,
    OneOf(
        arg("--include", type=_names, metavar="TOOLS", help="only these, with commas"),
        arg("--exclude", type=_names, metavar="TOOLS", help="all but these"),
        flag("--all", help="all of them"),
    ),
    arg("--resources", action=BooleanOptionalAction, help="offer its resources"),
    arg("--prompts", action=BooleanOptionalAction, help="offer its prompts"),
    arg("--timeout", type=float, metavar="S", help="seconds for a call"),
    arg("--connect-timeout", type=float, metavar="S", help="seconds to connect"),
    arg("--idle-timeout", type=float, metavar="S", help="seconds idle before it ends"),
    OneOf(flag("--enable", help="use it"), flag("--disable", help="keep it, but do not use it")),
    aliases=("config",),
)
def _configure(args: Namespace, cli: Cli) -> None:
    settings = server_named(cli, args.name)
    changes = _changes(args, cli, settings)
    if not changes:
        if not cli.interactive:
            raise UsageError(
                "say what to change, for example --include TOOLS",
                hint=f"`hermes mcp configure --help` shows what; `hermes mcp tools {args.name}`"
                " lists the tools",
            )
        chosen = _menu(cli, args.name, settings)
        if chosen is None:
            cli.say("nothing was changed")
            return
        changes = chosen
    for key, value in changes.items():
        parts = ("mcp_servers", args.name, *key.split("."))
        if value is None:
            edit.unset_value(cli.home, parts)
        else:
            edit.set_value(cli.home, parts, value)
    cli.say(f"{args.name}: {', '.join(_describe_changes(changes))}")


def _changes(args: Namespace, cli: Cli, settings: McpServer) -> dict[str, Any]:
    """Return new values by key below the server; None removes a key."""
    changes: dict[str, Any] = {}
    for which in ("include", "exclude"):
        wanted = getattr(args, which)
        if wanted is not None:
            _check_known(cli, args.name, settings, wanted)
            changes |= {"tools.include": None, "tools.exclude": None, f"tools.{which}": wanted}
    if args.all:
        changes |= {"tools.include": None, "tools.exclude": None}
    for what in ("resources", "prompts"):
        if getattr(args, what) is not None:
            changes[f"tools.{what}"] = getattr(args, what)
    for setting in SECONDS:
        seconds = getattr(args, setting)
        if seconds is None:
            continue
        if not math.isfinite(seconds) or seconds < 0:
            raise UsageError(f"--{setting.replace('_', '-')} takes a number of seconds, or 0")
        changes[setting] = int(seconds) if seconds.is_integer() else seconds
    if args.enable or args.disable:
        changes["enabled"] = args.enable
    return changes


def _check_known(cli: Cli, name: str, settings: McpServer, wanted: Collection[str]) -> None:
    if not wanted:
        raise UsageError("name at least one tool", hint="--all means all, --disable none")
    catalog = catalog_cache(cli).load(name, settings)
    if catalog is None:
        cli.note(f"note: the tools of {name} are not known yet, so the names were not checked")
        return
    known = [tool.name for tool in catalog.tools]
    strange = [each for each in wanted if each not in known]
    if strange:
        hint = f"it has: {', '.join(known) or 'none'}"
        raise UsageError(f"{name} has no tool {', '.join(map(repr, strange))}", hint=hint)


def _menu(cli: Cli, name: str, settings: McpServer) -> dict[str, Any] | None:
    """Let the user choose from a numbered list; return None to change nothing."""
    catalog = cached_or_probed_tools(cli, name, settings)
    tools = catalog.tools
    if not tools:
        raise UsageError(f"{name} has no tools to choose from")
    chosen = {tool.name for tool in offered_tools(settings, catalog)}
    while True:
        for number, (tool, line) in enumerate(zip(tools, tool_rows(tools), strict=True), 1):
            cli.say(f"{number:>4} {'✓' if tool.name in chosen else '·'} {line}")
        said = cli.ask("numbers to switch, `all`, `none`; empty saves, `q` leaves: ").strip()
        match said.lower():
            case "q":
                return None
            case "all":
                chosen = {tool.name for tool in tools}
            case "none":
                chosen = set()
            case "" if chosen:
                names = [tool.name for tool in tools if tool.name in chosen]
                keys: dict[str, Any] = {"tools.include": None, "tools.exclude": None}
                return keys if len(names) == len(tools) else {**keys, "tools.include": names}
            case "":
                cli.say(f"none is left; `hermes mcp configure {name} --disable` switches it off")
            case _:
                _toggle_tools(cli, tools, chosen, said)


def _toggle_tools(cli: Cli, tools: tuple[RemoteTool, ...], chosen: set[str], said: str) -> None:
    for word in said.replace(",", " ").split():
        found = _RANGE.fullmatch(word)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= len(tools):
            cli.say(f"{word!r} is not in the list")
            continue
        for tool in tools[first - 1 : last]:
            chosen ^= {tool.name}


def _describe_changes(changes: dict[str, Any]) -> list[str]:
    words = []
    for key, value in changes.items():
        if key == "enabled":
            words.append("switched on" if value else "switched off")
        elif isinstance(value, list):
            which = "only" if key == "tools.include" else "all but"
            words.append(f"{which} {', '.join(value)}")
        elif value is not None:
            shown = {True: "on", False: "off"}[value] if isinstance(value, bool) else f"{value} s"
            words.append(f"{key.removeprefix('tools.')} {shown}")
    if changes.get("tools.include", 0) is None and changes.get("tools.exclude", 0) is None:
        words.append("all tools")
    return words


# `hermes mcp login` and `logout`.


@COMMAND.action(
    "login",
    "sign in to a server with OAuth",
    arg("--client-id", default="", metavar="ID", help="a client you registered, or its https URL"),
    arg("--client-secret-env", default="", metavar="NAME", help="the variable with its secret"),
    arg("--scope", default="", metavar="SCOPES", help="ask for exactly these rights"),
    arg("--port", type=int, default=0, metavar="N", help="where the browser comes back to (any)"),
    flag("--no-browser", help="show the address, open nothing"),
    NAME,
)
def _login(args: Namespace, cli: Cli) -> int:
    settings = server_named(cli, args.name)
    if not settings.url:
        raise UsageError(f"{args.name} is a program on this machine: it takes no login")
    if not 0 <= args.port < 65536:
        raise UsageError("--port is a number below 65536")
    secret = ""
    if args.client_secret_env:
        secret = cli.load().secret(args.client_secret_env) or ""
        if not secret or not args.client_id:
            missing = f"{args.client_secret_env} is not set" if not secret else "say --client-id"
            raise UsageError(f"--client-secret-env: {missing}")
    wishes = LoginOptions(args.client_id, secret, args.scope, args.port)
    browser = not args.no_browser
    run_logged(cli, sign_in(cli, args.name, settings.url, wishes, browser=browser))
    if settings.auth != "oauth":
        edit.set_value(cli.home, ("mcp_servers", args.name, "auth"), "oauth")
    settings = msgspec.structs.replace(settings, auth="oauth")
    try:
        found = run_logged(cli, probe_server(cli, args.name, settings))
    except ToolError as error:
        cli.note(f"signed in, but {args.name} does not work: {error_line(error)}")
        return 1
    cli.say(f"signed in to {args.name}: {many(len(found.tools), 'tool')}")
    return 0


async def sign_in(
    cli: Cli, name: str, url: str, wishes: LoginOptions, *, browser: bool = True
) -> None:
    """Log in and store the tokens. Raises `HermesError`."""
    # A browser in the terminal would take over our screen.
    is_graphical = bool(variable("DISPLAY") or variable("WAYLAND_DISPLAY"))
    if sys.platform in ("darwin", "win32"):
        is_graphical = not variable("SSH_CONNECTION")
    opens = browser and bool(variable("BROWSER") or is_graphical)

    async def open_browser(address: str) -> None:
        with suppress(webbrowser.Error, OSError):  # the address is shown anyway
            await in_thread(webbrowser.open, address)

    opened = ("A browser should show it now.",) if opens else ()
    person = McpLoginPrompt(
        show=lambda address: show_login_url(cli, address, *opened),
        open_browser=open_browser if opens else None,
        paste=(lambda: in_thread(cli.stdin.readline)) if cli.interactive else None,
    )
    try:
        await login(name, url, tokens_folder(cli), person, SystemClock(), wishes)
    except asyncio.CancelledError:
        raise Interrupted("the login was stopped; nothing was stored") from None


@COMMAND.action("logout", "forget the login of a server", NAME)
def _logout(args: Namespace, cli: Cli) -> None:
    if not LoginStore(tokens_folder(cli), args.name).path.exists():
        server_named(cli, args.name)  # raises for an unknown name
        cli.say(f"you were not signed in to {args.name}")
        return
    problem = run_logged(cli, logout(args.name, tokens_folder(cli)))
    cli.say(f"signed out of {args.name}")
    if problem:
        cli.note(f"note: {problem}")


LONGEST_TOKEN = 16_384


def _take_program(parser: ArgumentParser) -> None:
    parser.takes_program = True  # type: ignore[attr-defined] # it is a `cli.main.Parser`
    parser.usage = "%(prog)s [OPTIONS] NAME [-- CMD [ARG ...]]"


@COMMAND.action(
    "add",
    "add a server",
    arg("name", metavar="NAME", help="what you call it; its tools are mcp_NAME_…"),
    arg("--url", default="", metavar="URL", help="address of a server over HTTP"),
    arg("--command", default="", metavar="CMD", help="program of a server here, as after --"),
    arg("--args", nargs=REMAINDER, metavar="ARG", help="its arguments: all that follows"),
    repeated("-e", "--env", metavar="K=V", help="a variable the program gets"),
    repeated("--header", metavar="K=V", help="a header sent to the url"),
    arg("--auth", choices=(OAUTH, HEADER), help="OAuth, or a token, asked for or read from stdin"),
    arg("--transport", choices=("http", "sse"), help="else it is found out"),
    flag("--no-test", help="do not connect, just add it"),
    setup=_take_program,
)
def _add(args: Namespace, cli: Cli) -> None:
    name = args.name
    if args.program:
        if args.command:
            raise UsageError("say the command once: after -- or with --command")
        args.command, *args.args = args.program
    if name in cli.load().settings.mcp_servers:
        hint = f"`hermes mcp configure {name}` changes it, `hermes mcp remove {name}` removes it"
        raise UsageError(f"there is an MCP server {name} already", hint=hint)
    given = parse_server_arguments(args, lambda: _token(cli, name), cli.load().saved.keys())
    settings = _expand_settings(cli, name, given)
    waits = args.auth == OAUTH and not cli.interactive
    found = None
    if not args.no_test:
        if args.auth == OAUTH and not waits:
            run_logged(cli, sign_in(cli, name, settings.url, LoginOptions()))
        found = _probe_before_adding(cli, name, settings, waits=waits)
    for key, value in given.variables.items():
        edit.set_variable(cli.home, key, value)
    edit.set_value(cli.home, ("mcp_servers", name), given.settings)
    if found is not None:
        _show(cli, name, found)
    else:
        cli.say(f"added {name} to {tilde(cli.home.config_file)}")
    if args.auth == OAUTH and (waits or args.no_test):
        cli.say(f"it needs a login: hermes mcp login {name}")


def _token(cli: Cli, name: str) -> str:
    if cli.stdin.isatty():
        token = cli.ask_secret(f"Token for {name} (it is not shown): ").strip()
    else:
        token = cli.stdin.read(LONGEST_TOKEN + 1).strip()
    if not token or len(token) > LONGEST_TOKEN or not (token.isascii() and token.isprintable()):
        raise UsageError("this is not a token: a token is one line of ASCII characters")
    return token


def _expand_settings(cli: Cli, name: str, given: ServerArguments) -> McpServer:
    """Return the settings with variables expanded, as they will be loaded."""
    saved = {name: value for name, value in cli.load().saved.items() if value}
    known = {**variables(), **saved, **given.variables}
    settings: dict[str, Any] = expand(given.settings, known)
    for block in ("env", "headers"):
        for value in settings.get(block, {}).values():
            if "${" in value:
                cli.note(f"note: {name}: {plain_line(value)} is not set yet")
    return msgspec.convert(settings, McpServer)


def _probe_before_adding(
    cli: Cli, name: str, settings: McpServer, *, waits: bool
) -> ProbeResult | None:
    """Connect to the server; return None if that fails and the user wants to add it anyway.

    If it `waits` for a login, it is added when it answers that it needs one.
    """
    cli.note(f"connecting to {name} …")
    if waits:
        settings = msgspec.structs.replace(settings, auth="")
    try:
        return run_logged(cli, probe_server(cli, name, settings))
    except ToolError as error:
        if waits and isinstance(error, ServerUnauthorized):
            catalog_cache(cli).drop(name)  # the failure is the expected one
            return None
        words = error_line(error)
        if isinstance(error, ServerUnauthorized) and not settings.auth and not settings.headers:
            words = f"{plain_line(str(error))} (it may want --auth oauth or --auth header)"
        # After a login, a thread may still read stdin and would swallow the answer.
        if cli.interactive and settings.auth != OAUTH:
            cli.say(f"✗ {words}")
            if cli.confirm("Add it anyway?"):
                return None
        catalog_cache(cli).drop(name)
        raise UsageError(
            f"{name} was not added: {words}", hint="--no-test adds it without connecting"
        ) from error


def _show(cli: Cli, name: str, found: ProbeResult) -> None:
    who = plain_line(f"{found.server_info.name} {found.server_info.version}")
    counts = [many(len(found.tools), "tool")]
    counts += [many(len(found.resources), "resource")] if found.resources else []
    counts += [many(len(found.prompts), "prompt")] if found.prompts else []
    cli.say(f"added {name}: {who or found.transport}, {', '.join(counts)}")
    for line in tool_rows(found.tools) if found.tools else ():
        cli.say(f"  {line}")
    for problem in found.problems:
        cli.say(f"  not available: {plain_line(problem)}")
    if any(not tool.read_only for tool in found.tools):
        cli.say("You are asked before a tool runs that does more than read.")


# `hermes mcp import`: the servers of another program's settings.

_DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")


class ImportedServer(msgspec.Struct):
    """A server as `.mcp.json` and `claude_desktop_config.json` describe it."""

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    type: Literal["stdio", "http", "streamable-http", "sse", ""] = ""
    headers: dict[str, str] = {}
    disabled: bool = False


class ServersFile(msgspec.Struct):
    mcp_servers: dict[str, Any] = msgspec.field(name="mcpServers")


@COMMAND.action(
    "import",
    "add the servers of .mcp.json or claude_desktop_config.json",
    arg("file", metavar="FILE", type=Path),
    flag("--replace", help="replace servers that have the same name"),
    YES,
)
def _import(args: Namespace, cli: Cli) -> int:
    found = _read_servers(args.file)
    existing, taken = cli.load().settings.mcp_servers, set(cli.load().saved)
    wanted: dict[str, ServerArguments] = {}
    rows, problems = [], []
    for name, data in found.items():
        shown = plain_line(name)
        if name in existing and not args.replace:
            problems.append(f"{shown}: there is a server of this name; --replace replaces it")
            continue
        try:
            given = _imported_arguments(name, data, taken)
            settings = _expand_settings(cli, shown, given)
        except (UsageError, msgspec.ValidationError) as error:
            problems.append(f"{shown}: {plain_line(str(error))}")
            continue
        wanted[name] = given
        taken |= given.variables.keys()
        secrets = ", ".join(map(plain_line, (*settings.env, *settings.headers)))
        replaces = "replaces the present one" if name in existing else ""
        rows.append((shown, describe_place(cli, settings), secrets, replaces))
    for line in table(rows) if rows else ():
        cli.say(line)
    for problem in problems:
        cli.note(f"not added: {problem}")
    if not wanted:
        raise UsageError(f"there is nothing to add from {args.file}")
    cli.require(f"Add {many(len(wanted), 'server')}?", "nothing was added")
    for name, given in wanted.items():
        if name in existing:
            remove_server(cli, name)
        for key, value in given.variables.items():
            edit.set_variable(cli.home, key, value)
        edit.set_value(cli.home, ("mcp_servers", name), given.settings)
    cli.say(f"added {', '.join(wanted)} to {tilde(cli.home.config_file)}")
    cli.say(f"to test one: hermes mcp test {next(iter(wanted))}")
    return 1 if problems else 0


def _read_servers(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServersFile).mcp_servers
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        hint = "it is a JSON file with an object `mcpServers`, such as .mcp.json"
        raise UsageError(f"cannot read {path}: {error}", hint=hint) from None


def _imported_arguments(name: str, data: Any, taken: Collection[str]) -> ServerArguments:
    """Convert a server as `hermes mcp add` does. Raises `UsageError` or `ValidationError`.

    `${NAME:-default}` becomes the default, unless the variable is set.
    """

    def resolve(match: re.Match[str]) -> str:
        return f"${{{match[1]}}}" if variable(match[1]) else match[2]

    text = _DEFAULT.sub(resolve, msgspec.json.encode(data).decode())
    server = msgspec.json.decode(text, type=ImportedServer)
    args = Namespace(
        name=name,
        url=server.url,
        command=server.command,
        args=server.args,
        env=[f"{key}={value}" for key, value in server.env.items()],
        header=[f"{key}={value}" for key, value in server.headers.items()],
        auth=None,
        transport="sse" if server.type == "sse" else None,
    )
    given = parse_server_arguments(args, str, taken)
    if server.disabled:
        given.settings["enabled"] = False
    return given
