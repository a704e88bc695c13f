"""Every secret that can be found in a home, so that it can be taken out of a report."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from hermes.config import dotenv, environment
from hermes.config.home import Home
from hermes.config.keys import Parts
from hermes.config.loader import SHORTEST_SECRET, Loaded
from hermes.config.masking import is_secret_setting, is_secret_variable
from hermes.config.variables import key_of
from hermes.core.errors import ConfigError

FILES = ("auth.json", "mcp-tokens/*.json", "pairing/*.json", "*.json")
"""Where secrets are, beside config.yaml and .env."""
_NAMED = re.compile(r"(?i)token|secret|key|passw|credential|code|verifier|cookie|auth")
_NOT_SECRET = re.compile(r"(?:https?://\S*|true|false|[\w-]{0,5}|env:\w+|api_key|oauth|manual)")

_PARAMETER = re.compile(r"[?&]([\w.-]+)=([^&\s#]+)")
_PASSWORD = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")


def known_secrets(home: Home, loaded: Loaded | None) -> frozenset[str]:
    """Values of variables, settings, logins and tokens. A file that cannot be read has none."""
    found = {*_of_variables(home), *_of_files(home)}
    if loaded is not None:
        found |= loaded.secrets()
        found |= set(_in_settings(loaded.raw, ()))
    return frozenset(value for value in found if len(value) >= SHORTEST_SECRET)


def _of_variables(home: Home) -> Iterator[str]:
    """Everything in .env but our own settings, and what is named a secret in the environment."""
    try:
        saved = dotenv.read_dotenv(home.env_file, environment.variables())
    except ConfigError:  # not readable, so it is not in a report either
        saved = {}
    yield from (value for name, value in saved.items()
                if is_secret_variable(name) or not key_of(name))  # fmt: skip
    for name, value in environment.variables().items():
        if is_secret_variable(name):
            yield value


def _of_files(home: Home) -> Iterator[str]:
    for path in dict.fromkeys(path for pattern in FILES for path in home.root.glob(pattern)):
        yield from _in_json(_json(path), named=False)


def _json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _in_json(value: Any, *, named: bool) -> Iterator[str]:
    """Texts below a name that says secret, but for what is plainly none."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _in_json(held, named=bool(_NAMED.search(str(key))))
    elif isinstance(value, list):
        for held in value:
            yield from _in_json(held, named=named)
    elif isinstance(value, str) and named and not _NOT_SECRET.fullmatch(value):
        yield value


def _in_settings(value: Any, parts: Parts) -> Iterator[str]:
    """config.yaml also has blocks of plugins that are no settings of ours."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _in_settings(held, (*parts, str(key)))
    elif isinstance(value, list):
        yield from _behind_flags([str(held) for held in value])
        for held in value:
            yield from _in_settings(held, parts)
    elif isinstance(value, str):
        if parts and is_secret_setting(parts):
            yield value
        yield from _in_address(value)
        yield from _behind_flags(value.split())


def _in_address(text: str) -> Iterator[str]:
    """The password of a user, and values that the address itself names a secret."""
    for name, value in _PARAMETER.findall(text):
        if _NAMED.search(name):
            yield from (value, unquote(value))
    yield from (unquote(password) for password in _PASSWORD.findall(text))


def _behind_flags(words: Sequence[str]) -> Iterator[str]:
    """`--api-key X` and `--api-key=X` in the command of a server or a hook."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-") and _NAMED.search(word):
            name, equals, value = word.partition("=")
            yield from (each for each in (value if equals else after,) if each != name)
