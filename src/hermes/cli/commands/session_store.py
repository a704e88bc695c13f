"""The session store: opening it for actions, export, import, deletion and maintenance."""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes.app.session_store import opened_store, store_exists
from hermes.cli.context import Act, Actions, Cli
from hermes.cli.output import (
    DAY,
    add_session,
    add_yes,
    age,
    ago,
    confirm,
    examples,
    progress_on,
    table,
)
from hermes.cli.terminal import one_line
from hermes.core.errors import SessionNotFound
from hermes.core.ports import SessionInfo
from hermes.ops.output_files import replaced
from hermes.ops.restore import back_up_store, repair_store, restore_store
from hermes.ops.transcript_import import EVERYTHING, import_file
from hermes.ops.transcripts import ExportFormat, cost, export_sessions, format_of, moment
from hermes.store.records import SessionFilter, StoreStats
from hermes.store.session_store import SessionStore
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, human_size, many, plain_line

Work = Callable[[argparse.Namespace, Cli, SessionStore], Awaitable[int]]


def reading_store(work: Work, empty: Any = ()) -> Act:
    """Return an action that reads. Without a store it prints `empty` and creates nothing."""

    def act(args: argparse.Namespace, cli: Cli) -> int:
        if _store_exists(cli):
            return _run_with_store(work, args, cli)
        if args.json:
            cli.json(empty)
        else:
            cli.say("no sessions yet")
        return 0

    return act


def changing_store(work: Work) -> Act:
    """Return an action on existing sessions. Raises `SessionNotFound` without a store."""

    def act(args: argparse.Namespace, cli: Cli) -> int:
        if not _store_exists(cli):
            named = getattr(args, "session", None)
            what = f"there is no session {plain_line(named)}" if isinstance(named, str) else ""
            raise SessionNotFound(f"{what or 'there are no sessions'}: nothing was stored yet")
        return _run_with_store(work, args, cli)

    return act


def creating_store(work: Work) -> Act:
    """Return an action that creates the store if needed."""

    def act(args: argparse.Namespace, cli: Cli) -> int:
        return _run_with_store(work, args, cli)

    return act


async def find_session(store: SessionStore, name: str) -> SessionInfo:
    """Return the session with this id, unique id prefix or title."""
    return await store.resolve(plain_line(name))


async def find_session_exactly(store: SessionStore, name: str) -> SessionInfo:
    """Return the session to change or delete.

    A title means the session with exactly this title, not one that continues it.
    """
    return await store.resolve(plain_line(name), exactly=True)


def _store_exists(cli: Cli) -> bool:
    return store_exists(cli.home, cli.load().settings.store.url)


def _run_with_store(work: Work, args: argparse.Namespace, cli: Cli) -> int:
    async def run() -> int:
        url = cli.load().settings.store.url
        async with opened_store(cli.home, url, cli.note) as store:
            return await work(args, cli, store)

    return asyncio.run(run())


# `hermes sessions export` and `import`.

STDOUT = "-"


def add_transfer_actions(actions: Actions) -> None:
    export = actions.add(
        "export",
        changing_store(_export),
        "write sessions to a file",
        description="Write all sessions, or some, to a file: as JSON Lines, which hold everything\n"
        "and can be imported, or as Markdown or HTML to read.",
        epilog=examples(
            "hermes sessions export all.jsonl",
            'hermes sessions export page.html --session-id "tax return"',
        ),
    )
    export.add_argument("out", metavar="OUT", help="the file; - is the standard output")
    export.add_argument(
        "--session-id", action="append", default=[], metavar="ID", help="this one; may be repeated"
    )
    export.add_argument("--source", default="", help="only those of cli, telegram, …")
    export.add_argument(
        "--format",
        choices=[form.value for form in ExportFormat],
        help="by the name of OUT, or jsonl",
    )
    export.add_argument("--force", action="store_true", help="replace OUT when it exists")
    load = actions.add(
        "import",
        creating_store(_import),
        "read sessions from a JSON Lines file",
        json=True,
        description="Read sessions from a JSON Lines file: one that export wrote, or a line of\n"
        '{"messages": […]} for each session. Every line is checked before the first is stored.',
        epilog=examples("hermes sessions import all.jsonl --skip-existing"),
    )
    load.add_argument("file", type=Path, metavar="FILE")
    load.add_argument(
        "--skip-existing", action="store_true", help="leave out sessions that are there already"
    )


