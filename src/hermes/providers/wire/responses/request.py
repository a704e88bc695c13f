"""Requests of the OpenAI responses API, and of the Codex service that speaks it too."""

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, ClassVar

import msgspec

from hermes.core.messages import System
from hermes.core.model import ModelRequest
from hermes.providers.target import Target
from hermes.providers.wire.encoding import Growing, encoded_tools, joined
from hermes.providers.wire.headers import address
from hermes.providers.wire.responses.form import ResponsesForm, tool_form
from hermes.providers.wire.responses.reply import ResponsesReader

DEFAULT_INSTRUCTIONS = "You are a helpful assistant."
"""For services that insist on instructions."""


class ResponsesDialect:
    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, target: Target) -> None:
        self._target = target
        self._growing = Growing(ResponsesForm(target.profile.developer_role))

    def url(self, base_url: str) -> str:
        return address(base_url, "/responses")

    def reader(self) -> ResponsesReader:
        return ResponsesReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:
        """Nothing is stored at the endpoint, so thinking comes and goes in encrypted form."""
        profile, effort = self._target.profile, request.reasoning_effort
        leading = list(takewhile(lambda message: isinstance(message, System), request.messages))
        rest = request.messages[len(leading) :]
        body: dict[str, Any] = {"model": self._target.model, "store": False}
        if profile.reasoning:  # a model that does not think refuses to be asked for thoughts
            body["include"] = ["reasoning.encrypted_content"]
        instructions = "\n\n".join(message.text.strip() for message in leading)
        if instructions or profile.streaming == "always":
            body["instructions"] = instructions or DEFAULT_INSTRUCTIONS
        body["input"] = joined(self._growing.encoded(rest))
        if request.tools and profile.tools:
            body["tools"] = encoded_tools(tool_form, request.tools)
        if request.max_tokens is not None and profile.max_tokens_field:
            body["max_output_tokens"] = request.max_tokens
        if request.temperature is not None and profile.temperature:
            body["temperature"] = request.temperature
        if effort and profile.reasoning:
            body["reasoning"] = {"effort": effort, "summary": "auto"}
        if request.reply_schema is not None:
            schema = {"name": "reply", "strict": True, "schema": request.reply_schema}
            body["text"] = {"format": {"type": "json_schema", **schema}}
        if stream:
            body["stream"] = True
        return msgspec.json.encode(body | profile.extra_body)
