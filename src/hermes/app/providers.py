"""What a process needs to reach models: keys, facts, connections, the resolver."""

import asyncio
import logging
from difflib import get_close_matches
from types import TracebackType
from typing import Self

import httpx2
import msgspec

from hermes.app.choices import custom_names, main_choice
from hermes.app.credentials import build_keyring
from hermes.app.listing import ModelLister, Wanted
from hermes.app.local_model import LocalModel
from hermes.app.models import ModelMaker
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.ports import Clock
from hermes.providers import LOCAL, ModelChoice, Resolver, Target
from hermes.providers.catalog import ModelCatalog, model_overrides
from hermes.providers.local import DownloadProgress
from hermes.util.late_tls import LateTls

logger = logging.getLogger(__name__)

CONNECTIONS = httpx2.Limits(
    max_connections=None, max_keepalive_connections=100, keepalive_expiry=600.0
)
"""As many as there are calls at a time. An idle one is kept for as long as a person may think
between two turns: a new one costs a handshake."""


class Providers:
    """Shared by everything in the process; connections are kept open until it is closed."""

    def __init__(
        self, home: Home, loaded: Loaded, clock: Clock, progress: DownloadProgress
    ) -> None:
        self._loaded, self.clock = loaded, clock
        self._main: Target | None = None
        self._learning: asyncio.Task[None] | None = None
        tls = LateTls()
        # Loaded here, because importing this module must not load the HTTP library's parser.
        from hermes.providers import make_transport

        # Redirects are never followed: a key would travel along.
        self.client = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=True,
            limits=CONNECTIONS,
            verify=tls,
            transport=make_transport(tls, CONNECTIONS),
        )
        self.keyring = build_keyring(home, loaded, self.client, clock)
        overrides = model_overrides(loaded.settings)
        self.known = ModelCatalog(home.cache / "models", overrides, clock)
        self.resolver = Resolver(loaded.settings, self.keyring, self.known)
        self.local = LocalModel(home, loaded.settings.local, self.client, progress)
        self.lister = ModelLister(self.resolver, self.known, self.keyring, self.client)
        self.maker = ModelMaker(self.resolver, self.keyring, self.client, clock, self.local)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        await self.close()

    def known_target(self, choice: ModelChoice) -> Target:
        """Where requests go; the embedded model by its own name."""
        target = self.resolver.resolve(choice)
        return self.local.known(target) if target.provider == LOCAL else target

    def main_choice(self) -> ModelChoice:
        return main_choice(self._loaded)

    async def main(self) -> Target:
        """What answers in conversations, made ready: the embedded model is fetched and started
        before the first turn, where its progress can be shown. A price that a cap needs is looked
        up."""
        self._main = await self.ready(self.main_choice())
        return self._main

    async def ready(self, choice: ModelChoice) -> Target:
        """The target of a choice, made ready as `main` is."""
        target = self.known_target(choice)
        if target.provider == LOCAL:
            await self.local.ready(target)
        elif target.profile.price is None and self._has_caps():
            await self.learn(target)
            target = self.known_target(choice)
        return target

    def _has_caps(self) -> bool:
        caps = msgspec.structs.astuple(self._loaded.settings.budget)
        return any(cap is not None for cap in caps)

    async def learn(self, target: Target) -> None:
        """Bring what is known of the endpoint's models up to date, once a day at most.

        Only knowledge is at stake: an endpoint that does not list its models is passed over.
        """
        if target.base_url and not self.known.is_fresh(target.base_url):
            found = await self.lister.models(target, Wanted())
            if found.note:
                logger.info("the models of %s are not known: %s", target.provider, found.note)

    def learn_meanwhile(self) -> bool:
        """The same beside a conversation, for the next one. False before `main` was made ready:
        nobody knows yet whom to ask."""
        if self._main is None:
            return False
        self._learning = asyncio.create_task(self.learn(self._main))
        return True

    def doubt(self, target: Target) -> str:
        """What speaks against the model's name: the endpoint's last list does not have it."""
        listed = self.known.cached_list(target.base_url)
        if listed is None or listed.find(target.model) is not None:
            return ""
        close = get_close_matches(target.model, [model.id for model in listed.models], n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        return f"{target.provider} does not list {target.model}{meant}"

    def custom_names(self) -> tuple[str, ...]:
        return custom_names(self._loaded.settings)

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            (outcome,) = await asyncio.gather(self._learning, return_exceptions=True)
            if isinstance(outcome, Exception):
                logger.warning("the models of the endpoint were not learnt: %s", outcome)
        await self.keyring.close()
        await self.maker.close()
        await self.local.close()
        await self.client.aclose()
