"""`hermes sessions`: list, read, search, change, export and clean up past conversations."""

import argparse
import shutil
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from hermes.cli.commands.session_store import (
    add_delete_actions,
    add_maintenance_actions,
    add_transfer_actions,
    changing_store,
    find_session,
    find_session_exactly,
    reading_store,
    session_label,
    session_line,
)
from hermes.cli.context import Actions, Cli, Command, Style
from hermes.cli.output import add_session, ago, examples, positive, since, table, until
from hermes.core.errors import UsageError
from hermes.core.messages import Assistant, Message, ToolResult, to_dict
from hermes.core.model import Usage
from hermes.core.ports import SessionInfo
from hermes.ops.transcripts import cost, moment
from hermes.store.records import LoggedMessage, SearchHit, SearchRequest, SessionFilter, UsageLine
from hermes.store.session_store import SessionStore
from hermes.util.concurrency import SystemClock
from hermes.util.text import cut_middle, many, new_session_id, plain, plain_line

# `hermes sessions list`, `show` and `tree`.

HIDDEN_SOURCES = ("tool", "batch", "subagent")
"""Sources hidden by default: sessions created by programs."""
SHOWN_RESULT = 2000
"""The most characters shown of a tool result."""


def add_list_actions(actions: Actions) -> None:
    listing = actions.add(
        "list",
        reading_store(_list),
        "the newest sessions",
        json=True,
        epilog=examples("hermes sessions list --source telegram --limit 5"),
    )
    listing.add_argument("--source", default="", help="only those of cli, telegram, …")
    listing.add_argument("--limit", type=positive, default=20, metavar="N", help="how many (20)")
    listing.add_argument("--archived", action="store_true", help="the archived ones instead")
    listing.add_argument(
        "--all", action="store_true", help="archived ones and those made by programs too"
    )
    showing = actions.add(
        "show",
        changing_store(_show_session),
        "one conversation",
        json=True,
        epilog=examples('hermes sessions show "tax return"', "hermes sessions show 20260131 --log"),
    )
    add_session(showing)
    showing.add_argument("--log", action="store_true", help="undone and compacted messages too")
    tree = actions.add(
        "tree",
        changing_store(_tree),
        "where a session came from and what came of it",
        json=True,
        epilog=examples('hermes sessions tree "tax return"'),
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
        cli.json(infos)
        return 0
    if not infos:
        narrowed = args.source or args.archived
        cli.say("no such sessions" if narrowed else "no sessions yet")
    width = shutil.get_terminal_size().columns if cli.stdout.isatty() else 200
    for info in infos:
        cli.say(session_line(info, width))
    return 0


async def _show_session(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    info = await find_session(store, args.session)
    if args.log:
        return await _show_log(args, cli, store, info)
    messages = await store.messages(info.id)
    if args.json:
        cli.json({"session": info, "messages": [to_dict(message) for message in messages]})
        return 0
    _say_header(cli, info)
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
        cli.json({"session": info, "messages": logged})
        return 0
    _say_header(cli, info)
    for one in log:
        mark = "" if one.id in current else "  (not in the conversation any more)"
        cli.say(f"\n#{one.id}  {moment(one.timestamp)}{mark}")
        cli.say("\n".join(_paragraphs(one.message)))
    return 0


def _say_header(cli: Cli, info: SessionInfo) -> None:
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
    info = await find_session(store, args.session)
    ancestors = await store.ancestors(info.id)
    descendants = await store.descendants(info.id)
    if args.json:
        cli.json({"session": info, "ancestors": ancestors, "descendants": descendants})
        return 0
    line = [*reversed(ancestors), info]
    for depth, one in enumerate(line):
        cli.say(_branch_line(one, depth, is_here=one is info))
    for one, depth in _walk_descendants(info, descendants):
        cli.say(_branch_line(one, len(line) - 1 + depth, is_here=False))
    return 0


def _walk_descendants(
    info: SessionInfo, descendants: tuple[SessionInfo, ...]
) -> Iterator[tuple[SessionInfo, int]]:
    """Yield each descendant after its parent, with its depth."""
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
    return f"{start}{session_label(info)}  {facts}{here}"


# `hermes sessions browse`: choose a session and continue it.

PAGE = 10
QUESTION = "number to go on with, words to search for, Enter for more, q to leave: "


def add_browse_actions(actions: Actions) -> None:
    parser = actions.add(
        "browse",
        _browse,
        "choose a session and go on with it",
        epilog=examples("hermes sessions browse --source telegram"),
    )
    parser.add_argument("--source", default="", help="only those of cli, telegram, …")


def _browse(args: argparse.Namespace, cli: Cli) -> int:
    if not cli.interactive:
        raise UsageError(
            "browse asks, and this is not a terminal",
            hint="`hermes sessions list` and `hermes sessions search` print",
        )
    chosen: list[str] = []

    async def work(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
        chosen.extend(await _choose(cli, store, args.source))
        return 0

    args.json = False
    reading_store(work)(args, cli)
    if not chosen:
        return 0
    from hermes.cli.commands import chat  # only to continue a session

    parser = argparse.ArgumentParser()
    chat.configure(parser)
    return chat.run(parser.parse_args(["--resume", chosen[0]]), cli)


async def _choose(cli: Cli, store: SessionStore, source: str) -> list[str]:
    """Return the id of the chosen session, or none."""
    offset, words = 0, ""
    while True:
        page = await _page(store, source, words, offset)
        _show_page(cli, page, offset)
        answer = cli.ask(QUESTION).strip()
        if answer in ("q", "quit", "exit"):
            return []
        if not answer:
            offset = offset + PAGE if len(page) == PAGE else 0
        elif not answer.isdecimal():
            offset, words = 0, answer
        elif offset < int(answer) <= offset + len(page):
            return [page[int(answer) - offset - 1].id]
        else:
            cli.say(f"there is no {answer} on this page")


async def _page(
    store: SessionStore, source: str, words: str, offset: int
) -> tuple[SessionInfo, ...]:
    sources = (source,) if source else ()
    hidden = () if source else HIDDEN_SOURCES
    if not words:
        which = SessionFilter(sources, hidden, limit=PAGE, offset=offset)
        return await store.sessions(which)
    request = SearchRequest(words, sources, hidden, limit=PAGE * 10)
    ids = dict.fromkeys(hit.session_id for hit in await store.search(request))
    return tuple([await store.info(one) for one in list(ids)[offset : offset + PAGE]])


def _show_page(cli: Cli, page: tuple[SessionInfo, ...], offset: int) -> None:
    if not page:
        cli.say("nothing more")
    width = shutil.get_terminal_size().columns - 5
    for number, info in enumerate(page, start=offset + 1):
        cli.say(f"{number:>3}  {session_line(info, width)}")


# `hermes sessions search`.

ROLES = ("user", "assistant", "tool", "system")
QUERY_HELP = 'words, "a phrase", OR, NOT, begin*'


def add_search_actions(actions: Actions) -> None:
    parser = actions.add(
        "search",
        reading_store(_search),
        "messages that hold some words",
        json=True,
        epilog=examples(
            "hermes sessions search invoice NOT draft",
            "hermes sessions search '\"dark mode\"' --role user --since 30d",
        ),
    )
    parser.add_argument("query", nargs="+", metavar="QUERY", help=QUERY_HELP)
    parser.add_argument("--source", default="", help="only in sessions of cli, telegram, …")
    parser.add_argument("--role", choices=ROLES, default="", help="only what this one said")
    parser.add_argument("--session", default="", metavar="ID", help="only in this session")
    parser.add_argument("--since", type=since, metavar="WHEN", help="from 2026-01-31, or 7d ago")
    parser.add_argument("--until", type=until, metavar="WHEN", help="up to then")
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="how many (20)")


async def _search(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    query = " ".join(args.query)
    if not query.strip():
        raise UsageError("there is nothing to look for", hint=f"a query has {QUERY_HELP}")
    if args.since is not None and args.until is not None and args.since > args.until:
        raise UsageError("--since is later than --until")
    session = (await find_session(store, args.session)).id if args.session else ""
    hits = await store.search(
        SearchRequest(
            query=query,
            sources=(args.source,) if args.source else (),
            roles=(args.role,) if args.role else (),
            sessions=(session,) if session else (),
            since=args.since,
            until=args.until,
            limit=args.limit,
        )
    )
    if args.json:
        cli.json(hits)
        return 0
    if not hits:
        cli.say("nothing found")
    style = Style.of(cli.stdout)
    for number, hit in enumerate(hits):
        cli.say(("\n" if number else "") + _format_hit(hit, style))
    return 0


def _format_hit(hit: SearchHit, style: Style) -> str:
    """Return a hit: its session, the match, and the messages around it."""
    place = "  ".join(
        plain_line(fact) for fact in (hit.session_id, hit.source, ago(hit.timestamp), hit.title)
    )
    said = f"  {plain_line(hit.role)}: {_mark_match(plain_line(hit.snippet), style)}"
    around = [
        style.dim(f"  {plain_line(one.role)}: {plain_line(one.content)}") for one in hit.context
    ]
    return "\n".join([place.rstrip(), said, *around])


def _mark_match(snippet: str, style: Style) -> str:
    """Show the match in bold; without colour, keep the markers."""
    if not style.colour:
        return snippet
    head, *rest = snippet.split(">>>")
    return head + "".join(
        style.bold(found) + after for found, _, after in (piece.partition("<<<") for piece in rest)
    )


# `hermes sessions usage`.

HEAD = ("task", "model", "provider", "by", "calls", "input", "cached", "output", "cost")
NUMBERS = (4, 5, 6, 7, 8)


def add_usage_actions(actions: Actions) -> None:
    parser = actions.add(
        "usage",
        reading_store(_usage),
        "tokens and cost by task, model and tool",
        json=True,
        description="Tokens and cost by task, model and tool: of one session with its subagents\n"
        "and what went on after a compaction, or of all sessions.",
        epilog=examples("hermes sessions usage --since 7d"),
    )
    parser.add_argument("session", nargs="?", metavar="ID", help="of this session only")
    parser.add_argument("--since", type=since, metavar="WHEN", help="from 2026-01-31, or 7d ago")


async def _usage(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    session = (await find_session(store, args.session)).id if args.session else ""
    lines = await store.usage(session, since=args.since)
    if args.json:
        cli.json(lines)
        return 0
    if not lines:
        cli.say("no model was called" + (" in that time" if args.since else ""))
        return 0
    total = UsageLine(
        task="total",
        model="",
        provider="",
        tool="",
        is_subagent=False,
        calls=sum(line.calls for line in lines),
        usage=sum((line.usage for line in lines), Usage()),
        cost_usd=sum(line.cost_usd for line in lines),
        unpriced_calls=sum(line.unpriced_calls for line in lines),
    )
    shown = [*lines, total] if len(lines) > 1 else lines
    for text in table([HEAD, *(_cells(line) for line in shown)], NUMBERS):
        cli.say(text)
    if total.unpriced_calls:
        cli.say(f"\nthe price of {many(total.unpriced_calls, 'call')} is not known")
    return 0


def _cells(line: UsageLine) -> tuple[str, ...]:
    by = " ".join(["subagent"] * line.is_subagent + [plain_line(line.tool)])
    counts = (line.calls, line.usage.input, line.usage.cache_read, line.usage.output)
    return (
        plain_line(line.task),
        plain_line(line.model),
        plain_line(line.provider),
        by.strip(),
        *(f"{count:,}" for count in counts),
        _price(line),
    )


def _price(line: UsageLine) -> str:
    if line.unpriced_calls == line.calls:
        return "unknown"
    return cost(line.cost_usd) + ("+?" if line.unpriced_calls else "")


# `hermes sessions rename`, `archive`, `unarchive` and `branch`.


def add_edit_actions(actions: Actions) -> None:
    rename = actions.add(
        "rename",
        changing_store(_rename),
        "give a session a title",
        epilog=examples("hermes sessions rename 20260131_140500 Tax return"),
    )
    add_session(rename)
    rename.add_argument("title", nargs="+", metavar="TITLE", help="at most 100 characters")
    for name, archived, summary in (
        ("archive", True, "put sessions away: not listed, never pruned, still found"),
        ("unarchive", False, "take sessions out of the archive"),
    ):
        parser = actions.add(
            name,
            changing_store(partial(_archive, archived=archived)),
            summary,
            epilog=examples(f'hermes sessions {name} "tax return"'),
        )
        add_session(parser, nargs="+")
    branch = actions.add(
        "branch",
        changing_store(_branch),
        "a new session that begins with this conversation",
        json=True,
        epilog=examples('hermes sessions branch "tax return" --title "tax return, other way"'),
    )
    add_session(branch)
    branch.add_argument("--title", default="", help="of the new session")


async def _rename(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    title = " ".join(args.title)
    if not title.strip():
        raise UsageError("the title is only spaces", hint="give it a letter at least")
    info = await find_session_exactly(store, args.session)
    stored = await store.set_title(info.id, title)
    cli.say(f"session {info.id} is now called {stored}")
    return 0


async def _archive(
    args: argparse.Namespace, cli: Cli, store: SessionStore, *, archived: bool
) -> int:
    infos = [await find_session_exactly(store, name) for name in args.session]
    for info in infos:
        await store.set_archived(info.id, archived)
        cli.say(f"{'archived' if archived else 'took out of the archive'}: {session_label(info)}")
    return 0


async def _branch(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    info = await find_session(store, args.session)
    new_id = new_session_id(SystemClock().now())
    await store.branch(info.id, new_id)
    if args.title:
        try:
            await store.set_title(new_id, args.title)
        except UsageError:
            await store.delete(new_id)
            raise
    made = await store.info(new_id)
    if args.json:
        cli.json(made)
        return 0
    cli.say(f"made {session_label(made)} from {session_label(info)}")
    cli.say(f"go on with it: hermes --resume {new_id}")
    return 0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Find, read, export and tidy past conversations.\n\n"
        "A session is named by its id, the beginning of it, or its title."
    )
    actions = Actions(parser)
    for add in (
        add_list_actions,
        add_browse_actions,
        add_search_actions,
        add_usage_actions,
        add_edit_actions,
        add_transfer_actions,
        add_delete_actions,
        add_maintenance_actions,
    ):
        add(actions)


COMMAND = Command(configure)
