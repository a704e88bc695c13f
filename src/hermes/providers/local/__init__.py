"""The embedded model: its weights and its process.

The names below load on first use, so that the child process (`serve`) imports nothing else.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.providers.local.runtime import (
        ModelProcess, PromptPrefixCache, runtime_is_installed, thread_count,
    )
    from hermes.providers.local.weights import (
        DownloadProgress, LocalModelFile, Weights, fetch_weights, larger_weights, local_models,
        resolve_weights, sha256_of, weights_name,
    )
    # fmt: on
    # isort: on

__all__ = [
    "DownloadProgress", "LocalModelFile", "ModelProcess", "PromptPrefixCache", "Weights",
    "fetch_weights", "larger_weights", "local_models", "resolve_weights", "runtime_is_installed",
    "sha256_of", "thread_count", "weights_name",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
