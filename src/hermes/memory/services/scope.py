"""Under which names the memory of a user is kept by a service.

A profile has a namespace of its own, and each user in it a name of their own: what one of them said
is never found for another.
"""

import re

import msgspec

from hermes.config.home import Home
from hermes.core.errors import ConfigError
from hermes.memory.places import safe_name

OWNER = "owner"
"""Whoever set Hermes up; `safe_name` never makes this of an id."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Scope(msgspec.Struct, frozen=True):
    namespace: str
    """Of the profile."""
    user: str

    @property
    def flat(self) -> str:
        """Both in one, for services that know users only."""
        return f"{self.namespace}-{self.user}"


def scope_of(home: Home, namespace: str, user_id: str) -> Scope:
    """`namespace` is what the options say, empty for the usual one. Raises `ConfigError`."""
    if namespace and not _ID.fullmatch(namespace):
        raise ConfigError(
            f"the namespace {namespace!r} cannot be used",
            hint="use letters, digits, - and _, at most 100",
        )
    usual = "hermes" if home.is_default else f"hermes-{home.profile}"
    return Scope(namespace or usual, safe_name(user_id) if user_id else OWNER)


def safe_id(text: str) -> str:
    """`text` where it can be an id of a service, else a name made of it."""
    return text if _ID.fullmatch(text) else safe_name(text)
