"""Which hosts OpenRouter may pass a request on to."""

from typing import Any

import msgspec

from hermes.config.settings.model import RoutingSettings
from hermes.providers.endpoint import Endpoint


def routing_body(endpoint: Endpoint, routing: RoutingSettings) -> dict[str, Any]:
    """The field OpenRouter reads, with what differs from the defaults; nothing for the others."""
    if endpoint.id != "openrouter":
        return {}
    usual = msgspec.to_builtins(RoutingSettings())
    said = msgspec.to_builtins(routing)
    wanted = {name: value for name, value in said.items() if value != usual[name]}
    return {"provider": wanted} if wanted else {}
