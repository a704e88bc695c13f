"""Servers and tools in words for a terminal. What servers say never reaches it raw."""

import shlex
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hermes.cli.commands.mcp.given import is_web_address
from hermes.cli.context import Cli
from hermes.cli.render import one_line
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import HermesError
from hermes.mcp import RemoteTool
from hermes.mcp.oauth import McpLogin
from hermes.security import Redactor
from hermes.util.plain import escaped_json, plain_line
from hermes.util.text import human_duration

WIDTH = 70


def document(cli: Cli, value: Any) -> None:
    """`value` as JSON."""
    encoded = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    cli.say(escaped_json(encoded))


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n".join(["example:" if len(lines) == 1 else "examples:", *(f"  {x}" for x in lines)])


def place_of(cli: Cli, settings: McpServer) -> str:
    """The program or the address, without secrets in it."""
    if settings.command:
        text = shlex.join((settings.command, *settings.args))
    elif not is_web_address(settings.url):
        return "?"  # nobody can tell what in it is a secret
    else:
        parts = urlsplit(settings.url)
        text = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return plain_line(Redactor(cli.load().secrets()).redact(text))


def may(tool: RemoteTool) -> str:
    """What a call of the tool can do, by the word of its server."""
    if tool.read_only:
        return "reads, also elsewhere" if tool.open_world else "reads"
    return "may destroy" if tool.destructive else "may do anything"


def tool_facts(tool: RemoteTool, offered: bool = True) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "may": may(tool),
        "asks_first": not tool.read_only,
        "offered": offered,
    }


def tool_rows(tools: Sequence[RemoteTool]) -> list[str]:
    return table(
        [
            (
                one_line(plain_line(tool.name), WIDTH),
                may(tool),
                one_line(plain_line(tool.description), WIDTH),
            )
            for tool in tools
        ]
    )


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def words_of(error: HermesError) -> str:
    """An error and what to do about it, on one line."""
    hint = f" ({plain_line(error.hint)})" if error.hint else ""
    return f"{plain_line(str(error))}{hint}"


def ago(moment: float) -> str:
    return f"{human_duration(time.time() - moment)} ago"


def login_words(login: McpLogin | None, url: str) -> str:
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
