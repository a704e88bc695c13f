"""Lists of models on disk, one file for each endpoint."""

import hashlib
import logging
import re
from pathlib import Path

import msgspec

from hermes.providers.facts.model import ModelFacts
from hermes.util import atomic

log = logging.getLogger(__name__)

FRESH_SECONDS = 24 * 3600
FORMAT = 1


class ModelList(msgspec.Struct, frozen=True):
    """The models of one endpoint, as it listed them."""

    base_url: str
    fetched_at: float
    """Seconds since the epoch."""
    models: tuple[ModelFacts, ...]
    format: int = FORMAT

    def find(self, model: str) -> ModelFacts | None:
        return next((facts for facts in self.models if facts.answers_to(model)), None)

    def age(self, now: float) -> float:
        return max(0.0, now - self.fetched_at)

    def is_fresh(self, now: float) -> bool:
        """A list from the future was written by a wrong clock."""
        return 0 <= now - self.fetched_at < FRESH_SECONDS


class ListCache:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, base_url: str) -> Path:
        host = re.sub(r"[^a-z0-9.]+", "-", base_url.partition("://")[2].lower())[:40].strip("-")
        digest = hashlib.sha256(base_url.encode()).hexdigest()[:12]
        return self.folder / f"{host}-{digest}.json"

    def read(self, base_url: str) -> ModelList | None:
        """The stored list; None when there is none, or one that cannot be understood."""
        path = self.path(base_url)
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=ModelList)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("the list of models %s is damaged and not used: %s", path, error)
            return None
        return stored if (stored.base_url, stored.format) == (base_url, FORMAT) else None

    def write(self, models: ModelList) -> None:
        """A list that cannot be stored is fetched again next time."""
        data = msgspec.json.encode(models)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic.write_bytes(self.path(models.base_url), data)
        except OSError as error:
            log.warning("the list of models cannot be stored in %s: %s", self.folder, error)
