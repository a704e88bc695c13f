"""What is set up and how it fares, for `hermes status`."""

import msgspec

from hermes import __version__
from hermes.app.choices import main_choice
from hermes.app.listing import Wanted
from hermes.app.providers import Providers
from hermes.app.resolution import Resolution, whole_resolution
from hermes.app.sessions import opened_store, store_exists
from hermes.app.spending import today_began
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings.agent import BudgetSettings
from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.providers import ENDPOINTS, LOCAL
from hermes.util.text import many


class ProviderStatus(msgspec.Struct, frozen=True):
    id: str
    label: str
    keys: tuple[str, ...]
    """Where keys come from."""
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
    reached: Reached | None = None


async def status_of(
    home: Home, loaded: Loaded, providers: Providers, clock: Clock, *, deep: bool
) -> Status:
    """`deep` also asks the endpoint for its list of models."""
    models = whole_resolution(loaded, providers)
    return Status(
        version=__version__,
        profile=home.profile,
        home=home.display(),
        models=models,
        budget=loaded.settings.budget,
        store=await _store(home, loaded, clock),
        providers=tuple(_providers(providers)),
        reached=await _reached(loaded, providers) if deep else None,
    )


async def _store(home: Home, loaded: Loaded, clock: Clock) -> StoreStatus:
    url = loaded.settings.store.url
    if not store_exists(home, url):
        return StoreStatus("none yet")
    told: list[str] = []
    try:
        async with opened_store(home, url, told.append) as store:
            stats = await store.stats()
            spent = await store.spent_usd(since=today_began(loaded.settings, clock))
    except HermesError as error:
        return StoreStatus(home.display(), problem=str(error))
    return StoreStatus(stats.where, stats.sessions, spent, "; ".join(told))


def _providers(providers: Providers) -> list[ProviderStatus]:
    return [
        ProviderStatus(
            endpoint.id,
            endpoint.label,
            tuple(credential.source for credential in providers.keyring.credentials(endpoint)),
            endpoint.needs_key,
        )
        for endpoint in ENDPOINTS
    ]


async def _reached(loaded: Loaded, providers: Providers) -> Reached:
    try:
        target = providers.known_target(main_choice(loaded))
    except HermesError as error:
        return Reached(ok=False, detail=str(error))
    if target.provider == LOCAL:
        return Reached(ok=True, detail="it runs on this machine and is started when it is needed")
    found = await providers.lister.models(target, Wanted(), refresh=True)
    if found.note:
        return Reached(ok=False, detail=found.note)
    return Reached(ok=True, detail=f"{found.base_url} lists {many(len(found.models), 'model')}")
