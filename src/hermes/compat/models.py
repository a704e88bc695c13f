"""Models by their documented names: `agent.auxiliary_client`, `hermes_cli.auth` and others."""

import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import httpx2
import msgspec

from hermes.app import named_model, parse_choice, save_choice, trial_budget
from hermes.compat.runtime import ScriptRuntime, script_runtime
from hermes.config.loader import load
from hermes.config.settings import AuxiliaryTask
from hermes.core import errors
from hermes.core.errors import HermesError, ProviderError, UsageError
from hermes.core.messages import from_dict
from hermes.core.model import ModelRequest, Reply, ToolSpec
from hermes.providers import (
    CUSTOM,
    MAIN,
    Credential,
    Endpoint,
    ModelChoice,
    Target,
    auxiliary_targets,
    parse_model,
)
from hermes.providers.endpoints import endpoint_of_host, find_endpoint
from hermes.providers.failures.classify import failed_in_stream, refused, unreachable

Dicts = Sequence[Mapping[str, Any]]
CHANGES = ("provider", "model", "base_url", "api_key", "timeout", "extra_body")
"""Settings that a caller may replace."""

NO_MAIN = Target(provider="", model="", base_url="")
"""Stands for a model of conversations that cannot be used and is not needed."""


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
    """Return the reply in the form of OpenAI's client: `reply.choices[0].message.content`.

    `task` is one of `auxiliary` in the settings (`vision`, `compression`, …), which name its
    model; the default is the model of conversations. `provider`, `model`, `base_url`, `api_key`,
    `timeout` and `extra_body` replace the settings. The daily cost limit applies. Raises
    `ProviderError`, `UsageError` or `ConfigError`.
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
    runtime = script_runtime()
    asked = _asked(runtime, task, instead)
    return _completion(runtime.run(_ask(runtime, task or MAIN, asked, request)))


def resolve_provider_client(
    provider: str | None = None, model: str | None = None, **instead: Any
) -> tuple["ScriptModelClient", str]:
    """Return a client with `client.chat.completions.create(messages=…)`, and its model. The default
    is the model of conversations. Raises `ConfigError` or `CredentialMissing`."""
    runtime = script_runtime()
    given = {"provider": provider, "model": model, **instead}
    asked = _asked(runtime, None, given)
    target = _targets(runtime, MAIN, asked)[0]
    return ScriptModelClient(given), target.model


class ScriptModelClient:
    """The part of OpenAI's client that one request needs."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = {key: value for key, value in given.items() if value is not None}
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, *, messages: Dicts, stream: bool = False, **more: Any) -> Any:
        if stream:
            raise UsageError("this client does not stream", hint="ask without stream=True")
        return call_llm(messages=messages, **{**self._given, **more})


def _asked(runtime: ScriptRuntime, task: str | None, instead: Mapping[str, Any]) -> AuxiliaryTask:
    given = {key: value for key, value in instead.items() if value is not None}
    if task is None:
        usual = "auto" if given.get("base_url") else MAIN
        if (
            usual == MAIN
            and given.get("provider") == CUSTOM == runtime.providers.main_choice().provider
        ):
            del given["provider"]  # only the settings know its address
        return AuxiliaryTask(**{"provider": usual, "timeout": 600, **given})
    settings = runtime.loaded.settings.auxiliary
    found = getattr(settings, task, None)
    if not isinstance(found, AuxiliaryTask):
        tasks = ", ".join(type(settings).__struct_fields__)
        raise UsageError(f"there is no auxiliary task {task!r}", hint=f"known: {tasks}")
    return msgspec.structs.replace(found, **given)


def _targets(runtime: ScriptRuntime, task: str, asked: AuxiliaryTask) -> tuple[Target, ...]:
    """Return the models to ask, in order."""
    providers = runtime.providers
    try:
        main = providers.known_target(providers.main_choice())
    except HermesError:
        if asked.provider in ("", "auto", MAIN) and not asked.base_url:
            raise
        main = NO_MAIN
    return auxiliary_targets(task, asked, main, providers.resolver)


async def _ask(
    runtime: ScriptRuntime, task: str, asked: AuxiliaryTask, request: ModelRequest
) -> Reply:
    providers = runtime.providers
    async with trial_budget(runtime.home, runtime.loaded, providers.clock) as budget:
        model = providers.maker.chain(_targets(runtime, task, asked), budget)
        return await model.call(request, lambda _event: None)


def _spec(tool: Mapping[str, Any]) -> ToolSpec:
    inner = tool.get("function", tool)
    parameters = inner.get("parameters") or {"type": "object", "properties": {}}
    return ToolSpec(str(inner["name"]), str(inner.get("description", "")), parameters)