async def _export(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    out = Path(args.out)
    form = ExportFormat(args.format) if args.format else format_of(out)
    infos = await _sessions_to_export(args, store)
    pieces = export_sessions(store, infos, form, progress_on(cli, "exporting"))
    if args.out == STDOUT:
        async for piece in pieces:
            cli.stdout.write(piece)
        cli.stdout.flush()
        return 0
    with replaced(out, overwrite=args.force) as file:
        async for piece in pieces:
            file.write(piece)
    cli.say(f"wrote {many(len(infos), 'session')} to {out}")
    return 0


async def _sessions_to_export(args: argparse.Namespace, store: SessionStore) -> list[SessionInfo]:
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


async def _import(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    done = await import_file(
        store,
        args.file,
        SystemClock().now(),
        skip_existing=args.skip_existing,
        progress=progress_on(cli, "importing"),
    )
    if args.json:
        cli.json(done)
        return 0
    skipped = len(done.skipped)
    left_out = f", left out {skipped:,} that {'was' if skipped == 1 else 'were'} there"
    cli.say(f"imported {many(len(done.stored), 'session')}{left_out if skipped else ''}")
    for session_id, title in done.retitled.items():
        cli.say(f"  {session_id} is now called {title}: its own title is in use")
    return 0


# `hermes sessions stats`, `reindex`, `vacuum`, `backup`, `restore` and `repair`.


def add_maintenance_actions(actions: Actions) -> None:
    actions.add(
        "stats",
        reading_store(_stats, empty={}),
        "how much there is",
        json=True,
        epilog=examples("hermes sessions stats --json"),
    )
    actions.add(
        "reindex",
        changing_store(_reindex),
        "build the search index anew",
        epilog=examples("hermes sessions reindex"),
    )
    actions.add(
        "vacuum",
        changing_store(_vacuum),
        "give unused room back to the disk",
        epilog=examples("hermes sessions vacuum"),
    )
    backup = actions.add(
        "backup",
        changing_store(_backup),
        "copy the whole store while it is in use",
        epilog=examples("hermes sessions backup state-backup.db"),
    )
    backup.add_argument("out", type=Path, metavar="OUT", help="a new file")
    backup.add_argument("--force", action="store_true", help="replace OUT when it exists")
    restore = actions.add(
        "restore",
        _restore,
        "put a backup in the place of the store",
        description="Put a backup in the place of the SQLite store. The store that was there is\n"
        "kept next to it under a dated name. Running programs continue with the backup.",
        epilog=examples("hermes sessions restore state-backup.db"),
    )
    restore.add_argument("file", type=Path, metavar="FILE", help="what `backup` wrote")
    add_yes(restore)
    actions.add(
        "repair",
        _repair,
        "save what can be saved of a damaged store",
        json=True,
        description="Save what can be saved of a damaged SQLite store. The damaged file is kept\n"
        "beside it under a dated name.",
        epilog=examples("hermes sessions repair"),
    )


async def _stats(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    stats = await store.stats()
    if args.json:
        cli.json(stats)
        return 0
    for line in table(_facts(stats)):
        cli.say(line)
    return 0


def _facts(stats: StoreStats) -> list[tuple[str, str]]:
    sizes = stats.sizes
    span = f"{moment(stats.oldest or 0)} to {moment(stats.newest or 0)}" if stats.sessions else ""
    archived = f", {stats.archived:,} of them archived" if stats.archived else ""
    usage = f"{stats.usage.prompt:,} in, {stats.usage.output:,} out"
    return [
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
        ("tokens", usage),
        ("cost", cost(stats.cost_usd)),
    ]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{plain_line(name)} {count:,}" for name, count in counts.items())


async def _reindex(_args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    count = await store.reindex(progress_on(cli, "indexing"))
    cli.say(f"indexed {many(count, 'message')}")
    return 0


async def _vacuum(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:  # noqa: ARG001
    before = (await store.stats()).sizes.total
    await store.vacuum()
    after = (await store.stats()).sizes.total
    cli.say(f"{human_size(before)} before, {human_size(after)} now")
    return 0


async def _backup(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    progress = progress_on(cli, "copying")
    url = cli.load().settings.store.url
    await back_up_store(store, url, args.out, overwrite=args.force, progress=progress)
    cli.say(f"copied the store to {args.out} ({human_size(args.out.stat().st_size)})")
    return 0


def _restore(args: argparse.Namespace, cli: Cli) -> int:
    if not confirm(args, cli, f"Replace the session store by {plain_line(str(args.file))}?"):
        cli.say("nothing was changed")
        return 0
    kept = restore_store(cli.home, cli.load().settings.store.url, args.file)
    cli.say(f"the store is now that of {args.file}")
    if kept is not None:
        cli.say(f"the one that was there is kept as {kept}")
    return 0


def _repair(args: argparse.Namespace, cli: Cli) -> int:
    report = repair_store(cli.home, cli.load().settings.store.url, progress_on(cli, "reading"))
    if args.json:
        cli.json(report)
        return 0
    cli.say(report.summary)
    return 0


def session_name(info: SessionInfo) -> str:
    """Return the title, or the beginning of the first message."""
    return plain_line(info.title) or plain_line(info.preview)


def session_line(info: SessionInfo, width: int) -> str:
    count = many(info.message_count, "message")
    archived = "[archived] " if info.archived_at is not None else ""
    facts = f"{plain_line(info.id)}  {plain_line(info.source):<9} {ago(info.last_active):>12}"
    start = f"{facts}  {count:>13}  {archived}"
    return (start + one_line(session_name(info), max(width - len(start), 20))).rstrip()


def session_label(info: SessionInfo) -> str:
    """Return the id and the title, if there is one."""
    title = plain_line(info.title)
    return f"{plain_line(info.id)} ({title})" if title else plain_line(info.id)


# `hermes sessions delete` and `prune`.

LINE_WIDTH = 120


def add_delete_actions(actions: Actions) -> None:
    delete = actions.add(
        "delete",
        changing_store(_delete),
        "delete a session and its messages",
        epilog=examples("hermes sessions delete 20260131_140500_1a2b3c4d --yes"),
    )
    add_session(delete)
    add_yes(delete)
    prune = actions.add(
        "prune",
        reading_store(_prune),
        "delete old sessions",
        json=True,
        description="Delete old sessions. Only sessions that have ended are deleted, and never\n"
        "archived ones.",
        epilog=examples("hermes sessions prune --older-than 30 --source cron --dry-run"),
    )
    prune.add_argument(
        "--older-than",
        type=age,
        default=90 * DAY,
        metavar="AGE",
        help="started before that many days, or 12h, 30m, … (90)",
    )
    prune.add_argument("--source", default="", help="only those of cli, telegram, …")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    add_yes(prune)


async def _delete(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    info = await find_session_exactly(store, args.session)
    question = f"Delete {session_label(info)} with {many(info.message_count, 'message')}?"
    if not confirm(args, cli, question):
        cli.say("nothing was deleted")
        return 1
    await store.delete(info.id)
    cli.say(f"deleted {session_label(info)}")
    return 0


async def _prune(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    which = SessionFilter(
        sources=(args.source,) if args.source else (),
        started_before=time.time() - args.older_than,
        ended_only=True,
        limit=EVERYTHING,
    )
    old = await store.sessions(which)
    if args.dry_run or not old:
        return _list_old_sessions(args, cli, old)
    older = human_duration(args.older_than)
    question = f"Delete {many(len(old), 'session')} started more than {older} ago?"
    if not confirm(args, cli, question):
        cli.say("nothing was deleted")
        return 1
    deleted = await store.prune(which)
    if cli.load().settings.sessions.vacuum_after_prune:
        await store.vacuum()
    if args.json:
        cli.json({"deleted": deleted})
    else:
        cli.say(f"deleted {many(len(deleted), 'session')}")
    return 0


def _list_old_sessions(args: argparse.Namespace, cli: Cli, old: tuple[SessionInfo, ...]) -> int:
    if args.json:
        cli.json({"would_delete": [info.id for info in old]} if old else {"deleted": []})
        return 0
    for info in old:
        cli.say(session_line(info, LINE_WIDTH))
    if old:
        cli.say(f"{many(len(old), 'session')} would be deleted")
    else:
        cli.say("no ended session is that old; nothing was deleted")
    return 0
