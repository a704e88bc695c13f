"""The platforms of this package and of plugins. Finding one does not import its library."""

import asyncio
import hashlib
import logging
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hermes.app import App, Extensions, Surface, commands_in
from hermes.config.environment import describe_unset, unset_names
from hermes.config.installation import InstallFailed, install_extra
from hermes.config.loader import Loaded
from hermes.config.schema import declarations
from hermes.config.settings import Settings
from hermes.core.errors import HermesError, UsageError
from hermes.gateway.platforms.manifests import API_SERVER, LOCAL, WEBHOOK
from hermes.sdk.platforms import (
    ANY_ID,
    TRUE_WORDS,
    Adapter,
    AdapterContext,
    AddressFormat,
    PlatformManifest,
    SessionSource,
    UserIdFormat,
)
from hermes.terminal import SANDBOX_PROBE, is_installed, probe_program
from hermes.util.extras import extras

added: dict[str, PlatformManifest] = {}
"""Platforms that plugins of this process added by the documented function."""


def manifests() -> dict[str, PlatformManifest]:
    """Return all manifests by name. A platform that comes with Hermes keeps its name."""
    plugins = Extensions.in_force()
    return {**(plugins.platforms if plugins else {}), **added, **shipped_manifests()}


@cache
def shipped_manifests() -> dict[str, PlatformManifest]:
    """Return the manifests of this package and of the bundled plugins."""
    found: list[Any] = [API_SERVER, LOCAL, WEBHOOK, *declarations()]
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def manifest(name: str) -> PlatformManifest:
    known = manifests()
    if name not in known:
        raise UsageError(f"there is no platform {name!r}", hint=f"there are {', '.join(known)}")
    return known[name]


def user_ids(platform: str) -> UserIdFormat:
    """Return the format of the user ids of a platform, which need not exist."""
    found = manifests().get(platform)
    return found.users if found else ANY_ID


def addresses(platform: str) -> AddressFormat:
    """Return how targets name the chats of a platform, which need not exist."""
    found = manifests().get(platform)
    return found.addresses if found else AddressFormat()


def missing_modules(of: PlatformManifest) -> list[str]:
    """Return the modules of the platform's library that are not installed."""
    return [name for name in of.needs if find_spec(name) is None]


def prefix(of: PlatformManifest) -> str:
    """Return `TELEGRAM` of `TELEGRAM_ALLOWED_USERS`."""
    return of.env_prefix or of.name.upper()


def home_variable(of: PlatformManifest) -> str:
    return of.home_variable or f"{prefix(of)}_HOME_CHANNEL"


# Installing the library of a platform.

SERVER = "server"  #: The extra of platforms that are servers.


class LibrariesMissing(HermesError):
    """The library of a platform is not installed; the hint says how to install it."""


def install_libraries(platform: PlatformManifest) -> bool:
    """Install the library of the platform from the lock files. Returns whether anything was
    installed; raises `LibrariesMissing`."""
    if not missing_modules(platform):
        return False
    extra = extra_of(platform)
    if extra is None:  # a platform of a plugin
        raise LibrariesMissing(
            f"{platform.label} needs Python modules that Hermes does not bring:"
            f" {', '.join(missing_modules(platform))}",
            hint="the documentation of its plugin says how to install them",
        )
    again = f"try again with: hermes gateway setup {platform.name}"
    try:
        asyncio.run(install_extra(extra))
    except InstallFailed as error:
        text = f"what {platform.label} needs could not be installed"
        raise LibrariesMissing(text, hint=again) from error
    if absent := missing_modules(platform):
        text = f"{platform.label} still needs {', '.join(absent)}"
        raise LibrariesMissing(text, hint=again)
    return True


def extra_of(platform: PlatformManifest) -> str | None:
    """Return the extra with the library of a platform; None if there is none."""
    if platform.name in extras():
        return platform.name
    return SERVER if set(platform.needs) <= {"starlette", "uvicorn"} else None


# Which platforms are set up, and their adapters.

log = logging.getLogger(__name__)


def configured_platforms(loaded: Loaded) -> dict[str, PlatformManifest]:
    """Return platforms that are enabled, or not disabled and completely configured."""
    loaded = loaded.complete()
    return {name: each for name, each in manifests().items() if is_configured(each, loaded)}


def is_configured(manifest: PlatformManifest, loaded: Loaded) -> bool:
    said = _explicit_choice(manifest, loaded)
    if said is not None or not any(each.required for each in manifest.credentials):
        return bool(said)
    connection = _section(loaded, manifest.connection, "platforms", manifest.name)
    return bool(getattr(connection, "token", "")) or not missing_variables(manifest, loaded)


def _explicit_choice(manifest: PlatformManifest, loaded: Loaded) -> bool | None:
    """Return whether the settings enable or disable it; None if they do not say."""
    connection = _section(loaded, manifest.connection, "platforms", manifest.name)
    said = getattr(connection, "enabled", None)
    if said is not None:
        return bool(said)
    flag = loaded.variable(f"{prefix(manifest)}_ENABLED")
    return None if flag is None else flag.strip().lower() in TRUE_WORDS


