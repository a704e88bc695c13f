"""The interface plugins are written to."""

import inspect
import json
from typing import Any

import pytest

from hermes.memory.provider import Inspectable, MemoryProvider
from hermes.plugins.isolation import call_accepted
from hermes_plugins.memory.holographic import HolographicProvider


class Least(MemoryProvider):
    name = "least"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None: ...

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []


def test_four_things_are_required_and_no_more() -> None:
    needed = {"name", "is_available", "initialize", "get_tool_schemas"}
    assert MemoryProvider.__abstractmethods__ == needed
    with pytest.raises(TypeError):
        MemoryProvider()  # type: ignore[abstract]


def test_everything_else_has_a_harmless_default() -> None:
    provider = Least()
    assert provider.prefetch("q") == provider.system_prompt_block() == ""
    assert provider.get_config_schema() == []
    assert "no tool 'x'" in json.loads(provider.handle_tool_call("x", {}))["error"]
    quiet = [
        provider.save_config({}, "/h"),
        provider.queue_prefetch("q"),
        provider.sync_turn("u", "a"),
        provider.on_session_end([]),
        provider.on_pre_compress([]),
        provider.on_memory_write("add", "memory", "x"),
        provider.on_delegation("t", "r"),
        provider.shutdown(),
    ]
    assert quiet == [None] * 8


def test_looking_inside_is_an_offer_of_its_own() -> None:
    assert not isinstance(Least(), Inspectable)
    assert isinstance(HolographicProvider(), Inspectable)


@pytest.mark.parametrize(
    ("method", "given"),
    [
        (lambda: "none", "none"),
        (lambda a: a, 1),
        (lambda a, b=0: (a, b), (1, 2)),
        (lambda a, *, k=0: (a, k), (1, 3)),
        (lambda a, k=0: (a, k), (1, 2)),
        (lambda *a, **k: (a, k), ((1, 2), {"k": 3, "m": 4})),
        (lambda *a: a, (1, 2)),
    ],
)
def test_a_method_gets_as_much_as_it_takes(method: Any, given: Any) -> None:
    assert call_accepted(method, 1, 2, k=3, m=4) == given, inspect.signature(method)
