"""A memory provider over a service: an adapter adds how the service is asked and told."""

import json
import logging
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from hermes.config import environment
from hermes.config.dotenv import read_dotenv
from hermes.config.home import Home, current_home, ensure_hermes_home, tilde
from hermes.core.errors import ConfigError
from hermes.memory.isolation import describe_error
from hermes.memory.manager import strip_fences
from hermes.memory.notes import safe_name
from hermes.memory.provider import Dict, Dicts, MemoryProvider
from hermes.memory.services.http import ServiceClient, ServiceError, ServicePaused, parse_address
from hermes.util import atomic
from hermes.util.text import clean, many

# `<home>/<provider>.json`, and keys: what can be set of a service.

HINT = "correct the file or delete it"


class ServiceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    base_url: str = ""
    """Address of a server of one's own; empty: the vendor's."""
    namespace: str = ""
    """What all of this profile is kept under; empty: `hermes`, or `hermes-<profile>`."""
    recall_limit: int = 6
    """Most memories recalled into one turn."""
    recall_chars: int = 1200
    """Most characters of them."""
    timeout: float = 4
    """How many seconds a turn waits for the service."""


Kind = TypeVar("Kind", bound=ServiceOptions)


def options_file(home: Home, name: str) -> Path:
    return home.root / f"{name}.json"


def read_options(home: Home, name: str, kind: type[Kind]) -> Kind:
    """Raises `ConfigError` when the file is there and cannot be used."""
    path = options_file(home, name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return kind()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(str(error), where=tilde(path), hint=HINT) from error


def change_options(home: Home, name: str, kind: type[Kind], **values: Any) -> Kind:
    """Put `values` into the file; the rest of it stays. Raises `ConfigError`."""
    held = msgspec.to_builtins(read_options(home, name, kind))
    path = options_file(home, name)
    try:
        changed = msgspec.convert({**held, **values}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), where=tilde(path), hint="give another value") from error
    text = msgspec.json.format(msgspec.json.encode(changed), indent=2)
    ensure_hermes_home(home)
    try:
        atomic.write_bytes(path, text + b"\n", mode=0o600)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=tilde(path)) from error
    return changed


def read_variable(name: str, home: Home) -> str:
    """A variable saved in the home's .env, else that of the process; empty when it is not set."""
    if not name:
        return ""
    saved = read_dotenv(home.env_file, environment.variables())
    return (saved.get(name) or environment.variable(name) or "").strip()


# Under which names the memory of a user is kept by a service.
#
# A profile has a namespace of its own, and each user in it a name of their own: what one of them
# said
# is never found for another.

OWNER = "owner"
"""Whoever set Hermes up; `safe_name` never makes this of an id."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class ServiceScope(msgspec.Struct, frozen=True):
    namespace: str
    """Of the profile."""
    user: str

    @property
    def flat(self) -> str:
        """Both in one, for services that know users only."""
        return f"{self.namespace}-{self.user}"


def service_scope(home: Home, namespace: str, user_id: str) -> ServiceScope:
    """`namespace` is what the options say, empty for the usual one. Raises `ConfigError`."""
    if namespace and not _ID.fullmatch(namespace):
        raise ConfigError(
            f"the namespace {namespace!r} cannot be used",
            hint="use letters, digits, - and _, at most 100",
        )
    usual = "hermes" if home.is_default else f"hermes-{home.profile}"
    return ServiceScope(namespace or usual, safe_name(user_id) if user_id else OWNER)


def safe_id(text: str) -> str:
    """`text` where it can be an id of a service, else a name made of it."""
    return text if _ID.fullmatch(text) else safe_name(text)


# What is sent to a service, and what is shown of its answers.

MAX_SENT_CHARS = 20_000
"""Characters of one message; services take no more than 25,000."""
MAX_QUERY_CHARS = 2_000
"""Characters of a search."""


def redact_outgoing(text: str, limit: int = MAX_SENT_CHARS) -> str:
    """`text` as it may leave this machine: without what was recalled into it, without keys."""
    own = clean(strip_fences(text)).strip()
    kept: str = import_module("hermes.security.redaction").Redactor().redact(own)
    return kept[:limit]


def redact_query(text: str) -> str:
    return redact_outgoing(text, MAX_QUERY_CHARS)


def bullet_list(lines: Iterable[str], limit: int) -> str:
    """Each line once, as a list of at most `limit` characters. What does not fit is left out; of
    the first line, what fits is kept."""
    shown: list[str] = []
    size = 0
    for line in dict.fromkeys(" ".join(line.split()) for line in lines):
        bullet = f"- {line}"
        if not shown and len(bullet) > limit:
            bullet = f"{bullet[: max(limit - 1, 0)].rstrip()}…"
        if line and size + len(bullet) <= limit:
            shown.append(bullet)
            size += len(bullet) + 1
    return "\n".join(shown)


def objects_in(answer: Any, *keys: str) -> Dicts:
    """The list of objects below `keys` of an answer; none when there was no answer. Raises
    `ServiceError` when the answer has another form."""
    for key in keys:
        answer = answer.get(key) if isinstance(answer, dict) else answer
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise ServiceError("the service answered in a form that is not understood")
    return [each for each in answer if isinstance(each, dict)]


def to_entry(said: Dict, *keys: str, name: str = "id") -> Dict:
    """`{"id", "text"}` of an object, the text from the first of `keys` that holds one."""
    texts = (said.get(key) for key in keys)
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    return {"id": str(said.get(name) or ""), "text": text.strip()}


# The facts about a service, and the tools it brings.

MAX_FOUND = 10
"""By a tool."""


class ServiceTool(msgspec.Struct, frozen=True):
    """A tool with one text to say."""

    name: str
    description: str
    argument: str
    run: Callable[[Any, str], Dict]
    """Takes the provider and the text; returns what is told to the model. May raise
    `ServiceError`."""

    def schema(self) -> Dict:
        properties = {self.argument: {"type": "string"}}
        parameters = {"type": "object", "properties": properties, "required": [self.argument]}
        return {"name": self.name, "description": self.description, "parameters": parameters}


class ServiceInfo(msgspec.Struct, frozen=True):
    name: str
    title: str
    tools: tuple[ServiceTool, ...]
    key: str = ""
    """The variable of its key."""
    key_url: str = ""
    """Where to get one."""
    address: str = ""
    """Of the vendor's server."""
    address_variable: str = ""
    own_server: bool = False
    """Whether people run their own, which may need no key."""


