"""What `hermes mcp add` was given, as settings: checked, and secrets apart from the rest."""

import argparse
import itertools
import re
import shlex
import shutil
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hermes.config.environment import search_path
from hermes.config.masking import is_secret_variable
from hermes.core.errors import UsageError
from hermes.mcp.oauth import may_carry_tokens

OAUTH, HEADER = "oauth", "header"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_ENV = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*[=:]\s*(.*)")
_REFERENCE = re.compile(r"\$\{\w+\}")


class Given(msgspec.Struct, frozen=True):
    settings: dict[str, Any]
    """What is written to config.yaml, with `${NAME}` in the place of secrets."""
    variables: dict[str, str]
    """The secrets, which are written to .env."""


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of an MCP server",
            hint="use letters, digits, -, _ and ., at most 32, for example: tickets",
        )
    return name


def prefix_of(name: str) -> str:
    """How the variables begin that hold the secrets of a server."""
    return f"MCP_{_upper(name)}_"


def given_settings(
    args: argparse.Namespace, read_token: Callable[[], str], taken: Collection[str]
) -> Given:
    """`read_token` gives the token of `--auth header`; the variables in `taken` hold something
    else already. Raises `UsageError`."""
    if bool(args.url) == bool(args.command):
        raise UsageError(
            "say either --url or --command",
            hint="hermes mcp add time --command uvx --args mcp-server-time",
        )
    secrets = _Secrets(args.name, taken)
    return _remote(args, read_token, secrets) if args.url else _program(args, secrets)


def _program(args: argparse.Namespace, secrets: "_Secrets") -> Given:
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
        name, value = _pair(_ENV, text, "--env", "--env LOG_LEVEL=debug")
        env[name] = secrets.apart(name, value) if is_secret_variable(name) else value
    if env:
        settings["env"] = env
    return Given(settings, secrets.variables)


def _remote(args: argparse.Namespace, read_token: Callable[[], str], secrets: "_Secrets") -> Given:
    if args.args or args.env:
        raise UsageError("--args and --env are for servers with --command")
    _check_url(args.url, args.auth)
    settings: dict[str, Any] = {"url": args.url}
    if args.transport:
        settings["transport"] = args.transport
    if args.auth == OAUTH:
        settings["auth"] = OAUTH
    pairs = [
        _pair(_HEADER, text, "--header", "--header 'X-Api-Key=secret'") for text in args.header
    ]
    if args.auth == HEADER and not pairs:
        token = read_token()
        pairs = [("Authorization", token if " " in token else f"Bearer {token}")]
    headers = {name: secrets.apart(name, value) for name, value in pairs}
    if headers:
        settings["headers"] = headers
    return Given(settings, secrets.variables)


def is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and url.isprintable() and " " not in url


def _check_url(url: str, auth: str | None) -> None:
    if not is_web_address(url):
        raise UsageError(f"{url!r} is no web address", hint="begin it with https://")
    if auth == OAUTH and not may_carry_tokens(url):
        raise UsageError(
            "a login needs https, so that nobody on the way can read it",
            hint="begin the url with https://; only a server on this machine may do without",
        )


class _Secrets:
    """Values that are kept in .env, and referred to."""

    def __init__(self, server: str, taken: Collection[str]) -> None:
        self._prefix, self._taken = prefix_of(server), taken
        self.variables: dict[str, str] = {}

    def apart(self, name: str, value: str) -> str:
        """What stands in config.yaml in its place. A reference stays one."""
        if not value or _REFERENCE.search(value):
            return value
        plain = f"{self._prefix}{_upper(name)}"
        names = itertools.chain([plain], (f"{plain}_{number}" for number in itertools.count(2)))
        variable = next(
            each for each in names if each not in self._taken and each not in self.variables
        )
        self.variables[variable] = value
        return f"${{{variable}}}"


def _pair(form: re.Pattern[str], text: str, flag: str, example: str) -> tuple[str, str]:
    found = form.fullmatch(text)
    if found is None or not all(c.isprintable() for c in found[2]):
        # The text may hold a secret: it is not repeated.
        raise UsageError(f"{flag} takes NAME=VALUE on one line", hint=f"for example: {example}")
    return found[1], found[2]


def _split(command: str) -> list[str]:
    """`npx -y server` in one word is understood too."""
    try:
        return shlex.split(command) or [command]
    except ValueError as error:
        raise UsageError(
            f"--command cannot be taken apart: {error}", hint="use --args for arguments"
        ) from error


def _upper(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()
