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
ONE_EACH = frozenset({Thing.MEMORY})
"""Each plugin can register one of these, whatever its name; the first counts."""


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
        holder = self._holder(thing, name, plugin)
        if not holder or (holder == plugin and thing not in SINGLE | ONE_EACH):
            self._owners[thing, name] = plugin
            return True  # of what one plugin registers twice, the later counts
        self._reports.once(
            (plugin, thing, name),
            f"plugin {plugin}: its {thing} {name} is left out: {holder} has one already",
        )
        return False

    def owner(self, thing: Thing, name: str) -> str:
        """The plugin that has it; "" when none does."""
        return self._owners.get((thing, name), "")

    def of_plugin(self, thing: Thing, plugin: str) -> list[str]:
        """The names that it has."""
        held = self._owners.items()
        return [name for (kind, name), owner in held if (kind, owner) == (thing, plugin)]

    def _holder(self, thing: Thing, name: str, plugin: str) -> str:
        """Whoever has it, or the only one there can be."""
        if thing in SINGLE:
            return next((owner for (kind, _), owner in self._owners.items() if kind is thing), "")
        if thing in ONE_EACH and self.of_plugin(thing, plugin):
            return plugin
        return self.owner(thing, name)
