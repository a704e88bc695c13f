"""The registry of all tools, and the tools of one session made from it.

Built-in tools are the modules of `hermes.tools.builtin`, found by file name; plugins register
theirs. `assemble` turns names of tools into the tools of a session.
"""

import inspect
import logging
import pkgutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hermes.config.settings import Settings
from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.model import ToolSpec
from hermes.core.ports import Attachments, Auxiliary, Clarifier, Outbox, Scheduler, Spawner, Trainer
from hermes.core.tool import Concern, Effect, Tool, ToolContext, no_concern
from hermes.security import EgressPolicy, PathGuard
from hermes.terminal import BackgroundProcesses, ExecutionEnvironment, OutputLimits
from hermes.tools.toolsets import TOOLSETS, Toolset, ToolsetMap, expand, is_rare
from hermes.util import files
from hermes.util.concurrency import in_thread
from hermes.util.lazy import late_pattern

if TYPE_CHECKING:  # these modules import this one
    from hermes.store import SessionStore
    from hermes.tools.builtin.todo import TodoList
    from hermes.tools.editing.files import FileReads

log = logging.getLogger(__name__)

BUILTIN = "hermes.tools.builtin"
BUILTIN_TAKEN = "Hermes itself has one already"

T = TypeVar("T")


class SessionServices(msgspec.Struct, frozen=True):
    """What a session offers its tools beyond the workplace. None: the session does not have it."""

    sessions: "SessionStore | None" = None
    spawner: Spawner | None = None
    scheduler: Scheduler | None = None
    trainer: Trainer | None = None
    outbox: Outbox | None = None
    attachments: Attachments | None = None  #: Files that messages of the session may carry.
    current_session: Callable[[], str] = lambda: ""
    """Returns the id of the session; a compaction changes it."""
    user: str = ""  #: The user of the conversation; "" is the owner.
    origin: str = ""  #: The chat of the conversation, as a delivery target; "" outside of chats.
    job_limits: Mapping[str, Any] = {}
    """The limits of jobs that the session schedules, as the field `by` of a job."""
    tools: Mapping[str, Tool] = {}
    """Tools that other packages made for the session, by name: memory and skills."""


