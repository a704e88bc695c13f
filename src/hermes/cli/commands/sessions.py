"""`hermes sessions`: look at past conversations."""

import argparse
import asyncio
import time
from collections.abc import Iterator

from hermes.app.sessions import past_sessions, stored_conversation
from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.core.messages import Assistant, Message, ToolResult
from hermes.core.openai_format import to_dict
from hermes.core.ports import SessionInfo
from hermes.util.text import clean, cut_middle, human_duration

SHOWN_RESULT = 2000
"""Characters of a tool's result that are shown."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Look at past conversations."
    actions = Actions(parser)
    listing = actions.add("list", _list, "the newest sessions", json=True)
    listing.add_argument("--source", default="", help="only those of cli, telegram, …")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="how many (20)")
    showing = actions.add("show", _show, "one conversation", json=True)
    showing.add_argument("id", help="a session's id, from the list")


run = run_action


def _list(args: argparse.Namespace, cli: Cli) -> int:
    if args.limit < 1:
        raise UsageError("--limit must be at least 1")
    infos = asyncio.run(past_sessions(cli.home, clean(args.source), args.limit))
    if args.json:
        cli.json(infos)
        return 0
    if not infos:
        cli.say("no sessions yet")
    for info in infos:
        cli.say(_line(info))
    return 0


def _line(info: SessionInfo) -> str:
    ago = human_duration(time.time() - info.last_active)
    count = f"{info.message_count} messages"
    name = info.title or info.preview
    return f"{info.id}  {info.source:<9} {ago:>8} ago  {count:>13}  {name}".rstrip()


def _show(args: argparse.Namespace, cli: Cli) -> int:
    info, messages = asyncio.run(stored_conversation(cli.home, clean(args.id)))
    if args.json:
        cli.json({"session": info, "messages": [to_dict(message) for message in messages]})
        return 0
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.started_at))
    cli.say(f"{info.id}  {info.source}  {info.model}  started {started}")
    for message in messages:
        cli.say("\n" + "\n".join(_paragraphs(message)))
    return 0


def _paragraphs(message: Message) -> Iterator[str]:
    if isinstance(message, ToolResult):
        yield f"[result of {message.name}]\n{cut_middle(message.text, SHOWN_RESULT)}"
        return
    if message.text or not isinstance(message, Assistant):
        yield f"{message.role}: {message.text}"
    if isinstance(message, Assistant):
        yield from (f"[call of {call.name}] {call.arguments}" for call in message.calls)
