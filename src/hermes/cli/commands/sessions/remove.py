"""`hermes sessions delete` and `prune`."""

import argparse
import time

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import consents, looking, named_exactly, working
from hermes.cli.commands.sessions.arguments import DAY, add_session, add_yes, age, example
from hermes.cli.commands.sessions.look import one_line_of
from hermes.cli.commands.sessions.wording import document, label
from hermes.cli.context import Cli
from hermes.core.ports import SessionInfo
from hermes.ops.transcript_import import EVERYTHING
from hermes.store.records import SessionFilter
from hermes.store.session_store import SessionStore
from hermes.util.text import human_duration, many

LINE_WIDTH = 120


def add_actions(actions: Actions) -> None:
    delete = actions.add(
        "delete",
        working(_delete),
        "delete a session and its messages",
        epilog=example("hermes sessions delete 20260131_140500_1a2b3c4d --yes"),
    )
    add_session(delete)
    add_yes(delete)
    prune = actions.add(
        "prune",
        looking(_prune),
        "delete old sessions",
        json=True,
        description="Delete old sessions. Only sessions that have ended are deleted, and never\n"
        "archived ones.",
        epilog=example("hermes sessions prune --older-than 30 --source cron --dry-run"),
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
    info = await named_exactly(store, args.session)
    question = f"Delete {label(info)} with {many(info.message_count, 'message')}?"
    if not consents(args, cli, question):
        cli.say("nothing was deleted")
        return 1
    await store.delete(info.id)
    cli.say(f"deleted {label(info)}")
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
        return _say_old(args, cli, old)
    older = human_duration(args.older_than)
    question = f"Delete {many(len(old), 'session')} started more than {older} ago?"
    if not consents(args, cli, question):
        cli.say("nothing was deleted")
        return 1
    deleted = await store.prune(which)
    if cli.load().settings.sessions.vacuum_after_prune:
        await store.vacuum()
    if args.json:
        document(cli, {"deleted": deleted})
    else:
        cli.say(f"deleted {many(len(deleted), 'session')}")
    return 0


def _say_old(args: argparse.Namespace, cli: Cli, old: tuple[SessionInfo, ...]) -> int:
    if args.json:
        document(cli, {"would_delete": [info.id for info in old]} if old else {"deleted": []})
        return 0
    for info in old:
        cli.say(one_line_of(info, LINE_WIDTH))
    if old:
        cli.say(f"{many(len(old), 'session')} would be deleted")
    else:
        cli.say("no ended session is that old; nothing was deleted")
    return 0
