"""`hermes sessions rename`, `archive`, `unarchive` and `branch`."""

import argparse
from functools import partial

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import named, named_exactly, working
from hermes.cli.commands.sessions.arguments import add_session, example
from hermes.cli.commands.sessions.wording import document, label
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.store.session_store import SessionStore
from hermes.util.clock import SystemClock
from hermes.util.session_ids import new_session_id


def add_actions(actions: Actions) -> None:
    rename = actions.add(
        "rename",
        working(_rename),
        "give a session a title",
        epilog=example("hermes sessions rename 20260131_140500 Tax return"),
    )
    add_session(rename)
    rename.add_argument("title", nargs="+", metavar="TITLE", help="at most 100 characters")
    for name, archived, summary in (
        ("archive", True, "put sessions away: not listed, never pruned, still found"),
        ("unarchive", False, "take sessions out of the archive"),
    ):
        parser = actions.add(
            name,
            working(partial(_archive, archived=archived)),
            summary,
            epilog=example(f'hermes sessions {name} "tax return"'),
        )
        add_session(parser, nargs="+")
    branch = actions.add(
        "branch",
        working(_branch),
        "a new session that begins with this conversation",
        json=True,
        epilog=example('hermes sessions branch "tax return" --title "tax return, other way"'),
    )
    add_session(branch)
    branch.add_argument("--title", default="", help="of the new session")


async def _rename(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    title = " ".join(args.title)
    if not title.strip():
        raise UsageError("the title is only spaces", hint="give it a letter at least")
    info = await named_exactly(store, args.session)
    stored = await store.set_title(info.id, title)
    cli.say(f"session {info.id} is now called {stored}")
    return 0


async def _archive(
    args: argparse.Namespace, cli: Cli, store: SessionStore, *, archived: bool
) -> int:
    infos = [await named_exactly(store, name) for name in args.session]
    for info in infos:
        await store.set_archived(info.id, archived)
        cli.say(f"{'archived' if archived else 'took out of the archive'}: {label(info)}")
    return 0


async def _branch(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    info = await named(store, args.session)
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
        document(cli, made)
        return 0
    cli.say(f"made {label(made)} from {label(info)}")
    cli.say(f"go on with it: hermes --resume {new_id}")
    return 0
