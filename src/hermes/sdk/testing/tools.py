"""The contract of tools, as tests: subclass `ToolContract` in a test module.

    class TestForecast(ToolContract):
        example = {"town": "Rome"}

        @pytest.fixture
        def tool(self):
            return load_plugin("plugins/weather").tools["forecast"]

`load_plugin` of `hermes.sdk.testing.plugin` loads a plugin as Hermes does.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolError
from hermes.core.tool import Tool
from hermes.sdk.testing.plugin import call_tool, run_tool, tool_context


class ToolContract:
    """What every tool keeps to."""

    example: ClassVar[Mapping[str, Any]] = {}  #: Arguments of a call that succeeds.
    max_schema_chars = 2_000  #: The model pays for the schema with each request.
    stop_seconds = 1.0

    @pytest.fixture
    def tool(self) -> Tool:
        raise NotImplementedError("define the fixture `tool` in the subclass")

    def test_its_schema_is_short_and_complete(self, tool: Tool) -> None:
        spec = tool.spec
        assert spec.name.replace("_", "").replace("-", "").isalnum()
        assert spec.description
        assert spec.parameters["type"] == "object"
        assert set(spec.parameters.get("required", ())) <= set(spec.parameters["properties"])
        assert len(spec.description) + len(json.dumps(spec.parameters)) <= self.max_schema_chars

    def test_the_example_succeeds(self, tool: Tool) -> None:
        assert isinstance(call_tool(tool, self.example), str)

    def test_wrong_arguments_are_named(self, tool: Tool) -> None:
        with pytest.raises(ToolArgumentsInvalid, match="no_such_argument"):
            call_tool(tool, {**self.example, "no_such_argument": 1})
        for name in tool.spec.parameters.get("required", ()):
            rest = {key: value for key, value in self.example.items() if key != name}
            with pytest.raises(ToolArgumentsInvalid, match=name):
                call_tool(tool, rest)

    def test_a_stop_ends_the_call(self, tool: Tool) -> None:
        async def stopped() -> None:
            token = CancelToken()
            asyncio.get_running_loop().call_soon(token.cancel)
            context = tool_context(cancel=token)
            async with asyncio.timeout(self.stop_seconds):
                await run_tool(tool, dict(self.example), context)

        with suppress(Interrupted, ToolError):  # the only errors that may leave a tool
            asyncio.run(stopped())
