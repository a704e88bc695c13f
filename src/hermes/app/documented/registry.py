"""`tools.registry`: where tools are registered and called by name."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from hermes.app.documented.process import process
from hermes.app.documented.workshop import as_json, error_json, workshop
from hermes.core.errors import HermesError
from hermes.tools import ToolEntry, discover_builtin
from hermes.tools import registry as ours
from hermes.util.threads import in_thread

__all__ = ["ToolEntry", "ToolRegistry", "discover_builtin_tools", "registry"]

Dict = dict[str, Any]
Handler = Callable[..., Any]


class ToolRegistry:
    """Over a registry of ours; without one it is a new one, whose tools only it can call."""

    def __init__(self, inner: ours.ToolRegistry | None = None) -> None:
        self._inner = inner or ours.ToolRegistry()
        self._handlers: dict[str, Handler] = {}

    def register(
        self,
        name: str,
        toolset: str,
        schema: Dict,
        handler: Handler,
        check_fn: Callable[[], bool] | None = None,
        requires_env: Iterable[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
    ) -> None:
        """`handler(args, **kwargs)` returns a JSON string. A name that is there is replaced."""
        self._inner.register(
            name, toolset, schema, handler, check_fn, requires_env, is_async, description, emoji
        )
        self._handlers[name] = handler

    def dispatch(self, name: str, args: Dict, **kwargs: Any) -> str:
        """The result as a JSON string; a failure is `{"error": …}`. Hooks do not hear of it. A
        handler registered here is called with `kwargs`; any other tool is under the policy of the
        settings."""
        if name in self._handlers:
            return process().run(_result(self._handlers[name], args, kwargs))
        if self._inner is not ours.registry:
            return error_json(f"there is no tool {name!r}")
        return workshop().call(name, args, str(kwargs.get("task_id") or ""), hooked=False)

    def get_definitions(self, tool_names: Iterable[str], quiet: bool = False) -> list[Dict]:  # noqa: ARG002 - documented
        """The schemas of those among `tool_names` that can be used, as OpenAI's API takes them."""
        wanted = sorted(set(tool_names))
        made = workshop().make(wanted, self._inner)
        specs = {tool.name: tool.spec for tool in (*made.tools, *made.rare)}
        return [
            {"type": "function", "function": msgspec.to_builtins(specs[name])}
            for name in wanted
            if name in specs
        ]

    def is_toolset_available(self, toolset: str) -> bool:
        """Whether at least one tool of it can be used here."""
        names = {entry.name for entry in self._inner.entries if entry.toolset == toolset}
        return bool(self.get_definitions(names))


async def _result(handler: Handler, args: Dict, kwargs: Dict) -> str:
    try:
        if inspect.iscoroutinefunction(handler):
            answer = await handler(args, **kwargs)
        else:
            answer = await in_thread(handler, args, **kwargs)
            if inspect.isawaitable(answer):
                answer = await answer
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    except HermesError as error:
        return error_json(str(error))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        return error_json(f"Tool execution failed: {type(error).__name__}: {error}")
    return as_json(text)


registry = ToolRegistry(ours.registry)
"""The one that conversations take their tools from."""


def discover_builtin_tools() -> list[str]:
    """Registers the tools that are shipped; the names of all that are registered then."""
    discover_builtin(ours.registry)
    return [entry.name for entry in ours.registry.entries]
