"""Which platforms are set up, and their adapters."""

import logging
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes.app.app import App
from hermes.app.commands.registry import Where, commands_in
from hermes.config.loader import Loaded
from hermes.config.settings import Settings
from hermes.core.errors import HermesError
from hermes.gateway.door.identity import switched_on
from hermes.gateway.platforms.base import Adapter, AdapterContext, Manifest
from hermes.gateway.platforms.catalogue import manifests, missing_modules, prefix

log = logging.getLogger(__name__)


def configured(loaded: Loaded) -> dict[str, Manifest]:
    """Platforms that are switched on, or not switched off and have what they need."""
    return {name: each for name, each in manifests().items() if is_configured(each, loaded)}


def is_configured(manifest: Manifest, loaded: Loaded) -> bool:
    connection = getattr(loaded.settings.platforms, manifest.name, None)
    said = getattr(connection, "enabled", None)
    if said is not None:
        return bool(said)
    if (flag := loaded.variable(f"{prefix(manifest)}_ENABLED")) is not None:
        return switched_on(flag)
    needed = [each.name for each in manifest.credentials if each.required]
    token = getattr(connection, "token", "")
    return bool(needed) and (bool(token) or all(loaded.variable(name) for name in needed))


def make_adapter(manifest: Manifest, app: App, extra: dict[str, Any]) -> Adapter:
    """Raises a `HermesError` when its library is missing or it cannot be made."""
    if missing := missing_modules(manifest):
        raise HermesError(
            f"{manifest.label} needs {', '.join(missing)}",
            hint=f"`hermes gateway setup {manifest.name}` installs it",
        )
    module, _, name = manifest.adapter.partition(":")
    settings, home = app.loaded.settings, app.home
    state = home.root / "gateway" / manifest.name
    for folder in (state.parent, state):
        folder.mkdir(exist_ok=True, mode=0o700)
    context = AdapterContext(
        manifest=manifest,
        variable=app.loaded.variable,
        settings=getattr(settings, manifest.name, None),
        connection=getattr(settings.platforms, manifest.name, None),
        cache=media_folder(home.root),
        state=state,
        locks=home.default_root / "locks",
        commands=[(each.name, each.summary) for each in commands_in(Where.CHATS, settings)],
        extra=extra,
    )
    adapter: Adapter = getattr(import_module(module), name)(context)
    return adapter


def media_folder(home: Path) -> Path:
    return home / "cache" / "media"


def chat_backend(settings: Settings) -> str:
    """Where commands of chats run: in a sandbox, unless the settings say otherwise; "" is where
    they run elsewhere too."""
    wanted = settings.gateway.terminal
    if wanted != "auto":
        return wanted
    return "sandbox" if settings.terminal.backend == "local" else ""


def without_sandbox(settings: Settings) -> str:
    """What whoever starts the gateway should hear before a chat does; "" when all is well."""
    if chat_backend(settings) != "sandbox" or shutil.which("bwrap"):
        return ""
    return (
        "there is no sandbox for the commands of chats, so they cannot run any: install bubblewrap"
        " (apt install bubblewrap), or set gateway.terminal to docker, ssh or, when you trust"
        " everybody who writes, local"
    )
