"""`hermes_cli.plugins`: the plugins of this process."""

from typing import Any

from hermes.app.documented.process import process
from hermes.plugins.hooks import parse_event


def discover_plugins() -> list[str]:
    """The names of the plugins that are loaded. Without a conversation in this process they are
    loaded now."""
    return [each.name for each in process().extensions.outcomes if not each.problem]


def invoke_hook(hook_name: str, **kwargs: Any) -> list[Any]:
    """What the listeners of a hook answer, without the Nones. Raises `ValueError` for a hook that
    does not exist."""
    name = parse_event(hook_name)
    return process().run(process().extensions.hooks.fire(name, **kwargs))


def discover_plugin_cli_commands() -> dict[str, dict[str, Any]]:
    """The subcommands that plugins bring: `help`, `setup_fn(parser)` and `handler_fn(args)`."""
    return {
        name: {"help": each.help, "setup_fn": each.setup, "handler_fn": each.act}
        for name, each in process().extensions.cli_commands.items()
    }
