"""Slash commands that do what a subcommand does, and show what it prints."""

import asyncio
import io
from collections.abc import Sequence

import msgspec

from hermes.app.commands import Call, Handler
from hermes.cli import registry
from hermes.cli.context import Cli
from hermes.cli.main import Parser
from hermes.config.home import Home
from hermes.config.loader import Loaded, load
from hermes.core.errors import HermesError, UsageError

MIRRORED: dict[str, tuple[str, tuple[str, ...]]] = {
    "config": ("config", ("show",)),
    "sessions": ("sessions", ("list",)),
    "tools": ("tools", ("list",)),
    "skills": ("skills", ("list",)),
    "plugins": ("plugins", ("list",)),
    "insights": ("insights", ()),
    "debug": ("dump", ()),
}
"""The subcommand of each, and its arguments when none are given."""
SINGLE = {"config": "explain", "sessions": "search", "skills": "search", "insights": "--days"}
"""What stands before a first word that is no action of the subcommand."""


def mirrored(home: Home) -> dict[str, Handler]:
    """Handlers by the name of their slash command."""
    return {name: _handler(name, home) for name in MIRRORED}


def _handler(name: str, home: Home) -> Handler:
    command, usual = MIRRORED[name]

    async def run(call: Call) -> str:
        words = call.words or list(usual)
        text = await asyncio.to_thread(_printed, home, command, words, SINGLE.get(name, ""))
        if name == "tools" and words[0] in ("enable", "disable"):
            await asyncio.to_thread(_take_up, call.app.loaded, home)
        return text

    return run


def _take_up(loaded: Loaded, home: Home) -> None:
    """New conversations have the tools that were chosen."""
    fresh = load(home).settings.platform_toolsets
    loaded.settings = msgspec.structs.replace(loaded.settings, platform_toolsets=fresh)


def _printed(home: Home, name: str, words: Sequence[str], single: str) -> str:
    found = registry.find(name)
    if found is None:
        raise UsageError(f"there is no command {name}")
    module = found.load()
    parser = Parser(prog=f"/{name}", add_help=False)
    module.configure(parser)
    try:
        args = parser.parse_args(list(words))
    except UsageError:
        if not single or words[0].startswith("-"):
            raise
        args = parser.parse_args([single, *words])
    out, errors = io.StringIO(), io.StringIO()
    try:
        module.run(args, Cli(home, io.StringIO(), out, errors))
    except HermesError as error:
        errors.write(str(error))
        if error.hint:
            errors.write(f"\n{error.hint}")
    text = "\n".join(filter(None, (out.getvalue().rstrip(), errors.getvalue().rstrip())))
    return f"```\n{text}\n```" if text else ""
