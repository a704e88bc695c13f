"""The modules of `gateway`: settings, delivery, chats, hooks, pairing, locks and the runner."""

import asyncio
import logging
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from hermes import __version__
from hermes.app import opened_store
from hermes.cli import GatewayJobs
from hermes.compat.runtime import ScriptRuntime, plain, script_runtime, tell
from hermes.config.home import current_home, unusable
from hermes.config.loader import Loaded, all_variables, load
from hermes.config.reference import meaning
from hermes.config.schema import complete_settings, platform_names
from hermes.core.errors import HermesError, UsageError
from hermes.gateway import (
    ChatDirectory,
    GatewayOutbox,
    TargetResolver,
    claim_home,
    configured_platforms,
    home_variable,
    hooks,
    is_configured,
    manifests,
    mirror_to_chat,
    pairing,
    runner,
    running_gateway,
    split_chat,
    stop_gateway,
)
from hermes.gateway.directory import FILE, LOCAL, ORIGIN
from hermes.gateway.services import GRACE_SECONDS, RESTART
from hermes.providers import ENDPOINTS
from hermes.sdk.platforms import Adapter, ChatTarget, PlatformManifest, SessionSource, connection
from hermes.store import SessionStore
from hermes.tools.builtin import web_search
from hermes.util import files
from hermes.util.concurrency import SystemClock

PlatformName = StrEnum(  # type: ignore[misc]  # mypy cannot see the members
    "PlatformName", {name.upper(): name for name in platform_names()}
)
"""The platforms that the settings have. Those of plugins are plain strings."""


def platform_named(name: str) -> str:
    """Return the member for a platform of the settings, and other names as they are."""
    return PlatformName.__members__.get(name.upper(), name)


@dataclass
class PlatformConfig:
    enabled: bool = False
    token: str = field(default="", repr=False)
    home_channel: str = ""
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    """Settings of this platform only; may contain secrets."""

    @classmethod
    def of(cls, manifest: PlatformManifest, loaded: Loaded) -> "PlatformConfig":
        """Read the settings. Without a token there, the first secret variable is used."""
        said = _section(_section(loaded.raw, "platforms"), manifest.name)
        secrets = (each.name for each in manifest.credentials if each.secret)
        return cls(
            enabled=is_configured(manifest, loaded),
            token=str(said.get("token") or loaded.variable(next(secrets, "")) or ""),
            home_channel=loaded.variable(home_variable(manifest)) or "",
            extra=dict(_section(said, "extra")),
        )


@dataclass
class GatewayConfig:
    platforms: dict[str, PlatformConfig] = field(default_factory=dict)

    @classmethod
    def load(cls) -> "GatewayConfig":
        """Read the configuration of the current home."""
        loaded = script_runtime().loaded
        found = manifests().items()
        return cls({platform_named(name): PlatformConfig.of(each, loaded) for name, each in found})

    def get_connected_platforms(self) -> list[str]:
        """Return the platforms that a gateway would connect to."""
        return [name for name, each in self.platforms.items() if each.enabled]

    def get_home_channel(self, platform: str) -> str:
        """Return the home channel of a platform; "" if it has none."""
        found = self.platforms.get(platform)
        return found.home_channel if found else ""

    def overrides(self) -> dict[str, Any]:
        """Return overrides for the loader that enable exactly these platforms, except for those of
        plugins."""
        said: dict[str, Any] = {}
        for platform in PlatformName:
            wanted = self.platforms.get(platform) or PlatformConfig()
            said[f"platforms.{platform}.enabled"] = wanted.enabled
            if wanted.enabled and wanted.token:
                said[f"platforms.{platform}.token"] = wanted.token
            if wanted.enabled and wanted.extra:
                said[f"platforms.{platform}.extra"] = wanted.extra
        return said


def load_gateway_config() -> GatewayConfig:
    """Read the configuration of the current home."""
    return GatewayConfig.load()


def _section(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, Mapping) else {}


def _optional_variables() -> Iterator[tuple[str, dict[str, Any]]]:
    def entry(text: str, category: str, *, secret: bool) -> dict[str, Any]:
        told = {"description": text, "prompt": text, "url": None}
        return {**told, "password": secret, "category": category}

    for variable in all_variables():
        yield variable.name, entry(meaning(variable.parts), "setting", secret=False)
    for endpoint in ENDPOINTS:
        for name in endpoint.base_url_vars:
            yield name, entry(f"address of {endpoint.label}", "provider", secret=False)
        for name in endpoint.key_vars:
            yield name, entry(f"key of {endpoint.label}", "provider", secret=True)
    for service, name in web_search.KEY_VARIABLES.items():
        yield name, entry(f"key of {service}, for web search", "tool", secret=True)
    for manifest in manifests().values():
        for each in manifest.credentials:
            text = f"{manifest.label}: {each.label}"
            yield each.name, entry(text, "messaging", secret=each.secret)


