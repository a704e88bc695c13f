"""Who has which name: the program's own come first, then plugins in the order of loading."""

from collections.abc import Iterable
from enum import StrEnum

from hermes.plugins.reports import Reports

OURS = "Hermes itself"


class Thing(StrEnum):
    TOOL = "tool"
    COMMAND = "command"
    CLI_COMMAND = "subcommand"
    SKILL = "skill"
    MEMORY = "memory provider"
    ENGINE = "context engine"


SINGLE = frozenset({Thing.ENGINE})
"""Only one of these can be registered, whatever its name."""


class Names:
    """`commands` are the slash commands with their aliases, `cli_commands` the subcommands.

    Built-in tools are not reserved: a plugin may replace one, as the registry says in the log.
    """

    def __init__(
        self, reports: Reports, commands: Iterable[str] = (), cli_commands: Iterable[str] = ()
    ) -> None:
        self._reports = reports
        self._owners: dict[tuple[Thing, str], str] = {}
        for thing, names in ((Thing.COMMAND, commands), (Thing.CLI_COMMAND, cli_commands)):
            self._owners |= {(thing, name.lstrip("/").lower()): OURS for name in names}

    def claim(self, thing: Thing, name: str, plugin: str) -> bool:
        """Whether the plugin may have it; a refusal is reported."""
        key = (thing, "" if thing in SINGLE else name)
        owner = self._owners.get(key)
        if owner is None or (owner == plugin and thing not in SINGLE):
            self._owners[key] = plugin
            return True  # of what one plugin registers twice, the later counts
        self._reports.once(
            (plugin, thing, name),
            f"plugin {plugin}: its {thing} {name} is left out: {owner} has one already",
        )
        return False
