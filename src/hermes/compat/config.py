"""`hermes_cli.config`, `hermes_cli.plugins` and the functions of `agent.prompt_builder`."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes.app import SkillCatalog, visibility_context
from hermes.compat.runtime import script_runtime, tell
from hermes.config.edit import set_value, unset_value
from hermes.config.environment import Parts
from hermes.config.home import current_home, ensure_hermes_home
from hermes.config.loader import load
from hermes.config.schema import MISSING, find, merge
from hermes.config.settings import Settings
from hermes.plugins import parse_event
from hermes.prompt.assembly import environment_hints, host_environment, load_soul
from hermes.prompt.context_files import LocalFileTree, project_context
from hermes.security import Redactor

Dict = dict[str, Any]

DEFAULT_CONFIG: Dict = msgspec.to_builtins(Settings())


def load_config() -> Dict:
    """Return all settings: config.yaml, variables, and defaults for the rest. Unknown keys are
    included."""
    loaded = load(current_home())
    return merge(loaded.raw, msgspec.to_builtins(loaded.settings))


def save_config(config: Mapping[str, Any]) -> None:
    """Write what differs from the current settings to config.yaml, which keeps its comments.

    A value of None removes the key; a key that is not in `config` stays as it is.
    """
    home = current_home()
    for parts, value in _changes(config, load_config()):
        if value is None:
            unset_value(home, parts)
        else:
            set_value(home, parts, value)


def _changes(new: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[Parts, Any]]:
    for name, value in new.items():
        held = find(now, (str(name),))
        if isinstance(value, Mapping) and isinstance(held, Mapping):
            yield from (((str(name), *parts), inner) for parts, inner in _changes(value, held))
        elif value != held and not (value is None and held is MISSING):
            yield (str(name),), value


def discover_plugins() -> list[str]:
    """Return the names of the loaded plugins. Without a conversation in this process they are
    loaded now."""
    return [each.name for each in script_runtime().extensions.outcomes if not each.problem]


def invoke_hook(hook_name: str, **kwargs: Any) -> list[Any]:
    """Return the results of a hook that are not None. Raises `ValueError` for an unknown hook."""
    name = parse_event(hook_name)
    return script_runtime().run(script_runtime().extensions.hooks.fire(name, **kwargs))


def discover_plugin_cli_commands() -> dict[str, Dict]:
    """Return the subcommands of plugins: `help`, `setup_fn(parser)` and `handler_fn(args)`."""
    return {
        name: {"help": each.help, "setup_fn": each.setup, "handler_fn": each.act}
        for name, each in script_runtime().extensions.cli_commands.items()
    }


def load_soul_md() -> str | None:
    """Return SOUL.md of the current home, which is created if necessary; None if it is empty."""
    return load_soul(ensure_hermes_home(), Redactor().redact) or None


def build_context_files_prompt(cwd: str | Path | None = None, skip_soul: bool = False) -> str:
    """Return the project files for work in `cwd` (default: here), followed by SOUL.md."""
    soul = "" if skip_soul else load_soul_md() or ""
    folder = Path(cwd or ".").absolute()
    return project_context(LocalFileTree(), str(folder), Redactor().redact, soul=soul)


def build_environment_hints() -> str:
    """Return hints for WSL, containers and Termux; "" on any other machine."""
    return environment_hints(host_environment())


def build_skills_system_prompt(
    available_tools: Iterable[str] | None = None,
    available_toolsets: Iterable[str] | None = None,
) -> str:
    """Return the skill list as a prompt in this folder has it; "" if there is none.

    The available tools decide which skills are listed; without them all are.
    """
    runtime = script_runtime()
    catalog = SkillCatalog(runtime.loaded, runtime.home, runtime.extensions.skills, tell)
    context = visibility_context(
        runtime.loaded, "cli", available_tools or (), available_toolsets or ()
    )
    return catalog.index(context, Path.cwd())
