"""`hermes sessions`: list, read, search, change, export and clean up past conversations."""

import asyncio
import re
import shutil
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from hermes import ops
from hermes.app import opened_store, store_exists
from hermes.cli.context import (
    YES,
    Cli,
    Command,
    CommandEnded,
    ProgressLine,
    arg,
    flag,
    repeated,
    table,
)
from hermes.cli.main import run_hermes
from hermes.cli.output import DAY, SESSION, age, ago, has_picker, limit, progress_on, since, until
from hermes.core.errors import SessionNotFound, UsageError
from hermes.core.messages import Assistant, Message, ToolResult, to_dict
from hermes.core.model import Usage
from hermes.core.ports import SessionInfo
from hermes.ops.transcript_import import EVERYTHING
from hermes.store import (
    HIDDEN_SOURCES,
    MATCH_NOTES,
    LoggedMessage,
    SearchHit,
    SearchRequest,
    SessionFilter,
    SessionStore,
    UsageLine,
)
from hermes.tui import Paint, one_line
from hermes.util.concurrency import SystemClock
from hermes.util.text import (
    cut_middle,
    human_duration,
    human_size,
    many,
    new_session_id,
    plain,
    plain_line,
)

Needs = Callable[[Cli], AbstractAsyncContextManager[SessionStore]]


def _opened(cli: Cli) -> AbstractAsyncContextManager[SessionStore]:
    """Open the store; create it if needed."""
    return opened_store(cli.home, cli.load().settings.store.url, cli.note)


def existing_store(cli: Cli) -> AbstractAsyncContextManager[SessionStore]:
    """Open the store. Raises `SessionNotFound` if there is none."""
    if not store_exists(cli.home, cli.load().settings.store.url):
        named = getattr(cli.args, "session", None)
        what = f"there is no session {plain_line(named)}" if isinstance(named, str) else ""
        raise SessionNotFound(f"{what or 'there are no sessions'}: nothing was stored yet")
    return _opened(cli)


def store_or_empty(empty: Any = ()) -> Needs:
    """Return a `needs` that opens the store; if there is none, it prints `empty` and ends."""

    def needs(cli: Cli) -> AbstractAsyncContextManager[SessionStore]:
        if not store_exists(cli.home, cli.load().settings.store.url):
            cli.emit(empty, "no sessions yet")
            raise CommandEnded
        return _opened(cli)

    return needs


async def find_session(store: SessionStore, name: str, *, exactly: bool = False) -> SessionInfo:
    """Return the session with this id, unique id prefix or title.

    A session to change or delete must have exactly this title, not one that continues it.
    """
    return await store.resolve(plain_line(name), exactly=exactly)


def session_line(info: SessionInfo, width: int) -> str:
    count = many(info.message_count, "message")
    archived = "[archived] " if info.archived_at is not None else ""
    facts = f"{plain_line(info.id)}  {plain_line(info.source):<9} {ago(info.last_active):>12}"
    start = f"{facts}  {count:>13}  {archived}"
    name = plain_line(info.title) or plain_line(info.preview)
    return (start + one_line(name, max(width - len(start), 20))).rstrip()


def session_label(info: SessionInfo) -> str:
    """Return the id and the title, if there is one."""
    title = plain_line(info.title)
    return f"{plain_line(info.id)} ({title})" if title else plain_line(info.id)


COMMAND = Command("sessions", needs=existing_store)


def source_name(word: str) -> str:
    """Return the source that is meant: `oneshot`, a single answer, is stored as `cli`."""
    return "cli" if word == "oneshot" else word


SOURCE = arg(
    "--source", type=source_name, default="", help="only sessions of cli (or oneshot), telegram, …"
)
SINCE = arg("--since", type=since, metavar="WHEN", help="from 2026-01-31, or 7d ago")


# `hermes sessions list`, `show` and `tree`.

SHOWN_RESULT = 2000  #: The most characters shown of a tool result.