class ToolDeps(msgspec.Struct, frozen=True):
    """What the tools of one session are made from."""

    settings: Settings
    place: ExecutionEnvironment
    guard: PathGuard
    processes: BackgroundProcesses
    reads: "FileReads"
    todos: "TodoList"
    variables: Callable[[str], str | None] = lambda _name: None
    """Returns a variable of .env or of the process, such as the key of a service."""
    clarifier: Clarifier | None = None
    patience: float = 0.0  #: Minimum seconds that a question to the user waits for its answer.
    auxiliary: Auxiliary | None = None
    transform_output: Callable[[str], Awaitable[str]] | None = None
    """Hook of plugins over the output of a command."""
    services: SessionServices = SessionServices()
    egress: EgressPolicy | None = None  #: For effects of scripts, known only while they run.
    usage: "ToolUsage | None" = None
    about: str = ""
    """The first message of the conversation, if it is known; with `usage` it decides which tools of
    plugins and MCP servers are in the request."""
    others: tuple[ToolSpec, ...] = ()
    """The other tools of the session; set only for entries with `needs_others`."""

    @property
    def limits(self) -> OutputLimits:
        output = self.settings.tool_output
        return OutputLimits(output.max_bytes, output.max_lines, output.max_line_length)

    def keys(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return the variables in `names` (purpose to variable) that are set now."""
        found = {purpose: self.variables(name) for purpose, name in names.items()}
        return {purpose: value for purpose, value in found.items() if value}


class ToolEntry(msgspec.Struct, frozen=True):
    """A tool that sessions can have, as the decorator `tool` makes it."""

    name: str
    toolset: str  #: The toolset it belongs to. A built-in tool joins it without being listed there.
    make: Callable[[ToolDeps], Tool]
    unavailable: Callable[[ToolDeps], str] = lambda _deps: ""
    """Returns why the tool cannot be used now, or "". Runs once when several tools share it."""
    needs_others: bool = False
    """Its schema names the other tools of the session (`ToolDeps.others`), so it is made last."""
    requires_env: tuple[str, ...] = ()  #: Variables it needs, for displays.
    emoji: str = ""
    builtin: bool = False  #: Set by `discover_builtin`.
    check_fn: Callable[[], bool] | None = None  #: What `unavailable` calls, if a plugin gave it.


def require(service: T | None) -> T:
    """Return a service of the session; entries check with `unavailable` that it is there."""
    if service is None:
        raise LookupError("the session lacks a service that this tool needs")
    return service


def tool(
    *,
    toolset: str,
    effect: Effect,
    name: str = "",
    description: str = "",
    parameters: dict[str, Any] | None = None,
    adapt: Callable[[ToolDeps, ToolSpec], ToolSpec] | None = None,
    examine: Callable[[ToolDeps, dict[str, Any]], Awaitable[Concern | Effect | None]] | None = None,
    edits: Callable[[ToolDeps, dict[str, Any]], str] | None = None,
    unavailable: Callable[[ToolDeps], str] = lambda _deps: "",
    needs_others: bool = False,
    requires_env: Iterable[str] = (),
    emoji: str = "",
    **fields: Any,
) -> Callable[[Callable[..., Any]], ToolEntry]:
    """Make a tool of an async function, or of a class that is created once in each session.

    The name of the function is that of the tool, its docstring the description, and its signature
    the schema (`Tool.from_function`); `name`, `description` and `parameters` replace them, and
    `adapt` changes them for a session. A parameter of the type `ToolDeps` receives the services of
    the session. A class takes `ToolDeps`; its method called `name` is the function, and its method
    `examine(arguments)` and `preview(arguments)`, if there are any, are those of `Tool`. `fields`
    are further fields of `Tool`.
    """

    def decorate(target: Callable[..., Any]) -> ToolEntry:
        called = name or target.__name__
        given = {"name": name, "description": description, "parameters": parameters}
        replaced = {field: value for field, value in given.items() if value}

        def make(deps: ToolDeps) -> Tool:
            function, judge = target, partial(examine, deps) if examine else None
            preview = None
            if isinstance(target, type):
                owner = target(deps)
                function, judge = getattr(owner, called), getattr(owner, "examine", judge)
                preview = getattr(owner, "preview", None)
            made = Tool.from_function(
                function,
                deps,
                effect=effect,
                examine=judge,
                preview=preview,
                edits=partial(edits, deps) if edits else None,
                toolset=toolset,
                **fields,
            )
            if not replaced and adapt is None:
                return made
            spec = msgspec.structs.replace(made.spec, **replaced)
            return msgspec.structs.replace(made, spec=adapt(deps, spec) if adapt else spec)

        return ToolEntry(
            called, toolset, make, unavailable, needs_others, tuple(requires_env), emoji
        )

    return decorate


def _service_tool(name: str, toolset: str, emoji: str) -> ToolEntry:
    """Return the entry of a tool that another package makes (`SessionServices.tools`)."""

    def make(deps: ToolDeps) -> Tool:
        return deps.services.tools[name]

    def unavailable(deps: ToolDeps) -> str:
        return "" if name in deps.services.tools else "it is switched off in the settings"

    return ToolEntry(name, toolset, make, unavailable, emoji=emoji)


# `memory` and `skills` are in the same layer as `tools`, so this package cannot import them.
SERVICE_TOOLS = (
    _service_tool("memory", "memory", "🧠"),
    _service_tool("skill_manage", "skills", "📚"),
    _service_tool("skill_view", "skills", "📚"),
    _service_tool("skills_list", "skills", "📚"),
)


class ToolRegistry:
    """Tool entries by name. An entry is replaced only by one of the same toolset: neither built-in
    tools nor those of another plugin are."""

    def __init__(self) -> None:
        self._entries: dict[str, ToolEntry] = {}

    def add_foreign(self, entry: ToolEntry) -> None:
        """Add the tool of a plugin, whose calls end after `plugins.tool_timeout`."""

        def make(deps: ToolDeps) -> Tool:
            seconds = deps.settings.plugins.tool_timeout
            return msgspec.structs.replace(entry.make(deps), timeout=seconds)

        self.add(msgspec.structs.replace(entry, make=make))

    def add(self, entry: ToolEntry) -> None:
        other = self._entries.get(entry.name)
        reason = ""
        if other is not None and not entry.builtin:
            if other.builtin:
                reason = BUILTIN_TAKEN
            elif other.toolset != entry.toolset:
                reason = f"{other.toolset} has one already"
        if reason:
            log.warning("tool %s of %s is left out: %s", entry.name, entry.toolset, reason)
            return
        self._entries[entry.name] = entry

    def remove(self, name: str) -> None:
        self._entries.pop(name, None)

    def register(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[[], bool] | None = None,
        requires_env: Iterable[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        effect: Effect = Effect.EXECUTE,
    ) -> None:
        """Add the tool of a plugin: `handler(args, **kwargs)` returns a JSON string.

        A handler that is not async runs in a thread. `effect` says what the tool can do; the
        default assumes the worst, so each call asks for approval. The name of a built-in tool is
        refused with a line in the log.
        """
        if name in builtin_names():
            log.warning("tool %s of %s is left out: %s", name, toolset, BUILTIN_TAKEN)
            return
        parameters = schema.get("parameters", schema if "properties" in schema else {})
        spec = ToolSpec(
            name,
            description or str(schema.get("description", "")),
            {"type": "object", "properties": {}, **parameters},
        )
        asynchronous = is_async or inspect.iscoroutinefunction(handler)

        async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
            details = {"task_id": context.session_id}
            if asynchronous:
                try:
                    return result_text(await handler(arguments, **details))
                except SystemExit as error:
                    raise ToolError(f"the tool wanted to exit: {error}") from None
            return result_text(await in_thread(handler, arguments, **details))

        def make(_deps: ToolDeps) -> Tool:
            return Tool(spec, run, effect=effect, toolset=toolset)

        def unavailable(_deps: ToolDeps) -> str:
            return "" if check_fn is None or check_fn() else "its check says it cannot be used"

        entry = ToolEntry(
            name,
            toolset,
            make,
            unavailable,
            requires_env=tuple(requires_env or ()),
            emoji=emoji,
            check_fn=check_fn,
        )
        self.add_foreign(entry)

    def with_tools(self, tools: Iterable[Tool]) -> "ToolRegistry":
        """Return a copy that also has `tools`, except those whose name is taken."""
        copy = ToolRegistry()
        copy._entries = dict(self._entries)
        for tool in tools:
            if tool.name in copy._entries:
                log.warning("the tool %s of %s is there already", tool.name, tool.toolset)
                continue

            def make(_deps: ToolDeps, tool: Tool = tool) -> Tool:
                return tool

            copy.add(ToolEntry(tool.name, tool.toolset, make))
        return copy

    def get(self, name: str) -> ToolEntry | None:
        return self._entries.get(name)

    @property
    def entries(self) -> tuple[ToolEntry, ...]:
        """All entries, sorted by name."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def added_toolsets(self) -> dict[str, Toolset]:
        """Return the toolsets that exist only because a tool names them."""
        names = {entry.toolset for entry in self.entries if entry.toolset not in TOOLSETS}
        return {
            name: Toolset(
                f"brought by {name}", tuple(e.name for e in self.entries if e.toolset == name)
            )
            for name in sorted(names)
        }

    def extended_toolsets(self) -> dict[str, Toolset]:
        """Return the listed toolsets to which built-in tools belong that the table does not name.

        The listed tools keep their order, so that the start of a request stays the same bytes. A
        plugin's tool does not join: a user who chose `web` did not choose what plugins add to it.
        """
        extended: dict[str, Toolset] = {}
        for entry in self.entries:
            listed = extended.get(entry.toolset) or TOOLSETS.get(entry.toolset)
            if entry.builtin and listed is not None and entry.name not in listed.tools:
                extended[entry.toolset] = listed._replace(tools=(*listed.tools, entry.name))
        return extended


def discover_builtin(registry: ToolRegistry) -> None:
    """Add the built-in tools, sorted by name.

    A module that cannot be imported, because a library is missing, is logged and left out.
    """
    for entry in SERVICE_TOOLS:
        registry.add(msgspec.structs.replace(entry, builtin=True))
    for name, tools in _builtin_modules().items():
        held = registry.get(tools[0])
        if held is not None and held.builtin:  # this ran before
            continue
        try:
            # The names come from the folder: there is no list that an import could follow.
            module = import_module(f"{BUILTIN}.{name}")
        except ImportError as error:
            log.warning("tool %s is not available: %s", name, error)
            continue
        for value in vars(module).values():
            if isinstance(value, ToolEntry) and value.name in tools:
                registry.add(msgspec.structs.replace(value, builtin=True))


@cache
def builtin_names() -> frozenset[str]:
    """Return the names of all built-in tools; none of their modules is imported."""
    modules = (name for tools in _builtin_modules().values() for name in tools)
    return frozenset((*(entry.name for entry in SERVICE_TOOLS), *modules))


@cache
def _builtin_modules() -> dict[str, tuple[str, ...]]:
    """Return the tools of each module: one of the same name, or all tools of the toolset that it is
    named after."""
    names = sorted(info.name for info in pkgutil.iter_modules(import_module(BUILTIN).__path__))
    toolsets = {name: TOOLSETS[name].tools for name in names if name in TOOLSETS}
    return {
        name: (name,) if name in toolsets.get(name, (name,)) else toolsets[name] for name in names
    }


def result_text(result: Any) -> str:
    """Return the answer of a plugin's tool as text for the model; data becomes JSON."""
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result).decode()
    except TypeError as error:
        raise ToolError(f"the tool answered with something other than text: {error}") from error


