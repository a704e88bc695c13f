"""Where a request goes and what it carries besides its body."""

from collections.abc import Mapping
from importlib import import_module

from hermes.core.errors import CredentialRefused
from hermes.providers.target import Credential, Target

ANTHROPIC_OAUTH_BETA = "oauth-2025-04-20"
_JOINED = "anthropic-beta"
"""The header of which every part counts; any other is replaced by a later one."""


def address(base_url: str, path: str) -> str:
    """`path` under `base_url`, whose query stays at the end."""
    base, mark, query = base_url.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def request_headers(
    target: Target, credential: Credential | None, own: Mapping[str, str], stream: bool
) -> dict[str, str]:
    """All headers but an AWS signature. `own` are those of the wire."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if stream else "application/json",
        **own,
    }
    if not target.profile.keep_alive:
        headers["connection"] = "close"
    if credential is not None and target.auth != "aws":
        _merge(headers, _authorization(target, credential))
    _merge(headers, target.headers)
    if credential is not None:
        _merge(headers, credential.headers)
    return headers


def signed(
    target: Target, credential: Credential | None, url: str, headers: dict[str, str], body: bytes
) -> dict[str, str]:
    """`headers` with the AWS signature of this very request."""
    aws = import_module("hermes.providers.aws")
    result: dict[str, str] = aws.signed_headers(
        "POST", url, headers, body, region=target.region, credential=credential
    )
    return result


def _authorization(target: Target, credential: Credential) -> dict[str, str]:
    secret = credential.secret.strip()
    if not secret:
        return {}
    if not (secret.isascii() and secret.isprintable()):
        # The HTTP library would refuse it too, but show it in its complaint.
        raise CredentialRefused(
            f"the key for {target.provider} contains characters that no key has",
            provider=target.provider,
            hint=f"copy it again ({credential.source or credential.id})",
        )
    if target.auth == "x-api-key" and credential.kind != "oauth":
        return {"x-api-key": secret}
    headers = {"authorization": f"Bearer {secret}"}
    if credential.kind == "oauth" and target.api_mode == "anthropic_messages":
        headers[_JOINED] = ANTHROPIC_OAUTH_BETA
    return headers


def _merge(headers: dict[str, str], more: Mapping[str, str]) -> None:
    for name, value in more.items():
        name = name.lower()
        if name == _JOINED and headers.get(name):
            value = f"{headers[name]},{value}"
        headers[name] = value