@COMMAND.action(
    "list",
    "list the newest sessions",
    SOURCE,
    limit(20),
    flag("--archived", help="only archived sessions"),
    flag("--all", help="also archived, empty and compacted ones, and those made by programs"),
    json=True,
    needs=store_or_empty(),
)
async def _list(args: Namespace, cli: Cli, store: SessionStore) -> None:
    hidden = () if args.source or args.all else HIDDEN_SOURCES
    which = SessionFilter(
        sources=(args.source,) if args.source else (),
        exclude_sources=hidden,
        has_messages=not args.all,
        archived=None if args.all else args.archived,
        newest_only=not args.all,
        limit=args.limit,
    )
    empty = "no such sessions" if args.source or args.archived else "no sessions yet"
    width = shutil.get_terminal_size().columns if cli.stdout.isatty() else 200
    infos = await store.sessions(which)
    if (more := await store.count_sessions(which) - len(infos)) > 0:
        cli.note(f"{more:,} more: --limit {len(infos) + more} lists all")
    if args.json:  # without the system prompt, which is long and nearly the same in each
        for facts in (listed := msgspec.to_builtins(infos)):
            del facts["system_prompt"]
        cli.json(listed)
        return
    cli.emit(infos, line=lambda info: session_line(info, width), empty=empty)


@COMMAND.action(
    "show",
    "show a conversation",
    SESSION,
    flag("--log", help="also undone and compacted messages"),
    json=True,
)
async def _show_session(args: Namespace, cli: Cli, store: SessionStore) -> None:
    info = await find_session(store, args.session)
    known = [plain_line(fact) for fact in (info.id, info.title, info.source, info.model) if fact]
    lines = ["  ".join([*known, f"started {ops.moment(info.started_at)}"])]
    shown = []
    if not args.log:
        for message in await store.messages(info.id):
            shown.append(to_dict(message))
            lines.append("\n" + "\n".join(_paragraphs(message)))
        cli.emit({"session": info, "messages": shown}, lines)
        return
    entries = await store.entries(info.id)
    current = {entry.id for entry in entries if isinstance(entry, LoggedMessage)}
    for one in await store.log(info.id):
        facts = {"id": one.id, "timestamp": one.timestamp, "in_conversation": one.id in current}
        shown.append(facts | to_dict(one.message))
        mark = "" if one.id in current else "  (not in the conversation any more)"
        lines.append(f"\n#{one.id}  {ops.moment(one.timestamp)}{mark}")
        lines.append("\n".join(_paragraphs(one.message)))
    cli.emit({"session": info, "messages": shown}, lines)


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


@COMMAND.action(
    "tree", "show the sessions a session continues, and those that continue it", SESSION, json=True
)
async def _tree(args: Namespace, cli: Cli, store: SessionStore) -> None:
    info = await find_session(store, args.session)
    ancestors = await store.ancestors(info.id)
    descendants = await store.descendants(info.id)
    above = list(enumerate([*reversed(ancestors), info]))
    below = [(len(above) - 1 + d, one) for one, d in _walk_descendants(info, descendants)]
    lines = []
    for depth, one in (*above, *below):
        start = "  " * max(depth - 1, 0) + ("└ " if depth else "")
        ended = f", {plain_line(one.end_reason)}" if one.end_reason else ""
        facts = f"{ops.moment(one.started_at)}, {many(one.message_count, 'message')}{ended}"
        here = "   <- this one" if one is info else ""
        lines.append(f"{start}{session_label(one)}  {facts}{here}")
    cli.emit({"session": info, "ancestors": ancestors, "descendants": descendants}, lines)


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


# `hermes sessions browse`: choose a session and continue it.

PAGE = 10
MOST_BROWSED = 500  #: Sessions in the list; the search finds older ones.
PREVIEW_MESSAGES = 6
QUESTION = "number to continue, words to search for, Enter for more, q to leave: "


