"""`hermes sessions search`: what was said, in all conversations."""

import argparse

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import looking, named
from hermes.cli.commands.sessions.arguments import example, positive, since, until
from hermes.cli.commands.sessions.wording import ago, document
from hermes.cli.context import Cli
from hermes.cli.style import Style
from hermes.core.errors import UsageError
from hermes.store.records import SearchHit, SearchRequest
from hermes.store.session_store import SessionStore
from hermes.util.plain import plain_line

ROLES = ("user", "assistant", "tool", "system")
QUERY_HELP = 'words, "a phrase", OR, NOT, begin*'


def add_actions(actions: Actions) -> None:
    parser = actions.add(
        "search",
        looking(_search),
        "messages that hold some words",
        json=True,
        epilog=example(
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
    session = (await named(store, args.session)).id if args.session else ""
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
        document(cli, hits)
        return 0
    if not hits:
        cli.say("nothing found")
    style = Style.of(cli.stdout)
    for number, hit in enumerate(hits):
        cli.say(("\n" if number else "") + _shown(hit, style))
    return 0


def _shown(hit: SearchHit, style: Style) -> str:
    """Where it was said, and what, with the messages around it."""
    place = "  ".join(
        plain_line(fact) for fact in (hit.session_id, hit.source, ago(hit.timestamp), hit.title)
    )
    said = f"  {plain_line(hit.role)}: {_marked(plain_line(hit.snippet), style)}"
    around = [
        style.dim(f"  {plain_line(one.role)}: {plain_line(one.content)}") for one in hit.context
    ]
    return "\n".join([place.rstrip(), said, *around])


def _marked(snippet: str, style: Style) -> str:
    """What matched in bold; where there is no bold, the marks stay."""
    if not style.colour:
        return snippet
    head, *rest = snippet.split(">>>")
    return head + "".join(
        style.bold(found) + after for found, _, after in (piece.partition("<<<") for piece in rest)
    )
