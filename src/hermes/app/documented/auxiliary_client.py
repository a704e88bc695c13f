"""`agent.auxiliary_client`: one question to a model, beside any conversation."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import msgspec

from hermes.app.documented.process import Process, process
from hermes.app.providers import trial_purse
from hermes.config.settings.model import AuxiliaryTask
from hermes.core.errors import HermesError, ReplyInvalid, UsageError
from hermes.core.messages import ToolCall
from hermes.core.model import ModelRequest, Reply, ToolSpec
from hermes.core.openai_format import from_dict
from hermes.providers import CUSTOM, MAIN, Target, auxiliary_targets

Dicts = Sequence[Mapping[str, Any]]
CHANGES = ("provider", "model", "base_url", "api_key", "timeout", "extra_body")
"""What a caller may say instead of the settings."""

NO_MAIN = Target(provider="", model="", base_url="")
"""Stands for the model of conversations when that cannot be used, and is not needed."""


def call_llm(
    task: str | None = None,
    *,
    messages: Dicts,
    tools: Dicts | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    reasoning_effort: str = "",
    **instead: Any,
) -> Any:
    """The reply in the shape of OpenAI's client: `reply.choices[0].message.content`.

    `task` is one of `auxiliary` in the settings (`vision`, `compression`, …), which say who
    answers; without one it is the model of conversations. `provider`, `model`, `base_url`,
    `api_key`, `timeout` and `extra_body` are used instead of what the settings say. The cap of
    the day counts. Raises `ProviderError`, `UsageError` or `ConfigError`.
    """
    if unknown := [name for name in instead if name not in CHANGES]:
        raise TypeError(f"call_llm has no parameter {unknown[0]!r}")
    request = ModelRequest(
        tuple(from_dict(dict(each)) for each in messages),
        tuple(map(_spec, tools or ())),
        max_tokens=max_tokens,
        temperature=temperature,
        reasoning_effort=reasoning_effort,
    )
    shared = process()
    asked = _asked(shared, task, instead)
    return _completion(shared.run(_ask(shared, task or MAIN, asked, request)))


def resolve_provider_client(
    provider: str | None = None, model: str | None = None, **instead: Any
) -> tuple["ProviderClient", str]:
    """A client with `client.chat.completions.create(messages=…)`, and the model it asks. Without a
    provider it is that of conversations; `base_url` and `api_key` can be given. Raises
    `ConfigError` or `CredentialMissing`."""
    shared = process()
    given = {"provider": provider, "model": model, **instead}
    asked = _asked(shared, None, given)
    target = _targets(shared, MAIN, asked)[0]
    return ProviderClient(given), target.model


class ProviderClient:
    """As much of OpenAI's client as one question needs."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {key: value for key, value in given.items() if value is not None}
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, *, messages: Dicts, stream: bool = False, **more: Any) -> Any:
        if stream:
            raise UsageError("this client does not stream", hint="ask without stream=True")
        return call_llm(messages=messages, **{**self._given, **more})


def _asked(shared: Process, task: str | None, instead: Mapping[str, Any]) -> AuxiliaryTask:
    given = {key: value for key, value in instead.items() if value is not None}
    if task is None:
        usual = "auto" if given.get("base_url") else MAIN
        if (
            usual == MAIN
            and given.get("provider") == CUSTOM == shared.providers.main_choice().provider
        ):
            del given["provider"]  # only the settings know its address
        return AuxiliaryTask(**{"provider": usual, "timeout": 600, **given})
    settings = shared.loaded.settings.auxiliary
    found = getattr(settings, task, None)
    if not isinstance(found, AuxiliaryTask):
        tasks = ", ".join(type(settings).__struct_fields__)
        raise UsageError(f"there is no auxiliary task {task!r}", hint=f"known: {tasks}")
    return msgspec.structs.replace(found, **given)


def _targets(shared: Process, task: str, asked: AuxiliaryTask) -> tuple[Target, ...]:
    """Who is asked, in order."""
    providers = shared.providers
    try:
        main = providers.known_target(providers.main_choice())
    except HermesError:
        if asked.provider in ("", "auto", MAIN) and not asked.base_url:
            raise
        main = NO_MAIN
    return auxiliary_targets(task, asked, main, providers.resolver)


async def _ask(shared: Process, task: str, asked: AuxiliaryTask, request: ModelRequest) -> Reply:
    providers = shared.providers
    async with trial_purse(shared.home, shared.loaded, providers.clock) as purse:
        model = providers.maker.chain(_targets(shared, task, asked), purse)
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    return event
    raise ReplyInvalid(f"{model.provider} ended without a reply", provider=model.provider)


def _spec(tool: Mapping[str, Any]) -> ToolSpec:
    inner = tool.get("function", tool)
    parameters = inner.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(str(inner["name"]), str(inner.get("description", "")), parameters)


def _completion(reply: Reply) -> SimpleNamespace:
    message, usage = reply.message, reply.usage
    said = SimpleNamespace(
        role="assistant",
        content=message.text or None,
        reasoning=message.thinking or None,
        tool_calls=list(map(_call, message.calls)) or None,
    )
    return SimpleNamespace(
        model=reply.model,
        provider=reply.provider,
        choices=[SimpleNamespace(index=0, message=said, finish_reason=message.finish_reason)],
        usage=SimpleNamespace(
            prompt_tokens=usage.prompt,
            completion_tokens=usage.output,
            total_tokens=usage.total,
        ),
    )


def _call(call: ToolCall) -> SimpleNamespace:
    function = SimpleNamespace(name=call.name, arguments=call.arguments)
    return SimpleNamespace(id=call.id, type="function", function=function)
