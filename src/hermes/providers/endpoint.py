"""The record of a model endpoint."""

from typing import Literal

import msgspec

from hermes.core.model import WireMode
from hermes.providers.profile import Profile

Auth = Literal["bearer", "x-api-key", "aws"]
"""`aws` signs each request with AWS Signature 4, or sends a Bedrock API key as a bearer."""


class Login(msgspec.Struct, frozen=True):
    """How a person logs in instead of pasting a key: the device flow of RFC 8628."""

    client_id: str
    device_url: str
    token_url: str
    scope: str = ""
    flow: Literal["device", "codex", "google"] = "device"
    """`codex` is OpenAI's own form of the device flow; `google` needs a client of the user's own
    and a browser that comes back to this machine."""
    pkce: bool = False
    exchange_url: str = ""
    """Where the token is exchanged for a short-lived one that is sent to the endpoint."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    label: str
    base_url: str = ""
    """Empty when the user must name one. `{region}` is filled in from `bedrock.region`."""
    api_mode: WireMode = "chat_completions"
    mode_elsewhere: WireMode | None = None
    """How an address in the place of its own is spoken to; None: in the same way."""
    auth: Auth = "bearer"
    key_vars: tuple[str, ...] = ()
    """Variables that may hold the key, best first."""
    other_uses: tuple[str, ...] = ()
    """Those of `key_vars` that are often set for other programs: `auto` does not go by them."""
    base_url_vars: tuple[str, ...] = ()
    key_hosts: tuple[str, ...] = ()
    """Hosts beside that of `base_url` its key may be sent to; `*` is one label of a name."""
    aliases: tuple[str, ...] = ()
    needs_key: bool = True
    default_model: str = ""
    small_model: str = ""
    """For auxiliary tasks: cheap and quick. Empty: the default model."""
    models_path: str = "/models"
    """Where the list of models is, after `base_url`; empty when there is none."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    login: Login | None = None
    request_seconds: float | None = None
    """Longest time for one request; None: `timeouts.request_seconds`."""
    profile: Profile = Profile()
    """What holds for all its models unless a model's own facts say otherwise."""