def search_tool(name: str) -> ServiceTool:
    def run(service: Any, query: str) -> Dict:
        return {"found": [each["text"] for each in service.search(redact_query(query), MAX_FOUND)]}

    return ServiceTool(name, "Search what is known of the user.", "query", run)


def store_tool(name: str) -> ServiceTool:
    def run(service: Any, fact: str) -> Dict:
        service.learn(fact)
        return {"kept": fact}

    return ServiceTool(name, "Keep a lasting fact about the user.", "fact", run)


log = logging.getLogger(__name__)

MAX_LISTED = 1000
"""No service is asked for more at once."""
MIRRORED_TARGETS = ("memory", "user", "project")
"""Notes on a chat belong to all in it, not to the user."""


class ServiceProvider(MemoryProvider):
    """What does not depend on how the service is reached. Failures raise `ServiceError`, which the
    manager tells once; while the service rests, nothing is raised."""

    about: ClassVar[ServiceInfo]
    kind: ClassVar[type[ServiceOptions]] = ServiceOptions

    def __init__(self) -> None:
        self.options: Any = self.kind()
        self._scope: ServiceScope | None = None
        self.session = ""
        self._queued: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def scope(self) -> ServiceScope:
        if self._scope is None:
            raise not_initialized(self.name)
        return self._scope

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        home = Home(Path(kwargs["hermes_home"]))
        self.options = read_options(home, self.name, self.kind)
        scope = service_scope(home, self.options.namespace, str(kwargs.get("user_id") or ""))
        self.session = safe_id(session_id)
        self.connect(home, scope, str(kwargs.get("platform") or ""))
        self._scope = scope

    @abstractmethod
    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:
        """Get ready; nothing is sent yet."""

    @abstractmethod
    def search(self, query: str, limit: int) -> Dicts:
        """What is kept about a question, the best first: `{"id", "text"}`."""

    @abstractmethod
    def learn_turn(self, session: str, user: str, assistant: str) -> None: ...

    @abstractmethod
    def learn(self, text: str) -> None:
        """Keep one fact."""

    def unlearn(self, text: str) -> None:
        """Forget a fact that was learnt word by word, where the service lets us."""

    def recall(self, query: str) -> Sequence[str]:
        """What belongs to a message of the user."""
        return [each["text"] for each in self.search(query, self.options.recall_limit)]

    def ponder(self, query: str) -> Sequence[str]:
        """What may matter after a message; nobody waits for it."""
        return self.recall(query)

    def tools(self) -> tuple[ServiceTool, ...]:
        return self.about.tools

    def get_tool_schemas(self) -> Dicts:
        return [tool.schema() for tool in self.tools()]

    def handle_tool_call(self, name: str, args: Dict, **_kwargs: Any) -> str:
        tool = next((tool for tool in self.tools() if tool.name == name), None)
        if tool is None:
            return super().handle_tool_call(name, args)
        said = str(args.get(tool.argument) or "").strip()
        if not said:
            return json.dumps({"error": f"{tool.argument} is empty"})
        try:
            told = tool.run(self, redact_outgoing(said))
        except ServiceError as error:
            told = {"error": describe_error(error)}
        return json.dumps(told, ensure_ascii=False)

    def system_prompt_block(self) -> str:
        names = [tool.name for tool in self.tools()]
        more = f" {names[0]} finds more." if names else ""
        return f"{self.about.title} remembers the user over sessions; what fits is recalled.{more}"

    def prefetch(self, query: str, **_kwargs: Any) -> str:
        """What fits the message, and then what fitted the turn before: "and the second one?" finds
        nothing by itself."""
        queued, self._queued = self._queued, ()
        lines: Sequence[str] = ()
        if asked := redact_query(query):
            try:
                lines = self.recall(asked)
            except ServicePaused:
                log.debug("memory provider %s rests", self.name)
            except ServiceError as error:
                if not queued:
                    raise
                log.warning("memory provider %s: %s", self.name, error)
        return bullet_list((*lines, *queued), self.options.recall_chars)

    def queue_prefetch(self, query: str, **_kwargs: Any) -> None:
        self._queued = ()
        asked = redact_query(query)
        with suppress(ServicePaused):
            self._queued = tuple(self.ponder(asked)) if asked else ()

    def sync_turn(self, user: str, assistant: str, **kwargs: Any) -> None:
        session = safe_id(str(kwargs.get("session_id") or self.session))
        said, answered = redact_outgoing(user), redact_outgoing(assistant)
        if said or answered:
            with suppress(ServicePaused):
                self.learn_turn(session, said, answered)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        if target in MIRRORED_TARGETS and (text := redact_outgoing(content)):
            with suppress(ServicePaused):
                (self.unlearn if action == "remove" else self.learn)(text)

    def save_config(self, values: Dict, hermes_home: str) -> None:
        if address := values.get("base_url"):
            parse_address(self.about.title, str(address))
        if values:
            change_options(Home(Path(hermes_home)), self.name, self.kind, **values)


