"""What is set up, and a first question."""

from collections.abc import Iterator

from hermes.app.tool_listing import tool_rows
from hermes.cli.commands.setup.asking import fresh, run_command
from hermes.cli.context import Cli
from hermes.cli.explain_model import resolution
from hermes.cli.resolution import brief, fact
from hermes.cli.style import Style
from hermes.config.home import tilde


def summary(cli: Cli) -> Iterator[str]:
    again = fresh(cli)
    settings = again.load().settings
    main = resolution(again).main
    yield fact("model", brief(main, Style.of(cli.stdout)))
    if main.hint:
        yield fact("", main.hint)
    yield fact("commands", settings.terminal.backend)
    rows = tool_rows(again.load(), cli.home, "cli")
    yield fact("tools", f"{sum(row.on and not row.missing for row in rows)} of {len(rows)}")
    yield fact("approvals", settings.approvals.mode)
    yield fact("settings", tilde(cli.home.config_file))


def offer_a_question(cli: Cli) -> None:
    said = cli.ask("Try it: type a question (Enter ends): ").strip()
    if said:
        run_command(cli, "chat", "-q", said)
    cli.say("`hermes` starts a chat, `hermes setup` changes this again.")
