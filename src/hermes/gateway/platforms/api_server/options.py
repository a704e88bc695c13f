"""Options of the API server, from config.yaml and variables."""

from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from hermes.config.environment import describe_unset, unset_names
from hermes.config.settings.platforms import ApiServerPlatform
from hermes.sdk.platforms import CredentialsRefused
from hermes.util.http import is_loopback

MIN_KEY_CHARS = 16
HOST, PORT, MODEL_NAME = "127.0.0.1", 8642, "hermes"
ANY = "*"
NEW_KEY = "`openssl rand -hex 24` makes a good one"
NAMES = ("HOST", "PORT", "KEY", "CORS_ORIGINS", "MODEL_NAME")


class ApiOptions(msgspec.Struct, frozen=True):
    host: str = HOST
    port: int = PORT  #: 0 takes any free port.
    key: str = ""
    """The key that clients must send; "" admits programs on this machine and no web page."""
    origins: tuple[str, ...] = ()  #: Web pages that may use the API; `*` means all.
    model_name: str = MODEL_NAME
    max_body_bytes: int = 16_000_000
    max_turns: int = 2000  #: Maximum number of turns at the same time.
    body_seconds: float = 30.0
    """Seconds without data after which an incomplete request is dropped."""
    head_seconds: float = 15.0
    """Seconds after which a client that has not sent its headers is dropped."""
    send_seconds: float = 60.0  #: Seconds after which a client that does not read is dropped.
    beat_seconds: float = 15.0
    """Seconds without data after which a stream sends a keep-alive comment."""


def read_options(
    variable: Callable[[str], str | None],
    connection: ApiServerPlatform = ApiServerPlatform(),  # noqa: B008 - frozen
    unset: Callable[[str], tuple[str, ...]] = lambda _name: (),
) -> ApiOptions:
    """Read the options from config.yaml (`connection`), then from variables.

    `unset` returns the missing references of a variable. Raises `CredentialsRefused` for settings
    that would admit anyone.
    """
    values = {name: (variable(f"API_SERVER_{name}") or "").strip() for name in NAMES}
    extra = connection.extra
    host = extra.host.strip() or values["HOST"] or HOST
    pages = extra.cors_origins or values["CORS_ORIGINS"].split(",")
    origins = tuple(filter(None, map(_parse_origin, pages)))
    key = _check_key(connection.token.strip() or extra.key.strip() or values["KEY"], unset)
    if not key and not is_loopback(host):
        raise CredentialsRefused(
            f"others can reach {host}, where it is to listen, but there is no API_SERVER_KEY",
            hint=f"set API_SERVER_KEY ({NEW_KEY}), or leave API_SERVER_HOST out",
        )
    if not key and ANY in origins:
        raise CredentialsRefused(
            "API_SERVER_CORS_ORIGINS is *, so every web page could use the terminal",
            hint="name the pages, or set API_SERVER_KEY",
        )
    port = _parse_port(values["PORT"]) if extra.port is None else extra.port
    name = extra.model_name.strip() or values["MODEL_NAME"] or MODEL_NAME
    return ApiOptions(host, port, key, origins, name)


def _check_key(key: str, unset: Callable[[str], tuple[str, ...]]) -> str:
    """Return the key. A key that is configured but missing or too short is an error."""
    if names := unset_names(key) if key else unset("API_SERVER_KEY"):
        raise CredentialsRefused(
            f"the key of the API server is missing: {describe_unset(names)}",
            hint=f"hermes config set {names[0]} KEY; {NEW_KEY}",
        )
    if key and len(key) < MIN_KEY_CHARS:
        raise CredentialsRefused(
            f"API_SERVER_KEY is shorter than {MIN_KEY_CHARS} characters, and it guards a terminal",
            hint=NEW_KEY,
        )
    return key


def _parse_port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else -1 if text else PORT
    if not 0 <= port < 65536:
        raise CredentialsRefused(f"API_SERVER_PORT is {text}, which is not a port")
    return port


def _parse_origin(text: str) -> str:
    """Normalise an origin as browsers write it: no trailing slash, lower case."""
    text = text.strip().rstrip("/")
    if text in ("", ANY, "null"):
        return text
    if not urlsplit(text).netloc:
        raise CredentialsRefused(
            f"API_SERVER_CORS_ORIGINS has {text}, which is not an origin",
            hint="an origin looks like https://chat.example.com",
        )
    return text.lower()