@COMMAND.action("browse", "choose a session and continue it", SOURCE, needs=None)
def _browse(args: Namespace, cli: Cli) -> int:
    if not cli.interactive:
        hint = "`hermes sessions list` and `hermes sessions search` print"
        raise UsageError("browse asks, and this is not a terminal", hint=hint)
    chosen = asyncio.run(_choose(cli, args.source))
    return run_hermes(cli, "chat", "--resume", chosen) if chosen else 0


async def _choose(cli: Cli, source: str) -> str:
    """Return the id of the chosen session; "" for none."""
    async with store_or_empty()(cli) as store:
        if has_picker(cli):
            return await _pick_session(cli, store, source)
        return await _ask_session(cli, store, source)


async def _pick_session(cli: Cli, store: SessionStore, source: str) -> str:
    from hermes.tui import PickerItem  # loads the terminal interface

    def item(info: SessionInfo) -> PickerItem[str]:
        name = plain_line(info.title) or plain_line(info.preview) or plain_line(info.id)
        return PickerItem(name, f"{ago(info.last_active)}, {info.source}", info.id)

    async def preview(session: str) -> str:
        info, messages = await store.info(session), await store.messages(session)
        facts = f"{info.id}  {info.model}  {many(info.message_count, 'message')}"
        said = [f"{one.role}: {one.text}" for one in messages if one.text.strip()]
        return "\n\n".join(map(plain, (facts, *said[-PREVIEW_MESSAGES:])))

    async def search(words: str) -> list[PickerItem[str]]:
        return [item(info) for info in await _page(store, source, words, 0)]

    hidden = () if source else HIDDEN_SOURCES
    sources = (source,) if source else ()
    which = SessionFilter(sources, hidden, has_messages=True, newest_only=True, limit=MOST_BROWSED)
    items = [item(info) for info in await store.sessions(which)]
    title = "Continue which session?"
    return await cli.pick(title, items, preview=preview, search=search) or ""


async def _ask_session(cli: Cli, store: SessionStore, source: str) -> str:
    offset, words = 0, ""
    while True:
        page = await _page(store, source, words, offset)
        if not page:
            nothing = f"nothing found for {words!r}: {SEARCH_ADVICE}"
            cli.say(nothing if words and not offset else "no more sessions")
        width = shutil.get_terminal_size().columns - 5
        for number, info in enumerate(page, start=offset + 1):
            cli.say(f"{number:>3}  {session_line(info, width)}")
        answer = cli.ask(QUESTION).strip()
        if answer in ("q", "quit", "exit"):
            return ""
        if not answer:
            offset = offset + PAGE if len(page) == PAGE else 0
        elif not answer.isdecimal():
            offset, words = 0, answer
        elif offset < int(answer) <= offset + len(page):
            return page[int(answer) - offset - 1].id
        else:
            cli.say(f"there is no {answer} on this page")


async def _page(
    store: SessionStore, source: str, words: str, offset: int
) -> tuple[SessionInfo, ...]:
    sources = (source,) if source else ()
    hidden = () if source else HIDDEN_SOURCES
    if not words:
        which = SessionFilter(
            sources, hidden, has_messages=True, newest_only=True, limit=PAGE, offset=offset
        )
        return await store.sessions(which)
    titled = SessionFilter(sources, hidden, title=words, limit=PAGE * 10)
    request = SearchRequest(words, sources, hidden, limit=PAGE * 10, tolerant=True)
    ids = dict.fromkeys(info.id for info in await store.sessions(titled))
    ids |= dict.fromkeys(hit.session_id for hit in await store.search(request))
    return tuple([await store.info(one) for one in list(ids)[offset : offset + PAGE]])


# `hermes sessions search`.

ROLES = ("user", "assistant", "tool", "system")
MATCH_MARKS = re.compile(">>>|<<<")  #: Around a match in a snippet.
QUERY_HELP = 'words, "a phrase", OR, NOT, begin*'
SEARCH_ADVICE = "try other or fewer words, the beginning of a word as begin*, or this OR that"


