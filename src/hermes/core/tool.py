"""Tools: what the model sees, how a call is checked and how it runs."""

import inspect
from collections.abc import Awaitable, Callable, Container, Mapping
from enum import StrEnum
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Literal
from weakref import WeakKeyDictionary

import msgspec

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolDenied, ToolUnknown
from hermes.core.events import Event
from hermes.core.messages import Image
from hermes.core.model import ToolSpec
from hermes.util.lazy import late_pattern


class Effect(StrEnum):
    """The effect of a call; the approval policy depends on it."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    SEND = "send"
    SPEND = "spend"
    PERSIST = "persist"  #: Outlives the session: jobs, skills, memories, hooks.


Reach = Literal["folder", "elsewhere", "unknown"]


class Concern(msgspec.Struct, frozen=True):
    """Why a call needs a person's approval."""

    kind: str  #: The pattern class; approval for a session or for always applies to this.
    subject: str
    reason: str
    refused: bool = False  #: True: refused even with approval.
    also: tuple[str, ...] = ()
    """Further pattern classes of the same call; the approval must cover each of them."""
    effect: Effect = Effect.EXECUTE  #: Decides whose approval is needed.
    folder: str = ""  #: Where it would happen; rules for a folder apply to calls in it.
    destructive: bool = False  #: Allowing the whole class permanently needs a second confirmation.
    once_only: bool = False  #: Cannot be read, so only this one call can be approved.
    words: tuple[str, ...] = ()
    """Program and arguments, if the subject is one program with literal arguments."""
    reach: Reach = "folder"
    """Whether it stays in `folder`. Rules for a folder do not apply to what reaches elsewhere;
    `unknown` depends on more than the subject shows."""


async def _deny(concern: Concern) -> None:
    raise ToolDenied(f"not allowed without a person's approval: {concern.reason}")


async def _no_other_tool(name: str, _arguments: dict[str, Any]) -> str:
    raise ToolUnknown(f"there is no tool {name!r}")


class ToolContext(msgspec.Struct, frozen=True):
    """What a running call may use of its turn."""

    session_id: str
    call_id: str
    cancel: CancelToken
    output: Callable[[str], None]
    """Shows text to the user while the tool runs; the model sees only the result."""
    announce: Callable[[Event], None] = lambda _event: None
    """Adds an event of the tool to the stream of the turn."""
    require_approval: Callable[[Concern], Awaitable[None]] = _deny
    """Asks for approval of an effect that is known only during the call; raises `ToolDenied`."""
    add_image: Callable[[Image], bool] = lambda _image: False
    """Shows the model an image after the results of its calls. Returns False if it cannot."""
    invoke: Callable[[str, dict[str, Any]], Awaitable[str]] = _no_other_tool
    """Runs another tool of the session, under the same policy; raises `ToolError`."""


class StructuredText(str):
    """The result of a tool: the text for the model, and `data`, the same as fields for programs."""

    __slots__ = ("data",)
    data: dict[str, Any]

    def __new__(cls, text: str, **data: Any) -> "StructuredText":
        made = super().__new__(cls, text)
        made.data = data
        return made


def result_data(result: str) -> dict[str, Any]:
    """Return the fields of a result: its own, or else `result` with the text."""
    return result.data if isinstance(result, StructuredText) else {"result": result}


Handler = Callable[[ToolContext, dict[str, Any]], Awaitable[str]]
Examine = Callable[[dict[str, Any]], Awaitable[Concern | Effect | None]]


async def no_concern(_arguments: dict[str, Any]) -> Concern | None:
    return None


