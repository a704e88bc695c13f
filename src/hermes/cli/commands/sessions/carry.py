"""`hermes sessions export` and `import`."""

import argparse
from pathlib import Path

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import creating, named, shown_progress, working
from hermes.cli.commands.sessions.arguments import example
from hermes.cli.commands.sessions.wording import document
from hermes.cli.context import Cli
from hermes.core.errors import SessionNotFound
from hermes.core.ports import SessionInfo
from hermes.ops.output_files import replaced
from hermes.ops.transcript_import import EVERYTHING, import_file
from hermes.ops.transcripts import Form, exported, form_of
from hermes.store.records import SessionFilter
from hermes.store.session_store import SessionStore
from hermes.util.clock import SystemClock
from hermes.util.text import many

STDOUT = "-"


def add_actions(actions: Actions) -> None:
    export = actions.add(
        "export",
        working(_export),
        "write sessions to a file",
        description="Write all sessions, or some, to a file: as JSON Lines, which hold everything\n"
        "and can be imported, or as Markdown or HTML to read.",
        epilog=example(
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
        "--format", choices=[form.value for form in Form], help="by the name of OUT, or jsonl"
    )
    export.add_argument("--force", action="store_true", help="replace OUT when it exists")
    load = actions.add(
        "import",
        creating(_import),
        "read sessions from a JSON Lines file",
        json=True,
        description="Read sessions from a JSON Lines file: one that export wrote, or a line of\n"
        '{"messages": […]} for each session. Every line is checked before the first is stored.',
        epilog=example("hermes sessions import all.jsonl --skip-existing"),
    )
    load.add_argument("file", type=Path, metavar="FILE")
    load.add_argument(
        "--skip-existing", action="store_true", help="leave out sessions that are there already"
    )


async def _export(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    out = Path(args.out)
    form = Form(args.format) if args.format else form_of(out)
    infos = await _chosen(args, store)
    pieces = exported(store, infos, form, shown_progress(cli, "exporting"))
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


async def _chosen(args: argparse.Namespace, store: SessionStore) -> list[SessionInfo]:
    """The sessions asked for, the oldest first, so that parents come before their children."""
    if args.session_id:
        found = [await named(store, name) for name in args.session_id]
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
        progress=shown_progress(cli, "importing"),
    )
    if args.json:
        document(cli, done)
        return 0
    skipped = len(done.skipped)
    left_out = f", left out {skipped:,} that {'was' if skipped == 1 else 'were'} there"
    cli.say(f"imported {many(len(done.stored), 'session')}{left_out if skipped else ''}")
    for session_id, title in done.retitled.items():
        cli.say(f"  {session_id} is now called {title}: its own title is in use")
    return 0
