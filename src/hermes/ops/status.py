"""The configuration and its state, for `hermes status`, `hermes setup` and `hermes fallback`."""

from contextlib import suppress
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes import __version__
from hermes.app import (
    ModelFilter,
    Providers,
    fallback_choices,
    main_choice,
    opened_store,
    start_of_today,
    store_exists,
)
from hermes.config import edit
from hermes.config.document import read_document
from hermes.config.environment import mask
from hermes.config.home import Home, ensure_hermes_home
from hermes.config.loader import Loaded, modernise
from hermes.config.own_files import write_own
from hermes.config.settings import AuxiliaryTask, BudgetSettings, Settings
from hermes.core.errors import HermesError, UsageError
from hermes.core.model import Price
from hermes.core.ports import Clock
from hermes.ops.output_files import report_unusable
from hermes.providers import ENDPOINTS, LOCAL, ModelChoice, Target, auxiliary_targets
from hermes.terminal import open_boundary
from hermes.util import files
from hermes.util.text import many

# The progress of `hermes setup`, and starting over.


class SetupProgress(msgspec.Struct, frozen=True):
    done: tuple[str, ...] = ()  #: Sections that are finished.


class SetupRecord:
    """The progress of `hermes setup`; deleted at its end."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._file = home.root / ".setup.json"

    def done(self) -> tuple[str, ...]:
        # Only a convenience: without it the questions are repeated.
        with report_unusable(self._file), suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self._file.read_bytes(), type=SetupProgress).done
        return ()

    def add(self, section: str) -> None:
        ensure_hermes_home(self._home)
        done = tuple(dict.fromkeys((*self.done(), section)))
        with report_unusable(self._file):
            files.write_bytes(self._file, msgspec.json.encode(SetupProgress(done)), mode=0o600)

    def clear(self) -> None:
        with report_unusable(self._file):
            self._file.unlink(missing_ok=True)


def reset_settings(home: Home, now: datetime) -> Path | None:
    """Reset all settings and nothing else; return the path of the old file, if there was one."""
    SetupRecord(home).clear()
    file = home.config_file
    if not file.exists():
        return None
    backup = file.with_name(f"{file.name}.{now:%Y%m%d-%H%M%S}.bak")
    with report_unusable(file):
        files.write_bytes(backup, file.read_bytes(), mode=0o600)
        write_own(home.root, file, b"")
    return backup


# The selected models and the reasons.


class KeyShown(msgspec.Struct, frozen=True):
    source: str
    key: str  #: The masked key.
    kind: str


class Resolved(msgspec.Struct, frozen=True):
    provider: str
    model: str = ""
    base_url: str = ""
    api_mode: str = ""
    why: str = ""
    keys: tuple[KeyShown, ...] = ()
    context_length: int = 0
    price: Price | None = None
    problem: str = ""  #: Why it cannot be used; empty if it can.
    hint: str = ""


class Considered(msgspec.Struct, frozen=True):
    """A provider that `auto` could have selected."""

    provider: str
    why: str


class Resolution(msgspec.Struct, frozen=True):
    main: Resolved
    also: tuple[Considered, ...] = ()
    """The other providers that are set up, in their order of preference."""
    fallbacks: tuple[Resolved, ...] = ()
    auxiliary: dict[str, Resolved] = {}


def main_resolution(loaded: Loaded, providers: Providers) -> Resolution:
    """Resolve only the model of conversations."""
    choice = main_choice(loaded)
    main = resolve_target(choice, providers)
    also = [
        Considered(candidate.endpoint.id, candidate.reason)
        for candidate in providers.resolver.candidates(choice)
        if candidate.endpoint.id != main.provider
    ]
    return Resolution(main, tuple(also))


def whole_resolution(loaded: Loaded, providers: Providers) -> Resolution:
    """Resolve also the fallbacks and every auxiliary task."""
    settings = loaded.settings
    fallbacks = tuple(resolve_target(choice, providers) for choice in fallback_choices(settings))
    tasks = msgspec.structs.asdict(settings.auxiliary)
    auxiliary = {name: _auxiliary(name, task, loaded, providers) for name, task in tasks.items()}
    return msgspec.structs.replace(
        main_resolution(loaded, providers), fallbacks=fallbacks, auxiliary=auxiliary
    )


def resolve_target(choice: ModelChoice, providers: Providers) -> Resolved:
    try:
        return describe_target(providers.known_target(choice))
    except HermesError as error:
        return Resolved(choice.provider, choice.model, problem=str(error), hint=error.hint)


def describe_target(target: Target) -> Resolved:
    keys = [KeyShown(c.source, mask(c.secret), c.kind) for c in target.credentials]
    return Resolved(
        provider=target.provider,
        model=target.model,
        base_url=target.base_url,
        api_mode=target.api_mode,
        why=target.source,
        keys=tuple(keys),
        context_length=target.profile.context_length,
        price=target.profile.price,
    )


def _auxiliary(name: str, task: AuxiliaryTask, loaded: Loaded, providers: Providers) -> Resolved:
    try:
        main = providers.known_target(main_choice(loaded))
        return describe_target(auxiliary_targets(name, task, main, providers.resolver)[0])
    except HermesError as error:
        return Resolved(task.provider, task.model, problem=str(error), hint=error.hint)


class ProviderStatus(msgspec.Struct, frozen=True):
    id: str
    label: str
    keys: tuple[str, ...]  #: The sources of keys.
    needs_key: bool


class StoreStatus(msgspec.Struct, frozen=True):
    place: str
    sessions: int = 0
    spent_today: float = 0.0
    problem: str = ""


class Reached(msgspec.Struct, frozen=True):
    """Whether the endpoint of the main model answers."""

    ok: bool
    detail: str


class Status(msgspec.Struct, frozen=True):
    version: str
    profile: str
    home: str
    models: Resolution
    budget: BudgetSettings
    store: StoreStatus
    providers: tuple[ProviderStatus, ...]
    commands: str  #: Where commands run, and what keeps them from Hermes' own files.
    reached: Reached | None = None


async def status_of(
    home: Home, loaded: Loaded, providers: Providers, clock: Clock, *, deep: bool
) -> Status:
    """Return the status. `deep` also requests the list of models from the endpoint."""
    models = whole_resolution(loaded, providers)
    return Status(
        version=__version__,
        profile=home.profile,
        home=home.display(),
        models=models,
        budget=loaded.settings.budget,
        store=await _store_status(home, loaded, clock),
        providers=tuple(
            ProviderStatus(
                endpoint.id,
                endpoint.label,
                tuple(credential.source for credential in providers.keyring.credentials(endpoint)),
                endpoint.needs_key,
            )
            for endpoint in ENDPOINTS
        ),
        commands=_commands(home, loaded.settings),
        reached=await _try_endpoint(loaded, providers) if deep else None,
    )


def _commands(home: Home, settings: Settings) -> str:
    backend = settings.terminal.backend
    if backend != "local":
        return f"run in {backend}"
    return f"run on this machine; {open_boundary(home, settings).describe()}"


async def _store_status(home: Home, loaded: Loaded, clock: Clock) -> StoreStatus:
    url = loaded.settings.store.url
    if not store_exists(home, url):
        return StoreStatus("none yet")
    notices: list[str] = []
    try:
        async with opened_store(home, url, notices.append) as store:
            stats = await store.stats()
            spent = await store.spent_usd(since=start_of_today(loaded.settings, clock))
    except HermesError as error:
        return StoreStatus(home.display(), problem=str(error))
    return StoreStatus(stats.where, stats.sessions, spent, "; ".join(notices))


async def _try_endpoint(loaded: Loaded, providers: Providers) -> Reached:
    try:
        target = providers.known_target(main_choice(loaded))
    except HermesError as error:
        return Reached(ok=False, detail=str(error))
    if target.provider == LOCAL:
        return Reached(ok=True, detail="it runs on this machine and is started when it is needed")
    found = await providers.lister.models(target, ModelFilter(), refresh=True)
    if found.note:
        return Reached(ok=False, detail=found.note)
    return Reached(ok=True, detail=f"{found.base_url} lists {many(len(found.models), 'model')}")


# The fallbacks in config.yaml as written there: `${NAME}` is not expanded.

FALLBACKS = "fallback_providers"
OLDER_FALLBACK = "fallback_model"


def add_fallback(home: Home, entry: dict[str, str]) -> bool:
    """Append `entry`; return False if it is already there."""
    chain = _chain(home)
    if entry in chain:
        return False
    _modernise(home, chain)
    edit.add_value(home, (FALLBACKS,), entry)
    return True


def remove_fallback(home: Home, which: str) -> dict[str, Any]:
    """Remove an entry by number (from 1), `provider:model` or model, and return it."""
    chain = _chain(home)
    if which.isdigit() and 1 <= int(which) <= len(chain):
        at: int | None = int(which) - 1
    else:
        names = ((f"{one['provider']}:{one['model']}", one["model"]) for one in chain)
        at = next((at for at, each in enumerate(names) if which in each), None)
    if at is None:
        has = f"it has {len(chain)}" if chain else "it is empty"
        raise UsageError(f"the chain has no fallback {which!r}; {has}", hint="hermes fallback list")
    gone = chain.pop(at)
    _modernise(home, chain)
    if chain:
        edit.set_value(home, (FALLBACKS,), chain)
    else:
        edit.unset_value(home, (FALLBACKS,))
    return gone


def clear_fallbacks(home: Home) -> bool:
    """Remove all entries; return False if there are none."""
    gone = [edit.unset_value(home, (key,)) for key in (FALLBACKS, OLDER_FALLBACK)]
    return any(gone)


def _chain(home: Home) -> list[dict[str, Any]]:
    """Return all entries including the older setting, numbered as in `hermes fallback list`."""
    data = deepcopy(read_document(home.config_file).data)
    modernise(data)
    entries = data.get(FALLBACKS)
    return [
        entry
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and entry.get("provider") and entry.get("model")
    ]


def _modernise(home: Home, chain: list[dict[str, Any]]) -> None:
    """Move the older setting into the list, which is written first so that nothing is lost."""
    if OLDER_FALLBACK in read_document(home.config_file).data:
        if chain:
            edit.set_value(home, (FALLBACKS,), chain)
        edit.unset_value(home, (OLDER_FALLBACK,))
