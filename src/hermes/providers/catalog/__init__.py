"""What is known of models: limits, prices, abilities, and the lists of endpoints.

`ModelCatalog` merges config.yaml, cached lists and the bundled tables.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.providers.catalog.catalog import (
        ModelCatalog,
        ModelFacts,
        bundled_models,
        model_overrides,
    )
    from hermes.providers.catalog.tables import MODELS

__all__ = [
    "MODELS", "ModelCatalog", "ModelFacts", "bundled_models", "model_overrides",
]  # fmt: skip

_MODULES = {
    "catalog": "ModelCatalog ModelFacts bundled_models model_overrides",
    "tables": "MODELS",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import `name` from its module on first use: most processes need only a few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