@COMMAND.action(
    "search",
    "find words in messages and titles",
    arg("query", nargs="+", metavar="QUERY", help=QUERY_HELP),
    arg("--source", default="", help="only in sessions of cli, telegram, …"),
    arg("--role", choices=ROLES, default="", help="only messages of this role"),
    arg("--session", default="", metavar="ID", help="only in this session"),
    SINCE,
    arg("--until", type=until, metavar="WHEN", help="until this time"),
    limit(20),
    json=True,
    needs=store_or_empty(),
)
async def _search(args: Namespace, cli: Cli, store: SessionStore) -> None:
    query = " ".join(args.query)
    if not query.strip():
        raise UsageError("there is nothing to look for", hint=f"a query has {QUERY_HELP}")
    if args.since is not None and args.until is not None and args.since > args.until:
        raise UsageError("--since is later than --until")
    session = (await find_session(store, args.session)).id if args.session else ""
    request = SearchRequest(
        query=query,
        sources=(args.source,) if args.source else (),
        roles=(args.role,) if args.role else (),
        sessions=(session,) if session else (),
        since=args.since,
        until=args.until,
        limit=args.limit,
        tolerant=True,
    )
    only_messages = args.role or session or args.since or args.until
    titled = [] if only_messages else await _title_hits(store, request)
    suggest = partial(_suggest, cli) if cli.interactive and not titled else None
    found = await store.search(request, suggest)
    # Beside a title with all words, messages with only some of them would be noise.
    hits = [*titled, *(hit for hit in found if not titled or hit.match != "some")]
    width = shutil.get_terminal_size().columns if cli.stdout.isatty() else 200
    if hits and (note := MATCH_NOTES[hits[0].match]):
        cli.note(note)
    cli.emit(hits, _hit_lines(hits, width, cli.paint), empty=f"nothing found: {SEARCH_ADVICE}")


async def _suggest(cli: Cli, query: str) -> tuple[str, ...]:
    """Return other words for a query from the auxiliary model, if there is one."""
    from hermes.app import App  # loads the providers

    async with App(cli.home, cli.load(), ProgressLine(cli.stderr), cli.note) as app:
        words = await app.suggest_words(query)
    if words:
        cli.note(f"little was found; also searched for: {', '.join(words)}")
    return words


async def _title_hits(store: SessionStore, request: SearchRequest) -> list[SearchHit]:
    """Return the sessions whose titles contain all words of the query, as hits of role `title`."""
    which = SessionFilter(request.sources, archived=None, title=request.query, limit=request.limit)
    return [
        SearchHit(
            id=0,
            session_id=info.id,
            role="title",
            timestamp=info.last_active,
            snippet=info.title,
            context=(),
            source=info.source,
            model=info.model,
            session_started=info.started_at,
            title=info.title,
        )
        for info in await store.sessions(which)
    ]


def _hit_lines(hits: Sequence[SearchHit], width: int, paint: Paint) -> Iterator[str]:
    """Yield each session with its hits below it, in the order of the best hit."""
    sessions: dict[str, list[SearchHit]] = {}
    for hit in hits:
        sessions.setdefault(hit.session_id, []).append(hit)
    for number, found in enumerate(sessions.values()):
        facts = (found[0].session_id, found[0].source, ago(found[0].timestamp), found[0].title)
        yield "\n" * bool(number) + "  ".join(map(plain_line, facts)).rstrip()
        for hit in found:
            if hit.role == "title":
                continue  # it is in the line above
            line = f"  {plain_line(hit.role)}: "
            room = max(width - len(line), 20)
            for part, text in enumerate(MATCH_MARKS.split(plain_line(hit.snippet))):
                shown = one_line(text, room) if len(text) > room else text
                line += paint("strong", shown) if part % 2 else shown
                room -= len(text)
                if room <= 0:
                    break
            yield line


# `hermes sessions usage`.

COLUMNS = ("task", "model", "provider", "by", "calls", "input", "cached", "output", "cost")