class HttpServiceProvider(ServiceProvider):
    """A service at an address. It can show what it holds: see `Inspectable`."""

    def __init__(self) -> None:
        super().__init__()
        self._api: ServiceClient | None = None

    @property
    def api(self) -> ServiceClient:
        if self._api is None:
            raise not_initialized(self.name)
        return self._api

    def is_available(self) -> bool:
        home = current_home()
        if read_variable(self.about.key, home):
            return True
        own = read_options(home, self.name, self.kind).base_url
        return self.about.own_server and bool(
            own or read_variable(self.about.address_variable, home)
        )

    def connect(self, home: Home, scope: ServiceScope, platform: str) -> None:  # noqa: ARG002 - for adapters
        self._api = open_client(self.about, self.options, home, self.headers)

    def headers(self, key: str) -> Mapping[str, str]:
        return bearer_headers(key)

    def get_config_schema(self) -> Dicts:
        about = self.about
        key: Dict = {"key": "api_key", "description": f"Key for {about.title}", "secret": True}
        key |= {"env_var": about.key, "url": about.key_url, "required": not about.own_server}
        if not about.own_server:
            return [key]
        description = "Address of a server of your own; empty for the vendor's"
        return [key, {"key": "base_url", "description": description, "default": ""}]

    def shutdown(self) -> None:
        if self._api is not None:
            self._api.close()

    def unlearn(self, text: str) -> None:
        for each in self.search(redact_query(text), MAX_FOUND):
            if each["text"] == text:
                self.forget(each["id"])

    @abstractmethod
    def listed(self, limit: int) -> Dicts:
        """What is kept, the newest first as far as the service sorts it."""

    @abstractmethod
    def edit(self, entry_id: str, text: str) -> bool: ...

    @abstractmethod
    def forget(self, entry_id: str) -> bool: ...

    def entries(self, query: str = "", limit: int = 100) -> Dicts:
        most = min(limit, MAX_LISTED)
        found = self.search(redact_query(query), most) if query else self.listed(most)
        return [each for each in found if each["text"]][:most]

    def summary(self) -> str:
        limit = 100
        count = len(self.entries("", limit))
        number = f"{count} facts or more" if count >= limit else many(count, "fact")
        return f"{number} of {self.scope.flat} at {self.api.host}"


def not_initialized(name: str) -> ConfigError:
    return ConfigError(f"the memory provider {name} was not initialised")


def bearer_headers(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def open_client(
    about: ServiceInfo,
    options: ServiceOptions,
    home: Home,
    headers: Callable[[str], Mapping[str, str]] = bearer_headers,
) -> ServiceClient:
    """`headers` makes them from the key. Raises `ConfigError`."""
    key = read_variable(about.key, home)
    address = options.base_url or read_variable(about.address_variable, home) or about.address
    if not address:
        raise ConfigError(
            f"{about.title} has no address",
            where=str(options_file(home, about.name)),
            hint="set base_url",
        )
    return ServiceClient(
        about.title,
        address,
        headers(key),
        secret=key,
        seconds=options.timeout,
        remedy=f"set {about.key} with `hermes memory setup {about.name}`",
    )
