"""`hermes insights`: how the agent was used, as charts in the terminal."""

import argparse
import asyncio
import shutil
from typing import Any

import msgspec

from hermes.app.providers import user_zone
from hermes.app.session_store import opened_store, store_exists
from hermes.cli.commands.insights.charts import ASCII, BLOCKS, Charts
from hermes.cli.commands.insights.page import page
from hermes.cli.context import Cli
from hermes.cli.style import Style
from hermes.ops.insights import Insights, insights_of
from hermes.util.clock import SystemClock

EPILOG = """\
examples:
  hermes insights                      the last 30 days
  hermes insights --days 7
  hermes insights --source telegram    only what came from one place
  hermes insights --json               every figure, for a script
"""

NARROWEST, WIDEST = 30, 100


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show how the agent was used: sessions, tools, tokens, money, times."
    parser.epilog = EPILOG
    parser.add_argument("--days", type=int, default=30, metavar="N", help="so many days (30)")
    parser.add_argument("--source", default="", metavar="NAME", help="only cli, telegram, cron, …")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, cli: Cli) -> int:
    found = asyncio.run(_found(args, cli))
    if args.json:
        cli.json(document(found) if found else {})
    elif found is None:
        cli.say("no sessions yet")
    else:
        for line in page(found, _charts(cli), Style.of(cli.stdout)):
            cli.say(line)
    return 0


async def _found(args: argparse.Namespace, cli: Cli) -> Insights | None:
    settings, clock = cli.load().settings, SystemClock()
    zone = user_zone(settings)
    if not store_exists(cli.home, settings.store.url):
        return None
    async with opened_store(cli.home, settings.store.url, cli.note) as store:
        return await insights_of(store, args.days, clock.now(), args.source, zone)


def document(found: Insights) -> dict[str, Any]:
    """Every figure as plain data, those that are worked out too."""
    facts: dict[str, Any] = msgspec.to_builtins(found)
    return facts | {
        "cache_hit_rate": round(found.cache_hit_rate, 4),
        "active_days": found.active_days,
    }


def _charts(cli: Cli) -> Charts:
    columns = shutil.get_terminal_size().columns if cli.stdout.isatty() else 80
    encoding = getattr(cli.stdout, "encoding", None) or "utf-8"
    signs = BLOCKS if "utf" in encoding.lower() else ASCII
    return Charts(max(NARROWEST, min(columns, WIDEST)), signs)
