"""Base classes of memory providers over a service, with their options, scopes and texts, and the
HTTP client: bounded in time and size, with a circuit breaker.

A subclass implements how facts are searched, stored and removed at its service. Failures raise
`ServiceError` with one line that contains no secrets.
"""

import json
import logging
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from hermes.config import environment
from hermes.config.environment import read_dotenv
from hermes.config.home import Home, current_home, ensure_hermes_home, tilde
from hermes.core.errors import ConfigError, ToolError
from hermes.memory import (
    Dict,
    Dicts,
    MemoryProvider,
    MemoryScope,
    NoteFile,
    note_locations,
    safe_name,
    strip_fences,
)
from hermes.plugins import describe_error
from hermes.util import files
from hermes.util.circuit_breaker import CircuitBreaker
from hermes.util.http import HttpError, LateTls, fetch_blocking, is_header_value, is_loopback
from hermes.util.text import clean, many

log = logging.getLogger(__name__)

MAX_SENT_CHARS = 20_000  #: Longest message; services accept at most 25,000 characters.
MAX_QUERY_CHARS = 2_000
MAX_FOUND = 10  #: Number of results of a search tool.
MAX_LISTED = 1000  #: Largest number of entries requested at once.
MIRRORED_TARGETS = ("memory", "user", "project")
"""Notes that are passed on to the service; those on a chat belong to several users."""
LOCK_SECONDS = 10  #: How long to wait for a process that writes the notes.
OWNER = "owner"  #: Name of the user who set Hermes up; `safe_name` never returns it for an id.
MAX_FAILURES = 3  #: Consecutive failures after which the service is paused.
PAUSE, MAX_PAUSE = 60.0, 600.0  #: Seconds; each further failure doubles the pause.
WRITE_SECONDS = 30.0  #: Timeout for background writes.
SLOW_SECONDS = 25.0
"""Timeout for answers that a model of the service generates; a tool call waits 30 s."""
MAX_BYTES = 4 * 1024**2
RATE_PAUSE = 30.0
REFUSED_PAUSE = 600.0
_MAX_REASON_CHARS = 160
_RETRY_STATUSES = frozenset({502, 503, 504})
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")

T = TypeVar("T")


