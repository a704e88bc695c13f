"""What a server offers: which of its tools are admitted, and a cache of them between sessions."""

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from hermes import __version__
from hermes.config.settings import McpServer
from hermes.mcp.transport import one_line
from hermes.security.injection import scan
from hermes.util import files
from hermes.util.text import clean, cut_middle

CATALOG_SUFFIX, FAILURE_SUFFIX = ".json", ".failed.json"

log = logging.getLogger(__name__)


class HeaderField(NamedTuple):
    """An argument that is repeated in the HTTP header `Mcp-Param-<name>`."""

    name: str
    path: tuple[str, ...]  #: Where it is in the arguments.


class RemoteTool(msgspec.Struct, frozen=True):
    """A tool of a server that passed `admit_tools`."""

    name: str  #: The server's own name of the tool.
    description: str
    parameters: dict[str, Any]
    read_only: bool = False
    destructive: bool = False
    open_world: bool = True
    as_task: bool = False  #: With `initialize`, a call has to ask for a task.
    headers: tuple[HeaderField, ...] = ()


class ServerCatalog(msgspec.Struct, frozen=True):
    tools: tuple[RemoteTool, ...] = ()  #: Sorted by name, because the server's order may change.
    resources: bool = False
    prompts: bool = False
    problems: tuple[str, ...] = ()  #: Rejected tools, each with the reason.
    purpose: str = ""  #: The beginning of the server's instructions, in one line.
    protocol: str = ""  #: The version that the server speaks.
    fresh_until: float = 0.0  #: Until then, in seconds since the epoch, the tools do not change.


class ConnectFailure(msgspec.Struct, frozen=True):
    """Why the last attempt to connect to a server failed."""

    key: str
    reason: str
    at: float  #: Seconds since the epoch.


class _CachedCatalog(msgspec.Struct, frozen=True):
    key: str
    catalog: ServerCatalog = msgspec.field(name="catalogue")


T = TypeVar("T", _CachedCatalog, ConnectFailure)


