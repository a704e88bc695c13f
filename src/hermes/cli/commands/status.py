"""`hermes status`, `version` and `insights`: what is set up, and how the agent was used."""

import platform
import shutil
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from hermes import __version__
from hermes.app import UserGit, opened_store, store_exists, user_zone
from hermes.cli.commands.model import format_fact, open_providers, resolution_line, resolution_lines
from hermes.cli.context import Cli, Command, arg, flag
from hermes.config.installation import Checkout, installation
from hermes.ops import Insights, Status, cost, insights_of, money, status_of
from hermes.ops.insights import HOURS
from hermes.store import GitCommandFailed
from hermes.tui import Paint, one_line, width, wrap
from hermes.tui.text import cut
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, many


async def run_status(args: Namespace, cli: Cli) -> int:
    loaded, clock = cli.load(), SystemClock()
    async with open_providers(cli) as providers:
        status = await status_of(cli.home, loaded, providers, clock, deep=args.deep)
    lines = _lines(status, cli.paint, everything=args.all)
    cli.emit(status, (line.rstrip() for line in lines))
    unreached = status.reached is not None and not status.reached.ok
    return 1 if status.models.main.problem or unreached else 0


def _lines(status: Status, paint: Paint, *, everything: bool) -> Iterator[str]:
    yield format_fact("hermes", f"{status.version}, profile {status.profile} ({status.home})")
    yield from resolution_lines(status.models, paint)
    if status.reached is not None:
        role = "text" if status.reached.ok else "error"
        yield format_fact("reached", paint(role, status.reached.detail))
    for number, fallback in enumerate(status.models.fallbacks):
        yield format_fact("" if number else "fallback", resolution_line(fallback, paint))
    yield from _auxiliary(status, paint, everything=everything)
    budget = msgspec.structs.asdict(status.budget).items()
    caps = [f"${cap:g} a {name.removesuffix('_usd')}" for name, cap in budget if cap is not None]
    spent = f"${status.store.spent_today:.2f} spent today"
    yield format_fact("budget", f"{', '.join(caps) or 'no cap'}; {spent}")
    sessions = many(status.store.sessions, "session")
    problem = status.store.problem
    yield format_fact(
        "store", paint("error", problem) if problem else f"{status.store.place}, {sessions}"
    )
    yield format_fact("commands", status.commands)
    if everything:
        yield ""
        for provider in status.providers:
            state = ", ".join(provider.keys) or (
                "no key" if provider.needs_key else "no key needed"
            )
            yield f"  {provider.id:<16} {provider.label:<32} {state}"


def _auxiliary(status: Status, paint: Paint, *, everything: bool) -> Iterator[str]:
    """Return the auxiliary models by task, or one line if one model does all tasks."""
    tasks = {name: resolution_line(found, paint) for name, found in status.models.auxiliary.items()}
    groups: dict[str, list[str]] = {}
    for name, text in tasks.items():
        groups.setdefault(text, []).append(name)
    for number, (text, names) in enumerate(groups.items()):
        who = ", ".join(names) if everything or len(groups) > 1 else "all tasks"
        yield format_fact("" if number else "auxiliary", f"{text}  {paint('dim', who)}")


STATUS = Command(
    "status",
    run_status,
    "Show what is set up and whether it works.",
    flag("--all", help="every task and every provider"),
    flag("--deep", help="ask the endpoint whether it answers"),
    json=True,
)


# `hermes version`.


async def run_version(_args: Namespace, cli: Cli) -> None:
    facts = {
        "hermes": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()}-{platform.release()}-{platform.machine()}",
        "home": str(cli.home.root),
        **await _program(),
    }
    cli.emit(facts, (f"{name:<8} {value}" for name, value in facts.items()))


async def _program() -> dict[str, str]:
    """Return the place of the program, and its commit if git knows it."""
    found = installation()
    if not isinstance(found, Checkout):
        return {"program": f"installed by {found.installer}"}
    where = {"program": str(found.root)}
    if found.is_repository:
        git = UserGit(found.root)
        with suppress(GitCommandFailed):  # git is not installed or fails
            commit = await git.line("rev-parse", "--short=12", "HEAD")
            changed = await git.line("status", "--porcelain", "--untracked-files=no")
            if commit:
                where["commit"] = f"{commit} with local changes" if changed else commit
    return where


