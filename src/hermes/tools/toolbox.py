"""`Toolbox`: the tools of a session. It checks arguments and limits the size of results."""

import difflib
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.model import ToolSpec
from hermes.core.tool import StructuredText, Tool
from hermes.terminal import Files
from hermes.util.text import clean

if TYPE_CHECKING:
    import jsonschema_rs


def coerce_arguments(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return `arguments` with values of the wrong type converted where that is unambiguous.

    Models often send "42" for 42, "true" for true, or JSON text for an array or object. A value
    that does not convert stays, and the validator reports it. A null for an optional parameter is
    dropped.
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
    """Return numbers as text, objects and arrays as JSON (models send file contents so)."""
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
"""The preview of a result that is too long gets the maximum size divided by this."""


SaveResult = Callable[[str, str], Awaitable[str]]
"""Saves a text under a file name and returns its path, which `read_file` can read."""


class Toolbox:
    """The tools whose schemas are in every request, and those that only `tool_search` shows.

    `save` stores results of more than `max_chars` characters. `redact` removes secrets from a
    result before it is shown or stored.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        save: SaveResult,
        *,
        rare: Iterable[Tool] = (),
        max_chars: int = 100_000,
        redact: Callable[[str], str] = str,
    ) -> None:
        shown = tuple(tools)
        self.specs = tuple([tool.spec for tool in shown])
        self._tools = {tool.spec.name: tool for tool in (*rare, *shown)}
        self._save, self._max_chars = save, max_chars
        self.redact = redact
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, including the rare ones."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def replace(self, *tools: Tool) -> "Toolbox":
        """Return a copy with `tools` in place of those of the same names."""
        every = {**self._tools, **{tool.name: tool for tool in tools}}
        shown = [every.pop(spec.name) for spec in self.specs]
        rare, most = every.values(), self._max_chars
        return Toolbox(shown, self._save, rare=rare, max_chars=most, redact=self.redact)

    def decode(self, tool: Tool, text: str) -> dict[str, Any]:
        """Parse, convert and validate the arguments that the model wrote.

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
        """Return the cached validator; references to remote schemas are not fetched."""
        if tool.name not in self._validators:
            # Large, and not every session calls a tool.
            import jsonschema_rs

            try:
                validator = jsonschema_rs.validator_for(tool.spec.parameters, offline=True)
            except ValueError as error:
                problem = str(error).partition("\n")[0]
                raise ToolError(f"the schema of {tool.name} is wrong: {problem}") from error
            self._validators[tool.name] = validator
        return self._validators[tool.name]

    async def fit(self, name: str, call_id: str, result: str) -> str:
        """Return the result, or its beginning and end with the file that has all of it. Its data
        are complete."""
        if isinstance(result, StructuredText):
            text = await self.fit(name, call_id, str(result))
            return StructuredText(text, **self._redact_data(result.data))
        result = self.redact(clean(result))
        if len(result) <= self._max_chars:
            return result
        room = self._max_chars // PREVIEW_DIVISOR
        head, tail = result[: room * 2 // 5], result[-(room * 3 // 5) :]
        file = re.sub(r"[^\w.-]", "_", f"{name}-{call_id}")[:100] + ".txt"
        try:
            path = await self._save(file, result)
            where = f"read the rest in pages with read_file: {path}"
        except (OSError, ToolError) as error:
            where = f"the rest could not be stored: {error}"
        return f"{head}\n[… {len(result)} characters in total; {where} …]\n{tail}"

    def _redact_data(self, data: Any) -> Any:
        match data:
            case str():
                return self.redact(clean(data))
            case dict():
                return {self._redact_data(key): self._redact_data(data[key]) for key in data}
            case list():
                return [self._redact_data(each) for each in data]
            case _:
                return data


def usage_hint(spec: ToolSpec) -> str:
    """Return a call such as `write_file(path: string)`; optional parameters in brackets."""
    required = spec.parameters.get("required", ())
    parts = [
        f"{name}: {schema.get('type', 'any')}" if name in required else f"[{name}]"
        for name, schema in spec.parameters.get("properties", {}).items()
    ]
    return f"call it as {spec.name}({', '.join(parts)})"


def _parse(text: str, spec: ToolSpec) -> dict[str, Any]:
    """Return the JSON object in the text; empty text means no arguments."""
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
    """Drop unknown parameters without a value; raise for others, which must not be ignored."""
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


RESULT_DAYS = 7


class LocalResultStore:
    """Stores long results in a local folder; each save deletes results older than a week."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, name: str, text: str) -> str:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        old = time.time() - RESULT_DAYS * 86_400
        for file in self._folder.iterdir():
            if file.stat().st_mtime < old:
                file.unlink(missing_ok=True)
        path = self._folder / name
        path.write_text(text, "utf-8")
        return str(path)


class RemoteResultStore:
    """Stores long results on the backend of the session, where its `read_file` finds them."""

    def __init__(self, files: Files, folder: str = "/tmp/hermes-results") -> None:
        self._files, self._folder = files, folder

    async def save(self, name: str, text: str) -> str:
        path = await self._files.locate(f"{self._folder}/{name}")
        await self._files.write(path, text.encode())
        return path