class ServiceError(ToolError):
    """A service refused or failed.

    `pause` is the number of seconds for which it must not be called; None counts as an ordinary
    failure.
    """

    def __init__(self, message: str, *, pause: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pause = pause


class ServiceNotFound(ServiceError):
    """The requested object does not exist; the service works."""


class ServicePaused(ServiceError):
    """The service was not called, because its circuit breaker is open."""


class ServiceCircuitBreaker:
    """Pauses a service after consecutive failures. Not thread-safe."""

    def __init__(self, service: str, now: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._breaker = CircuitBreaker(MAX_FAILURES, PAUSE, MAX_PAUSE, now)

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result. Raises `ServicePaused` while the service is paused."""
        if left := self._breaker.remaining:
            reason = self._breaker.reason
            raise ServicePaused(f"{self._service} is asked again in {left:.0f} s; {reason}")
        try:
            result = work()
        except ServiceNotFound:
            self._breaker.record_success()
            raise
        except ServiceError as error:
            self._breaker.record_failure(describe_error(error), error.pause)
            raise
        self._breaker.record_success()
        return result


class ServiceClient:
    """Client of one service at one address.

    `secret` never appears in an error; `remedy` is the hint when the service refuses it.
    """

    def __init__(
        self,
        service: str,
        base_url: str,
        headers: Mapping[str, str],
        *,
        secret: str = "",
        seconds: float = 4,
        remedy: str = "",
    ) -> None:
        base = parse_address(service, base_url)
        if not is_header_value(secret):
            raise ConfigError(
                f"the key of {service} contains invalid characters", hint=remedy or "set it again"
            )
        self.host = base.netloc.rpartition("@")[2]
        self._service, self._secret, self._remedy = service, secret, remedy
        self._seconds = seconds
        self._circuit = ServiceCircuitBreaker(service)
        import httpx2  # slow to load, and so are certificates

        secure = base.scheme == "https"
        tls: Any = httpx2.create_ssl_context() if secure else LateTls()
        self._client = httpx2.Client(
            base_url=base.geturl(),
            headers={"Accept": "application/json", **headers},
            trust_env=not is_loopback(base.hostname or ""),
            verify=tls,
        )

    def read(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Return the decoded answer; None if the object does not exist.

        A transient failure is retried once within the timeout. Raises `ServiceError`.
        """
        limit = seconds or self._seconds
        try:
            return self._circuit.run(lambda: self._retry_once(method, path, body, params, limit))
        except ServiceNotFound:
            return None

    def write(
        self, method: str, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None
    ) -> Any:
        """Like `read`, but never retried, because a write may have succeeded before the failure.
        Also raises `ServiceNotFound`."""
        return self._circuit.run(lambda: self._once(method, path, body, params, WRITE_SECONDS))

    def close(self) -> None:
        self._client.close()

    def _retry_once(self, method: str, path: str, body: Any, params: Any, limit: float) -> Any:
        begin = time.monotonic()
        try:
            return self._once(method, path, body, params, limit)
        except _TransientError:
            left = limit - (time.monotonic() - begin)
            if left < limit / 2:
                raise
        return self._once(method, path, body, params, left)

    def _once(self, method: str, path: str, body: Any, params: Any, limit: float) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            answer = fetch_blocking(
                self._client,
                method,
                path,
                content=content,
                params=params,
                headers=headers,
                seconds=limit,
                max_bytes=MAX_BYTES,
            )
            if not 200 <= answer.status < 300:
                raise self._refusal(answer.status, answer.headers, answer.body)
            return answer.json() if answer.body.strip() else None
        except HttpError as error:
            raise self._failure(error, limit) from error

    def _failure(self, error: HttpError, limit: float) -> ServiceError:
        cause = type(error.__cause__).__name__
        if error.kind == "unreachable" and cause != "ConnectError":
            return _TransientError(f"the connection to {self._who} broke ({cause})")
        if error.kind == "unreachable":
            why = ": its certificate is not trusted" if "CERTIFICATE" in str(error) else ""
            return _TransientError(f"{self._who} cannot be reached{why}")
        texts = {
            "timeout": f"did not answer within {limit:g} s",
            "too_large": "sends more than can be read",
            "not_json": "sent an answer that is not JSON",
        }
        return ServiceError(f"{self._who} {texts.get(error.kind, error)}")

    def _refusal(self, status: int, headers: Mapping[str, str], data: bytes) -> ServiceError:
        reason = self._reason(data)
        if status in (401, 403):
            text = f"{self._who} refused the key ({status}{reason})"
            return ServiceError(text, pause=REFUSED_PAUSE, hint=self._remedy)
        text = f"{self._who} answered {status}{reason}"
        if status == 404:
            return ServiceNotFound(text)
        if status == 429:
            return ServiceError(text, pause=_parse_retry_after(headers.get("retry-after", "")))
        if 300 <= status < 400:
            return ServiceError(text, hint="set base_url to the address of the service itself")
        return _TransientError(text) if status in _RETRY_STATUSES else ServiceError(text)

    def _reason(self, data: bytes) -> str:
        """Return the beginning of the service's error message, redacted, for the end of a text."""
        try:
            answer = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return ""
        text = " ".join(_message(answer).split())
        from hermes.security import Redactor

        redacted = Redactor([self._secret]).redact(text)
        return f": {redacted[:_MAX_REASON_CHARS]}" if redacted else ""

    @property
    def _who(self) -> str:
        return f"{self._service} at {self.host}"


class _TransientError(ServiceError):
    """A failure that a retry may solve."""


def parse_address(service: str, text: str) -> SplitResult:
    """Return the parsed address. Raises `ConfigError` unless it is an HTTP address."""
    with suppress(ValueError):
        base = urlsplit(text.strip().rstrip("/"))
        if base.scheme in ("http", "https") and base.hostname and base.port != 0:
            return base
    raise ConfigError(
        f"the address of {service} is not an HTTP address",
        hint="set base_url to something like http://localhost:8000",
    )


def quote_segment(text: str) -> str:
    """Quote `text` as one segment of a path."""
    return quote(text, safe="")


def _message(answer: Any, depth: int = 3) -> str:
    """Find the error message: services use different keys, sometimes nested."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, dict) and depth:
        keys = ("message", "detail", "error", "details")
        texts = (_message(answer.get(key), depth - 1) for key in keys)
        return next((text for text in texts if text), "")
    return ""


def _parse_retry_after(retry_after: str) -> float:
    return float(retry_after) if retry_after.isdecimal() else RATE_PAUSE


class ServiceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Contents of `<home>/<provider>.json`."""

    base_url: str = ""  #: Address of a self-hosted server; empty for the vendor's.
    namespace: str = ""  #: Namespace of this profile; empty for `hermes` or `hermes-<profile>`.
    recall_limit: int = 6  #: Maximum number of memories recalled into one turn.
    recall_chars: int = 1200  #: Maximum number of characters recalled into one turn.
    timeout: float = 4  #: How many seconds a turn waits for the service.


Kind = TypeVar("Kind", bound=msgspec.Struct)


def options_file(home: Home, name: str) -> Path:
    return home.root / f"{name}.json"


def read_options(home: Home, name: str, kind: type[Kind]) -> Kind:
    """Return the options, or defaults without a file. Raises `ConfigError` for an invalid file."""
    path = options_file(home, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            str(error), where=tilde(path), hint="fix the file or delete it"
        ) from error


def change_options(home: Home, name: str, kind: type[Kind], **values: Any) -> None:
    """Update `values` in the file. Raises `ConfigError`."""
    present = msgspec.to_builtins(read_options(home, name, kind))
    path = options_file(home, name)
    try:
        changed = msgspec.convert({**present, **values}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where=tilde(path), hint="give another value") from error
    text = msgspec.json.format(msgspec.json.encode(changed), indent=2)
    ensure_hermes_home(home)
    try:
        files.write_bytes(path, text + b"\n", mode=0o600)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=tilde(path)) from error


def read_variable(name: str, home: Home) -> str:
    """Return a variable from the home's .env, else from the process, else ""."""
    if not name:
        return ""
    saved = read_dotenv(home.env_file, environment.variables())
    return (saved.get(name) or environment.variable(name) or "").strip()


class ServiceScope(msgspec.Struct, frozen=True):
    """The names under which a service stores the memory of a user.

    Each profile has its own namespace and each user their own name in it, so that no user's
    statements are recalled for another.
    """

    namespace: str  #: Of the profile.
    user: str

    @property
    def flat(self) -> str:
        """Namespace and user in one, for services without namespaces."""
        return f"{self.namespace}-{self.user}"


def service_scope(home: Home, namespace: str, user_id: str) -> ServiceScope:
    """Return the scope of a user. An empty `namespace` stands for the default one.

    Raises `ConfigError` for an invalid namespace.
    """
    if namespace and not _ID.fullmatch(namespace):
        raise ConfigError(
            f"the namespace {namespace!r} cannot be used",
            hint="use letters, digits, - and _, at most 100",
        )
    default = "hermes" if home.is_default else f"hermes-{home.profile}"
    return ServiceScope(namespace or default, safe_name(user_id) if user_id else OWNER)


def safe_id(text: str) -> str:
    """Return `text` if it is a valid id, else an id derived from it."""
    return text if _ID.fullmatch(text) else safe_name(text)


def read_notes(home: Home) -> list[str]:
    """Return the owner's built-in notes: those of the agent and those about the user."""
    places = note_locations(home.memories, MemoryScope())
    files = (NoteFile(home.memories, places[target], LOCK_SECONDS) for target in ("memory", "user"))
    return [note for file in files for note in file.read()]


def redact_outgoing(text: str, limit: int = MAX_SENT_CHARS) -> str:
    """Return `text` as it may leave this machine: without recalled blocks and without secrets."""
    from hermes.security import Redactor

    return Redactor().redact(clean(strip_fences(text)).strip())[:limit]


def redact_query(text: str) -> str:
    return redact_outgoing(text, MAX_QUERY_CHARS)


def bullet_list(lines: Iterable[str], limit: int) -> str:
    """Return distinct lines as a list of at most `limit` characters.

    Lines that do not fit are left out; only the first one is shortened.
    """
    bullets: list[str] = []
    size = 0
    for line in dict.fromkeys(" ".join(line.split()) for line in lines):
        bullet = f"- {line}"
        if not bullets and len(bullet) > limit:
            bullet = f"{bullet[: max(limit - 1, 0)].rstrip()}…"
        if line and size + len(bullet) <= limit:
            bullets.append(bullet)
            size += len(bullet) + 1
    return "\n".join(bullets)


def objects_in(answer: Any, *keys: str) -> Dicts:
    """Return the list of objects below `keys` of an answer; empty for None.

    Raises `ServiceError` when the answer has another form.
    """
    for key in keys:
        answer = answer.get(key) if isinstance(answer, dict) else answer
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise ServiceError("the service answered in a form that is not understood")
    return [each for each in answer if isinstance(each, dict)]


def to_entry(raw: Dict, *keys: str, name: str = "id") -> Dict:
    """Return `{"id", "text"}` of an object, with the text of the first non-empty key."""
    texts = (raw.get(key) for key in keys)
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    return {"id": str(raw.get(name) or ""), "text": text.strip()}


class ServiceTool(msgspec.Struct, frozen=True):
    """A tool with one text argument, or none."""

    name: str
    description: str
    argument: str  #: "" for a tool without one.
    run: Callable[[Any, str], Dict]
    """Takes the provider and the text; returns the result for the model. May raise
    `ServiceError`."""

    def schema(self) -> Dict:
        parameters: Dict = {"type": "object", "properties": {}}
        if self.argument:
            parameters["properties"] = {self.argument: {"type": "string"}}
            parameters["required"] = [self.argument]
        return {"name": self.name, "description": self.description, "parameters": parameters}


class ServiceInfo(msgspec.Struct, frozen=True):
    """Constants of a service."""

    name: str
    title: str
    tools: tuple[ServiceTool, ...]
    key: str = ""  #: Environment variable of the API key.
    key_url: str = ""  #: Where the user gets a key.
    address: str = ""  #: Address of the vendor's server.
    address_variable: str = ""
    own_server: bool = False  #: Whether the service can be self-hosted; then it may need no key.


def search_tool(name: str) -> ServiceTool:
    def run(service: Any, query: str) -> Dict:
        return {"found": [each["text"] for each in service.search(redact_query(query), MAX_FOUND)]}

    return ServiceTool(name, "Search what is known of the user.", "query", run)


def store_tool(name: str) -> ServiceTool:
    def run(service: Any, fact: str) -> Dict:
        service.store_fact(fact)
        return {"kept": fact}

    return ServiceTool(name, "Keep a lasting fact about the user.", "fact", run)


class ServiceProvider(MemoryProvider):
    """A provider over a service, independent of how the service is reached.

    Failures raise `ServiceError`, which the manager reports once. While the circuit breaker pauses
    the service, calls do nothing instead.
    """

    info: ClassVar[ServiceInfo]
    options_type: ClassVar[type[ServiceOptions]] = ServiceOptions

    def __init__(self) -> None:
        self.options: Any = self.options_type()
        self._scope: ServiceScope | None = None
        self.session = ""
        self._queued: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def scope(self) -> ServiceScope:
        if self._scope is None:
            raise not_initialized(self.name)
        return self._scope

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        home = Home(Path(kwargs["hermes_home"]))
        self.options = read_options(home, self.name, self.options_type)
        scope = service_scope(home, self.options.namespace, str(kwargs.get("user_id") or ""))
        self.session = safe_id(session_id)
        self.connect(home, scope, str(kwargs.get("platform") or ""))
        self._scope = scope

    @abstractmethod
    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:
        """Prepare the client without sending anything."""

    @abstractmethod
    def search(self, query: str, limit: int) -> Dicts:
        """Return entries that match a query, best first: `{"id", "text"}`."""

    @abstractmethod
    def store_turn(self, session: str, user: str, assistant: str) -> None: ...

    @abstractmethod
    def store_fact(self, text: str) -> None:
        """Store one fact."""

    def remove_fact(self, text: str) -> None:
        """Remove a fact that was stored verbatim, if the service supports it."""

    def recall(self, query: str) -> Sequence[str]:
        """Return stored texts that are relevant to a message of the user."""
        return [each["text"] for each in self.search(query, self.options.recall_limit)]

    def recall_ahead(self, query: str) -> Sequence[str]:
        """Return texts for the turn after this message; runs in the background."""
        return self.recall(query)

    def tools(self) -> tuple[ServiceTool, ...]:
        return self.info.tools

    def get_tool_schemas(self) -> Dicts:
        return [tool.schema() for tool in self.tools()]

    def handle_tool_call(self, name: str, args: Dict, **_kwargs: Any) -> str:
        tool = next((tool for tool in self.tools() if tool.name == name), None)
        if tool is None:
            return super().handle_tool_call(name, args)
        text = str(args.get(tool.argument) or "").strip()
        if tool.argument and not text:
            return json.dumps({"error": f"{tool.argument} is empty"})
        try:
            result = tool.run(self, redact_outgoing(text))
        except ServiceError as error:
            result = {"error": describe_error(error)}
        return json.dumps(result, ensure_ascii=False)

    def system_prompt_block(self) -> str:
        names = [tool.name for tool in self.tools()]
        more = f" {names[0]} finds more." if names else ""
        return f"{self.info.title} remembers the user over sessions; what fits is recalled.{more}"

    def prefetch(self, query: str, **_kwargs: Any) -> str:
        """Recall for the message, then add what was recalled ahead after the previous turn.

        A follow-up such as "and the second one?" finds nothing by itself.
        """
        queued, self._queued = self._queued, ()
        lines: Sequence[str] = ()
        if redacted := redact_query(query):
            try:
                lines = self.recall(redacted)
            except ServicePaused:
                log.debug("memory provider %s is paused", self.name)
            except ServiceError as error:
                if not queued:
                    raise
                log.warning("memory provider %s: %s", self.name, error)
        return bullet_list((*lines, *queued), self.options.recall_chars)

    def queue_prefetch(self, query: str, **_kwargs: Any) -> None:
        self._queued = ()
        redacted = redact_query(query)
        with suppress(ServicePaused):
            self._queued = tuple(self.recall_ahead(redacted)) if redacted else ()

    def sync_turn(self, user: str, assistant: str, **kwargs: Any) -> None:
        session = safe_id(str(kwargs.get("session_id") or self.session))
        user, assistant = redact_outgoing(user), redact_outgoing(assistant)
        if user or assistant:
            with suppress(ServicePaused):
                self.store_turn(session, user, assistant)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        if target in MIRRORED_TARGETS and (text := redact_outgoing(content)):
            with suppress(ServicePaused):
                (self.remove_fact if action == "remove" else self.store_fact)(text)

    def save_config(self, values: Dict, hermes_home: str) -> None:
        if address := values.get("base_url"):
            parse_address(self.info.title, str(address))
        if values:
            change_options(Home(Path(hermes_home)), self.name, self.options_type, **values)


class HttpServiceProvider(ServiceProvider):
    """A service with an HTTP interface. It implements `Inspectable`."""

    def __init__(self) -> None:
        super().__init__()
        self._client: ServiceClient | None = None

    @property
    def client(self) -> ServiceClient:
        if self._client is None:
            raise not_initialized(self.name)
        return self._client

    def is_available(self) -> bool:
        home = current_home()
        if read_variable(self.info.key, home):
            return True
        own = read_options(home, self.name, self.options_type).base_url
        return self.info.own_server and bool(own or read_variable(self.info.address_variable, home))

    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:  # noqa: ARG002 - for adapters
        self._client = open_client(self.info, self.options, home, self.headers)

    def headers(self, key: str) -> Mapping[str, str]:
        return bearer_headers(key)

    def get_config_schema(self) -> Dicts:
        info = self.info
        key: Dict = {"key": "api_key", "description": f"Key for {info.title}", "secret": True}
        key |= {"env_var": info.key, "url": info.key_url, "required": not info.own_server}
        if not info.own_server:
            return [key]
        description = "Address of a server of your own; empty for the vendor's"
        return [key, {"key": "base_url", "description": description, "default": ""}]

    def shutdown(self) -> None:
        if self._client is not None:
            self._client.close()

    def remove_fact(self, text: str) -> None:
        for each in self.search(redact_query(text), MAX_FOUND):
            if each["text"] == text:
                self.forget(each["id"])

    @abstractmethod
    def list_entries(self, limit: int) -> Dicts:
        """Return stored entries, newest first if the service sorts them."""

    @abstractmethod
    def edit(self, entry_id: str, text: str) -> bool: ...

    @abstractmethod
    def forget(self, entry_id: str) -> bool: ...

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        limit = min(limit, MAX_LISTED)
        found = self.search(redact_query(query), limit) if query else self.list_entries(limit)
        return [each for each in found if each["text"]][:limit]

    def summary(self) -> str:
        limit = 100
        count = len(self.entries("", limit))
        number = f"{count} facts or more" if count >= limit else many(count, "fact")
        return f"{number} of {self.scope.flat} at {self.client.host}"


def not_initialized(name: str) -> ConfigError:
    return ConfigError(f"the memory provider {name} was not initialised")


def bearer_headers(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def open_client(
    info: ServiceInfo,
    options: ServiceOptions,
    home: Home,
    headers: Callable[[str], Mapping[str, str]] = bearer_headers,
) -> ServiceClient:
    """Return a client for the service; `headers` derives the headers from the key.

    Raises `ConfigError` for a missing or invalid address or key.
    """
    key = read_variable(info.key, home)
    address = options.base_url or read_variable(info.address_variable, home) or info.address
    if not address:
        raise ConfigError(
            f"{info.title} has no address",
            where=str(options_file(home, info.name)),
            hint="set base_url",
        )
    return ServiceClient(
        info.title,
        address,
        headers(key),
        secret=key,
        seconds=options.timeout,
        remedy=f"set {info.key} with `hermes memory setup {info.name}`",
    )