VERSION = Command(
    "version",
    run_version,
    "Show the version of hermes, what it runs on and where it is.",
    flag("--json", help="as a JSON object"),
)


# `hermes insights`: how the agent was used, as charts in the terminal.

# Bars, sparklines and heat rows of block characters.

MOST_LABEL = 26


class ChartSigns(NamedTuple):
    bar: str  #: Fractions of a cell, smallest first.
    spark: str  #: Shades, lightest first.
    heat: str


BLOCKS = ChartSigns("▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█", " ░▒▓█")
ASCII = ChartSigns("#", " .:-=+*#", " .+#")


class ChartBar(NamedTuple):
    label: str
    amount: float
    text: str  #: The amount as text, after the bar.


class Charts(msgspec.Struct, frozen=True):
    columns: int
    signs: ChartSigns = BLOCKS

    def bars(self, rows: Sequence[ChartBar]) -> list[str]:
        """Return a line per bar, scaled to the largest amount."""
        if not rows:
            return []
        room = min(MOST_LABEL, self.columns // 3)
        labels = [one_line(row.label, room) for row in rows]
        wide, tail = max(map(width, labels)), max(len(row.text) for row in rows)
        cells = max(1, self.columns - 2 - wide - 1 - tail - 1)
        most, signs = max(row.amount for row in rows), self.signs.bar
        lines = []
        for label, row in zip(labels, rows, strict=True):
            share = row.amount / most if most else 0
            filled = max(round(share * cells * len(signs)), 1 if share > 0 else 0)
            whole, rest = divmod(filled, len(signs))
            bar = signs[-1] * whole + (signs[rest - 1] if rest else "")
            padding = " " * (wide - width(label))
            lines.append(f"  {label}{padding} {bar:<{cells}} {row.text:>{tail}}")
        return lines

    def spark(self, amounts: Sequence[float]) -> str:
        """Return a character per amount; neighbours are added up if they do not fit."""
        cells = max(1, self.columns - 2)
        size = -(-len(amounts) // cells)
        sums = [sum(amounts[at : at + size]) for at in range(0, len(amounts), size)]
        return self._row(sums, max(sums, default=0), self.signs.spark)

    def heat(self, amounts: Sequence[float], most: float) -> str:
        return self._row(amounts, most, self.signs.heat)

    def _row(self, amounts: Sequence[float], most: float, signs: str) -> str:
        """Return a character per amount; any amount above zero is visible."""
        top = len(signs) - 1
        return "".join(
            signs[max(1, round(amount / most * top))] if amount and most else signs[0]
            for amount in amounts
        )


# The page of `hermes insights`, line by line.

MOST_ROWS = 8  #: The most models, tools or sources shown.
LABEL = 11
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def page(found: Insights, charts: Charts, paint: Paint) -> Iterator[str]:
    """Return the page in lines of at most `charts.columns`."""
    first, last = found.days[0].date, found.days[-1].date
    source = f", {one_line(found.source, 30)}" if found.source else ""
    title = f"{first} to {last} ({many(len(found.days), 'day')}{source})"
    yield paint("strong", cut(title, charts.columns))
    if found.is_empty:
        yield "no messages in this period"
        return
    yield from _facts(found, charts.columns)
    models = []
    for model in found.by_model:
        all_unpriced = model.unpriced_calls == model.calls
        price = "price unknown" if all_unpriced else cost(model.cost_usd)
        price += " + ?" if model.unpriced_calls and not all_unpriced else ""
        text = f"{_short(model.usage.total)} {price}"
        models.append(ChartBar(model.model or "?", model.usage.total, text))
    sources = [ChartBar(s.source, s.messages, f"{s.messages:,}") for s in found.by_source]
    tools = []
    for one in found.by_tool:
        failed = f" ({one.failed:,} failed)" if one.failed else ""
        tools.append(ChartBar(one.name or "?", one.calls, f"{one.calls:,}{failed}"))
    for title, lines in {
        "Messages a day": _daily(found, charts),
        "Models (tokens)": _bars(models, charts),
        "Sources (messages)": _bars(sources, charts),
        "Tools (calls)": _bars(tools, charts),
        "Messages by weekday, hour": _times(found, charts),
    }.items():
        if lines:
            yield from ("", paint("strong", title), *lines)


def _facts(found: Insights, columns: int) -> Iterator[str]:
    usage = found.usage
    subagents = f", {many(found.subagents, 'subagent')}" if found.subagents else ""
    averages = f"{human_duration(found.average_seconds)}, {found.average_messages:.0f} messages"
    facts = {
        "sessions": f"{found.sessions:,}{subagents}",
        "average": averages if found.sessions else "",
        "messages": f"{found.messages:,}",
        "tool calls": f"{found.tool_calls:,}",
        "model calls": f"{found.model_calls:,}",
        "tokens": f"{usage.prompt:,} in, {usage.cache_read:,} of them cached; {usage.output:,} out",
        "cache hits": f"{found.usage.hits:.0%} of the input" if usage.prompt else "",
        "cost": money(found.cost_usd, found.model_calls, found.unpriced_calls),
        "active": f"{found.active_days} of {many(len(found.days), 'day')}",
        "streak": f"{many(found.streak, 'day')} now, longest {many(found.longest_streak, 'day')}",
        "busiest": ", ".join(f"{day.date} ({day.messages:,})" for day in found.busiest),
        "ended": ", ".join(f"{one_line(why, 24)} {n:,}" for why, n in found.end_reasons.items()),
    }
    for name, text in facts.items():
        for number, line in enumerate(wrap(text, columns - LABEL - 1) if text else ()):
            yield f"{'' if number else name:<{LABEL}} {line}"


def _daily(found: Insights, charts: Charts) -> list[str]:
    if len(found.days) < 2:
        return []
    most = max(day.messages for day in found.days)
    lines = [f"  {charts.spark([day.messages for day in found.days])}"]
    spent = [day.cost_usd for day in found.days]
    lines += [f"  {charts.spark(spent)}"] if any(spent) else []
    words = f"up to {many(most, 'message')} a day"
    words += f" (first row), up to {cost(max(spent))} a day (second row)" if any(spent) else ""
    return [*lines, *(f"  {line}" for line in wrap(words, charts.columns - 2))]


def _bars(rows: Sequence[ChartBar], charts: Charts) -> list[str]:
    more = [f"  and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    return [*charts.bars(rows[:MOST_ROWS]), *more]


def _times(found: Insights, charts: Charts) -> list[str]:
    most = max(max(hours) for hours in found.by_hour)
    days = zip(WEEKDAYS, found.by_hour, strict=True)
    hours = "".join(f"{hour:<6}" for hour in range(0, HOURS, 6)).rstrip()
    return [*(f"  {day} {charts.heat(row, most)}".rstrip() for day, row in days), f"      {hours}"]


def _short(count: int) -> str:
    """`1.2M` tokens."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


NARROWEST, WIDEST = 30, 100


async def run_insights(args: Namespace, cli: Cli) -> None:
    settings = cli.load().settings
    zone = user_zone(settings)
    if not store_exists(cli.home, settings.store.url):
        cli.emit({}, empty="no sessions yet")
        return
    async with opened_store(cli.home, settings.store.url, cli.note) as store:
        found = await insights_of(store, args.days, SystemClock().now(), args.source, zone)
    columns = shutil.get_terminal_size().columns if cli.stdout.isatty() else 80
    encoding = getattr(cli.stdout, "encoding", None) or "utf-8"
    signs = BLOCKS if "utf" in encoding.lower() else ASCII
    charts = Charts(max(NARROWEST, min(columns, WIDEST)), signs)
    derived = {"cache_hit_rate": round(found.usage.hits, 4), "active_days": found.active_days}
    cli.emit({**msgspec.to_builtins(found), **derived}, page(found, charts, cli.paint))


INSIGHTS = Command(
    "insights",
    run_insights,
    "Show how the agent was used: sessions, tools, tokens, cost, times.",
    arg("--days", type=int, default=30, metavar="N", help="how many days (30)"),
    arg("--source", default="", metavar="NAME", help="only cli, telegram, cron, …"),
    json=True,
)