registry = ToolRegistry()  #: The registry of this process, used by plugins and sessions.


class Assembled(msgspec.Struct, frozen=True):
    """The tools of one session."""

    tools: tuple[Tool, ...]
    """Tools whose schemas are in every request, with `tool_search` when there are rare ones."""
    rare: tuple[Tool, ...]  #: Tools that only `tool_search` finds.
    unavailable: dict[str, str]  #: Why a tool cannot be used here, by name.


def assemble(
    names: Iterable[str], deps: ToolDeps, registry: ToolRegistry, known: ToolsetMap
) -> Assembled:
    """Make the tools called `names`, in that order; unknown names are ignored."""
    reasons: dict[int, str] = {}
    entries: list[ToolEntry] = []
    unavailable: dict[str, str] = {}
    for name in names:
        entry = registry.get(name)
        if entry is None:
            continue
        check = id(
            entry.check_fn or entry.unavailable
        )  # the check of a plugin need not be hashable
        if check not in reasons:
            try:
                reasons[check] = entry.unavailable(deps)
            except Exception as error:  # noqa: BLE001 - a plugin's check may do anything
                reasons[check] = f"its check failed: {type(error).__name__}: {error}"
        if reason := reasons[check]:
            unavailable[name] = reason
        else:
            entries.append(entry)
    made = {entry.name: entry.make(deps) for entry in entries if not entry.needs_others}
    full = msgspec.structs.replace(deps, others=tuple(tool.spec for tool in made.values()))
    made |= {entry.name: entry.make(full) for entry in entries if entry.needs_others}
    tools = [made[entry.name] for entry in entries]
    rare = _rare_tools(tools, deps, known) if deps.settings.tools.search else []
    shown = tuple(tool for tool in tools if tool not in rare)
    if rare:
        shown += (tool_search_tool(rare),)
    return Assembled(shown, tuple(rare), unavailable)


