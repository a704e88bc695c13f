"""The tools of a session: their arguments checked, their results kept to a size."""

import difflib
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import Tool
from hermes.terminal.base import Files
from hermes.util.text import clean

if TYPE_CHECKING:
    import jsonschema_rs


# Values as a schema wants them, where a model wrote the right thing in the wrong type.


def coerce_arguments(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """`arguments` with "42" as 42, "true" as true and JSON text as the array or object in it.

    What does not convert cleanly stays, for the validator to complain about. A null for a
    parameter that is not required is left out.
    """
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        name: _coerce(value, properties.get(name, {}))
        for name, value in arguments.items()
        if value is not None or name in required or _allows_null(properties.get(name, {}))
    }


def _allows_null(schema: dict[str, Any]) -> bool:
    options = [schema, *schema.get("anyOf", ())]
    return any("null" in _types(option) for option in options)


def _coerce(value: Any, schema: dict[str, Any]) -> Any:
    types = _types(schema)
    if _is_one_of(value, types):
        return _coerce_children(value, schema)
    for kind in types:
        convert = _CONVERSIONS.get(kind)
        converted = convert(value) if convert else value
        if _is_one_of(converted, (kind,)):
            return _coerce_children(converted, schema)
    return value


def _coerce_children(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, dict) and "properties" in schema:
        return coerce_arguments(value, schema)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_coerce(item, schema["items"]) for item in value]
    return value


def _types(schema: dict[str, Any]) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


_PYTHON: dict[str, type | tuple[type, ...]] = {
    "integer": int, "number": (int, float), "boolean": bool, "string": str, "array": list,
    "object": dict, "null": type(None),
}  # fmt: skip


def _is_one_of(value: Any, types: tuple[str, ...]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types or not types
    return not types or any(isinstance(value, _PYTHON.get(kind, object)) for kind in types)


def _to_integer(value: Any) -> Any:
    number = _to_number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _to_number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return (
        _decode_json(value.strip())
        if value.strip().lstrip("+-").replace(".", "", 1).isdigit()
        else value
    )


def _to_boolean(value: Any) -> Any:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return words.get(str(value).strip().lower(), value)


def _to_string(value: Any) -> Any:
    """Numbers as written; an object or array as JSON (file contents arrive like that)."""
    if isinstance(value, dict | list):
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return value if value is None or isinstance(value, bool) else str(value)


def _to_array(value: Any) -> Any:
    if isinstance(value, str):
        decoded = _decode_json(value)
        return decoded if isinstance(decoded, list) else [value]
    return [value]


def _decode_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "string": _to_string,
    "array": _to_array,
    "object": _decode_json,
}


PREVIEW_DIVISOR = 10
"""A result that is too long is shown with this fraction of the allowed size."""


SaveResult = Callable[[str, str], Awaitable[str]]
"""Keeps a text under a file name where `read_file` finds it; the result is its path."""


