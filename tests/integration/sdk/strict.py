"""Replies of the model server held against the types of an SDK, more strictly than the SDK does.

The SDKs build their objects from whatever comes. Here a missing field fails, and so does one that
the SDK does not know.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
from pydantic import BaseModel, TypeAdapter

from hermes.core.testing import ModelServer


def checked(kind: Any, data: Any, *, extensions: frozenset[str] = frozenset()) -> Any:
    """`data` as a `kind`; `extensions` are fields that other vendors add."""
    value = TypeAdapter(kind).validate_python(data)
    unknown = set(_unknown(value)) - extensions
    assert not unknown, f"the SDK does not know {unknown}"
    return value


def _unknown(value: Any) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from value.model_extra or ()
        for inner in value.__dict__.values():
            yield from _unknown(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _unknown(inner)


def body_of(server: ModelServer, path: str, request: dict[str, Any]) -> Any:
    response = httpx2.post(f"{server.url}{path}", json=request)
    assert response.status_code == 200, response.text
    return response.json()


def events_of(server: ModelServer, path: str, request: dict[str, Any]) -> list[Any]:
    """The data of each event but the final `[DONE]`."""
    response = httpx2.post(f"{server.url}{path}", json={**request, "stream": True})
    assert response.status_code == 200, response.text
    lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
    datas = [line.removeprefix("data: ") for line in lines]
    return [json.loads(data) for data in datas if data != "[DONE]"]