@COMMAND.action(
    "usage",
    "show tokens and cost by task, model and tool",
    arg("session", nargs="?", metavar="ID", help="of this session only"),
    SINCE,
    json=True,
    needs=store_or_empty(),
)
async def _usage(args: Namespace, cli: Cli, store: SessionStore) -> None:
    session = (await find_session(store, args.session)).id if args.session else ""
    lines = await store.usage(session, since=args.since)
    if args.json or not lines:
        cli.emit(lines, empty="no model was called" + (" in that time" if args.since else ""))
        return
    calls = sum(line.calls for line in lines)
    unpriced = sum(line.unpriced_calls for line in lines)
    rows = [_usage_cells(line) for line in lines]
    if len(lines) > 1:
        used = sum((line.usage for line in lines), Usage())
        price = sum(line.cost_usd for line in lines)
        total = UsageLine("total", "", "", "", False, calls, used, price, unpriced)
        rows.append(_usage_cells(total))
    cli.say("\n".join(table([COLUMNS, *rows], range(4, len(COLUMNS)))))
    if unpriced:
        cli.say(f"\nthe price of {many(unpriced, 'call')} is unknown; to set the price of a model:")
        cli.say("  hermes config set providers.ID.models.NAME.price '{input: 0.2, output: 0.8}'")


def _usage_cells(line: UsageLine) -> tuple[str, ...]:
    used, by = line.usage, " ".join(["subagent"] * line.is_subagent + [line.tool])
    numbers = (line.calls, used.input, used.cache_read, used.output)
    price = "unknown"
    if line.unpriced_calls < line.calls:
        price = ops.cost(line.cost_usd) + ("+?" if line.unpriced_calls else "")
    names = map(plain_line, (line.task, line.model, line.provider, by))
    return (*names, *(f"{number:,}" for number in numbers), price)


# `hermes sessions rename`, `archive`, `unarchive` and `branch`.


@COMMAND.action(
    "rename",
    "give a session a title",
    SESSION,
    arg("title", nargs="+", metavar="TITLE", help="at most 100 characters"),
)
async def _rename(args: Namespace, cli: Cli, store: SessionStore) -> None:
    title = " ".join(args.title)
    if not title.strip():
        raise UsageError("the title is only spaces", hint="give it a letter at least")
    info = await find_session(store, args.session, exactly=True)
    stored = await store.set_title(info.id, title)
    cli.say(f"session {info.id} is now called {stored}")


SEVERAL = arg(*SESSION.flags, nargs="+", **SESSION.options)


def _add_archiving(name: str, summary: str, done: str) -> None:
    @COMMAND.action(name, summary, SEVERAL)
    async def _set_archived(args: Namespace, cli: Cli, store: SessionStore) -> None:
        infos = [await find_session(store, each, exactly=True) for each in args.session]
        for info in infos:
            await store.set_archived(info.id, name == "archive")
            cli.say(f"{done}: {session_label(info)}")


_add_archiving(
    "archive", "archive sessions: hidden from lists, never pruned, still searched", "archived"
)
_add_archiving("unarchive", "list archived sessions again", "took out of the archive")


@COMMAND.action(
    "branch",
    "start a new session with a copy of this conversation",
    SESSION,
    arg("--title", default="", help="of the new session"),
    json=True,
)
async def _branch(args: Namespace, cli: Cli, store: SessionStore) -> None:
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
    label = f"made {session_label(made)} from {session_label(info)}"
    cli.emit(made, f"{label}\nto continue it: hermes --resume {new_id}")


# `hermes sessions export` and `import`.

STDOUT = "-"


@COMMAND.action(
    "export",
    "write sessions to a file",
    arg("out", metavar="OUT", help="the file; - is the standard output"),
    repeated("--session-id", metavar="ID", help="this session; repeatable"),
    SOURCE,
    arg("--format", choices=[*ops.ExportFormat], help="by the name of OUT, or jsonl"),
    flag("--force", help="replace OUT when it exists"),
)
async def _export(args: Namespace, cli: Cli, store: SessionStore) -> None:
    out = Path(args.out)
    form = ops.ExportFormat(args.format) if args.format else ops.format_of(out)
    infos = await _sessions_to_export(args, store)
    pieces = ops.export_sessions(store, infos, form, progress_on(cli, "exporting"))
    if args.out == STDOUT:
        async for piece in pieces:
            cli.stdout.write(piece)
        cli.stdout.flush()
        return
    overwrite = args.force or (form == ops.ExportFormat.JSONL and _holds_less(out, infos))
    with ops.replaced(out, overwrite=overwrite) as file:
        async for piece in pieces:
            file.write(piece)
    cli.say(f"wrote {many(len(infos), 'session')} to {out}")


