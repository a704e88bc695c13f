"""Who may use the API: the key, and what keeps web pages out.

Without a key everybody on this machine may, but a browser on this machine works for any web page.
So the address it asked for must be a loopback one (a name that was made to point here is not), and
a page must be one of those that were named.
"""

import hmac
import re
from collections.abc import Mapping

from hermes.gateway.platforms.api_server.options import ANY, Options
from hermes.gateway.platforms.api_server.refusals import Headers, Refused
from hermes.util.hosts import is_loopback

MAX_AGE = "600"
METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
USUAL_HEADERS = "authorization, content-type, idempotency-key, x-hermes-session-id"
EXPOSED = "X-Hermes-Session-Id, Idempotent-Replayed"
SAFE: Headers = (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"))
"""Every answer has them."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?", re.ASCII)
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,2000}", re.ASCII)
_ELSEWHERE = ("cross-site", "same-site")


class Door:
    def __init__(self, options: Options) -> None:
        self._key = options.key.encode()
        self._origins = frozenset(options.origins)

    def check(self, headers: Mapping[str, str], *, public: bool = False) -> None:
        """Raises `Refused`. What is `public` needs no key."""
        if not self._key:
            self._check_local(headers)
        elif not public and not self._has_key(headers.get("authorization", "")):
            raise Refused(
                401,
                "this needs the key of the server, as `Authorization: Bearer KEY`",
                code="invalid_api_key",
                headers=(("WWW-Authenticate", "Bearer"),),
            )

    def _has_key(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        # Headers are bytes that came to us as Latin-1; the key is compared as it was sent.
        same = hmac.compare_digest(given.strip(" ").encode("latin-1"), self._key)
        return same and scheme.lower() == "bearer"

    def _check_local(self, headers: Mapping[str, str]) -> None:
        if not is_local(headers.get("host", "")):
            raise Refused(
                403,
                "without API_SERVER_KEY only requests to 127.0.0.1 or localhost are answered",
                code="host_not_allowed",
            )
        origin = headers.get("origin", "")
        elsewhere = not origin and headers.get("sec-fetch-site", "") in _ELSEWHERE
        if elsewhere or (origin and not self._allows(origin)):
            raise Refused(
                403,
                "web pages may not use this; API_SERVER_CORS_ORIGINS names those that may",
                code="origin_not_allowed",
            )

    def _allows(self, origin: str) -> bool:
        return ANY in self._origins or origin.lower() in self._origins

    def shared(self, headers: Mapping[str, str]) -> Headers:
        """What an answer to this request says beside its content."""
        if not self._origins:
            return SAFE
        origin = headers.get("origin", "")
        if not origin or not self._allows(origin):
            return (*SAFE, ("Vary", "Origin"))
        allowed = ("Access-Control-Allow-Origin", ANY if ANY in self._origins else origin)
        return (*SAFE, ("Vary", "Origin"), allowed, ("Access-Control-Expose-Headers", EXPOSED))

    def preflight(self, headers: Mapping[str, str]) -> Headers | None:
        """What a browser that asks first is told; None when it does not, or may not."""
        origin = headers.get("origin", "")
        if "access-control-request-method" not in headers or not self._allows(origin):
            return None
        asked = headers.get("access-control-request-headers", "")
        names = asked if _HEADER_NAMES.fullmatch(asked) else USUAL_HEADERS
        fields: Headers = (
            ("Access-Control-Allow-Methods", METHODS),
            ("Access-Control-Allow-Headers", names),
            ("Access-Control-Max-Age", MAX_AGE),
        )
        if headers.get("access-control-request-private-network") == "true":
            fields = (*fields, ("Access-Control-Allow-Private-Network", "true"))
        return fields


def is_local(host: str) -> bool:
    """Whether a Host header names this machine by itself."""
    found = _HOST.fullmatch(host.lower())
    return found is not None and is_loopback(found[1])
