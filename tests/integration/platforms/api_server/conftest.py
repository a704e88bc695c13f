"""A real API server on loopback, with a scripted model behind it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hermes.app.app import App
from hermes.cli.context import ProgressLine
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.testing import ModelServer, RecordedRequest, StepLike, echo
from hermes.gateway.platforms.api_server.adapter import ApiServer
from hermes.gateway.platforms.api_server.http import ApiOptions
from hermes.gateway.platforms.manifests import API_SERVER
from hermes.sdk.platforms import AdapterContext, MessageEvent

KEY = "the key of the tests"

Script = Callable[[RecordedRequest], StepLike]


class Served:
    """A running server, and what its tests need of it."""

    def __init__(self, adapter: ApiServer, app: App, model: ModelServer, key: str) -> None:
        self.adapter, self.app, self.model, self.key = adapter, app, model, key
        self.url = f"http://127.0.0.1:{adapter.port}"
        self.http = httpx2.AsyncClient(base_url=self.url, headers=self.headers, timeout=100)

    @property
    def port(self) -> int:
        return self.adapter.port

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    async def sessions(self) -> int:
        return (await self.app.store.stats()).sessions


Serve = Callable[..., AbstractAsyncContextManager[Served]]


async def refuse(_event: MessageEvent) -> bool:
    return False


@asynccontextmanager
async def serving(
    folder: Path,
    script: Script = echo,
    *,
    options: ApiOptions | None = None,
    settings: str = "",
    **extra: Any,
) -> AsyncIterator[Served]:
    """`extra` goes into the adapter's context."""
    options = options or ApiOptions(port=0, key=KEY)
    home = Home(folder / "home")
    work = folder / "work"
    for each in (home.root, work):
        each.mkdir(parents=True, exist_ok=True)
    with ModelServer(script) as model:
        home.config_file.write_text(
            "model:\n  default: lab-model\n  provider: custom\n"
            f"  base_url: {model.url}/v1\n  api_key: no-key-is-needed-here\n"
            f"gateway:\n  cwd: {work}\n  drain_seconds: 0\n{settings}"
        )
        loaded = load(home)
        async with App(home, loaded, ProgressLine(StringIO()), lambda _text: None) as app:
            context = AdapterContext(
                API_SERVER,
                loaded.variable,
                None,
                loaded.settings.platforms.api_server,
                home.cache,
                home.root,
                home.root,
                extra={"app": app, **extra},
            )
            adapter = ApiServer(context, options)
            await adapter.connect(refuse)
            served = Served(adapter, app, model, options.key)
            try:
                async with served.http:
                    yield served
            finally:
                await adapter.disconnect()


@pytest.fixture
def serve(tmp_path):
    def serve(script: Script = echo, **more: Any) -> AbstractAsyncContextManager[Served]:
        return serving(tmp_path, script, **more)

    return serve


@pytest.fixture
async def served(serve):
    """One that says back what it hears."""
    async with serve() as server:
        yield server


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}