class CatalogCache:
    """One file per server in `folder`, and another while it fails. With None nothing is cached."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, name: str, settings: McpServer) -> ServerCatalog | None:
        """Return the cached catalog for these settings, or None."""
        kept = self._read(name, settings, _CachedCatalog)
        return kept.catalog if kept is not None else None

    def save(self, name: str, settings: McpServer, catalog: ServerCatalog) -> None:
        self._write(self._path(name), _CachedCatalog(cache_key(settings), catalog))
        self._clear_failure(name)

    def seen(self, name: str) -> None:
        """Record a connection that found the cached catalog unchanged."""
        if path := self._path(name):
            with suppress(OSError):
                os.utime(path)
        self._clear_failure(name)

    def failed(self, name: str, settings: McpServer, reason: str) -> None:
        """Record a failed connection."""
        failure = ConnectFailure(cache_key(settings), reason, time.time())
        self._write(self._path(name, FAILURE_SUFFIX), failure)

    def failure(self, name: str, settings: McpServer) -> ConnectFailure | None:
        """Return the last failure with these settings, unless a later connection succeeded."""
        return self._read(name, settings, ConnectFailure, FAILURE_SUFFIX)

    def last_seen(self, name: str) -> float | None:
        """Return the time of the last connection in seconds since the epoch, or None."""
        try:
            return path.stat().st_mtime if (path := self._path(name)) else None
        except OSError:
            return None

    def drop(self, name: str) -> None:
        """Delete the files of a server."""
        for ending in (CATALOG_SUFFIX, FAILURE_SUFFIX):
            if path := self._path(name, ending):
                path.unlink(missing_ok=True)

    def _clear_failure(self, name: str) -> None:
        if path := self._path(name, FAILURE_SUFFIX):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def _read(
        self, name: str, settings: McpServer, kind: type[T], ending: str = CATALOG_SUFFIX
    ) -> T | None:
        try:
            path = self._path(name, ending)
            kept = msgspec.json.decode(path.read_bytes(), type=kind) if path else None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return kept if kept is not None and kept.key == cache_key(settings) else None

    def _path(self, name: str, ending: str = CATALOG_SUFFIX) -> Path | None:
        return server_file(self._folder, name, ending) if self._folder is not None else None

    @staticmethod
    def _write(path: Path | None, kept: Any) -> None:
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_bytes(path, msgspec.json.encode(kept), mode=0o600)
        except OSError as error:
            log.warning("%s could not be written: %s", path, error)


def server_file(folder: Path, name: str, ending: str) -> Path:
    """Return the file of a server in `folder`; a name that is not a file name gets a hash."""
    plain = re.sub(r"[^\w-]", "_", name)[:80]
    if plain != name:
        plain += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return folder / f"{plain}{ending}"


def cache_key(settings: McpServer) -> str:
    """Return a key of everything that identifies the server, and of the version of Hermes, because
    the rules for admitting tools may change with it."""
    place = (
        __version__,
        settings.command,
        settings.args,
        sorted(settings.env.items()),
        settings.url,
        settings.transport,
        sorted(settings.headers.items()),
        settings.auth,
    )
    return hashlib.sha256(msgspec.json.encode(place)).hexdigest()


# Admission: which tools of a server are offered to the model, and in what form.
#
# A server may be malicious or broken. What can be repaired is repaired; other tools are rejected
# with a reason.

DESCRIPTION_CHARS = 4_000
SCHEMA_CHARS = 40_000
NAME_CHARS = 200
REASON_CHARS = 120
MAX_SCHEMA_DEPTH = 30
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


HEADER_KEY = "x-mcp-header"
HEADER_TYPES = ("string", "integer", "boolean")
SCHEMA_MAPS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
"""More keywords whose values map names to schemas."""
DATA_KEYWORDS = frozenset({"default", "examples", "const", "enum", HEADER_KEY})
"""Keywords whose values are not schemas."""
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class ToolRejected(Exception):
    """A tool is not offered; the text is the reason."""


def admit_tools(
    offered: list[Any], *, mirrors: bool = False
) -> tuple[tuple[RemoteTool, ...], tuple[str, ...]]:
    """Return the admitted tools sorted by name, and the rejected ones with their reasons.

    With `mirrors`, calls repeat arguments in HTTP headers.
    """
    fit: dict[str, RemoteTool] = {}
    problems: list[str] = []
    for number, each in enumerate(offered, 1):
        name = each.get("name") if isinstance(each, dict) else None
        label = one_line(str(name or ""), 60) or f"tool {number}"
        try:
            tool = _admit_tool(each)
            if mirrors:
                headers = _header_fields(tool.parameters)
                tool = msgspec.structs.replace(tool, headers=headers)
            if tool.name in fit:
                raise ToolRejected("there is another of that name")
            fit[tool.name] = tool
        except ToolRejected as reason:
            problems.append(f"{label}: {reason}")
    return tuple(fit[name] for name in sorted(fit)), tuple(problems)


def _admit_tool(offered: Any) -> RemoteTool:
    if not isinstance(offered, dict):
        raise ToolRejected("it is not an object")
    name = offered.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_CHARS:
        raise ToolRejected("it has no usable name")
    if not name.isprintable():  # it is shown in approvals
        raise ToolRejected("its name has characters that cannot be shown")
    execution = offered.get("execution")
    texts = (offered.get(key) for key in ("description", "title"))
    text = next((each for each in texts if isinstance(each, str) and each.strip()), "")
    description = cut_middle(clean(text[: 10 * DESCRIPTION_CHARS]).strip(), DESCRIPTION_CHARS)
    parameters = _parse_parameters(offered.get("inputSchema"))
    found = scan("\n".join([name, description, *_strings(parameters)]))
    if found:
        raise ToolRejected(f"its description tries to steer the agent ({', '.join(found)})")
    hints = offered.get("annotations")
    given = hints if isinstance(hints, dict) else {}
    return RemoteTool(
        name,
        description,
        parameters,
        read_only=given.get("readOnlyHint") is True and given.get("destructiveHint") is not True,
        destructive=given.get("destructiveHint") is True,
        open_world=given.get("openWorldHint") is not False,
        as_task=isinstance(execution, dict) and execution.get("taskSupport") == "required",
    )


def _parse_parameters(schema: Any) -> dict[str, Any]:
    if schema is None:
        return NO_PARAMETERS
    if not isinstance(schema, dict):
        raise ToolRejected("its parameters are not a JSON Schema")
    found: dict[str, Any] = {
        key: value for key, value in schema.items() if key not in ("$schema", "$id")
    }
    if found.setdefault("type", "object") != "object":
        raise ToolRejected("its parameters are not an object")
    found.setdefault("properties", {})
    _check_shape(found)
    import jsonschema_rs  # slow to load; a cached catalog is not checked again

    try:
        jsonschema_rs.validator_for(found, offline=True)
    except ValueError as error:
        reason = one_line(str(error).partition("\n")[0], REASON_CHARS)
        raise ToolRejected(f"its parameters are not a valid JSON Schema: {reason}") from error
    return found


def _header_fields(schema: dict[str, Any]) -> tuple[HeaderField, ...]:
    """Return the arguments that HTTP headers repeat, as `x-mcp-header` of their schemas says.

    The protocol wants a tool with an invalid annotation rejected: intermediaries trust the headers.
    """
    found: dict[str, HeaderField] = {}
    for value, path in _schemas(schema):
        if HEADER_KEY in value:
            field = _header_field(value, path)
            if field.name.lower() in found:
                raise ToolRejected(f"two parameters want the header {field.name[:50]}")
            found[field.name.lower()] = field
    return tuple(found.values())


def _schemas(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], tuple[str, ...] | None]]:
    """Yield every schema in `schema` with its path; None if it is not that of one argument."""
    pending: list[tuple[Any, tuple[str, ...] | None]] = [(schema, ())]
    while pending:
        value, path = pending.pop()
        if isinstance(value, list):
            pending += [(each, None) for each in value]
        if not isinstance(value, dict):
            continue
        yield value, path
        for key, part in value.items():
            if key == "properties" and isinstance(part, dict):
                pending += [(part[name], None if path is None else (*path, name)) for name in part]
            elif key in SCHEMA_MAPS and isinstance(part, dict):
                pending += [(each, None) for each in part.values()]
            elif key not in DATA_KEYWORDS:
                pending.append((part, None))


def _header_field(schema: dict[str, Any], path: tuple[str, ...] | None) -> HeaderField:
    name = schema[HEADER_KEY]
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ToolRejected(f"{HEADER_KEY} of a parameter is not the name of a header")
    if not path:
        raise ToolRejected(f"the header {name[:50]} does not belong to one parameter")
    if schema.get("type") not in HEADER_TYPES:
        raise ToolRejected(f"the header {name[:50]} is not of a text, integer or boolean")
    return HeaderField(name, path)


def _check_shape(schema: dict[str, Any]) -> None:
    try:
        size = len(msgspec.json.encode(schema))
    except RecursionError:
        raise ToolRejected("its parameters are nested too deeply") from None
    if size > SCHEMA_CHARS:
        raise ToolRejected(f"its parameters take {size:,} characters; {SCHEMA_CHARS:,} are allowed")
    for value, depth in _walk(schema):
        if depth > MAX_SCHEMA_DEPTH:
            raise ToolRejected("its parameters are nested too deeply")
        if isinstance(value, dict):
            for key in ("$ref", "$dynamicRef"):
                target = value.get(key, "#")
                # A validator of arguments would fetch the reference.
                if isinstance(target, str) and not target.startswith("#"):
                    raise ToolRejected("its parameters are described elsewhere")
            if isinstance(value.get("$id"), str):
                raise ToolRejected("its parameters are described elsewhere")


def _walk(value: Any) -> Iterator[tuple[Any, int]]:
    pending = [(value, 0)]
    while pending:
        value, depth = pending.pop()
        yield value, depth
        if isinstance(value, dict):
            pending += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            pending += [(each, depth + 1) for each in value]


def _strings(schema: dict[str, Any]) -> Iterator[str]:
    """Yield every string of a schema that the model reads."""
    for value, _ in _walk(schema):
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