def _completion(reply: Reply) -> SimpleNamespace:
    message, usage = reply.message, reply.usage
    calls = [
        SimpleNamespace(
            id=call.id,
            type="function",
            function=SimpleNamespace(name=call.name, arguments=call.arguments),
        )
        for call in message.calls
    ]
    said = SimpleNamespace(
        role="assistant",
        content=message.text or None,
        reasoning=message.thinking or None,
        tool_calls=calls or None,
    )
    return SimpleNamespace(
        model=reply.model,
        provider=reply.provider,
        choices=[SimpleNamespace(index=0, message=said, finish_reason=message.finish_reason)],
        usage=SimpleNamespace(
            prompt_tokens=usage.prompt, completion_tokens=usage.output, total_tokens=usage.total
        ),
    )


# `agent.credential_pool`: the keys of a provider.


class LoadedPool:
    """The keys and logins that requests to a provider may use, best first."""

    def __init__(self, runtime: ScriptRuntime, endpoint: Endpoint) -> None:
        self._shared, self._endpoint = runtime, endpoint
        self.provider = endpoint.id

    def has_credentials(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def sources(self) -> list[str]:
        """Return where each key comes from, in words."""
        return [each.source for each in self._found]

    def select(self) -> str:
        """Return the key to send next, by `credential_pool_strategies`; an expiring token is
        renewed first. Raises `CredentialMissing` or `CredentialsExhausted`."""
        pool = self._shared.providers.keyring.pool(self._endpoint, self._found)
        return self._shared.run(pool.take()).secret

    @property
    def _found(self) -> tuple[Credential, ...]:
        return self._shared.providers.keyring.credentials(self._endpoint)


def load_pool(provider: str) -> LoadedPool:
    """Raises `ConfigError` for an unknown provider."""
    runtime = script_runtime()
    return LoadedPool(runtime, runtime.providers.resolver.endpoint(provider))


# `agent.error_classifier`: what a failure of a model endpoint means.

RETRY = (
    errors.Transient,
    errors.RateLimited,
    errors.SignatureRefused,
    errors.UnicodeRefused,
    errors.OptionRefused,
)
ROTATE = (errors.CredentialRefused, errors.QuotaSpent, errors.RateLimited)
STAY = (
    errors.ContextOverflow,
    errors.ContentRefused,
    errors.SignatureRefused,
    errors.OptionRefused,
)
"""Errors for which another model does not help, or not yet."""


class ClassifiedError(msgspec.Struct, frozen=True):
    reason: str
    """The class in words with underscores: `rate_limited`, `context_overflow`, `stream_cut`, …"""
    message: str
    status_code: int | None = None
    retry_after: float | None = None  #: Seconds the endpoint asked to wait.
    retryable: bool = False  #: The same request may succeed later, or after a correction.
    should_compress: bool = False
    should_rotate_credential: bool = False
    should_fallback: bool = False
    hint: str = ""


def classify_api_error(
    error: BaseException,
    provider: str = "",
    model: str = "",  # noqa: ARG001 - documented; the class does not depend on it
    **_more: Any,
) -> ClassifiedError:
    """`error` is an exception of ours, of httpx2, or one with `status_code` and `body` or
    `response`, as the SDKs of OpenAI and Anthropic raise."""
    kind = _ours(error, provider)
    return ClassifiedError(
        reason=re.sub(r"(?<!^)(?=[A-Z])", "_", type(kind).__name__).lower(),
        message=str(kind),
        status_code=kind.status,
        retry_after=kind.retry_after,
        retryable=isinstance(kind, RETRY),
        should_compress=isinstance(kind, errors.ContextOverflow),
        should_rotate_credential=isinstance(kind, ROTATE),
        should_fallback=not isinstance(kind, STAY),
        hint=kind.hint,
    )


def _ours(error: BaseException, provider: str) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL):
        return unreachable(provider, _address(error), error)
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if isinstance(status, int) and status >= 300:
        headers = dict(getattr(response, "headers", None) or {})
        return refused(provider, status, headers, _body(error, response))
    if isinstance(error, TimeoutError):
        return errors.StreamStalled(f"no answer in time: {error}", provider=provider)
    if isinstance(error, ConnectionError):
        return errors.Unreachable(f"no connection: {error}", provider=provider)
    return failed_in_stream(provider, getattr(error, "body", None) or str(error))


def _address(error: httpx2.HTTPError | httpx2.InvalidURL) -> str:
    try:
        return str(error.request.url) if isinstance(error, httpx2.HTTPError) else ""
    except RuntimeError:  # the error knows of no request
        return ""