DEFAULT_CONFIG: dict[str, Any] = plain(msgspec.to_builtins(complete_settings()()))
"""The default of every setting, those of the platforms included."""
OPTIONAL_ENV_VARS: dict[str, dict[str, Any]] = dict(_optional_variables())
"""Variables that .env may have: `description`, `prompt`, `url`, `password` (true for a secret) and
`category` (`provider`, `tool`, `messaging` or `setting`)."""


# `gateway.delivery`: messages to chats from a script or a plugin.


class DeliveryTarget(msgspec.Struct, frozen=True):
    """The target of a message: `telegram`, `telegram:-100:17`, `local` or `origin`."""

    platform: str
    chat_id: str = ""  #: "" is the home channel.
    thread_id: str = ""
    account: str = ""

    @classmethod
    def parse(cls, target: str, origin: SessionSource | None = None) -> "DeliveryTarget":
        """Parse a target. `origin` is the chat that the word `origin` means."""
        if target.strip() == ORIGIN and origin is not None:
            name = platform_named(origin.platform)
            return cls(name, origin.chat_id, origin.thread_id, origin.account)
        named, _, rest = target.strip().partition(":")
        platform, _, account = named.strip().partition("@")
        platform = platform.lower()
        chat, thread = split_chat(platform, rest.strip())
        return cls(platform_named(platform), chat, thread, account)

    def __str__(self) -> str:
        name = f"{self.platform}@{self.account}" if self.account else str(self.platform)
        return ":".join(part for part in (name, self.chat_id, self.thread_id) if part)

    to_string = __str__


