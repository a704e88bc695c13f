"""`hermes sessions list`, `show` and `tree`: what there is, and what was said."""

import argparse
import shutil
from collections import defaultdict
from collections.abc import Iterator

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import looking, named, working
from hermes.cli.commands.sessions.arguments import add_session, example, positive
from hermes.cli.commands.sessions.wording import ago, document, label, name_of
from hermes.cli.context import Cli
from hermes.cli.render import one_line
from hermes.core.messages import Assistant, Message, ToolResult
from hermes.core.openai_format import to_dict
from hermes.core.ports import SessionInfo
from hermes.ops.transcripts import moment
from hermes.store.records import LoggedMessage, SessionFilter
from hermes.store.session_store import SessionStore
from hermes.util.plain import plain, plain_line
from hermes.util.text import cut_middle, many

HIDDEN_SOURCES = ("tool", "batch", "subagent")
"""Made by programs; shown when asked for."""
SHOWN_RESULT = 2000
"""Characters of a tool's result that are shown."""


def add_actions(actions: Actions) -> None:
    listing = actions.add(
        "list",
        looking(_list),
        "the newest sessions",
        json=True,
        epilog=example("hermes sessions list --source telegram --limit 5"),
    )
    listing.add_argument("--source", default="", help="only those of cli, telegram, …")
    listing.add_argument("--limit", type=positive, default=20, metavar="N", help="how many (20)")
    listing.add_argument("--archived", action="store_true", help="the archived ones instead")
    listing.add_argument(
        "--all", action="store_true", help="archived ones and those made by programs too"
    )
    showing = actions.add(
        "show",
        working(_show),
        "one conversation",
        json=True,
        epilog=example('hermes sessions show "tax return"', "hermes sessions show 20260131 --log"),
    )
    add_session(showing)
    showing.add_argument("--log", action="store_true", help="undone and compacted messages too")
    tree = actions.add(
        "tree",
        working(_tree),
        "where a session came from and what came of it",
        json=True,
        epilog=example('hermes sessions tree "tax return"'),
    )
    add_session(tree)


async def _list(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    hidden = () if args.source or args.all else HIDDEN_SOURCES
    which = SessionFilter(
        sources=(args.source,) if args.source else (),
        exclude_sources=hidden,
        archived=None if args.all else args.archived,
        limit=args.limit,
    )
    infos = await store.sessions(which)
    if args.json:
        document(cli, infos)
        return 0
    if not infos:
        narrowed = args.source or args.archived
        cli.say("no such sessions" if narrowed else "no sessions yet")
    width = shutil.get_terminal_size().columns if cli.stdout.isatty() else 200
    for info in infos:
        cli.say(one_line_of(info, width))
    return 0


def one_line_of(info: SessionInfo, width: int) -> str:
    count = many(info.message_count, "message")
    archived = "[archived] " if info.archived_at is not None else ""
    facts = f"{plain_line(info.id)}  {plain_line(info.source):<9} {ago(info.last_active):>12}"
    start = f"{facts}  {count:>13}  {archived}"
    return (start + one_line(name_of(info), max(width - len(start), 20))).rstrip()


async def _show(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    info = await named(store, args.session)
    if args.log:
        return await _show_log(args, cli, store, info)
    messages = await store.messages(info.id)
    if args.json:
        document(cli, {"session": info, "messages": [to_dict(message) for message in messages]})
        return 0
    _say_head(cli, info)
    for message in messages:
        cli.say("\n" + "\n".join(_paragraphs(message)))
    return 0


async def _show_log(
    args: argparse.Namespace, cli: Cli, store: SessionStore, info: SessionInfo
) -> int:
    log = await store.log(info.id)
    entries = await store.entries(info.id)
    current = {entry.id for entry in entries if isinstance(entry, LoggedMessage)}
    if args.json:
        logged = [
            {"id": one.id, "timestamp": one.timestamp, "in_conversation": one.id in current}
            | to_dict(one.message)
            for one in log
        ]
        document(cli, {"session": info, "messages": logged})
        return 0
    _say_head(cli, info)
    for one in log:
        mark = "" if one.id in current else "  (not in the conversation any more)"
        cli.say(f"\n#{one.id}  {moment(one.timestamp)}{mark}")
        cli.say("\n".join(_paragraphs(one.message)))
    return 0


def _say_head(cli: Cli, info: SessionInfo) -> None:
    facts = (info.id, info.title, info.source, info.model)
    known = [plain_line(fact) for fact in facts if fact]
    cli.say("  ".join([*known, f"started {moment(info.started_at)}"]))


def _paragraphs(message: Message) -> Iterator[str]:
    if isinstance(message, ToolResult):
        result = cut_middle(plain(message.text), SHOWN_RESULT)
        yield f"[result of {plain_line(message.name)}]\n{result}"
        return
    if message.text or not isinstance(message, Assistant):
        yield f"{message.role}: {plain(message.text)}"
    if isinstance(message, Assistant):
        for call in message.calls:
            yield f"[call of {plain_line(call.name)}] {plain(call.arguments)}"


async def _tree(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    info = await named(store, args.session)
    ancestors = await store.ancestors(info.id)
    descendants = await store.descendants(info.id)
    if args.json:
        document(cli, {"session": info, "ancestors": ancestors, "descendants": descendants})
        return 0
    line = [*reversed(ancestors), info]
    for depth, one in enumerate(line):
        cli.say(_branch_line(one, depth, is_here=one is info))
    for one, depth in _below(info, descendants):
        cli.say(_branch_line(one, len(line) - 1 + depth, is_here=False))
    return 0


def _below(
    info: SessionInfo, descendants: tuple[SessionInfo, ...]
) -> Iterator[tuple[SessionInfo, int]]:
    """Each descendant right after its parent, with its depth."""
    children: defaultdict[str, list[SessionInfo]] = defaultdict(list)
    for one in descendants:
        children[one.parent_id].append(one)
    waiting = [(one, 1) for one in reversed(children[info.id])]
    while waiting:
        one, depth = waiting.pop()
        yield one, depth
        waiting += [(child, depth + 1) for child in reversed(children.pop(one.id, []))]


def _branch_line(info: SessionInfo, depth: int, *, is_here: bool) -> str:
    start = "  " * max(depth - 1, 0) + ("└ " if depth else "")
    ended = f", {plain_line(info.end_reason)}" if info.end_reason else ""
    here = "   <- this one" if is_here else ""
    facts = f"{moment(info.started_at)}, {many(info.message_count, 'message')}{ended}"
    return f"{start}{label(info)}  {facts}{here}"
