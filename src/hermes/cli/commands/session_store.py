"""The session store: opening it for actions, export, import, deletion and maintenance."""

import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from hermes.app.session_store import opened_store, store_exists
from hermes.cli.context import YES, Cli, Command, NothingToDo, arg, flag, repeated, table
from hermes.cli.output import DAY, SESSION, age, ago, examples, progress_on
from hermes.cli.terminal import one_line
from hermes.core.errors import SessionNotFound
from hermes.core.ports import SessionInfo
from hermes.ops.output_files import replaced
from hermes.ops.restore import back_up_store, repair_store, restore_store
from hermes.ops.transcript_import import EVERYTHING, import_file
from hermes.ops.transcripts import ExportFormat, cost, export_sessions, format_of, moment
from hermes.store.records import SessionFilter
from hermes.store.session_store import SessionStore
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, human_size, many, plain_line

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
            raise NothingToDo
        return _opened(cli)

    return needs


STORE = Command("sessions", needs=existing_store)
"""The actions of this module; `sessions.py` adds them to the command."""
SOURCE = arg("--source", default="", help="only those of cli, telegram, …")


async def find_session(store: SessionStore, name: str) -> SessionInfo:
    """Return the session with this id, unique id prefix or title."""
    return await store.resolve(plain_line(name))


async def find_session_exactly(store: SessionStore, name: str) -> SessionInfo:
    """Return the session to change or delete.

    A title means the session with exactly this title, not one that continues it.
    """
    return await store.resolve(plain_line(name), exactly=True)


# `hermes sessions export` and `import`.

STDOUT = "-"


@STORE.action(
    "export",
    "write sessions to a file",
    arg("out", metavar="OUT", help="the file; - is the standard output"),
    repeated("--session-id", metavar="ID", help="this session; repeatable"),
    SOURCE,
    arg("--format", choices=[*ExportFormat], help="by the name of OUT, or jsonl"),
    flag("--force", help="replace OUT when it exists"),
    description="Write all sessions, or some, to a file: as JSON Lines, which hold everything\n"
    "and can be imported, or as Markdown or HTML to read.",
    epilog=examples(
        "hermes sessions export all.jsonl",
        'hermes sessions export page.html --session-id "tax return"',
    ),
)
async def _export(args: Namespace, cli: Cli, store: SessionStore) -> None:
    out = Path(args.out)
    form = ExportFormat(args.format) if args.format else format_of(out)
    infos = await _sessions_to_export(args, store)
    pieces = export_sessions(store, infos, form, progress_on(cli, "exporting"))
    if args.out == STDOUT:
        async for piece in pieces:
            cli.stdout.write(piece)
        cli.stdout.flush()
        return
    with replaced(out, overwrite=args.force) as file:
        async for piece in pieces:
            file.write(piece)
    cli.say(f"wrote {many(len(infos), 'session')} to {out}")


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


@STORE.action(
    "import",
    "read sessions from a JSON Lines file",
    arg("file", type=Path, metavar="FILE"),
    flag("--skip-existing", help="leave out sessions that are there already"),
    json=True,
    description="Read sessions from a JSON Lines file: one that export wrote, or a line of\n"
    '{"messages": […]} for each session. Every line is checked before the first is stored.',
    epilog=examples("hermes sessions import all.jsonl --skip-existing"),
    needs=_opened,
)
async def _import(args: Namespace, cli: Cli, store: SessionStore) -> None:
    done = await import_file(
        store,
        args.file,
        SystemClock().now(),
        skip_existing=args.skip_existing,
        progress=progress_on(cli, "importing"),
    )
    skipped = len(done.skipped)
    left_out = f", left out {skipped:,} that {'was' if skipped == 1 else 'were'} there"
    lines = [f"imported {many(len(done.stored), 'session')}{left_out if skipped else ''}"]
    for session_id, title in done.retitled.items():
        lines.append(f"  {session_id} is now called {title}: its own title is in use")
    cli.emit(done, lines)


# `hermes sessions stats`, `reindex`, `vacuum`, `backup`, `restore` and `repair`.


@STORE.action(
    "stats",
    "how much there is",
    json=True,
    epilog=examples("hermes sessions stats --json"),
    needs=store_or_empty({}),
)
async def _stats(_args: Namespace, cli: Cli, store: SessionStore) -> None:
    stats = await store.stats()
    sizes = stats.sizes
    span = f"{moment(stats.oldest or 0)} to {moment(stats.newest or 0)}" if stats.sessions else ""
    archived = f", {stats.archived:,} of them archived" if stats.archived else ""
    rows = [
        ("store", plain_line(stats.where)),
        ("size", human_size(sizes.total)),
        ("search index", human_size(sizes.search)),
        ("unused", human_size(sizes.unused)),
        ("sessions", f"{stats.sessions:,}{archived}"),
        ("started", span),
        ("sources", _counts(stats.by_source)),
        ("messages", f"{stats.messages:,}"),
        ("roles", _counts(stats.by_role)),
        ("tool calls", f"{stats.tool_calls:,}"),
        ("tokens", f"{stats.usage.prompt:,} in, {stats.usage.output:,} out"),
        ("cost", cost(stats.cost_usd)),
    ]
    cli.emit(stats, table(rows))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{plain_line(name)} {count:,}" for name, count in counts.items())


