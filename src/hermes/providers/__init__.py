"""Model providers: endpoints, resolution of a model choice to a target, and calls over HTTP.

`Resolver` turns settings and a `ModelChoice` into a `Target`; `WireModel` calls it. Sub-packages:
`wire` (APIs), `policy` (retries, keys, budgets), `failures` (errors), `catalog` (models),
`credentials` and `login` (keys), `local` (embedded model), `acp` (agent programs).
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.providers.endpoints import (
        ENDPOINTS, ENV, MANUAL, OAUTH, OPENAI_VARIABLE, Credential, Endpoint, LoginSpec,
        ModelProfile, RemoteToolProgress, Target, Timeouts, check_base_url, is_loopback,
        is_openai_key, own_key_variables, variable_name,
    )
    from hermes.providers.resolver import (
        CUSTOM, LOCAL, MAIN, NO_KEY_REASON, ModelChoice, Resolver, auxiliary_targets,
        custom_endpoint, expand_alias, find_custom_provider, parse_model,
    )
    from hermes.providers.small_model import SmallModel, small_profile
    from hermes.providers.transport import ModelHttpClient, make_model_client
    from hermes.providers.wire.model import WireModel
    # fmt: on
    # isort: on

__all__ = [
    "CUSTOM", "ENDPOINTS", "ENV", "LOCAL", "MAIN", "MANUAL", "NO_KEY_REASON", "OAUTH",
    "OPENAI_VARIABLE", "Credential", "Endpoint", "LoginSpec", "ModelChoice", "ModelHttpClient",
    "ModelProfile", "RemoteToolProgress", "Resolver", "SmallModel", "Target", "Timeouts",
    "WireModel", "auxiliary_targets", "check_base_url", "custom_endpoint", "expand_alias",
    "find_custom_provider", "is_loopback", "is_openai_key", "make_model_client",
    "own_key_variables", "parse_model", "small_profile", "variable_name",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