class DeliveryRouter:
    """Stores messages in the outbox of the current home; its gateway sends them once it is
    connected, also after a crash."""

    async def deliver(
        self,
        content: str,
        targets: Iterable[DeliveryTarget | str],
        origin: SessionSource | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Return by target `{"success": True, "delivery": …}` or `{"success": False, "error": …}`.
        For `local`, a file is written and its `path` returned."""
        runtime = script_runtime()
        done: dict[str, dict[str, Any]] = {}
        async with opened_store(runtime.home, runtime.loaded.settings.store.url, tell) as store:
            outbox = home_outbox(runtime, store)
            for each in targets:
                name = str(each).strip()
                target = str(DeliveryTarget.parse(name, origin)) if name == ORIGIN else name
                try:
                    done[name] = await _deliver(outbox, runtime, target, content)
                except HermesError as error:
                    done[name] = {"success": False, "error": str(error)}
        return done


def home_outbox(runtime: ScriptRuntime, store: SessionStore) -> GatewayOutbox:
    """Return the outbox of a home, outside of its gateway."""
    platforms = configured_platforms(runtime.loaded)
    directory = ChatDirectory(runtime.home.root / FILE)
    targets = TargetResolver(platforms, runtime.loaded.variable, directory)
    return GatewayOutbox(store.outbox, targets, SystemClock())


async def _deliver(
    outbox: GatewayOutbox, runtime: ScriptRuntime, target: str, content: str
) -> dict[str, Any]:
    if target != LOCAL:
        return {"success": True, "delivery": await outbox.send(target, content, kind="delivery")}
    name = f"{time.strftime('%Y%m%d_%H%M%S')}_{secrets.token_hex(3)}.md"
    path = runtime.home.cron / "output" / LOCAL / name
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write_text(path, content, mode=0o600)
    except OSError as error:
        raise unusable(path, error) from error
    return {"success": True, "path": str(path)}


# `gateway.channel_directory` and `gateway.mirror`: names of chats, and notes of what was sent.

log = logging.getLogger(__name__)


def load_directory() -> dict[str, Any]:
    """Return the known chats: `{"platforms": {"telegram": [{"id": …, "name": …, "type": …}]}}`."""
    found = _directory()
    chats = {name: msgspec.to_builtins(found.chats(name)) for name in found.platforms()}
    return {"platforms": chats}


def resolve_channel_name(platform: str, name: str) -> str | None:
    """Return the id of the chat with this name, or `id:thread`; None if none or several match."""
    try:
        chat = _directory().find(platform, name)
    except UsageError:
        return None
    return f"{chat.id}:{chat.thread_id}" if chat.thread_id else chat.id


def lookup_channel_name(platform: str, chat_id: str, thread_id: str = "") -> str | None:
    """Return the name of a chat; None if it is unknown."""
    return _directory().name_of(platform, str(chat_id), str(thread_id)) or None


def format_directory_for_display() -> str:
    """Return a line for each chat, with its target."""
    platforms = load_directory()["platforms"]
    lines = [
        f"{platform}:{chat['id']}{':' + thread if (thread := chat.get('thread_id')) else ''}"
        f" ({chat.get('type', 'dm')}: {chat['name']})"
        for platform, chats in platforms.items()
        for chat in chats
    ]
    return "\n".join(lines) or "No chats are known yet."


def mirror_to_session(platform: str, chat_id: str, text: str, thread_id: str = "") -> bool:
    """Add a message that was sent by other means to the conversation of a chat. Return False if it
    has none. A gateway with an open conversation sees the message when it opens it again."""
    target = ChatTarget(str(platform), str(chat_id), str(thread_id))
    try:
        return script_runtime().with_store(lambda store: mirror_to_chat(store, target, text))
    except HermesError as error:
        log.warning("a sent message is not in the history of its chat: %s", error)
        return False


def _directory() -> ChatDirectory:
    return ChatDirectory(script_runtime().home.root / FILE)


# `gateway.hooks`.


class ScriptHooks(hooks.HookRegistry):
    """Empty before `discover_and_load`."""

    def discover_and_load(self) -> None:
        """Load the hooks of the current home; one that fails is reported and left out."""
        self.hooks = self.load(script_runtime().home.hooks, tell).hooks

    async def emit(self, event_type: str, context: dict[str, Any] | None = None) -> None:
        """Call the listeners and wait for them."""
        await self.fire(event_type, **(context or {}))
        await self.close()


# `gateway.pairing`.


class ScriptPairing(pairing.PairingStore):
    """The pairing store of the current home."""

    def __init__(self) -> None:
        super().__init__(script_runtime().home.root / pairing.FOLDER, SystemClock())


# `gateway.status`: one token, one gateway.


class Acquired(NamedTuple):
    """A bool that can be unpacked: `acquired, problem = acquire_scoped_lock(…)`."""

    acquired: bool
    problem: str = ""  #: A text that names the holder of the lock.

    def __bool__(self) -> bool:
        return self.acquired


_held: dict[tuple[str, str], connection.ScopedLock] = {}


def acquire_scoped_lock(
    scope: str,
    identity: str,
    metadata: dict[str, Any] | None = None,  # noqa: ARG001 - only who holds it is written down
) -> Acquired:
    """Take the lock of a token for this process, which may hold it already. `scope` is the
    platform, `identity` the token, which is not stored."""
    home = script_runtime().home
    if (scope, identity) in _held:
        return Acquired(True)
    folder = home.default_root / "locks"
    try:
        lock = connection.acquire_scoped_lock(scope, identity, folder, holder=str(home.root))
    except connection.TokenInUse as error:
        return Acquired(False, str(error))
    _held[scope, identity] = lock
    return Acquired(True)


def release_scoped_lock(scope: str, identity: str) -> None:
    """Release a lock of this process; others stay."""
    connection.release_scoped_lock(_held.pop((scope, identity), None))


# `gateway.run`: the gateway of the current home, with its scheduled jobs, in a script.


class ScriptGateway:
    """Runs the gateway in a script. Without a `config` it uses the settings.

    A home has at most one gateway. Start it in the main thread: it installs signal handlers.
    """

    def __init__(self, config: GatewayConfig | None = None) -> None:
        self._home = current_home()
        self._loaded = load(self._home, config.overrides() if config else {})
        self._inner: runner.GatewayRunner | None = None
        self._task: asyncio.Task[int] | None = None

    @property
    def adapters(self) -> dict[str, Adapter]:
        """The connected adapters."""
        # The runner has its gateway once it has begun.
        gateway = getattr(self._inner, "gateway", None)
        connections = gateway.connections if gateway else ()
        return {platform_named(each.manifest.name): each.adapter for each in connections}

    @property
    def drain_seconds(self) -> float:
        """Seconds that running turns get before a stop."""
        return self._loaded.settings.gateway.drain_seconds

    async def start(self) -> bool:
        """Start. Platforms connect, and reconnect, in the background.

        Raises `HermesError` if nothing is configured or another gateway runs.
        """
        if self._task is not None:
            return True
        inner = runner.GatewayRunner(self._home, self._loaded, note=tell, scheduling=GatewayJobs())
        self._inner, self._task = inner, asyncio.create_task(self._run(inner))
        began = asyncio.create_task(inner.began.wait())
        try:
            await asyncio.wait({began, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            began.cancel()
        if self._task.done():
            self._task.result()
        return True

    async def stop(self) -> None:
        """Stop, after running turns have had `drain_seconds`."""
        if self._inner is not None:
            self._inner.stop()
            await self.wait_for_shutdown()

    async def wait_for_shutdown(self) -> int:
        """Wait for a signal, `stop` or /restart; return the exit code."""
        return 0 if self._task is None else await self._task

    async def _run(self, inner: runner.GatewayRunner) -> int:
        with claim_home(self._home, now=time.time(), version=__version__):
            return await inner.run()


async def start_gateway(config: GatewayConfig | None = None, replace: bool = False) -> bool:
    """Run until a signal. Return False if it should be started again, as after /restart.

    `replace` stops a running gateway first.
    """
    here = ScriptGateway(config)
    if replace and (found := running_gateway(current_home().root)):
        await asyncio.to_thread(
            stop_gateway, found, seconds=here.drain_seconds + GRACE_SECONDS, force=True
        )
    await here.start()
    return await here.wait_for_shutdown() != RESTART