def schema_chars(spec: ToolSpec) -> int:
    """Return how many characters a tool adds to every request, in the most common format."""
    return len(msgspec.json.encode({"type": "function", "function": spec}).decode())


def _rare_tools(tools: Sequence[Tool], deps: ToolDeps, known: ToolsetMap) -> list[Tool]:
    """Return the tools of rare toolsets, and added toolsets that exceed `tools.max_chars`.

    An added toolset is in the request as a whole or not at all. Those that fit the first message
    come first, then those that are used most.
    """
    settings = deps.settings.tools
    always = set(expand(settings.always, known))
    rare = [
        tool
        for tool in tools
        if is_rare(tool.name, tool.toolset, known) and tool.name not in always
    ]
    added = [tool for tool in tools if tool.toolset not in TOOLSETS and tool.name not in always]
    if not added:
        return rare
    room = settings.max_chars - sum(
        schema_chars(tool.spec) for tool in tools if tool not in rare and tool.toolset in TOOLSETS
    )
    groups: dict[str, list[Tool]] = {}
    for tool in added:
        groups.setdefault(tool.toolset, []).append(tool)
    words = {word for word in _WORD.findall(deps.about.lower()) if len(word) >= MIN_WORD}
    scores = deps.usage.scores() if deps.usage is not None else {}

    def rank(name: str) -> tuple[bool, float, str]:
        # One word of a tool's name, such as `list`, says little; that of the server is enough.
        names = [set(_WORD.findall(tool.name.lower())) for tool in groups[name]]
        server = set(_WORD.findall(name.lower())) - {"mcp"}
        fits = any(_has_word(word, server) for word in words) or any(
            sum(_has_word(word, each - server) for word in words) > 1 for each in names
        )
        return not fits, -scores.get(name, 0.0), name

    for name in sorted(groups, key=rank):
        size = sum(schema_chars(tool.spec) for tool in groups[name])
        if size > room:
            rare += groups[name]
        else:
            room -= size
    return rare


HALF_LIFE_DAYS = 14  #: After this time a use of a toolset counts half.