class _ExportedSession(msgspec.Struct):
    id: str
    message_count: int
    messages: msgspec.Raw


def _holds_less(path: Path, infos: Sequence[SessionInfo]) -> bool:
    """Return whether a file is an earlier export and `infos` have all that it holds. Programs that
    continue a session export it to the same file again."""
    counts = {info.id: info.message_count for info in infos}
    try:
        with path.open("rb") as file:
            held = [msgspec.json.decode(line, type=_ExportedSession) for line in file]
    except (OSError, msgspec.MsgspecError):
        return False
    return all(each.message_count <= counts.get(each.id, -1) for each in held)


async def _sessions_to_export(args: Namespace, store: SessionStore) -> list[SessionInfo]:
    """Return the requested sessions, oldest first, so that parents precede their children."""
    if args.session_id:
        found = [await find_session(store, name) for name in args.session_id]
        infos = {info.id: info for info in found if args.source in ("", info.source)}
        chosen = sorted(infos.values(), key=lambda info: (info.started_at, info.id))
    else:
        sources = (args.source,) if args.source else ()
        which = SessionFilter(sources=sources, archived=None, limit=EVERYTHING)
        chosen = [*reversed(await store.sessions(which))]
    if not chosen:
        raise SessionNotFound("there is no such session; nothing was written")
    return chosen


@COMMAND.action(
    "import",
    "read sessions from a JSON Lines file",
    arg("file", type=Path, metavar="FILE"),
    flag("--skip-existing", help="skip sessions that exist already"),
    json=True,
    needs=_opened,
)
async def _import(args: Namespace, cli: Cli, store: SessionStore) -> None:
    done = await ops.import_file(
        store,
        args.file,
        SystemClock().now(),
        skip_existing=args.skip_existing,
        progress=progress_on(cli, "importing"),
    )
    skipped = len(done.skipped)
    left_out = f", skipped {skipped:,} that existed already"
    lines = [f"imported {many(len(done.stored), 'session')}{left_out if skipped else ''}"]
    for session_id, title in done.retitled.items():
        lines.append(f"  {session_id} is now called {title}: its own title is in use")
    cli.emit(done, lines)


# `hermes sessions stats`, `reindex`, `vacuum`, `backup`, `restore` and `repair`.


@COMMAND.action("stats", "show the size of the store", json=True, needs=store_or_empty({}))
async def _stats(_args: Namespace, cli: Cli, store: SessionStore) -> None:
    def counts(found: dict[str, int]) -> str:
        return ", ".join(f"{plain_line(name)} {count:,}" for name, count in found.items())

    stats = await store.stats()
    sizes = stats.sizes
    span = (
        f"{ops.moment(stats.oldest or 0)} to {ops.moment(stats.newest or 0)}"
        if stats.sessions
        else ""
    )
    archived = f", {stats.archived:,} of them archived" if stats.archived else ""
    rows = [
        ("store", plain_line(stats.where)),
        ("size", human_size(sizes.total)),
        ("search index", human_size(sizes.search)),
        ("unused", human_size(sizes.unused)),
        ("sessions", f"{stats.sessions:,}{archived}"),
        ("started", span),
        ("sources", counts(stats.by_source)),
        ("messages", f"{stats.messages:,}"),
        ("roles", counts(stats.by_role)),
        ("tool calls", f"{stats.tool_calls:,}"),
        ("tokens", f"{stats.usage.prompt:,} in, {stats.usage.output:,} out"),
        ("cost", ops.cost(stats.cost_usd)),
    ]
    cli.emit(stats, table(rows))


