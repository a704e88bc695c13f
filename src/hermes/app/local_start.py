"""Fetching and starting the embedded model; loaded only when it is to answer."""

from hermes.app.installation.extras import InstallFailed, install_extra
from hermes.app.local_model import cache_of
from hermes.config.home import Home
from hermes.config.settings.model import LocalModelSettings
from hermes.core.errors import LocalModelError
from hermes.providers.local import (
    DownloadProgress,
    ModelProcess,
    Weights,
    fetch_weights,
    runtime_is_installed,
    thread_count,
)


async def start(
    weights: Weights, home: Home, settings: LocalModelSettings, progress: DownloadProgress
) -> ModelProcess:
    if not runtime_is_installed():
        await _install_runtime()
    path = await fetch_weights(weights, home.models, progress)
    return await ModelProcess.start(
        path,
        context=settings.context_length,
        threads=thread_count(settings.threads),
        cache=cache_of(home, path),
    )


async def _install_runtime() -> None:
    try:
        await install_extra("local")
    except InstallFailed as error:
        raise LocalModelError(
            "the runtime of the embedded model could not be installed", hint=error.hint
        ) from error
