"""Requests of the Code Assist API: Gemini's own API in an envelope with model and project."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, ClassVar
from urllib.parse import parse_qs

import msgspec

from hermes.core.messages import Assistant, Message, System, ToolResult
from hermes.core.model import ModelRequest
from hermes.providers.target import Target
from hermes.providers.wire.code_assist.form import CodeAssistForm, tool_form
from hermes.providers.wire.code_assist.reply import CodeAssistReader
from hermes.providers.wire.code_assist.schema import gemini_schema
from hermes.providers.wire.effort import BUDGETS
from hermes.providers.wire.encoding import encoded_tools, joined
from hermes.providers.wire.marks import has_content

LEVELS = {"none": "LOW", "minimal": "LOW", "low": "LOW", "medium": "MEDIUM"}
"""Those that every newer model knows; it cannot be kept from thinking. Anything else is HIGH."""
MOST_BUDGET = 24_576
LEAST_BUDGET = {"pro": 128}
"""What an older model thinks at least; the others can be kept from it."""

_OLDER = re.compile(r"gemini-[12]\b(?:.*\b(?P<kind>pro)\b)?")
"""Models with a budget instead of a level, whose calls need no signature."""


class CodeAssistDialect:
    """The API has no single address for both kinds of reply: the profile must say `always` for
    streaming, and `url` is where streams come from.

    A login brings its project along in its address, as `?project=ID`; it belongs into the body.
    """

    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, target: Target) -> None:
        self._target = target
        self._older = _OLDER.search(target.model)
        self._form = CodeAssistForm(signed=self._older is None)
        self._project = ""

    def url(self, base_url: str) -> str:
        base, _, query = base_url.partition("?")
        self._project = parse_qs(query).get("project", [""])[0]
        return f"{base.rstrip('/')}:streamGenerateContent?alt=sse"

    def reader(self) -> CodeAssistReader:
        return CodeAssistReader(self._target)

    def body(self, request: ModelRequest, stream: bool) -> bytes:  # noqa: ARG002 - the address asks for it
        profile = self._target.profile
        leading = list(takewhile(lambda message: isinstance(message, System), request.messages))
        system = [message.wire(self._form) for message in leading if has_content(message)]
        inner: dict[str, Any] = {}
        if system:
            inner["systemInstruction"] = {"role": "user", "parts": joined(system)}
        if request.tools and profile.tools:
            functions = encoded_tools(tool_form, request.tools)
            inner["tools"] = [{"functionDeclarations": functions}]
        if config := self._config(request, tools="tools" in inner):
            inner["generationConfig"] = config
        inner["contents"] = self._contents(request.messages[len(leading) :])
        body: dict[str, Any] = {"model": self._target.model}
        if self._project:
            body["project"] = self._project
        return msgspec.json.encode({**body, "request": inner} | profile.extra_body)

    def _contents(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Neighbours of one kind as one content: all results of one reply must stand together,
        and nothing may stand between a call and what was said with it."""
        sent = [message for message in _named(messages) if has_content(message)]
        return [
            {
                "role": "model" if kind is Assistant else "user",
                "parts": joined([message.wire(self._form) for message in run]),
            }
            for kind, run in groupby(sent, type)
        ]

    def _config(self, request: ModelRequest, *, tools: bool) -> dict[str, Any]:
        profile = self._target.profile
        config: dict[str, Any] = {}
        if request.max_tokens is not None and profile.max_tokens_field:
            config["maxOutputTokens"] = request.max_tokens
        if request.temperature is not None and profile.temperature:
            config["temperature"] = request.temperature
        # The older models refuse a form of the reply beside tools.
        if request.reply_schema is not None and not (tools and self._older):
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = gemini_schema(request.reply_schema)
        if profile.reasoning:
            config["thinkingConfig"] = self._thinking(request.reasoning_effort)
        return config

    def _thinking(self, effort: str) -> dict[str, Any]:
        thinking: dict[str, Any] = {"includeThoughts": effort != "none"}
        if not effort:
            return thinking
        if self._older is None:
            return {**thinking, "thinkingLevel": LEVELS.get(effort, "HIGH")}
        least = LEAST_BUDGET.get(self._older["kind"] or "", 0)
        budget = 0 if effort == "none" else BUDGETS.get(effort, BUDGETS["medium"])
        return {**thinking, "thinkingBudget": min(max(budget, least), MOST_BUDGET)}


def _named(messages: Sequence[Message]) -> Sequence[Message]:
    """A result is matched by the name of its tool; one from elsewhere may lack it."""
    if all(message.name for message in messages if isinstance(message, ToolResult)):
        return messages
    said = [message for message in messages if isinstance(message, Assistant)]
    names = {call.id: call.name for message in said for call in message.calls}
    return [
        msgspec.structs.replace(message, name=names.get(message.call_id, ""))
        if isinstance(message, ToolResult) and not message.name
        else message
        for message in messages
    ]
