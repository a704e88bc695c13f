"""The embedded model made ready: runtime installed, weights fetched, process started."""

import asyncio
from pathlib import Path

import httpx2
import msgspec

from hermes.config.home import Home
from hermes.config.settings.model import LocalModelSettings
from hermes.core.model import Model
from hermes.providers.local.fetch import Progress, fetch
from hermes.providers.local.prefix import RememberedPrefix
from hermes.providers.local.runtime import ModelProcess, install_runtime, runtime_is_installed
from hermes.providers.local.shelf import weights_for
from hermes.providers.local.threads import threads_for
from hermes.providers.resolver import NO_KEY, Target
from hermes.providers.wire.chat_completions import ChatCompletions

STARTER = (
    "No key is configured: {label}, a small starter model, answers on this machine. "
    "For a strong one: hermes config set OPENROUTER_API_KEY <your key>"
)


class LocalModel:
    """Starts the model process when it is first needed; keeps it until the program ends."""

    def __init__(self, home: Home, settings: LocalModelSettings, progress: Progress) -> None:
        self._home, self._settings, self._progress = home, settings, progress
        self._process: ModelProcess | None = None
        self._starting = asyncio.Lock()

    async def ready(self, target: Target, client: httpx2.AsyncClient) -> tuple[Target, Model]:
        """`target` with the address of the running model, and the model itself."""
        weights = weights_for(target.model or self._settings.model, self._home.models)
        async with self._starting:
            if self._process is None:
                if target.source == NO_KEY:
                    self._progress.say(STARTER.format(label=weights.label))
                if not runtime_is_installed():
                    await install_runtime(checkout())
                path = await fetch(weights, self._home.models, self._progress)
                self._process = await ModelProcess.start(
                    path,
                    context=self._settings.context_length,
                    threads=threads_for(self._settings.threads),
                    cache=self._cache(path),
                )
        running = msgspec.structs.replace(
            target,
            model=weights.label,
            base_url=self._process.base_url,
            api_key=self._process.api_key,
            profile=msgspec.structs.replace(
                target.profile, context_length=self._settings.context_length
            ),
        )
        wire = ChatCompletions(running, client)
        cache = self._cache(Path(weights.file))
        return running, RememberedPrefix(wire, self._process, client, cache)

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close()

    def _cache(self, model: Path) -> Path:
        return self._home.cache / "local" / model.stem


def checkout() -> Path:
    """The folder above `src`, where the launcher and the lock files are."""
    return Path(__file__).resolve().parents[3]
