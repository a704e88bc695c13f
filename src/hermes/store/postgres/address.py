"""Where the database is, from `store.url`."""

from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hermes.core.errors import ConfigError

_UNLESS_GIVEN: dict[str, Any] = {
    "application_name": "hermes",
    "connect_timeout": 10,
    # A machine that vanished without a word is noticed in about a minute.
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


def parameters_of(url: str) -> dict[str, Any]:
    """The parameters of a connection. What the URL leaves out is sensible here; libpq's own
    variables and files (`PGHOST`, `~/.pgpass`, …) fill in the rest. Raises `ConfigError`."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # What the parser says may quote the password, so it is not shown.
        raise ConfigError(
            "store.url is not a PostgreSQL address",
            hint="It has the form postgresql://user:password@host:5432/database; "
            "write special characters of the password as %XX.",
        ) from None
    return {**_UNLESS_GIVEN, **given, "client_encoding": "UTF8"}


def shown(parameters: dict[str, Any]) -> str:
    """The address for messages and commands, without any secret."""
    text = {name: quote(str(parameters.get(name, "")), safe=",:") for name in _SHOWN}
    user = f"{text['user']}@" if text["user"] else ""
    several = "," in text["host"]
    host = f"[{text['host']}]" if ":" in text["host"] and not several else text["host"]
    port = f":{text['port']}" if text["port"] and not several else ""
    return f"postgresql://{user}{host}{port}/{text['dbname']}"


_SHOWN = ("user", "host", "port", "dbname")
