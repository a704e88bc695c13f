"""Which names hold secrets, and showing a value without giving it away."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.config.expand import is_reference
from hermes.config.keys import Parts

MARKERS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "PASSWD", "AUTH")
"""A variable whose name contains one of these is taken for a secret."""

PLAIN = frozenset(
    {
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_DATE",
        "KEYTIMEOUT",
        "PYTHON_KEYRING_BACKEND",
        "TERMINAL_SSH_KEY",
        "TOKENIZERS_PARALLELISM",
    }
)
"""Names that contain a marker but hold a path, a name or a number. Without the first ones
`git push`, `git commit` and graphical programs stop working in child processes."""

_SETTINGS = re.compile(r"(^|_)(api_key|key|token|secret|password|passwd|credential)$")
_NOT_SECRET = frozenset({"record_key", "ssh_key"})
_BLOCKS = frozenset({"env", "headers"})
"""Blocks of an MCP server in which every value may be a secret."""
_USERINFO = re.compile(r"(?<=://)([^/@\s:]*):([^/@\s]+)@")


def is_secret_variable(name: str) -> bool:
    upper = name.upper()
    return upper not in PLAIN and any(marker in upper for marker in MARKERS)


def is_secret_setting(parts: Parts) -> bool:
    last = parts[-1].lower()
    if last in _NOT_SECRET:
        return False
    in_block = len(parts) > 1 and parts[0] == "mcp_servers" and parts[-2] in _BLOCKS
    return in_block or bool(_SETTINGS.search(last)) or is_secret_variable_like(parts[-1])


def is_secret_variable_like(name: str) -> bool:
    """A key written as a variable, for example inside `skills.config` or `env`."""
    return name.isupper() and is_secret_variable(name)


def mask(value: str) -> str:
    """Enough to recognise a long key by, nothing of a short one."""
    if not value or is_reference(value):
        return value
    return f"{value[:4]}…{value[-4:]}" if len(value) >= 20 else "********"


def mask_settings(value: Any, secrets: frozenset[str] = frozenset(), parts: Parts = ()) -> Any:
    """Plain data of `value` with secret settings, known secrets and passwords in URLs masked."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        return {
            str(key): mask_settings(held, secrets, (*parts, str(key)))
            for key, held in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask_settings(held, secrets, (*parts, str(at))) for at, held in enumerate(value)]
    if not isinstance(value, str):
        return value
    if value in secrets or (parts and is_secret_setting(parts)):
        return mask(value)
    return _USERINFO.sub(r"\1:********@", value)
