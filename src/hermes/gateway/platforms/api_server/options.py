"""How the API server is set up: `platforms.api_server` and the variables API_SERVER_*."""

from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from hermes.config.expand import told, unset_names
from hermes.config.settings.platforms import ApiServerPlatform
from hermes.gateway.platforms.base import CredentialsRefused
from hermes.util.hosts import is_loopback

SHORTEST_KEY = 16
HOST, PORT, MODEL_NAME = "127.0.0.1", 8642, "hermes"
ANY = "*"
NEW_KEY = "`openssl rand -hex 24` makes a good one"


class Options(msgspec.Struct, frozen=True):
    host: str = HOST
    port: int = PORT
    """0 takes any that is free."""
    key: str = ""
    """What clients have to give; "" lets in who is on this machine and no web page."""
    origins: tuple[str, ...] = ()
    """Web pages that may use it; `*` is all."""
    model_name: str = MODEL_NAME
    most_body_bytes: int = 16_000_000
    most_turns: int = 2000
    """At the same time."""
    body_seconds: float = 30.0
    """Silence after which a client that has not sent its whole request is left."""
    head_seconds: float = 15.0
    """Time after which a client that has not said what it wants is left."""
    send_seconds: float = 60.0
    """Time after which a client that does not read is left."""
    beat_seconds: float = 15.0
    """Silence after which a stream shows that it is alive."""


def read_options(
    variable: Callable[[str], str | None],
    connection: ApiServerPlatform = ApiServerPlatform(),  # noqa: B008 - frozen
    unset: Callable[[str], tuple[str, ...]] = lambda _name: (),
) -> Options:
    """Raises `CredentialsRefused` for what would let in anybody. config.yaml (`connection`) comes
    before variables. `unset` says what is missing in a variable that counts as missing."""
    said = {name: (variable(f"API_SERVER_{name}") or "").strip() for name in NAMES}
    extra = connection.extra
    host = extra.host.strip() or said["HOST"] or HOST
    pages = extra.cors_origins or said["CORS_ORIGINS"].split(",")
    origins = tuple(filter(None, map(_origin, pages)))
    key = _key(connection.token.strip() or extra.key.strip() or said["KEY"], unset)
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
    port = _port(said["PORT"]) if extra.port is None else extra.port
    name = extra.model_name.strip() or said["MODEL_NAME"] or MODEL_NAME
    return Options(host, port, key, origins, name)


NAMES = ("HOST", "PORT", "KEY", "CORS_ORIGINS", "MODEL_NAME")


def _key(key: str, unset: Callable[[str], tuple[str, ...]]) -> str:
    """Who wanted a key does not run without one, and not with one that everybody knows."""
    if names := unset_names(key) if key else unset("API_SERVER_KEY"):
        raise CredentialsRefused(
            f"the key of the API server is missing: {told(names)}",
            hint=f"hermes config set {names[0]} KEY; {NEW_KEY}",
        )
    if key and len(key) < SHORTEST_KEY:
        raise CredentialsRefused(
            f"API_SERVER_KEY is shorter than {SHORTEST_KEY} characters, and it guards a terminal",
            hint=NEW_KEY,
        )
    return key


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else -1 if text else PORT
    if not 0 <= port < 65536:
        raise CredentialsRefused(f"API_SERVER_PORT is {text}, which is no port")
    return port


def _origin(text: str) -> str:
    """As browsers write it: no slash at the end, the host in small letters."""
    text = text.strip().rstrip("/")
    if text in ("", ANY, "null"):
        return text
    if not urlsplit(text).netloc:
        raise CredentialsRefused(
            f"API_SERVER_CORS_ORIGINS has {text}, which is no origin",
            hint="an origin looks like https://chat.example.com",
        )
    return text.lower()
