"""The contract of terminal backends: what a `Host` has to do, as tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.settings import TerminalSettings
from hermes.sdk.terminal import BackendContext


def backend_context(
    storage: Path, settings: Mapping[str, Any] | None = None, **changes: Any
) -> BackendContext:
    """Return a context for tests: the default settings, changed by `settings`."""
    known = {**msgspec.structs.asdict(TerminalSettings()), **(settings or {})}
    return msgspec.structs.replace(BackendContext(settings=known, storage=storage), **changes)
