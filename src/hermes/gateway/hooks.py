"""Gateway hooks: user code that is called on gateway events.

A hook is a folder with HOOK.yaml and handler.py, in `builtin_hooks/` of this package or in
`<home>/hooks/`. HOOK.yaml has the name of the hook and its events; `handle(event_type, context)` of
handler.py is called for each, async or not. The event `command:*` means every command. A hook that
fails or takes too long is logged; the gateway continues.
"""

import asyncio
import importlib.util
import inspect
import logging
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from hermes import gateway
from hermes.core.events import Event, ModelCalled, ToolFinished, TurnFinished, TurnStarted
from hermes.sdk.platforms import SessionSource
from hermes.util.yaml_loader import load_yaml

log = logging.getLogger(__name__)

EVENTS = (
    "gateway:startup", "session:start", "session:end", "session:reset", "agent:start",
    "agent:step", "agent:end",
)  # fmt: skip
COMMANDS = "command:"
SECONDS = 30.0
BUILTIN = Path(gateway.__path__[0])

Handler = Callable[[str, dict[str, Any]], Any]


class Hook(msgspec.Struct, frozen=True):
    name: str
    events: tuple[str, ...]
    handle: Handler


class HookRegistry:
    def __init__(self, hooks: tuple[Hook, ...] = ()) -> None:
        self.hooks = hooks
        self._running: set[asyncio.Task[None]] = set()

    @classmethod
    def load(
        cls, folder: Path, tell: Callable[[str], None], *, builtin: Path = BUILTIN
    ) -> "HookRegistry":
        """Load the built-in hooks, then those of the user in `folder`. `tell` receives a message
        for each hook that cannot be loaded."""
        found: list[Hook] = []
        for each in (*sorted(builtin.glob("*/HOOK.yaml")), *sorted(folder.glob("*/HOOK.yaml"))):
            try:
                found.append(_load_hook(each.parent))
            except Exception as error:  # noqa: BLE001 - a hook is user code
                tell(f"hook {each.parent.name} is left out: {type(error).__name__}: {error}")
        return cls(tuple(found))

    async def fire(self, event: str, **facts: object) -> None:
        """Start all hooks that listen to an event, without waiting for them."""
        for hook in self.hooks:
            if any(fnmatchcase(event, each) for each in hook.events):
                task = asyncio.ensure_future(_run_hook(hook, event, dict(facts)))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        if self._running:
            await asyncio.wait(set(self._running), timeout=SECONDS)


def about(source: SessionSource, key: str) -> dict[str, object]:
    """Return the facts that every event of a chat has."""
    return {"platform": source.platform, "user_id": source.user_id, "session_key": key}


class TurnEvents:
    """Reports the events of one turn to the hooks."""

    def __init__(self, hooks: HookRegistry, facts: dict[str, object]) -> None:
        self._hooks, self._facts = hooks, facts
        self._names: list[str] = []  #: Tools that were called since the last model call.
        self._steps = 0

    async def see(self, event: Event) -> None:
        if isinstance(event, ModelCalled | TurnFinished) and self._names:
            names, self._names = self._names, []
            self._steps += 1
            await self._fire("agent:step", iteration=self._steps, tool_names=names)
        match event:
            case TurnStarted():
                await self._fire("agent:start", session_id=event.session_id)
            case ToolFinished():
                self._names.append(event.name)
            case TurnFinished():
                ended = {"session_id": event.session_id, "response": event.text}
                await self._fire("agent:end", **ended, failed=event.failed)
            case _:
                pass

    async def _fire(self, event: str, **more: object) -> None:
        await self._hooks.fire(event, **self._facts, **more)


async def _run_hook(hook: Hook, event: str, context: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            if inspect.iscoroutinefunction(hook.handle):
                await hook.handle(event, context)
            else:
                await asyncio.to_thread(hook.handle, event, context)
    except TimeoutError:
        log.warning("hook %s took more than %.0f seconds for %s", hook.name, SECONDS, event)
    except Exception as error:  # noqa: BLE001 - a hook is user code
        log.warning("hook %s failed at %s: %s: %s", hook.name, event, type(error).__name__, error)


def _load_hook(folder: Path) -> Hook:
    about = load_yaml((folder / "HOOK.yaml").read_text(encoding="utf-8"))
    if not isinstance(about, dict):
        raise TypeError("HOOK.yaml has no name and events")
    named = about.get("events") or ()
    events = (named,) if isinstance(named, str) else tuple(str(each) for each in named)
    unknown = [each for each in events if each not in EVENTS and not each.startswith(COMMANDS)]
    if unknown or not events:
        known = ", ".join((*EVENTS, f"{COMMANDS}*"))
        raise ValueError(f"events {', '.join(unknown) or 'are missing'}; there are {known}")
    file = folder / "handler.py"
    spec = importlib.util.spec_from_file_location(f"hermes_gateway_hook_{folder.name}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    # Not from __pycache__: the files in it are not watched for changes by other programs.
    exec(compile(file.read_bytes(), file, "exec"), module.__dict__)
    handle = getattr(module, "handle", None)
    if not callable(handle):
        raise TypeError("handler.py has no function handle(event_type, context)")
    return Hook(str(about.get("name") or folder.name), events, handle)
