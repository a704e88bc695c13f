"""AWS Signature Version 4 for Bedrock requests, and where AWS stores its keys.

A Bedrock credential has one of two forms:

- a Bedrock API key, sent as a plain bearer token;
- `ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN]`, with which each request is signed.

`aws_credentials` builds the second form from variables or from the files of the AWS tools. Its
credential has the id `env:AWS_ACCESS_KEY_ID` or `env:AWS_PROFILE`. Both are among the endpoint's
`shared_key_vars`, so an AWS account alone does not make `auto` choose Bedrock.
"""

import configparser
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from hermes.core.errors import CredentialMissing
from hermes.providers.endpoints import Credential

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "bedrock"
DEFAULT_PROFILE = "default"


class AccessKey(NamedTuple):
    id: str
    secret: str
    session_token: str = ""


def sign_request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    region: str,
    credential: Credential | None,
    service: str = SERVICE,
    now: datetime | None = None,
) -> dict[str, str]:
    """Return `headers` with the authorization of exactly this request.

    Signs the host, the content type and all `x-amz-` headers. Raises `CredentialMissing`.
    """
    if credential is None or not credential.secret.strip():
        raise CredentialMissing(
            "no key for Amazon Bedrock",
            provider="bedrock",
            hint="set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    key = parse_access_key(credential.secret.strip())
    sent = {name.lower(): value for name, value in headers.items()}
    if key is None:
        return sent | {"authorization": f"Bearer {credential.secret.strip()}"}
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    sent["x-amz-date"] = moment.strftime("%Y%m%dT%H%M%SZ")
    if key.session_token:
        sent["x-amz-security-token"] = key.session_token
    scope = f"{moment:%Y%m%d}/{region}/{service}/aws4_request"
    signed = _headers_to_sign(sent, url)
    names = ";".join(signed)
    request = canonical_request(method, url, signed, body)
    text = "\n".join((ALGORITHM, sent["x-amz-date"], scope, _sha256(request.encode())))
    signature = _hmac(signing_key(key.secret, scope), text).hex()
    sent["authorization"] = (
        f"{ALGORITHM} Credential={key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def parse_access_key(secret: str) -> AccessKey | None:
    """Split a composed secret; returns None for a Bedrock API key."""
    parts = secret.split(":", 2)
    if len(parts) < 2 or not all(parts[:2]):
        return None
    return AccessKey(*parts)


def canonical_request(method: str, url: str, signed: Mapping[str, str], body: bytes) -> str:
    """Return the request in the canonical form that both sides compute."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = "&".join(sorted(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in pairs))
    fields = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in signed.items())
    path = quote(parts.path or "/", safe="/-_.~")
    return "\n".join((method.upper(), path, query, fields, ";".join(signed), _sha256(body)))


def signing_key(secret: str, scope: str) -> bytes:
    """Return the key for one day, region and service."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return key


def aws_credentials(
    variable: Callable[[str], str | None], home: Path, profile: str
) -> Credential | None:
    """Return AWS keys from the variables, or from `profile` in `~/.aws`, where `home` is `~`.

    An empty `profile` means the one named by AWS_PROFILE, or `default`. A configured profile takes
    precedence over the variables, as in the AWS tools.
    """
    given = variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")
    if all(given) and not profile:
        secret = join_access_key(
            given[0] or "", given[1] or "", variable("AWS_SESSION_TOKEN") or ""
        )
        return Credential("env:AWS_ACCESS_KEY_ID", secret, source="AWS_ACCESS_KEY_ID")
    name = profile or variable("AWS_PROFILE") or DEFAULT_PROFILE
    folder = home / ".aws"
    places = ((folder / "credentials", name), (folder / "config", f"profile {name}"))
    for path, section in places:
        key = _read_profile(path, section)
        if key is not None:
            source = f"profile {name} in ~/.aws/{path.name}"
            return Credential("env:AWS_PROFILE", join_access_key(*key), source=source)
    return None


def join_access_key(key_id: str, secret: str, session_token: str = "") -> str:
    """Return the secret of a credential. The first two parts never contain a colon."""
    return ":".join(part for part in (key_id, secret, session_token) if part)


def _read_profile(path: Path, section: str) -> AccessKey | None:
    """Return the keys of one profile; None when the file is missing or invalid."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return None
    if not parser.has_section(section):
        return None
    values = parser[section]
    key_id = values.get("aws_access_key_id", "").strip()
    secret = values.get("aws_secret_access_key", "").strip()
    if not (key_id and secret):
        return None
    return AccessKey(key_id, secret, values.get("aws_session_token", "").strip())


def _headers_to_sign(sent: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the headers to sign, sorted by name."""
    signed = [name for name in sent if name == "content-type" or name.startswith("x-amz-")]
    chosen = {name: sent[name] for name in signed}
    return dict(sorted({**chosen, "host": urlsplit(url).netloc.rpartition("@")[2]}.items()))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
