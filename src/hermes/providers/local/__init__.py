"""The embedded model: its weights and its process.

The names below load on first use, so that the child process (`serve`) imports nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.providers.local.runtime import (
        ModelProcess,
        PromptPrefixCache,
        runtime_is_installed,
        thread_count,
    )
    from hermes.providers.local.weights import (
        DownloadProgress,
        LocalModelFile,
        Weights,
        fetch_weights,
        local_models,
        resolve_weights,
        sha256_of,
    )

__all__ = [
    "DownloadProgress", "LocalModelFile", "ModelProcess", "PromptPrefixCache", "Weights",
    "fetch_weights", "local_models", "resolve_weights", "runtime_is_installed",
    "sha256_of", "thread_count",
]  # fmt: skip

_MODULES = {
    "runtime": "ModelProcess PromptPrefixCache runtime_is_installed thread_count",
    "weights": (
        "DownloadProgress LocalModelFile Weights fetch_weights local_models resolve_weights "
        "sha256_of"
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import `name` from its module on first use: most processes need only a few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