def _section(loaded: Loaded, kind: Any, *parts: str) -> Any:
    """Return a section of a platform: of the settings, or of a platform that a plugin added."""
    return None if kind is None else loaded.complete().section(parts, kind)


def missing_variables(manifest: PlatformManifest, loaded: Loaded) -> list[str]:
    needed = [each.name for each in manifest.credentials if each.required]
    return [name for name in needed if not loaded.variable(name)]


def incomplete_platforms(loaded: Loaded) -> list[tuple[PlatformManifest, HermesError]]:
    """Return a message for each platform with some but not all of its variables, unless it is
    explicitly enabled or disabled."""
    found = []
    for each in manifests().values():
        names = [credential.name for credential in each.credentials]
        some = any(loaded.variable(name) or loaded.unset(name) for name in names)
        missing = missing_variables(each, loaded)
        silent = _explicit_choice(each, loaded) is not None or is_configured(each, loaded)
        if silent or not some or not missing:
            continue
        verb = "is" if len(missing) == 1 else "are"
        why = "; ".join(describe_unset(unset) for name in missing if (unset := loaded.unset(name)))
        problem = HermesError(
            f"{', '.join(missing)} {verb} missing{why and f': {why}'}",
            hint=f"`hermes gateway setup {each.name}` asks for what is missing;"
            f" {prefix(each)}_ENABLED=false keeps it away",
        )
        found.append((each, problem))
    return found


def unknown_platforms(loaded: Loaded) -> dict[str, HermesError]:
    """Return enabled names that are not platforms."""
    said = loaded.complete().settings.platforms
    enabled = [name for name in said.__struct_fields__ if getattr(said, name).enabled]
    return {
        name: HermesError(
            f"Hermes cannot connect to {name}",
            hint=f"`hermes gateway setup` lists the platforms there are;"
            f" platforms.{name}.enabled: false keeps it away",
        )
        for name in enabled
        if name not in manifests()
    }


def make_adapter(manifest: PlatformManifest, app: App, extra: dict[str, Any]) -> Adapter:
    """Create an adapter. Raises `HermesError`, also if its library is missing."""
    if missing := missing_modules(manifest):
        modules = "module" if len(missing) == 1 else "modules"
        raise HermesError(
            f"{manifest.label} needs the Python {modules} {', '.join(missing)}",
            hint=f"`hermes gateway setup {manifest.name}` installs what is missing",
        )
    settings, home = app.loaded.complete().settings, app.home
    connection = _section(app.loaded, manifest.connection, "platforms", manifest.name)
    if names := unset_names(getattr(connection, "token", "")):
        raise HermesError(
            f"platforms.{manifest.name}.token is missing: {describe_unset(names)}",
            hint=f"hermes config set {names[0]} TOKEN",
        )
    state = home.root / "gateway" / manifest.name
    for folder in (state.parent, state):
        folder.mkdir(exist_ok=True, mode=0o700)
    context = AdapterContext(
        manifest=manifest,
        variable=app.loaded.variable,
        settings=_section(app.loaded, manifest.settings, manifest.name),
        connection=connection,
        cache=media_folder(home.root),
        state=state,
        locks=home.default_root / "locks",
        commands=[(each.name, each.summary) for each in commands_in(Surface.CHATS, settings)],
        extra=extra,
        unset=app.loaded.unset,
    )
    try:
        make: Any = manifest.adapter
        if isinstance(make, str):
            module, _, name = make.partition(":")
            make = getattr(import_module(module), name)
        adapter: Adapter = make(context)
    except HermesError:
        raise
    except Exception as error:  # the failure of one platform must not affect the others
        log.exception("%s cannot be made", manifest.label)
        raise HermesError(
            f"unexpected {type(error).__name__}", hint="`hermes logs gateway` has the details"
        ) from error
    return adapter


def media_folder(home: Path) -> Path:
    return home / "cache" / "media"


def chat_media_folder(home: Path, source: SessionSource) -> Path:
    """Return the folder for files that were sent in one chat; no other chat can send them."""
    chat = f"{source.platform}\0{source.account}\0{source.chat_id}"
    return media_folder(home) / hashlib.sha256(chat.encode()).hexdigest()[:16]


def chat_backend(settings: Settings) -> str:
    """Return the backend for commands of chats; "" is the general backend."""
    wanted = settings.gateway.terminal
    if wanted != "auto":
        return wanted
    return "sandbox" if settings.terminal.backend == "local" else ""


def sandbox_warning(settings: Settings) -> str:
    """Return a warning for the start of the gateway, or ""."""
    if chat_backend(settings) != "sandbox":
        return ""
    if not is_installed("bwrap"):
        fix = "install bubblewrap (apt install bubblewrap)"
    elif why := probe_program(SANDBOX_PROBE):
        fix = f"allow user namespaces (bwrap says: {why})"
    else:
        return ""
    return (
        f"chats cannot run commands, because there is no sandbox: {fix}, or set gateway.terminal to"
        " docker or ssh (or to local, if you trust everyone who can write)"
    )
