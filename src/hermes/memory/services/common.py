"""A memory provider over a service: an adapter adds how the service is asked and told."""

import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from hermes.config.home import Home, current_home
from hermes.core.errors import ConfigError
from hermes.memory.isolation import said_by
from hermes.memory.provider import Dict, Dicts, MemoryProvider
from hermes.memory.services.about import MOST_FOUND, About, ServiceTool
from hermes.memory.services.circuit import Resting, ServiceError
from hermes.memory.services.http import Api, checked_address
from hermes.memory.services.options import (
    Options,
    change_options,
    options_file,
    read_options,
    variable,
)
from hermes.memory.services.scope import Scope, safe_id, scope_of
from hermes.memory.services.text import bullets, outgoing, question
from hermes.util.text import many

log = logging.getLogger(__name__)

MOST_LISTED = 1000
"""No service is asked for more at once."""
MIRRORED = ("memory", "user", "project")
"""Notes on a chat belong to all in it, not to the user."""


class Service(MemoryProvider):
    """What does not depend on how the service is reached. Failures raise `ServiceError`, which the
    manager tells once; while the service rests, nothing is raised."""

    about: ClassVar[About]
    kind: ClassVar[type[Options]] = Options

    def __init__(self) -> None:
        self.options: Any = self.kind()
        self._scope: Scope | None = None
        self.session = ""
        self._queued: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def scope(self) -> Scope:
        if self._scope is None:
            raise not_ready(self.name)
        return self._scope

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        home = Home(Path(kwargs["hermes_home"]))
        self.options = read_options(home, self.name, self.kind)
        scope = scope_of(home, self.options.namespace, str(kwargs.get("user_id") or ""))
        self.session = safe_id(session_id)
        self.connect(home, scope, str(kwargs.get("platform") or ""))
        self._scope = scope

    @abstractmethod
    def connect(self, home: Home, scope: Scope, platform: str) -> None:
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
            told = tool.run(self, outgoing(said))
        except ServiceError as error:
            told = {"error": said_by(error)}
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
        if asked := question(query):
            try:
                lines = self.recall(asked)
            except Resting:
                log.debug("memory provider %s rests", self.name)
            except ServiceError as error:
                if not queued:
                    raise
                log.warning("memory provider %s: %s", self.name, error)
        return bullets((*lines, *queued), self.options.recall_chars)

    def queue_prefetch(self, query: str, **_kwargs: Any) -> None:
        self._queued = ()
        asked = question(query)
        with suppress(Resting):
            self._queued = tuple(self.ponder(asked)) if asked else ()

    def sync_turn(self, user: str, assistant: str, **kwargs: Any) -> None:
        session = safe_id(str(kwargs.get("session_id") or self.session))
        said, answered = outgoing(user), outgoing(assistant)
        if said or answered:
            with suppress(Resting):
                self.learn_turn(session, said, answered)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        if target in MIRRORED and (text := outgoing(content)):
            with suppress(Resting):
                (self.unlearn if action == "remove" else self.learn)(text)

    def save_config(self, values: Dict, hermes_home: str) -> None:
        if address := values.get("base_url"):
            checked_address(self.about.title, str(address))
        if values:
            change_options(Home(Path(hermes_home)), self.name, self.kind, **values)


class HttpService(Service):
    """A service at an address. It can show what it holds: see `Inspectable`."""

    def __init__(self) -> None:
        super().__init__()
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        if self._api is None:
            raise not_ready(self.name)
        return self._api

    def is_available(self) -> bool:
        home = current_home()
        if variable(self.about.key, home):
            return True
        own = read_options(home, self.name, self.kind).base_url
        return self.about.own_server and bool(own or variable(self.about.address_variable, home))

    def connect(self, home: Home, scope: Scope, platform: str) -> None:  # noqa: ARG002 - for adapters
        self._api = open_api(self.about, self.options, home, self.headers)

    def headers(self, key: str) -> Mapping[str, str]:
        return bearer(key)

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
        for each in self.search(question(text), MOST_FOUND):
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
        most = min(limit, MOST_LISTED)
        found = self.search(question(query), most) if query else self.listed(most)
        return [each for each in found if each["text"]][:most]

    def summary(self) -> str:
        limit = 100
        count = len(self.entries("", limit))
        number = f"{count} facts or more" if count >= limit else many(count, "fact")
        return f"{number} of {self.scope.flat} at {self.api.host}"


def not_ready(name: str) -> ConfigError:
    return ConfigError(f"the memory provider {name} was not initialised")


def bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def open_api(
    about: About, options: Options, home: Home, headers: Callable[[str], Mapping[str, str]] = bearer
) -> Api:
    """`headers` makes them from the key. Raises `ConfigError`."""
    key = variable(about.key, home)
    address = options.base_url or variable(about.address_variable, home) or about.address
    if not address:
        raise ConfigError(
            f"{about.title} has no address",
            where=str(options_file(home, about.name)),
            hint="set base_url",
        )
    return Api(
        about.title,
        address,
        headers(key),
        secret=key,
        seconds=options.timeout,
        remedy=f"set {about.key} with `hermes memory setup {about.name}`",
    )
