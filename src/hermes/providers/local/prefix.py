"""The start of the prompt, kept on disk between runs: reading it again costs seconds."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path

import httpx2

from hermes.core.model import Model, ModelEvent, ModelRequest, Reply
from hermes.providers.local.runtime import ModelProcess
from hermes.providers.wrapper import ModelWrapper

SECONDS = 10.0


class RememberedPrefix(ModelWrapper):
    """A `Model` in front of the model process.

    Before the first call it loads what an earlier run saved for the same system prompt; when
    nothing was saved, it saves after the first reply. Only speed is at stake: a failure is passed
    over, and the prompt is read again.
    """

    def __init__(
        self, inner: Model, process: ModelProcess, client: httpx2.AsyncClient, folder: Path
    ) -> None:
        super().__init__(inner)
        self._process, self._client, self._folder = process, client, folder
        self._asked = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        first, self._asked = not self._asked, True
        file = file_for(request)
        unsaved = first and not await self._do("restore", file)
        async with aclosing(self._inner.stream(request)) as events:
            async for event in events:
                if unsaved and isinstance(event, Reply):
                    self._forget_others()
                    await self._do("save", file)
                yield event

    async def _do(self, action: str, file: str) -> bool:
        if action == "restore" and not (self._folder / file).is_file():
            return False
        address = self._process.base_url.removesuffix("/v1")
        with suppress(httpx2.HTTPError):
            answer = await self._client.post(
                f"{address}/slots/0?action={action}",
                json={"filename": file},
                headers={"authorization": f"Bearer {self._process.api_key}"},
                timeout=SECONDS,
            )
            return answer.status_code == 200
        return False

    def _forget_others(self) -> None:
        """Prompts change with the version of Hermes and its tools; old ones are only ballast."""
        for old in self._folder.glob("prefix-*.bin"):
            old.unlink(missing_ok=True)


def file_for(request: ModelRequest) -> str:
    """A name for the start of the prompt."""
    front = getattr(request.messages[0], "text", "") if request.messages else ""
    return f"prefix-{hashlib.sha256(front.encode()).hexdigest()[:16]}.bin"