def _body(error: BaseException, response: Any) -> bytes:
    body = getattr(error, "body", None)
    if body is None:
        body = getattr(response, "content", None)
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body or str(error))


# `hermes_cli.auth`, `hermes_cli.runtime_provider`, `hermes_cli.model_switch` and part of
# `agent.model_metadata`: which model, where, and with which key.

Dict = dict[str, Any]


def resolve_provider(requested: str | None = None) -> str:
    """Return the id of a provider by its id, alias or custom name; by default that of
    conversations. Raises `ConfigError`."""
    runtime = script_runtime()
    name = (requested or "").strip()
    if name.lower() in ("", "auto"):
        return runtime.providers.known_target(runtime.providers.main_choice()).provider
    return runtime.providers.resolver.endpoint(name).id


def resolve_runtime_provider(
    requested: str | None = None,
    *,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Dict:
    """Return where requests go: `provider`, `model`, `api_mode`, `base_url`, `api_key` (a fresh
    token for a login), `source` in words, and `expires_at` of the key in Unix seconds or None. The
    default is the model of conversations. Raises `ConfigError` or `CredentialMissing`."""
    runtime = script_runtime()
    asked = runtime.providers.main_choice()
    if requested == asked.provider and not base_url and not api_key:
        asked = msgspec.structs.replace(asked, model=model or asked.model)
    elif requested or model or base_url or api_key:
        asked = ModelChoice(
            provider=requested or (CUSTOM if base_url else "auto"),
            model=model or "",
            base_url=base_url or "",
            api_key=api_key or "",
            reason="asked for",
        )
    target = runtime.providers.known_target(asked)
    return runtime.run(_with_key(runtime, target))


async def _with_key(runtime: ScriptRuntime, target: Target) -> Dict:
    found: Dict = {
        "provider": target.provider,
        "model": target.model,
        "api_mode": target.api_mode,
        "base_url": target.base_url,
        "api_key": "",
        "source": target.source,
        "expires_at": None,
    }
    if target.credentials:
        endpoint = runtime.providers.resolver.endpoint(target.key_owner or target.provider)
        key = await runtime.providers.keyring.pool(endpoint, target.credentials).take()
        found |= {"api_key": key.secret, "expires_at": key.expires_at, "source": key.source}
    return found


def switch_model(model: str, *, base_url: str = "", save: bool = True) -> Dict:
    """Choose the model of conversations, as `hermes model set` does: a name, an alias of
    `model_aliases`, or `provider:model`. An unusable one is not saved. Return `provider`, `model`,
    `base_url`, `context_length` and `warning`."""
    runtime = script_runtime()
    providers, loaded = runtime.providers, load(runtime.home)
    try:
        current = providers.known_target(providers.main_choice())
    except HermesError:
        current = None  # nothing to keep of a choice that does not work
    choice = parse_choice(model, loaded, current)
    if base_url:
        choice = msgspec.structs.replace(choice, base_url=base_url)
    target = providers.known_target(choice)
    if save:
        save_choice(runtime.home, choice, target)
    return {
        "provider": target.provider,
        "model": target.model,
        "base_url": target.base_url,
        "context_length": target.profile.context_length,
        "warning": providers.doubt(target),
    }


def get_model_context_length(model: str, base_url: str = "", provider: str = "") -> int:
    """Return the context length of a model from the settings, the list of the endpoint, our tables,
    or else a careful guess, without network access."""
    runtime = script_runtime()
    providers, settings = runtime.providers, runtime.loaded.settings
    named = parse_model(model, providers.custom_names())
    usual = settings.model.context_length
    if usual and not base_url and named.model == named_model(runtime.loaded).model:
        return usual
    name = provider or (CUSTOM if base_url else named.provider)
    main = providers.main_choice().provider
    name = name if name != "auto" else main if main != "auto" else CUSTOM
    endpoint = providers.resolver.endpoint(name)
    asked = named.model if not named.is_auto else model
    address = base_url or endpoint.base_url or settings.model.base_url
    return providers.known.profile(endpoint, address, asked).context_length


def detect_provider_for_model(model: str, current_provider: str = "auto") -> tuple[str, str] | None:
    """Return the provider that a name such as `anthropic:claude-opus-5` names, and the model; None
    if it names none, or the current one."""
    choice = parse_model(model)
    if choice.is_auto or choice.provider == current_provider:
        return None
    return choice.provider, choice.model


def determine_api_mode(provider: str, base_url: str = "") -> str:
    """Return how a provider is spoken to: `chat_completions`, `anthropic_messages`, ..."""
    endpoint = find_endpoint(provider) or (endpoint_of_host(base_url) if base_url else None)
    return endpoint.api_mode if endpoint else "chat_completions"