@COMMAND.action("reindex", "rebuild the search index")
async def _reindex(_args: Namespace, cli: Cli, store: SessionStore) -> None:
    count = await store.reindex(progress_on(cli, "indexing"))
    cli.say(f"indexed {many(count, 'message')}")


@COMMAND.action("vacuum", "free unused disk space")
async def _vacuum(_args: Namespace, cli: Cli, store: SessionStore) -> None:
    before = (await store.stats()).sizes.total
    await store.vacuum()
    after = (await store.stats()).sizes.total
    cli.say(f"{human_size(before)} before, {human_size(after)} now")


@COMMAND.action(
    "backup",
    "copy the store, also while it is in use",
    arg("out", type=Path, metavar="OUT", help="a new file"),
    flag("--force", help="replace OUT when it exists"),
)
async def _backup(args: Namespace, cli: Cli, store: SessionStore) -> None:
    progress = progress_on(cli, "copying")
    url = cli.load().settings.store.url
    await ops.back_up_store(store, url, args.out, overwrite=args.force, progress=progress)
    cli.say(f"copied the store to {args.out} ({human_size(args.out.stat().st_size)})")


@COMMAND.action(
    "restore",
    "replace the store with a backup",
    arg("file", type=Path, metavar="FILE", help="what `backup` wrote"),
    YES,
    needs=None,
)
def _restore(args: Namespace, cli: Cli) -> None:
    if not cli.confirm(f"Replace the session store by {plain_line(str(args.file))}?"):
        cli.say("nothing was changed")
        return
    kept = ops.restore_store(cli.home, cli.load().settings.store.url, args.file)
    cli.say(f"the store is now that of {args.file}")
    if kept is not None:
        cli.say(f"the one that was there is kept as {kept}")


@COMMAND.action("repair", "recover the data of a damaged store", json=True, needs=None)
def _repair(_args: Namespace, cli: Cli) -> None:
    report = ops.repair_store(cli.home, cli.load().settings.store.url, progress_on(cli, "reading"))
    cli.emit(report, report.summary)


# `hermes sessions delete` and `prune`.

LINE_WIDTH = 120


@COMMAND.action("delete", "delete a session and its messages", SESSION, YES)
async def _delete(args: Namespace, cli: Cli, store: SessionStore) -> None:
    info = await find_session(store, args.session, exactly=True)
    question = f"Delete {session_label(info)} with {many(info.message_count, 'message')}?"
    cli.require(question, "nothing was deleted")
    await store.delete(info.id)
    cli.say(f"deleted {session_label(info)}")


@COMMAND.action(
    "prune",
    "delete old sessions",
    arg("--older-than", type=age, default=90 * DAY, metavar="AGE", help="older than (90 days)"),
    SOURCE,
    flag("--dry-run", help="only say what would be deleted"),
    YES,
    json=True,
    needs=store_or_empty(),
)
async def _prune(args: Namespace, cli: Cli, store: SessionStore) -> None:
    which = SessionFilter(
        sources=(args.source,) if args.source else (),
        started_before=time.time() - args.older_than,
        ended_only=True,
        limit=EVERYTHING,
    )
    old = await store.sessions(which)
    if args.dry_run or not old:
        lines = [session_line(info, LINE_WIDTH) for info in old]
        none = "no ended session is that old; nothing was deleted"
        lines.append(f"{many(len(old), 'session')} would be deleted" if old else none)
        ids = [info.id for info in old]
        cli.emit({"would_delete": ids} if old else {"deleted": []}, lines)
        return
    older = human_duration(args.older_than)
    question = f"Delete {many(len(old), 'session')} started more than {older} ago?"
    cli.require(question, "nothing was deleted")
    deleted = await store.prune(which)
    if cli.load().settings.sessions.vacuum_after_prune:
        await store.vacuum()
    cli.emit({"deleted": deleted}, f"deleted {many(len(deleted), 'session')}")
