"""`hermes prompt`: what the model is told before the conversation begins, and what that costs."""

import argparse
from pathlib import Path
from typing import Any

from hermes.app.prompting import Preview, preview
from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.core.tokens import BYTES_PER_TOKEN, text_tokens
from hermes.prompt import LAYERS

run = run_action

EPILOG = """\
examples:
  hermes prompt show                         the prompt of a session that begins here
  hermes prompt show --layer context_files   one part of it
  hermes prompt show --platform telegram     as a Telegram chat would have it
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Look at the system prompt, layer by layer."
    parser.epilog = EPILOG
    show = Actions(parser).add("show", _show, "print the system prompt and its size", json=True)
    show.add_argument(
        "--platform", default="cli", metavar="NAME", help="cli (default), telegram, cron, …"
    )
    show.add_argument(
        "--layer", choices=tuple(LAYERS), default="", metavar="NAME", help=", ".join(LAYERS)
    )


def _show(args: argparse.Namespace, cli: Cli) -> int:
    shown = preview(cli.load(), cli.home, Path.cwd(), args.platform)
    if args.layer:
        return _show_layer(cli, shown, args.layer, as_document=args.json)
    if args.json:
        cli.json(_document(shown))
        return 0
    cli.say(shown.prompt.text)
    cli.note("")
    for name, chars, tokens in _sizes(shown):
        cli.note(f"{chars:>8,} characters  {tokens:>7,} tokens  {name}")
    return 0


def _show_layer(cli: Cli, shown: Preview, name: str, *, as_document: bool) -> int:
    text = next((layer.text for layer in shown.prompt.layers if layer.name == name), "")
    if as_document:
        cli.json(_layer(name, text))
    elif text:
        cli.say(text)
    else:
        cli.note(f"the layer {name} is empty here")
    return 0


def _document(shown: Preview) -> dict[str, Any]:
    *_, tools, total = _sizes(shown)
    return {
        "text": shown.prompt.text,
        "layers": [_layer(layer.name, layer.text) for layer in shown.prompt.layers],
        "tools": {"chars": tools[1], "tokens": tools[2]},
        "total": {"chars": total[1], "tokens": total[2]},
    }


def _layer(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "chars": len(text), "tokens": text_tokens(text), "text": text}


def _sizes(shown: Preview) -> list[tuple[str, int, int]]:
    """Name, characters and tokens of each layer, of the tools and of all; tokens are estimates."""
    whole, tool_chars = shown.prompt.text, shown.tool_chars
    tool_tokens = -(-tool_chars // BYTES_PER_TOKEN)
    return [
        *((each.name, len(each.text), text_tokens(each.text)) for each in shown.prompt.layers),
        ("tool schemas", tool_chars, tool_tokens),
        ("in every request", len(whole) + tool_chars, text_tokens(whole) + tool_tokens),
    ]
