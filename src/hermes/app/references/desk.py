"""What references are looked up with, and what comes of them."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.core.errors import HermesError
from hermes.core.messages import Image, Text, User
from hermes.core.tokens import BYTES_PER_TOKEN
from hermes.security import PathGuard
from hermes.tools import ToolDeps
from hermes.util.threads import in_thread

Fetch = Callable[[str], Awaitable[str]]
"""The text of a web page. Raises `HermesError`."""

WARN_SHARE = 0.25
MOST_SHARE = 0.5


class Desk(msgspec.Struct, frozen=True):
    guard: PathGuard
    """Judges paths of this machine. `~` is its home; its workspace does not matter."""
    folder: Path
    """Where relative paths start and git is asked."""
    context_length: int
    """Of the model, in tokens."""
    redact: Callable[[str], str]
    """Takes secrets out. Run in a thread."""
    fetch: Fetch | None = None
    """None: pages cannot be attached. `page_fetch` makes one that is guarded."""
    images: bool = True
    """Whether the model sees images."""

    @property
    def most_tokens(self) -> int:
        return int(self.context_length * MOST_SHARE)

    @property
    def most_bytes(self) -> int:
        """What has more is refused, so nothing beyond it needs to be read."""
        return self.most_tokens * BYTES_PER_TOKEN


class Attached(msgspec.Struct, frozen=True):
    """What one reference brought."""

    key: str
    """The same for two references that mean the same."""
    written: str
    """The reference, as it was typed."""
    detail: str
    """What it is, in a few words."""
    text: str
    image: Image | None = None
    warnings: tuple[str, ...] = ()
    size: int = 0
    """Bytes of the whole, where they were too many to read all."""


class NotAttached(HermesError):
    """Why a reference brings nothing. The message stands behind the reference."""


class Expanded(msgspec.Struct, frozen=True):
    text: str
    """What the user typed, and below it what is attached."""
    images: tuple[Image, ...] = ()
    warnings: tuple[str, ...] = ()
    """For the user, one line each."""
    tokens: int = 0
    """Of what is attached, as estimated."""

    @property
    def message(self) -> User:
        return User((Text(self.text), *self.images))


def page_fetch(deps: ToolDeps) -> Fetch:
    """Fetches with the guard, the limits and the reader of `web_extract`, which are loaded with
    the first page."""

    async def fetch(url: str) -> str:
        pages = await in_thread(import_module, "hermes.app.references.pages")
        text: str = await pages.page(url, deps)
        return text

    return fetch