class Toolbox:
    """The tools whose schemas stand in every request, and those that only `tool_search` shows.

    `keep` is for results of more than `max_chars` characters. `redact` takes secrets out of a
    result, before anybody sees or keeps it.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        keep: SaveResult,
        *,
        rare: Iterable[Tool] = (),
        max_chars: int = 100_000,
        redact: Callable[[str], str] = str,
    ) -> None:
        shown = tuple(tools)
        self.specs = tuple([tool.spec for tool in shown])
        self._tools = {tool.spec.name: tool for tool in (*rare, *shown)}
        self._keep, self._max_chars = keep, max_chars
        self.redact = redact
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Of all of them, the rare ones too."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def decode(self, tool: Tool, text: str) -> dict[str, Any]:
        """Arguments as the schema wants them, from what the model wrote.

        Raises `ToolArgumentsInvalid` with a message the model can act on.
        """
        schema = tool.spec.parameters
        arguments = _drop_unknown(tool.spec, coerce_arguments(_parse(text, tool.spec), schema))
        problems = [
            _validation_message(error) for error in self._validator(tool).iter_errors(arguments)
        ]
        if problems:
            raise ToolArgumentsInvalid(
                f"the arguments of {tool.name} are wrong: {'; '.join(problems[:5])}",
                hint=usage_hint(tool.spec),
            )
        return arguments

    def _validator(self, tool: Tool) -> "jsonschema_rs.Validator":
        """A schema that points to another machine is not followed there."""
        if tool.name not in self._validators:
            checker = import_module("jsonschema_rs")  # large, and not every session calls a tool
            try:
                found = checker.validator_for(tool.spec.parameters, offline=True)
            except ValueError as error:
                problem = str(error).partition("\n")[0]
                raise ToolError(f"the schema of {tool.name} is wrong: {problem}") from error
            self._validators[tool.name] = found
        return self._validators[tool.name]

    async def fit(self, name: str, call_id: str, result: str) -> str:
        """The result, or its beginning and end with the file that holds the whole."""
        result = self.redact(clean(result))
        if len(result) <= self._max_chars:
            return result
        room = self._max_chars // PREVIEW_DIVISOR
        head, tail = result[: room * 2 // 5], result[-(room * 3 // 5) :]
        file = re.sub(r"[^\w.-]", "_", f"{name}-{call_id}")[:100] + ".txt"
        try:
            path = await self._keep(file, result)
            where = f"all of it is in {path}, to be read in pages with read_file"
        except (OSError, ToolError) as error:
            where = f"the rest could not be kept: {error}"
        return f"{head}\n[… {len(result)} characters in all; {where} …]\n{tail}"


def usage_hint(spec: ToolSpec) -> str:
    """`write_file(path: string, content: string)`; optional parameters in brackets."""
    required = spec.parameters.get("required", ())
    parts = [
        f"{name}: {schema.get('type', 'any')}" if name in required else f"[{name}]"
        for name, schema in spec.parameters.get("properties", {}).items()
    ]
    return f"call it as {spec.name}({', '.join(parts)})"


def _parse(text: str, spec: ToolSpec) -> dict[str, Any]:
    """The object in the text; empty text means no arguments."""
    value: Any = text
    try:
        for _ in range(2):  # some models encode the object twice
            if isinstance(value, str):
                value = msgspec.json.decode(value) if value.strip() else {}
    except msgspec.DecodeError as error:
        raise ToolArgumentsInvalid(
            f"the arguments are not valid JSON: {error}", hint=usage_hint(spec)
        ) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ToolArgumentsInvalid("the arguments are not a JSON object", hint=usage_hint(spec))
    return value


def _drop_unknown(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """Unknown names that carry nothing are dropped; others are an error, never ignored."""
    properties = spec.parameters.get("properties", {})
    if spec.parameters.get("additionalProperties") or not properties:
        return arguments
    unknown = [name for name in arguments if name not in properties]
    for name in unknown:
        if arguments[name]:
            close = difflib.get_close_matches(name, properties, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise ToolArgumentsInvalid(
                f"{spec.name} has no parameter {name!r}{meant}", hint=usage_hint(spec)
            )
    return {name: value for name, value in arguments.items() if name in properties}


def _validation_message(error: "jsonschema_rs.ValidationError") -> str:
    place = ".".join(str(part) for part in error.instance_path)
    return f"{place}: {error.message}" if place else error.message


# Where results go that are too long for the model.

RESULT_DAYS = 7


class LocalResultStore:
    """Keeps texts in a folder of ours; what is older than a week goes when a new one comes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, name: str, text: str) -> str:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        old = time.time() - RESULT_DAYS * 86_400
        for file in self._folder.iterdir():
            if file.stat().st_mtime < old:
                file.unlink(missing_ok=True)
        path = self._folder / name
        path.write_text(text, "utf-8")
        return str(path)


class RemoteResultStore:
    """Keeps texts where the session works, so that its `read_file` can read them."""

    def __init__(self, files: Files, folder: str = "/tmp/hermes-results") -> None:
        self._files, self._folder = files, folder

    async def keep(self, name: str, text: str) -> str:
        path = await self._files.locate(f"{self._folder}/{name}")
        await self._files.write(path, text.encode())
        return path
