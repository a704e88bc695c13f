"""`hermes sessions stats`, `reindex`, `vacuum`, `backup`, `restore` and `repair`."""

import argparse
from pathlib import Path

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import consents, looking, shown_progress, working
from hermes.cli.commands.sessions.arguments import add_yes, example
from hermes.cli.commands.sessions.wording import document, table
from hermes.cli.context import Cli
from hermes.ops.restore import back_up, repair_store, restore_store
from hermes.ops.transcripts import cost, moment
from hermes.store.records import StoreStats
from hermes.store.session_store import SessionStore
from hermes.util.plain import plain_line
from hermes.util.text import human_size, many


def add_actions(actions: Actions) -> None:
    actions.add(
        "stats",
        looking(_stats, empty={}),
        "how much there is",
        json=True,
        epilog=example("hermes sessions stats --json"),
    )
    actions.add(
        "reindex",
        working(_reindex),
        "build the search index anew",
        epilog=example("hermes sessions reindex"),
    )
    actions.add(
        "vacuum",
        working(_vacuum),
        "give unused room back to the disk",
        epilog=example("hermes sessions vacuum"),
    )
    backup = actions.add(
        "backup",
        working(_backup),
        "copy the whole store while it is in use",
        epilog=example("hermes sessions backup state-backup.db"),
    )
    backup.add_argument("out", type=Path, metavar="OUT", help="a new file")
    backup.add_argument("--force", action="store_true", help="replace OUT when it exists")
    restore = actions.add(
        "restore",
        _restore,
        "put a backup in the place of the store",
        description="Put a backup in the place of the SQLite store. The store that was there is\n"
        "kept beside it under a dated name. Programs that run go on with the backup.",
        epilog=example("hermes sessions restore state-backup.db"),
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
        epilog=example("hermes sessions repair"),
    )


async def _stats(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    stats = await store.stats()
    if args.json:
        document(cli, stats)
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
    count = await store.reindex(shown_progress(cli, "indexing"))
    cli.say(f"indexed {many(count, 'message')}")
    return 0


async def _vacuum(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:  # noqa: ARG001
    before = (await store.stats()).sizes.total
    await store.vacuum()
    after = (await store.stats()).sizes.total
    cli.say(f"{human_size(before)} before, {human_size(after)} now")
    return 0


async def _backup(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    progress = shown_progress(cli, "copying")
    url = cli.load().settings.store.url
    await back_up(store, url, args.out, overwrite=args.force, progress=progress)
    cli.say(f"copied the store to {args.out} ({human_size(args.out.stat().st_size)})")
    return 0


def _restore(args: argparse.Namespace, cli: Cli) -> int:
    if not consents(args, cli, f"Replace the session store by {plain_line(str(args.file))}?"):
        cli.say("nothing was changed")
        return 0
    kept = restore_store(cli.home, cli.load().settings.store.url, args.file)
    cli.say(f"the store is now that of {args.file}")
    if kept is not None:
        cli.say(f"the one that was there is kept as {kept}")
    return 0


def _repair(args: argparse.Namespace, cli: Cli) -> int:
    report = repair_store(cli.home, cli.load().settings.store.url, shown_progress(cli, "reading"))
    if args.json:
        document(cli, report)
        return 0
    cli.say(report.summary)
    return 0
