"""Proxy mode (`gateway.proxy_url`): the platforms are connected here, and the turns of their chats
run on the API server of another Hermes.

For a chat, the other Hermes is the model of its session: the history is stored here and sent with
each request. The other side has its own tools, memory and instructions. Every user has the rights
of its key there.
"""

import hashlib
from collections.abc import Callable

import msgspec

from hermes.app import SessionRequest
from hermes.config.loader import Loaded
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.core.model import Price
from hermes.providers import (
    ENV,
    Credential,
    ModelProfile,
    Target,
    Timeouts,
    check_base_url,
    is_loopback,
)
from hermes.providers.failures import OTHER_HERMES, refused, unreachable
from hermes.util.http import AnyClient, HttpError, fetch

KEY = "GATEWAY_PROXY_KEY"
API = "/v1"
MODEL = "hermes-agent"
KEYS_OF = "custom"  #: The provider under which the key is managed.
LONGEST_TURN = 24 * 3600.0
SILENCE = 90.0  #: Read timeout in seconds; the other side sends a sign of life every 15 seconds.
ENDLESS = 10_000_000  #: Context length in tokens: the other side compacts sessions by itself.
FREE = Price(0.0, 0.0, 0.0, 0.0)  #: Costs are counted on the other side.
HINT = (
    "it is the address of the API server of another Hermes, such as http://127.0.0.1:8642;"
    f" its key goes into {KEY}"
)


class Proxy:
    def __init__(self, target: Target) -> None:
        self.target = target

    def request(self, request: SessionRequest) -> SessionRequest:
        """Return the request with the other Hermes as its model.

        Raises `UsageError` for users who may use only some tools: the other side could not enforce
        that.
        """
        if request.toolsets:
            raise UsageError(
                "you may not use every tool, and the Hermes that answers here cannot tell",
                hint="an owner can make you a member: gateway.roles",
            )
        chat = hashlib.sha256(f"{request.origin} {request.user_id}".encode()).hexdigest()[:16]
        profile = msgspec.structs.replace(self.target.profile, extra_body={"user": chat})
        return msgspec.structs.replace(
            request,
            remote=msgspec.structs.replace(self.target, profile=profile),
            goes_on=False,
            skip_memory=True,
            skip_context_files=True,
        )

    async def check(self, client: AnyClient, warn: Callable[[str], None]) -> None:
        """Report problems at the start of the gateway, before a chat runs into them."""
        base = self.target.base_url
        if base.startswith("http://") and not is_loopback(base):
            warn("gateway.proxy_url is not https: others on the way can read the chats and the key")
        url, seconds = f"{base}/models", self.target.timeouts.connect
        secret = next((each.secret for each in self.target.credentials), "")
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        trouble: HermesError | None = None
        try:
            answer = await fetch(client, "GET", url, headers=headers, seconds=seconds)
            status = answer.status
            if status >= 300:
                trouble = refused(OTHER_HERMES, status, answer.headers, answer.body, secret=secret)
        except HttpError as error:
            trouble = unreachable(OTHER_HERMES, url, error)
        if trouble is not None:
            warn(f"{trouble}\n{trouble.hint}")


def load_proxy(loaded: Loaded) -> Proxy | None:
    """Read the proxy settings; None if turns run here. Raises `ConfigError`."""
    url = loaded.settings.gateway.proxy_url.strip()
    if not url:
        return None
    try:
        address = check_base_url(url, "gateway.proxy_url").removesuffix(API)
    except ConfigError as error:
        raise ConfigError(str(error), hint=HINT) from None
    key = (loaded.variable(KEY) or "").strip()
    if not key and not is_loopback(address):
        raise ConfigError(
            f"gateway.proxy_url is on another machine, so it needs a key, and {KEY} is not set",
            hint=f"hermes config set {KEY} <the API_SERVER_KEY over there>",
        )
    url = f"{address}{API}"
    credential = Credential(id=f"{ENV}:{KEY}", secret=key, source=KEY, base_url=url)
    return Proxy(
        Target(
            provider=OTHER_HERMES,
            model=MODEL,
            base_url=url,
            source="gateway.proxy_url",
            credentials=(credential,) if key else (),
            profile=ModelProfile(context_length=ENDLESS, price=FREE, images=True, is_agent=True),
            timeouts=Timeouts(
                request=LONGEST_TURN, silence=LONGEST_TURN, read=SILENCE, stale=LONGEST_TURN
            ),
            key_owner=KEYS_OF,
        )
    )
