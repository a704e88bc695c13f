"""The memory provider of a session, made safe to call.

Every method is synchronous and takes no longer than its limit; the agent calls those that wait
from a worker thread. None raises because of the provider.
"""

import json
import logging
from typing import Any

import msgspec

from hermes.config.home import get_hermes_home
from hermes.core.errors import ToolError, ToolUnknown
from hermes.memory.guarded import Guarded
from hermes.memory.isolation import Limits, Tell
from hermes.memory.provider import Dict, Dicts, MemoryProvider
from hermes.memory.recalled import Scan, fenced, harmless, screened
from hermes.security.injection import scan

log = logging.getLogger(__name__)


class ManagerOptions(msgspec.Struct, frozen=True):
    limits: Limits = Limits()
    recall_chars: int = 4000
    """Most characters recalled into one turn."""
    prompt_chars: int = 2000
    """Most characters of the provider in the system prompt."""


class MemoryManager:
    """Holds at most one external provider. `tell` shows the user one line; it is called from any
    thread. Without it, lines go to the log."""

    def __init__(
        self,
        *,
        tell: Tell | None = None,
        options: ManagerOptions | None = None,
        scan: Scan = scan,
    ) -> None:
        self._options = options or ManagerOptions()
        self._limits = self._options.limits
        self._tell = tell or log.warning
        self._scan = scan
        self._held: Guarded | None = None
        self._schemas: Dicts = []

    @property
    def provider(self) -> MemoryProvider | None:
        """The provider, also when it is switched off."""
        return self._held.provider if self._held else None

    @property
    def active(self) -> bool:
        """Whether there is a provider that is still called."""
        return self._held is not None and not self._held.off

    def add_provider(self, provider: MemoryProvider) -> bool:
        """False, and a warning, when there is one already."""
        new = Guarded(provider, self._limits, self._tell)
        if self._held is not None:
            self._tell(f"the memory provider {new.name} is left out: {self._held.name} is in use")
            return False
        self._held = new
        return True

    def initialize_all(self, session_id: str, platform: str = "", **kwargs: Any) -> None:
        """Get the provider ready, and ask for its tools. One that is not set up, fails or takes
        too long is switched off for the session."""
        if (held := self._held) is None:
            return
        given = {"hermes_home": str(get_hermes_home()), "platform": platform, "tell": self._tell}
        try:
            if not held.start("is_available"):
                name = held.name
                held.switch_off(f"it is not set up; `hermes memory setup {name}` does that")
                return
            held.start("initialize", session_id, **{**given, **kwargs})
            self._schemas = held.start("get_tool_schemas")
        except ToolError as error:
            problem = str(error).removeprefix(f"the memory provider {held.name} ")
            held.switch_off(f"it {problem}")

    def build_system_prompt(self) -> str:
        """What the provider has to say in the system prompt; "" when nothing."""
        text = self._attempt("system_prompt_block", self._limits.turn) or ""
        return harmless(text, self._options.prompt_chars, self._scan)

    def prefetch_all(self, query: str, **kwargs: Any) -> str:
        """What is recalled for a user's message, fenced as data; "" when nothing, or too late."""
        text = self._attempt("prefetch", self._limits.turn, query, **kwargs) or ""
        return fenced(text, self._options.recall_chars, self._scan)

    def queue_prefetch_all(self, query: str, **kwargs: Any) -> None:
        self._later("queue_prefetch", query, **kwargs)

    def sync_all(self, user: str, assistant: str, **kwargs: Any) -> None:
        """A turn was completed. Returns at once."""
        self._later("sync_turn", user, assistant, **kwargs)

    def get_all_tool_schemas(self) -> Dicts:
        """As they were when the session began."""
        return list(self._schemas)

    def has_tool(self, name: str) -> bool:
        return any(schema["name"] == name for schema in self._schemas)

    def handle_tool_call(self, name: str, args: Dict, **kwargs: Any) -> str:
        """The result as JSON, also of a call that failed: `{"error": …}`."""
        try:
            return self.call_tool(name, args, **kwargs)
        except ToolError as error:
            return json.dumps({"error": str(error)}, ensure_ascii=False)

    def call_tool(self, name: str, args: Dict, **kwargs: Any) -> str:
        """The same, but a failure raises `ToolError`."""
        if self._held is None or not self.has_tool(name):
            raise ToolUnknown(f"there is no tool {name!r}")
        limit = self._limits.tool
        result: str = self._held.wait("handle_tool_call", limit, name, args, **kwargs)
        return screened(result, self._scan)

    def on_session_end(self, messages: Dicts) -> None:
        """Waits until the provider has seen it, and all before it."""
        self._attempt("on_session_end", self._limits.end, messages)

    def on_pre_compress(self, messages: Dicts) -> None:
        """`messages` must not change afterwards."""
        self._later("on_pre_compress", messages)

    def on_memory_write(self, action: str, target: str, content: str) -> None:
        self._later("on_memory_write", action, target, content)

    def on_delegation(self, task: str, result: str, **kwargs: Any) -> None:
        self._later("on_delegation", task, result, **kwargs)

    def shutdown_all(self) -> None:
        """Never waits for longer than its limit."""
        if self._held is not None:
            self._held.shut_down()

    def _attempt(self, method: str, seconds: float, *args: Any, **kwargs: Any) -> Any:
        return self._held.attempt(method, seconds, *args, **kwargs) if self._held else None

    def _later(self, method: str, *args: Any, **kwargs: Any) -> None:
        if self._held is not None:
            self._held.later(method, *args, **kwargs)
