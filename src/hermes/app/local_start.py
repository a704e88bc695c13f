"""Fetching and starting the embedded model; loaded only when it is to answer."""

from pathlib import Path

from hermes.app.local_model import cache_of
from hermes.config.home import Home
from hermes.config.settings.model import LocalModelSettings
from hermes.providers.local.runtime import (
    ModelProcess,
    install_runtime,
    runtime_is_installed,
    thread_count,
)
from hermes.providers.local.weights import DownloadProgress, Weights, fetch_weights


async def start(
    weights: Weights, home: Home, settings: LocalModelSettings, progress: DownloadProgress
) -> ModelProcess:
    if not runtime_is_installed():
        await install_runtime(checkout())
    path = await fetch_weights(weights, home.models, progress)
    return await ModelProcess.start(
        path,
        context=settings.context_length,
        threads=thread_count(settings.threads),
        cache=cache_of(home, path),
    )


def checkout() -> Path:
    """The folder above `src`, where the launcher and the lock files are."""
    return Path(__file__).resolve().parents[3]