class Tool(msgspec.Struct, frozen=True):
    """A tool, created once per session by a factory over the operations it needs."""

    spec: ToolSpec
    handler: Handler
    """Returns the text for the model; raises `ToolError` for a failure that the model should
    see."""
    effect: Effect = Effect.READ
    examine: Examine | None = None
    """Checks the arguments before a call and returns whether approval is needed. Without it, the
    policy depends on the effect of the tool alone."""
    preview: Callable[[dict[str, Any]], Awaitable[str]] | None = None
    """Returns what a question about a call shows, such as the diff, or "" for its arguments."""
    changes: Callable[[dict[str, Any]], bool] | None = None
    """Returns whether a call with these arguments may change files. Without it, the effect
    decides."""
    edits: Callable[[dict[str, Any]], str] | None = None
    """Returns what a question shows about a call that changes files of the workspace, "" for any
    other call. For tools whose effect does not say it."""
    serial: bool = False  #: True if calls change shared state and must run one at a time, in order.
    timeout: float = 0.0  #: Seconds after which a call ends with an error; 0 for no limit.
    toolset: str = ""
    purpose: str = ""  #: What the MCP server of the tool is for, in its own words.
    repeatable: bool = False
    """True if repeating a call makes sense, such as checking whether something has ended."""

    @property
    def name(self) -> str:
        return self.spec.name

    def may_change(self, arguments: dict[str, Any]) -> bool:
        if self.changes is not None:
            return self.changes(arguments)
        return self.effect in (Effect.WRITE, Effect.EXECUTE)

    @classmethod
    def from_function(
        cls, function: Callable[..., Awaitable[str]], deps: object = None, **fields: Any
    ) -> "Tool":
        """Create a tool from an async function: schema from its signature, texts from its
        docstring.

        A parameter of the type `ToolContext` receives it, and one of the type of `deps` receives
        `deps`. A docstring line `name: text` describes the parameter `name`. A parameter
        `**arguments` takes what the signature does not name.
        """
        signed = _signed(function, type(deps) if deps is not None else None)
        # Every session has its own tools: a partial takes half the memory of a closure.
        return cls(spec=signed.spec, handler=partial(_call, function, deps, signed), **fields)


class _Signed(msgspec.Struct, frozen=True):
    """The facts from the signature and docstring of a function."""

    spec: ToolSpec
    names: tuple[str, ...]  #: Of the parameters that the model gives.
    receivers: tuple[tuple[str, type], ...]  #: Those that get the context or the dependencies.
    is_open: bool  #: True if it takes any argument.


async def _call(
    function: Callable[..., Awaitable[str]],
    deps: object,
    signed: _Signed,
    context: ToolContext,
    arguments: dict[str, Any],
) -> str:
    known = arguments
    if not signed.is_open:
        known = {name: arguments[name] for name in signed.names if name in arguments}
    given = {name: context if kind is ToolContext else deps for name, kind in signed.receivers}
    return await function(**known, **given)


_KNOWN: WeakKeyDictionary[CodeType, tuple[object, _Signed]] = WeakKeyDictionary()
"""Cached, because every session creates its tools from the same functions."""


def _signed(function: Callable[..., Any], deps: type | None = None) -> _Signed:
    if not isinstance(function, FunctionType | MethodType):  # such as a partial
        return _read(function, deps)
    plain = function if isinstance(function, FunctionType) else function.__func__
    defaults = plain.__defaults__, plain.__kwdefaults__
    said = (deps, function.__name__, function.__doc__, defaults, function.__annotations__)
    known = _KNOWN.get(function.__code__)
    if known is None or known[0] != said:
        known = _KNOWN[function.__code__] = said, _read(function, deps)
    return known[1]


def _read(function: Callable[..., Any], deps: type | None) -> _Signed:
    signature = inspect.signature(function, eval_str=True)
    parameters, receivers, is_open = {}, [], False
    for name, parameter in signature.parameters.items():
        if parameter.annotation is ToolContext or (deps and parameter.annotation is deps):
            receivers.append((name, parameter.annotation))
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            is_open = True
        else:
            parameters[name] = parameter
    spec = _spec(function, parameters)
    return _Signed(spec, tuple(parameters), tuple(receivers), is_open)


_PLAIN_TYPES = ((str, "string"), (bool, "boolean"), (int, "integer"), (float, "number"))
"""Most parameters; `msgspec.json.schema` takes longer to find out the same."""


def _spec(function: Callable[..., Any], signed: Mapping[str, inspect.Parameter]) -> ToolSpec:
    description, notes = _split_docstring(inspect.getdoc(function) or "", signed)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in signed.items():
        # Msgspec's JSON Schema, without the alternative `null`, which the model does not need.
        kind = parameter.annotation
        plain = next((name for known, name in _PLAIN_TYPES if kind is known), "")
        schema: dict[str, Any] = {"type": plain} if plain else msgspec.json.schema(kind)
        options = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
        schema = dict(options[0]) if len(options) == 1 else schema
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default not in (None, ""):
            schema["default"] = parameter.default
        if name in notes:
            schema["description"] = notes[name]
        properties[name] = schema
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    return ToolSpec(function.__name__, description, parameters)


_NOTE = late_pattern(r"^(\w+): (.+)$")


def _split_docstring(text: str, names: Container[str]) -> tuple[str, dict[str, str]]:
    prose: list[str] = []
    notes: dict[str, str] = {}
    for line in text.splitlines():
        match = _NOTE.match(line)
        if match and match[1] in names:
            notes[match[1]] = match[2]
        else:
            prose.append(line)
    return "\n".join(prose).strip(), notes
