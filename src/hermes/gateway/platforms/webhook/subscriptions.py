"""WebhookRoutes: those of config.yaml, and those that `hermes webhook subscribe` keeps in a file.

The file is `<home>/webhook_subscriptions.json`, an object of routes by name. It holds secrets, so
only its owner may read it. It is read again when it changes.
"""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.environment import describe_unset, unset_names
from hermes.config.own_files import write_own
from hermes.config.settings.platforms import WebhookExtra
from hermes.core.errors import ConfigError, UsageError

log = logging.getLogger(__name__)

FILE = "webhook_subscriptions.json"
NO_AUTH = "INSECURE_NO_AUTH"
"""The secret of a route that accepts unsigned requests; only allowed on loopback."""

LOOPBACK_HINT = "hermes config set platforms.webhook.extra.host 127.0.0.1"
SHORT_SECRET = 16  #: Number of characters below which a secret is reported as short.

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class WebhookRoute(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    events: tuple[str, ...] = ()  #: Accepted event types; empty means all.
    secret: str = ""  #: The secret that signs requests; "" uses the common secret.
    prompt: str = ""
    """`{dot.path}` is a value of the request, `{__raw__}` or "" all of it."""
    skills: tuple[str, ...] = ()  #: Skills that the agent loads first.
    deliver: str = "log"
    """Where the reply goes: `log`, `github_comment`, or a chat: `telegram`, `telegram:-100:17`."""
    deliver_extra: dict[str, Any] = {}
    """`repo` and `pr_number` of github_comment, `chat_id` and `thread_id` of a chat; they may
    contain `{dot.path}`."""
    deliver_only: bool = False  #: True if the text is delivered as it is, without the agent.
    description: str = ""
    created_at: str = ""


def common_secret(extra: WebhookExtra, unset: Callable[[str], tuple[str, ...]]) -> str:
    """Return the secret of routes without their own; unset references stay as `${NAME}`, so that
    `secret_problem` can report them."""
    return extra.secret or "".join(f"${{{name}}}" for name in unset("WEBHOOK_SECRET"))


def secret_problem(secret: str, *, on_loopback: bool) -> str:
    """Return why a signature with this secret proves nothing; "" if it does."""
    if not secret:
        return "it has no secret: give it one, or set WEBHOOK_SECRET"
    if names := unset_names(secret):
        return f"its secret is missing: {describe_unset(names)}"
    if secret == NO_AUTH:
        return "" if on_loopback else f"{NO_AUTH} is for loopback only: {LOOPBACK_HINT}"
    return ""


def secret_warning(secret: str) -> str:
    if secret == NO_AUTH:
        return f"accepts unsigned calls: {NO_AUTH}"
    if len(secret) < SHORT_SECRET:
        return f"has a secret of fewer than {SHORT_SECRET} characters, which can be guessed"
    return ""


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a route",
            hint="use letters, digits, - and _, at most 64, for example: github-issues",
        )


def parse_route(name: str, raw: Any, where: str = "") -> WebhookRoute:
    """Convert a route of a file. Raises `ConfigError`."""
    try:
        check_name(name)
        return msgspec.convert(raw, WebhookRoute)
    except (UsageError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"webhook route {name!r}: {error}",
            where=where,
            hint=f"a route has {', '.join(WebhookRoute.__struct_fields__)}",
        ) from None


def load_routes(path: Path) -> dict[str, WebhookRoute]:
    """Read the routes of the file; empty if it does not exist. Raises `ConfigError`."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", where=str(path), hint="correct it or delete it"
        ) from None
    if not isinstance(found, dict):
        raise ConfigError("is not an object of routes by name", where=str(path))
    return {name: parse_route(name, raw, str(path)) for name, raw in found.items()}


def save_routes(path: Path, routes: Mapping[str, WebhookRoute]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(dict(routes)), indent=2)
    write_own(path.parent, path, text + b"\n", mode=0o600)


class WebhookRoutes:
    """The routes of config.yaml and of the file. An unreadable file changes nothing."""

    def __init__(self, fixed: Mapping[str, WebhookRoute], path: Path) -> None:
        self._fixed, self._path = fixed, path
        self._kept: dict[str, WebhookRoute] = {}
        self._seen: tuple[int, ...] | None = ()

    def get(self, name: str) -> WebhookRoute | None:
        return self.all().get(name)

    def all(self) -> dict[str, WebhookRoute]:
        seen = self._stamp()
        if seen != self._seen:
            self._seen = seen
            try:
                self._kept = load_routes(self._path)
            except ConfigError as error:
                log.error("the webhook subscriptions stay as they were: %s", error)
        return {**self._kept, **self._fixed}

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