class ToolUsage:
    """How much the toolsets of plugins and MCP servers are used, kept in a file of the cache."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def scores(self) -> dict[str, float]:
        """Return a score by toolset: the number of uses, of which old ones count less."""
        now = time.time()
        return {
            name: score * 0.5 ** (max(0.0, now - at) / (HALF_LIFE_DAYS * 86_400))
            for name, (score, at) in self._read().items()
        }

    def record(self, tool: Tool) -> None:
        """Count a call, unless the tool is one of Hermes. A cache that cannot be written is not an
        error."""
        toolset = tool.toolset
        if toolset in TOOLSETS:
            return
        used = {**self._read(), toolset: (self.scores().get(toolset, 0.0) + 1, time.time())}
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_bytes(self._path, msgspec.json.encode(used))
        except OSError as error:
            log.debug("the use of %s is not counted: %s", toolset, error)

    def _read(self) -> dict[str, tuple[float, float]]:
        """Return the score of each toolset and when it was last used."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[float, float]])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}


# The tool `tool_search`: find and run tools whose schemas are not in every request.

MAX_SHOWN = 8  #: Tools in one answer.
MAX_NAMES = 20  #: Names shown when no tool matches; an MCP server may have a thousand.
PURPOSE_CHARS = 120  #: Size of the line that describes a toolset of a plugin or an MCP server.
MIN_WORD = 4  #: Shorter words of a message say nothing about the tools it needs.

_WORD = late_pattern(r"[a-z0-9]+")


def tool_search_tool(rare: Sequence[Tool]) -> Tool:
    """Make the tool for `rare`. The request stays the same, so prompt caches stay valid."""
    by_name = {tool.name: tool for tool in rare}

    async def tool_search(
        call: ToolContext, query: str = "", name: str = "", arguments: dict[str, Any] | None = None
    ) -> str:
        """Find and run more tools: search first, then call again with a name.

        query: what you want to do; returns matching tools and their parameters
        name: run this tool
        arguments: its arguments
        """
        if name:
            return await call.invoke(name, arguments or {})
        if not query.strip():
            raise ToolArgumentsInvalid("give a query, or the name of a tool to run")
        found = _matches(query, rare)
        if not found:
            return f"no tool fits; {_nearest_names(query, sorted(by_name))}"
        return "\n".join(_describe(tool.spec) for tool in found)

    tool = Tool.from_function(tool_search, toolset="tool_search", examine=no_concern)
    own = ", ".join(dict.fromkeys(each.toolset for each in rare if each.toolset in TOOLSETS))
    added: dict[str, list[Tool]] = {}
    for each in rare:
        if each.toolset not in TOOLSETS:
            added.setdefault(each.toolset, []).append(each)
    lines = [f"They are for: {own}"] if own else []
    lines += [f"- {name}: {_purpose(name, tools)}" for name, tools in added.items()]
    text = "\n".join((tool.spec.description, *lines))
    return msgspec.structs.replace(tool, spec=msgspec.structs.replace(tool.spec, description=text))


def _purpose(toolset: str, tools: Sequence[Tool]) -> str:
    """Return what a toolset is for: the words of its server, or the names of its tools."""
    start = f"{toolset.replace('-', '_')}_"
    text = tools[0].purpose or ", ".join(tool.name.removeprefix(start) for tool in tools)
    return text if len(text) <= PURPOSE_CHARS else f"{text[: PURPOSE_CHARS - 1]}…"


def _matches(query: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that share words with the query, best first; the name counts most."""
    wanted = set(_WORD.findall(query.lower()))
    scored = [(_score(wanted, tool), tool) for tool in tools]
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].name))
    return [tool for _, tool in best[:MAX_SHOWN]]


def _nearest_names(query: str, names: Sequence[str]) -> str:
    if len(names) <= MAX_NAMES:
        return f"there are: {', '.join(names)}"
    import difflib  # rarely needed

    nearest = difflib.get_close_matches(query.lower(), names, n=MAX_NAMES, cutoff=0)
    return f"of {len(names):,} the nearest by name are: {', '.join(nearest)}"


def _score(wanted: set[str], tool: Tool) -> int:
    name = set(_WORD.findall(tool.name.lower())) | set(_WORD.findall(tool.toolset.lower()))
    text = set(_WORD.findall(tool.spec.description.lower()))
    return sum(_has_word(word, name) * 3 + _has_word(word, text) for word in wanted)


def _has_word(word: str, words: set[str]) -> bool:
    """True when `words` has the word, or a longer or shorter form of it."""
    if word in words:
        return True
    return len(word) > 3 and any(
        each.startswith(word) or (len(each) > 3 and word.startswith(each)) for each in words
    )


def _describe(spec: ToolSpec) -> str:
    parameters = msgspec.json.encode(spec.parameters.get("properties", {})).decode()
    required = spec.parameters.get("required")
    needs = f" required: {', '.join(required)}" if required else ""
    return f"{spec.name}: {spec.description}\n  parameters: {parameters}{needs}"
