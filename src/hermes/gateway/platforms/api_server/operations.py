"""The table of what the server does. Requests find their way by it, and the OpenAPI document is
made of it, so neither can say what the other does not do."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.gateway.platforms.api_server.idempotency import Handler
from hermes.gateway.platforms.api_server.refusals import Refused, missing

STREAM = "text/event-stream"


class Answer(msgspec.Struct, frozen=True):
    """An answer that an operation may give."""

    says: str
    kind: Any = None
    """The type of its JSON; None when it has none."""
    stream: bool = False
    """It may be a stream of events instead."""
    text: str = ""
    """The media type when it is no JSON."""


class Operation(msgspec.Struct, frozen=True):
    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    answers: Mapping[int, Answer]
    """Those of success; what it may refuse is in `refuses`."""
    refuses: tuple[int, ...] = ()
    takes: Any = None
    """The type of the JSON of its body."""
    headers: tuple[str, ...] = ()
    """Those it knows."""
    public: bool = False
    """It needs no key."""

    @property
    def once(self) -> bool:
        """A request that comes twice is done once."""
        return "Idempotency-Key" in self.headers


class Routes:
    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self.operations = operations
        self._exact: dict[str, dict[str, Operation]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Operation]]] = []
        places: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            places.setdefault(operation.path, {})[operation.method] = operation
        for path, methods in places.items():
            if "{" in path:
                pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
                self._patterns.append((re.compile(pattern), methods))
            else:
                self._exact[path] = methods

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]]:
        """Raises `Refused` when there is nothing."""
        methods, given = self._place(path)
        operation = methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = (("Allow", ", ".join(sorted(methods))),)
            message = f"{method} is not possible here"
            raise Refused(405, message, code="method_not_allowed", headers=allowed)
        return operation, given

    def _place(self, path: str) -> tuple[dict[str, Operation], dict[str, str]]:
        """A slash at the end does not matter: front ends put paths together in many ways."""
        plain = path.rstrip("/")
        if plain in self._exact:
            return self._exact[plain], {}
        for pattern, methods in self._patterns:
            if found := pattern.fullmatch(plain):
                return methods, found.groupdict()
        hint = "; the address of this API ends with /v1" if f"/v1{plain}" in self._exact else ""
        raise missing(f"there is nothing at {path[:200]}{hint}")
