"""What is known of models: limits, prices, abilities, and the lists of endpoints.

`ModelCatalog` merges config.yaml, cached lists and the bundled tables.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.providers.catalog.catalog import (
        ModelCatalog, ModelFacts, bundled_models, bundled_tables, model_overrides,
    )
    # fmt: on
    # isort: on

__all__ = [
    "ModelCatalog", "ModelFacts", "bundled_models", "bundled_tables", "model_overrides",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