@STORE.action("reindex", "build the search index anew", epilog=examples("hermes sessions reindex"))
async def _reindex(_args: Namespace, cli: Cli, store: SessionStore) -> None:
    count = await store.reindex(progress_on(cli, "indexing"))
    cli.say(f"indexed {many(count, 'message')}")


@STORE.action(
    "vacuum", "give unused room back to the disk", epilog=examples("hermes sessions vacuum")
)
async def _vacuum(_args: Namespace, cli: Cli, store: SessionStore) -> None:
    before = (await store.stats()).sizes.total
    await store.vacuum()
    after = (await store.stats()).sizes.total
    cli.say(f"{human_size(before)} before, {human_size(after)} now")


@STORE.action(
    "backup",
    "copy the whole store while it is in use",
    arg("out", type=Path, metavar="OUT", help="a new file"),
    flag("--force", help="replace OUT when it exists"),
    epilog=examples("hermes sessions backup state-backup.db"),
)
async def _backup(args: Namespace, cli: Cli, store: SessionStore) -> None:
    progress = progress_on(cli, "copying")
    url = cli.load().settings.store.url
    await back_up_store(store, url, args.out, overwrite=args.force, progress=progress)
    cli.say(f"copied the store to {args.out} ({human_size(args.out.stat().st_size)})")


@STORE.action(
    "restore",
    "put a backup in the place of the store",
    arg("file", type=Path, metavar="FILE", help="what `backup` wrote"),
    YES,
    description="Put a backup in the place of the SQLite store. The store that was there is\n"
    "kept next to it under a dated name. Running programs continue with the backup.",
    epilog=examples("hermes sessions restore state-backup.db"),
    needs=None,
)
def _restore(args: Namespace, cli: Cli) -> None:
    if not cli.confirm(f"Replace the session store by {plain_line(str(args.file))}?"):
        cli.say("nothing was changed")
        return
    kept = restore_store(cli.home, cli.load().settings.store.url, args.file)
    cli.say(f"the store is now that of {args.file}")
    if kept is not None:
        cli.say(f"the one that was there is kept as {kept}")


@STORE.action(
    "repair",
    "save what can be saved of a damaged store",
    json=True,
    description="Save what can be saved of a damaged SQLite store. The damaged file is kept\n"
    "next to it under a dated name.",
    epilog=examples("hermes sessions repair"),
    needs=None,
)
def _repair(_args: Namespace, cli: Cli) -> None:
    report = repair_store(cli.home, cli.load().settings.store.url, progress_on(cli, "reading"))
    cli.emit(report, report.summary)


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


# `hermes sessions delete` and `prune`.

LINE_WIDTH = 120


@STORE.action(
    "delete",
    "delete a session and its messages",
    SESSION,
    YES,
    epilog=examples("hermes sessions delete 20260131_140500_1a2b3c4d --yes"),
)
async def _delete(args: Namespace, cli: Cli, store: SessionStore) -> int:
    info = await find_session_exactly(store, args.session)
    question = f"Delete {session_label(info)} with {many(info.message_count, 'message')}?"
    if not cli.confirm(question):
        cli.say("nothing was deleted")
        return 1
    await store.delete(info.id)
    cli.say(f"deleted {session_label(info)}")
    return 0


@STORE.action(
    "prune",
    "delete old sessions",
    arg("--older-than", type=age, default=90 * DAY, metavar="AGE", help="older than (90 days)"),
    SOURCE,
    flag("--dry-run", help="only say what would be deleted"),
    YES,
    json=True,
    description="Delete old sessions. Only sessions that have ended are deleted, and never\n"
    "archived ones.",
    epilog=examples("hermes sessions prune --older-than 30 --source cron --dry-run"),
    needs=store_or_empty(),
)
async def _prune(args: Namespace, cli: Cli, store: SessionStore) -> int:
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
        return 0
    older = human_duration(args.older_than)
    question = f"Delete {many(len(old), 'session')} started more than {older} ago?"
    if not cli.confirm(question):
        cli.say("nothing was deleted")
        return 1
    deleted = await store.prune(which)
    if cli.load().settings.sessions.vacuum_after_prune:
        await store.vacuum()
    cli.emit({"deleted": deleted}, f"deleted {many(len(deleted), 'session')}")
    return 0
