"""`hermes sessions usage`: tokens and money."""

import argparse

from hermes.cli.actions import Actions
from hermes.cli.commands.sessions.access import looking, named
from hermes.cli.commands.sessions.arguments import example, since
from hermes.cli.commands.sessions.wording import document, table
from hermes.cli.context import Cli
from hermes.core.usage import Usage
from hermes.ops.transcripts import cost
from hermes.store.records import UsageLine
from hermes.store.session_store import SessionStore
from hermes.util.plain import plain_line
from hermes.util.text import many

HEAD = ("task", "model", "provider", "by", "calls", "input", "cached", "output", "cost")
NUMBERS = (4, 5, 6, 7, 8)


def add_actions(actions: Actions) -> None:
    parser = actions.add(
        "usage",
        looking(_usage),
        "tokens and cost by task, model and tool",
        json=True,
        description="Tokens and cost by task, model and tool: of one session with its subagents\n"
        "and what went on after a compaction, or of all sessions.",
        epilog=example("hermes sessions usage --since 7d"),
    )
    parser.add_argument("session", nargs="?", metavar="ID", help="of this session only")
    parser.add_argument("--since", type=since, metavar="WHEN", help="from 2026-01-31, or 7d ago")


async def _usage(args: argparse.Namespace, cli: Cli, store: SessionStore) -> int:
    session = (await named(store, args.session)).id if args.session else ""
    lines = await store.usage(session, since=args.since)
    if args.json:
        document(cli, lines)
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
