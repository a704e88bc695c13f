"""Which models may do a piece of work beside the conversation, in the order they are tried."""

from collections.abc import Iterator

import msgspec

from hermes.config.settings.model import AuxiliaryTask
from hermes.core.errors import ConfigError, CredentialMissing
from hermes.providers.choice import CUSTOM, Choice
from hermes.providers.resolver import Resolver
from hermes.providers.target import Target, Timeouts

MAIN = "main"
TEXT_CHAIN = ("openrouter", "nous", CUSTOM, "openai-codex")
"""Then every other provider with a key, and the main model last."""
VISION_CHAIN = (MAIN, "openrouter", "nous", "openai-codex", "anthropic", CUSTOM)

VISION = "vision"


def auxiliary_targets(
    task: str, asked: AuxiliaryTask, main: Target, resolver: Resolver
) -> tuple[Target, ...]:
    """At least one target. Raises `ConfigError` or `CredentialMissing`.

    `auto` walks the chain of what is configured, `main` is the model of the conversation, and
    anything else names a provider. An address without a provider is an endpoint of its own.
    """
    if asked.provider == MAIN:
        found = [resolver.another_model(main, asked.model) if asked.model else main]
    elif asked.provider not in ("", "auto") or asked.base_url:
        found = [_explicit(task, asked, main, resolver)]
    else:
        found = list(_chain(task, asked, main, resolver))
    if not found:
        raise ConfigError(
            "no model that can see images is configured",
            hint="name one: hermes config set auxiliary.vision.provider <provider>",
        )
    return tuple(_as_asked(target, asked) for target in found)


def _explicit(task: str, asked: AuxiliaryTask, main: Target, resolver: Resolver) -> Target:
    choice = Choice(
        provider=asked.provider if asked.provider not in ("", "auto") else CUSTOM,
        model=asked.model,
        base_url=asked.base_url,
        api_key=asked.api_key,
        why=f"auxiliary.{task}.provider is set",
        base_url_said=f"auxiliary.{task}.base_url",
    )
    return resolver.resolve(_with_default_model(choice, main, resolver))


def _with_default_model(choice: Choice, main: Target, resolver: Resolver) -> Choice:
    """Without a model: the provider's small one, or that of the conversation on the same one."""
    if choice.model:
        return choice
    endpoint = resolver.endpoint(choice.provider)
    same = endpoint.id == main.provider and not choice.base_url
    model = endpoint.small_model or (main.model if same else endpoint.default_model)
    return msgspec.structs.replace(choice, model=model)


def _chain(task: str, asked: AuxiliaryTask, main: Target, resolver: Resolver) -> Iterator[Target]:
    ready = [candidate.endpoint.id for candidate in resolver.candidates(Choice())]
    if task == VISION:
        order = list(VISION_CHAIN)
    else:
        order = [*TEXT_CHAIN, *(name for name in ready if name not in TEXT_CHAIN), MAIN]
    # A model named without a provider is asked of the first one; the others have their own.
    model = asked.model
    seen: set[str] = set()
    for name in order:
        target = _member(name, model, main, resolver, ready)
        if target is None or target.provider in seen:
            continue
        if task == VISION and not target.profile.images:
            continue
        seen.add(target.provider)
        yield target
        model = ""


def _member(
    name: str, model: str, main: Target, resolver: Resolver, ready: list[str]
) -> Target | None:
    """The target of a link of the chain; None when it is not configured, or not fully."""
    if name == MAIN or (name == CUSTOM and main.provider.startswith(CUSTOM)):
        return resolver.another_model(main, model) if model else main
    if name not in ready:
        return None
    choice = Choice(provider=name, model=model, why="auxiliary tasks are set to auto")
    try:
        return resolver.resolve(_with_default_model(choice, main, resolver))
    except (ConfigError, CredentialMissing):
        return None


def _as_asked(target: Target, asked: AuxiliaryTask) -> Target:
    """With the time and the further fields of the task. What is asked once is not worth a place in
    a cache that has to be paid for."""
    seconds = float(asked.timeout)
    limits = msgspec.structs.asdict(target.timeouts)
    timeouts = Timeouts(**{name: min(limit, seconds) for name, limit in limits.items()})
    body = {**target.profile.extra_body, **asked.extra_body}
    profile = msgspec.structs.replace(target.profile, extra_body=body, cache_marks=False)
    return msgspec.structs.replace(target, profile=profile, timeouts=timeouts)
