"""`hermes tools` and `hermes prompt`: what the model receives, and what that costs."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from hermes.app.extensions import Extensions
from hermes.app.prompting import PromptPreview, preview_prompt
from hermes.app.tool_listing import ToolRow, request_size, tool_rows, undescribed_toolsets
from hermes.app.tools import set_tool_enabled
from hermes.cli.context import Actions, Cli, Command, run_action
from hermes.cli.extensions import load_extensions
from hermes.cli.terminal import one_line
from hermes.core.model import BYTES_PER_TOKEN, text_tokens
from hermes.prompt import LAYERS
from hermes.tools import MCP_TOOLSET_PREFIX

TOOLS_DESCRIPTION = 60

TOOLS_EPILOG = """\
examples:
  hermes tools list                              every tool, and whether it is on
  hermes tools disable execute_code              off in the terminal
  hermes tools enable web --platform telegram    a toolset, for one platform
  hermes tools disable mcp-github                the tools of an MCP server
  hermes tools schema                            what every request pays for tools
"""


def configure_tools(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show and choose the tools of the agent."
    parser.epilog = TOOLS_EPILOG
    actions = Actions(parser)
    parser.add_argument("--summary", action="store_true", help="one line a platform")
    listing = actions.add("list", _list, "show tools by toolset", json=True)
    _platform(listing)
    for name, act, summary in (
        ("enable", _enable, "switch toolsets or tools on"),
        ("disable", _disable, "switch toolsets or tools off"),
    ):
        action = actions.add(name, act, summary)
        action.add_argument("names", nargs="+", metavar="NAME", help="a toolset or a tool")
        _platform(action)
    schema = actions.add("schema", _schema, "show what tools add to every request", json=True)
    _platform(schema)
    schema.add_argument("--full", action="store_true", help="the schemas themselves")
    parser.set_defaults(act=_default, json=False, platform="cli")


def run_tools(args: argparse.Namespace, cli: Cli) -> int:
    """Run the command with the tools of plugins, which a conversation has already loaded."""
    if Extensions.in_force() is not None or not cli.load().settings.plugins.enabled:
        return run_action(args, cli)
    extensions = load_extensions(cli.load(), cli)
    try:
        return run_action(args, cli)
    finally:
        asyncio.run(extensions.close())


def _platform(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--platform", default="cli", metavar="NAME", help="cli (default), telegram, cron, …"
    )


def _default(args: argparse.Namespace, cli: Cli) -> int:
    return _summary(cli) if args.summary else _list(args, cli)


def _summary(cli: Cli) -> int:
    loaded = cli.load()
    for platform in dict.fromkeys(("cli", *loaded.settings.platform_toolsets)):
        rows = tool_rows(loaded, cli.home, platform)
        on = [row for row in rows if row.on and not row.missing]
        cli.say(f"{platform}: {len(on)} of {len(rows)} tools")
    return 0


def _list(args: argparse.Namespace, cli: Cli) -> int:
    rows = tool_rows(cli.load(), cli.home, args.platform)
    if args.json:
        cli.json(rows)
        return 0
    width = max(len(row.name) for row in rows)
    toolset = ""
    for row in rows:
        if row.toolset != toolset:
            toolset = row.toolset
            cli.say(f"{toolset}: {row.purpose}" if row.purpose else toolset)
        cli.say(f"  {_mark(row)} {row.name:<{width}}  {_state(row)}".rstrip())
    for name, on in undescribed_toolsets(cli.load(), cli.home, args.platform).items():
        server, off = name.removeprefix(MCP_TOOLSET_PREFIX), "" if on else "off; "
        cli.say(f"{name}: {off}its tools are not known yet (`hermes mcp test {server}` looks)")
    return 0


def _mark(row: ToolRow) -> str:
    return "✗" if row.missing else ("✓" if row.on else "·")


def _state(row: ToolRow) -> str:
    if row.missing:
        return f"not available: {row.missing}"
    if not row.on:
        return "off"
    return "found by tool_search" if row.rare else one_line(row.description, TOOLS_DESCRIPTION)


def _enable(args: argparse.Namespace, cli: Cli) -> int:
    return _switch(args, cli, on=True)


def _disable(args: argparse.Namespace, cli: Cli) -> int:
    return _switch(args, cli, on=False)


def _switch(args: argparse.Namespace, cli: Cli, *, on: bool) -> int:
    now = set_tool_enabled(cli.load(), cli.home, args.platform, args.names, on=on)
    state = "on" if on else "off"
    cli.say(f"{', '.join(args.names)}: {state} for {args.platform} ({', '.join(now) or 'nothing'})")
    return 0


def _schema(args: argparse.Namespace, cli: Cli) -> int:
    paid = request_size(cli.load(), cli.home, args.platform)
    if args.json:
        cli.json(paid)
        return 0
    if args.full:
        cli.json([_sent_schema(tool.spec) for tool in paid.tools])
        return 0
    for tool in sorted(paid.tools, key=lambda tool: -tool.chars):
        cli.say(f"{tool.chars:>7,}  {tool.name}")
    cli.say(f"{paid.system_prompt:>7,}  system prompt")
    cli.say(f"{paid.total:>7,}  characters in every request, about {paid.tokens:,} tokens")
    return 0


def _sent_schema(spec: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
        },
    }


TOOLS = Command(configure_tools, run_tools)


# `hermes prompt`: the system prompt and its size.

PROMPT_EPILOG = """\
examples:
  hermes prompt show                         the prompt of a session that begins here
  hermes prompt show --layer context_files   one part of it
  hermes prompt show --platform telegram     as a Telegram chat would have it
"""


def configure_prompt(parser: argparse.ArgumentParser) -> None:
    parser.description = "Look at the system prompt, layer by layer."
    parser.epilog = PROMPT_EPILOG
    show = Actions(parser).add("show", _show, "print the system prompt and its size", json=True)
    show.add_argument(
        "--platform", default="cli", metavar="NAME", help="cli (default), telegram, cron, …"
    )
    show.add_argument(
        "--layer", choices=tuple(LAYERS), default="", metavar="NAME", help=", ".join(LAYERS)
    )


def _show(args: argparse.Namespace, cli: Cli) -> int:
    shown = preview_prompt(cli.load(), cli.home, Path.cwd(), args.platform)
    if args.layer:
        return _show_layer(cli, shown, args.layer, as_document=args.json)
    if args.json:
        cli.json(_prompt_facts(shown))
        return 0
    cli.say(shown.prompt.text)
    cli.note("")
    for name, chars, tokens in _sizes(shown):
        cli.note(f"{chars:>8,} characters  {tokens:>7,} tokens  {name}")
    return 0


def _show_layer(cli: Cli, shown: PromptPreview, name: str, *, as_document: bool) -> int:
    text = next((layer.text for layer in shown.prompt.layers if layer.name == name), "")
    if as_document:
        cli.json(_layer(name, text))
    elif text:
        cli.say(text)
    else:
        cli.note(f"the layer {name} is empty here")
    return 0


def _prompt_facts(shown: PromptPreview) -> dict[str, Any]:
    *_, tools, total = _sizes(shown)
    return {
        "text": shown.prompt.text,
        "layers": [_layer(layer.name, layer.text) for layer in shown.prompt.layers],
        "tools": {"chars": tools[1], "tokens": tools[2]},
        "total": {"chars": total[1], "tokens": total[2]},
    }


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


PROMPT = Command(configure_prompt)
