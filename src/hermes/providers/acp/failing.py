"""From an error the agent answered with to the class that decides what happens next."""

from typing import Any

from hermes.core.errors import CredentialRefused, ProviderError, RequestRefused
from hermes.providers.acp.agent import Agent
from hermes.providers.acp.protocol import AUTH_REQUIRED
from hermes.providers.acp.rpc import RpcError
from hermes.providers.failures.later import failed_inside
from hermes.providers.failures.text import presentable

_OURS = range(-32602, -32599)
"""Invalid request, method not found, invalid params: asking again does not help."""


def reply_error(provider: str, agent: Agent, error: RpcError) -> ProviderError:
    said = presentable(" ".join(filter(None, (str(error), _details(error.data)))), 400)
    if error.code == AUTH_REQUIRED:
        return CredentialRefused(
            f"{agent.name} is not logged in: {said}", provider=provider, hint=_login(agent)
        )
    if error.code in _OURS:
        return RequestRefused(f"{agent.name} refused the request: {said}", provider=provider)
    return failed_inside(provider, {"message": said})


def _login(agent: Agent) -> str:
    ways = [way.description or way.name for way in agent.abilities.auth_methods or ()]
    told = presentable("; or ".join(filter(None, ways)), 300)
    return f"log in with that program: {told or f'run {agent.name} in a terminal'}"


def _details(data: Any) -> str:
    """The words in what came along with an error."""
    if isinstance(data, dict):
        return " ".join(_details(value) for value in data.values())
    return data if isinstance(data, str) else ""
