"""The summary for a bug report: what is installed and set up, in plain lines."""

import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from urllib.parse import urlsplit

from hermes import __version__
from hermes.app.debug_bundle.cleaning import Cleaner
from hermes.app.debug_bundle.known_secrets import known_secrets
from hermes.app.debug_bundle.settings_shown import changed_settings
from hermes.app.doctor.installation import requirements
from hermes.app.doctor.visit import Unseen
from hermes.app.providers import Providers
from hermes.app.resolution import Resolved, whole_resolution
from hermes.config import environment
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.masking import is_secret_variable, mask
from hermes.core.errors import HermesError
from hermes.providers import own_key_variables
from hermes.providers.credentials import AuthFile, stored_providers
from hermes.util.clock import SystemClock
from hermes.util.text import human_size

Fact = tuple[str, str]
LABEL = 12


async def debug_text(home: Home, loaded: Loaded | None) -> str:
    """The summary as a Markdown block, for `/debug`: nothing secret or personal is in it."""
    return f"```text\n{await summary(home, loaded)}\n```"


async def summary(home: Home, loaded: Loaded | None, *, show_keys: bool = False) -> str:
    """Plain lines. `loaded` is None when the settings cannot be read. `show_keys` shows the first
    and last four characters of long keys."""
    facts = [*_program(), *_home(home)]
    if loaded is None:
        facts.append(("settings", "they cannot be read: `hermes doctor` says why"))
    else:
        facts += [*await _models(home, loaded), *_abilities(loaded)]
    lines = [f"{name:<{LABEL}} {text}".rstrip() for name, text in facts]
    if loaded is not None:
        lines += ["", "settings that differ from the defaults:"]
        lines += [f"  {key} = {value}" for key, value in changed_settings(loaded.settings).items()]
    keys = list(_keys(home, loaded, show_keys=show_keys))
    lines += ["", "keys that are set:", *(keys or ["  none"])]
    return Cleaner(home, known_secrets(home, loaded)).clean("\n".join(lines))


def _program() -> Iterator[Fact]:
    yield "hermes", __version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", f"{platform.platform()} {sys.platform}"
    versions = []
    for one in requirements() or ():
        try:
            versions.append(f"{one.name} {metadata.version(one.name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{one.name} missing")
    yield "packages", ", ".join(versions)


def _home(home: Home) -> Iterator[Fact]:
    yield "home", f"{home.root} (profile {home.profile})"
    size = home.state_db.stat().st_size if home.state_db.exists() else 0
    yield "sessions", human_size(size) if size else "none yet"


async def _models(home: Home, loaded: Loaded) -> list[Fact]:
    async with Providers(home, loaded, SystemClock(), Unseen()) as providers:
        try:
            found = whole_resolution(loaded, providers)
        except HermesError as error:
            return [("model", f"none: {error}")]
    facts = [("model", _model(found.main)), ("because", found.main.why or found.main.problem)]
    facts += [("fallback", _model(each)) for each in found.fallbacks]
    if found.main.problem:
        return facts  # every task has the same problem
    tasks = {name: each for name, each in found.auxiliary.items() if each.model != found.main.model}
    facts += [("auxiliary", f"{name}: {_model(each)}") for name, each in tasks.items()]
    return facts


def _model(found: Resolved) -> str:
    host = urlsplit(found.base_url).hostname or ""
    where = f" at {host}" if host else ""
    state = f": {found.problem}" if found.problem else ""
    return f"{found.model or 'no model'} on {found.provider}{where}{state}"


def _abilities(loaded: Loaded) -> Iterator[Fact]:
    settings = loaded.settings
    yield "terminal", settings.terminal.backend
    yield "toolsets", ", ".join(settings.toolsets) or "none"
    yield "plugins", ", ".join(settings.plugins.enabled) or "none"
    servers = (
        f"{name} ({'program' if each.command else 'address'}, {'on' if each.enabled else 'off'})"
        for name, each in settings.mcp_servers.items()
    )
    yield "mcp", ", ".join(servers) or "none"
    yield "memory", settings.memory.provider or "notes only"
    hooks = (f"{event} {len(each)}" for event, each in settings.hooks.items())
    yield "hooks", ", ".join(hooks) or "none"
    yield "problems", str(len(loaded.problems)) if loaded.problems else "none in config.yaml"


def _keys(home: Home, loaded: Loaded | None, *, show_keys: bool) -> Iterator[str]:
    """Names and where they are; never a whole value."""
    saved = loaded.saved if loaded is not None else {}
    for name in sorted({*(n for n in saved if is_secret_variable(n)), *own_key_variables()}):
        places = ((saved.get(name), ".env"), (environment.variable(name), "environment"))
        for value, where in places:
            if value:
                shown = mask(value) if show_keys else "set"
                yield f"  {name} {shown} ({where})"
    try:
        stored = AuthFile(home.auth_file).read()
    except HermesError:
        yield "  auth.json cannot be read"
        return
    for provider in sorted(stored_providers(stored)):
        yield f"  {provider} set (auth.json)"
