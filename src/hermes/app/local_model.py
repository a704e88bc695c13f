"""The embedded model: installs its runtime, fetches its weights and starts its process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import httpx2
import msgspec

from hermes.config.home import Home
from hermes.config.settings import LocalModelSettings
from hermes.core.errors import LocalModelError
from hermes.core.model import Model, ModelEvent, ModelRequest
from hermes.providers import NO_KEY_REASON, Credential, Target, WireModel
from hermes.providers.local import (
    DownloadProgress,
    ModelProcess,
    PromptPrefixCache,
    Weights,
    fetch_weights,
    resolve_weights,
    runtime_is_installed,
    thread_count,
)

STARTER = (
    "No key yet: {label}, a small starter model, answers.\n"
    "For a strong one: hermes auth add openrouter"
)


def cache_folder(home: Home, model: Path) -> Path:
    """Return the folder for processed prompt prefixes of `model`."""
    return home.cache / "local" / model.stem


class LocalModel:
    """Starts the model process when it is first needed; keeps it until the program ends."""

    def __init__(
        self,
        home: Home,
        settings: LocalModelSettings,
        client: httpx2.AsyncClient,
        progress: DownloadProgress,
    ) -> None:
        self._home, self._settings, self._client = home, settings, client
        self._progress = progress
        self._process: ModelProcess | None = None
        self._starting = asyncio.Lock()
        self._models: dict[str, Model] = {}
        self._labels: dict[str, Weights] = {}

    def known(self, target: Target) -> Target:
        """Return `target` with the label and the context length of its weights."""
        replace, length = msgspec.structs.replace, self._settings.context_length
        profile = replace(target.profile, context_length=length)
        return replace(target, model=self._weights(target).label, profile=profile)

    async def ready(self, target: Target) -> Model:
        """Return the running model of `target`, started if necessary."""
        weights = self._weights(target)
        async with self._starting:
            if self._process is None:
                if target.source == NO_KEY_REASON:
                    self._progress.say(STARTER.format(label=weights.label))
                self._process = await self._start(weights)
        if weights.label not in self._models:
            credential = Credential(id="process", secret=self._process.api_key)
            running = msgspec.structs.replace(
                self.known(target), base_url=self._process.base_url, credentials=(credential,)
            )
            wire = WireModel(running, self._client)
            cache = cache_folder(self._home, Path(weights.file))
            self._models[weights.label] = PromptPrefixCache(
                wire, self._process, self._client, cache
            )
        return self._models[weights.label]

    async def _start(self, weights: Weights) -> ModelProcess:
        if not runtime_is_installed():
            await _install_runtime()
        path = await fetch_weights(weights, self._home.models, self._progress)
        return await ModelProcess.start(
            path,
            context=self._settings.context_length,
            threads=thread_count(self._settings.threads),
            cache=cache_folder(self._home, path),
        )

    def _weights(self, target: Target) -> Weights:
        """Return the weights that `target` names by id, file, address or label."""
        weights = self._labels.get(target.model)
        if weights is None:
            weights = resolve_weights(target.model or self._settings.model, self._home.models)
            self._labels[weights.label] = weights
        return weights

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close()


async def _install_runtime() -> None:
    from hermes.config.installation import InstallFailed, install_extra  # rarely needed

    try:
        await install_extra("local")
    except InstallFailed as error:
        raise LocalModelError(
            "the runtime of the embedded model could not be installed", hint=error.hint
        ) from error


class EmbeddedModel:
    """A `Model` that starts the embedded model with its first call."""

    def __init__(self, local: LocalModel, target: Target) -> None:
        self._local, self._target = local, target
        self._known = local.known(target)

    @property
    def name(self) -> str:
        return self._known.model

    @property
    def provider(self) -> str:
        return self._known.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        model = await self._local.ready(self._target)
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                yield event
