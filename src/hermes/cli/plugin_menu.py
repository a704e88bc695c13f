"""`hermes plugins` on a terminal: a numbered list that switches plugins and chooses providers."""

from collections.abc import Callable, Sequence

from hermes.cli.context import Cli
from hermes.cli.plugin_rows import Row, rows_of
from hermes.plugins.discovery import PluginKind, PluginState

HEADINGS = {
    PluginKind.PLUGIN: "Plugins",
    PluginKind.MEMORY: "Memory provider (one at most)",
    PluginKind.ENGINE: "Context engine (one)",
}
MARKS = {PluginState.ENABLED: "✓", PluginState.DISABLED: "✗", PluginState.NOT_ENABLED: "·"}


def line_of(row: Row, width: int) -> str:
    """One line of a list."""
    facts = [row.state if row.kind is PluginKind.PLUGIN else "", row.origin]
    if row.problem:
        facts.append(row.problem)
    elif row.missing:
        facts.append(f"needs {', '.join(row.missing)}")
    named = f"{row.name} {row.version}".rstrip()
    about = f"  {row.description}" if row.description else ""
    return f"{MARKS[row.state]} {named:<{width}}  ({', '.join(filter(None, facts))}){about}"


def width_of(rows: Sequence[Row]) -> int:
    return max((len(f"{row.name} {row.version}".rstrip()) for row in rows), default=0)


def menu(cli: Cli, toggle: Callable[[Row], None]) -> int:
    """Shows the list until the user leaves with an empty line."""
    while True:
        rows = rows_of(cli)
        _show(cli, rows)
        said = cli.ask("number to switch on or off (empty to leave): ").strip()
        if not said:
            return 0
        if said.isdecimal() and 1 <= int(said) <= len(rows):
            toggle(rows[int(said) - 1])
        else:
            cli.say(f"{said!r} is not in the list")


def _show(cli: Cli, rows: Sequence[Row]) -> None:
    width = width_of(rows)
    for kind, heading in HEADINGS.items():
        cli.say(heading)
        numbered = [(at, row) for at, row in enumerate(rows, 1) if row.kind is kind]
        for number, row in numbered:
            cli.say(f"{number:>4}  {line_of(row, width)}")
        if not numbered:
            cli.say("      none yet: `hermes plugins install owner/repo`")
