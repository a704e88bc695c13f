"""`hermes tools` and `hermes prompt`: what the model receives, and what that costs."""

from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes.app import (
    Extensions,
    PromptPreview,
    ToolRow,
    preview_prompt,
    request_size,
    set_tool_enabled,
    tool_rows,
    undescribed_toolsets,
)
from hermes.cli.context import Cli, Command, arg, flag
from hermes.cli.extensions import load_extensions
from hermes.core.model import BYTES_PER_TOKEN, text_tokens
from hermes.prompt import LAYERS
from hermes.tools import MCP_TOOLSET_PREFIX
from hermes.tui import one_line

DESCRIPTION_WIDTH = 60


@asynccontextmanager
async def _plugin_tools(cli: Cli) -> AsyncIterator[None]:
    """Load the tools of plugins, unless a conversation has already loaded them."""
    if Extensions.in_force() is not None or not cli.load().settings.plugins.enabled:
        yield
        return
    extensions = load_extensions(cli.load(), cli)
    try:
        yield
    finally:
        await extensions.close()


async def _list_or_summary(args: Namespace, cli: Cli, context: None) -> None:
    if not args.summary:
        await _list(args, cli, context)
        return
    loaded = cli.load()
    for platform in dict.fromkeys(("cli", *loaded.settings.platform_toolsets)):
        rows = tool_rows(loaded, cli.home, platform)
        on = [row for row in rows if row.on and not row.missing]
        cli.say(f"{platform}: {len(on)} of {len(rows)} tools")


TOOLS = Command(
    "tools",
    _list_or_summary,
    "Show and choose the tools of the agent.",
    flag("--summary", help="one line a platform"),
    epilog="""\
examples:
  hermes tools list                              every tool, and whether it is on
  hermes tools disable execute_code              off in the terminal
  hermes tools enable web --platform telegram    a toolset, for one platform
  hermes tools disable mcp-github                the tools of an MCP server
  hermes tools schema                            what every request pays for tools
""",
    needs=_plugin_tools,
    setup=lambda parser: parser.set_defaults(platform="cli"),
)
PLATFORM = arg("--platform", default="cli", metavar="NAME", help="cli (default), telegram, cron, …")
NAMES = arg("names", nargs="+", metavar="NAME", help="a toolset or a tool")


@TOOLS.action("list", "show tools by toolset", PLATFORM, json=True)
async def _list(args: Namespace, cli: Cli, _context: None) -> None:
    rows = tool_rows(cli.load(), cli.home, args.platform)
    width = max(len(row.name) for row in rows)
    lines, toolset = [], ""
    for row in rows:
        if row.toolset != toolset:
            toolset = row.toolset
            lines.append(f"{toolset}: {row.purpose}" if row.purpose else toolset)
        mark = "✗" if row.missing else ("✓" if row.on else "·")
        lines.append(f"  {mark} {row.name:<{width}}  {_state(row)}".rstrip())
    for name, on in undescribed_toolsets(cli.load(), cli.home, args.platform).items():
        server, off = name.removeprefix(MCP_TOOLSET_PREFIX), "" if on else "off; "
        lines.append(f"{name}: {off}its tools are not known yet (`hermes mcp test {server}` looks)")
    cli.emit(rows, lines)


def _state(row: ToolRow) -> str:
    if row.missing:
        return f"not available: {row.missing}"
    if not row.on:
        return "off"
    return "found by tool_search" if row.rare else one_line(row.description, DESCRIPTION_WIDTH)


@TOOLS.action("enable", "switch toolsets or tools on", NAMES, PLATFORM)
async def _enable(args: Namespace, cli: Cli, _context: None) -> None:
    _switch(args, cli, on=True)


@TOOLS.action("disable", "switch toolsets or tools off", NAMES, PLATFORM)
async def _disable(args: Namespace, cli: Cli, _context: None) -> None:
    _switch(args, cli, on=False)


def _switch(args: Namespace, cli: Cli, *, on: bool) -> None:
    now = set_tool_enabled(cli.load(), cli.home, args.platform, args.names, on=on)
    state = "on" if on else "off"
    cli.say(f"{', '.join(args.names)}: {state} for {args.platform} ({', '.join(now) or 'nothing'})")


@TOOLS.action(
    "schema",
    "show what tools add to every request",
    PLATFORM,
    flag("--full", help="the schemas themselves"),
    json=True,
)
async def _schema(args: Namespace, cli: Cli, _context: None) -> None:
    paid = request_size(cli.load(), cli.home, args.platform)
    if args.full and not args.json:
        cli.json([_sent_schema(tool.spec) for tool in paid.tools])
        return
    sizes = [(tool.chars, tool.name) for tool in sorted(paid.tools, key=lambda tool: -tool.chars)]
    total = f"characters in every request, about {paid.tokens:,} tokens"
    sizes += [(paid.system_prompt, "system prompt"), (paid.total, total)]
    cli.emit(paid, (f"{chars:>7,}  {what}" for chars, what in sizes))


def _sent_schema(spec: Any) -> dict[str, Any]:
    names = ("name", "description", "parameters")
    return {"type": "function", "function": {name: getattr(spec, name) for name in names}}


# `hermes prompt`: the system prompt and its size.

PROMPT = Command(
    "prompt",
    description="Look at the system prompt, layer by layer.",
    epilog="""\
examples:
  hermes prompt show                         the prompt of a session that begins here
  hermes prompt show --layer context_files   one part of it
  hermes prompt show --platform telegram     as a Telegram chat would have it
""",
)


@PROMPT.action(
    "show",
    "print the system prompt and its size",
    PLATFORM,
    arg("--layer", choices=tuple(LAYERS), default="", metavar="NAME", help=", ".join(LAYERS)),
    json=True,
)
def _show(args: Namespace, cli: Cli) -> None:
    shown = preview_prompt(cli.load(), cli.home, Path.cwd(), args.platform)
    if args.layer:
        layers = shown.prompt.layers
        text = next((layer.text for layer in layers if layer.name == args.layer), "")
        if not text and not args.json:
            cli.note(f"the layer {args.layer} is empty here")
        else:
            cli.emit(_layer(args.layer, text), text)
        return
    *_, tools, total = sizes = _sizes(shown)
    facts = {
        "text": shown.prompt.text,
        "layers": [_layer(layer.name, layer.text) for layer in shown.prompt.layers],
        "tools": {"chars": tools[1], "tokens": tools[2]},
        "total": {"chars": total[1], "tokens": total[2]},
    }
    cli.emit(facts, shown.prompt.text)
    for name, chars, tokens in () if args.json else (("", 0, 0), *sizes):
        cli.note(name and f"{chars:>8,} characters  {tokens:>7,} tokens  {name}")


def _layer(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "chars": len(text), "tokens": text_tokens(text), "text": text}


def _sizes(shown: PromptPreview) -> list[tuple[str, int, int]]:
    """Return name, characters and estimated tokens of each layer, the tools and the total."""
    whole, tool_chars = shown.prompt.text, shown.tool_chars
    tool_tokens = -(-tool_chars // BYTES_PER_TOKEN)
    return [
        *((each.name, len(each.text), text_tokens(each.text)) for each in shown.prompt.layers),
        ("tool schemas", tool_chars, tool_tokens),
        ("in every request", len(whole) + tool_chars, text_tokens(whole) + tool_tokens),
    ]
