"""The models: which one answers, whether it can be reached, and what stands behind it."""

import asyncio

from hermes.app.choices import fallback_choices, main_choice
from hermes.app.doctor.asking import Answer
from hermes.app.doctor.findings import Finding, Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.app.resolution import whole_resolution
from hermes.config.keys import join_key
from hermes.core.errors import (
    CredentialRefused,
    HermesError,
    ProviderError,
    QuotaSpent,
    RateLimited,
    Unreachable,
)
from hermes.providers import LOCAL, NO_KEY_REASON, ModelChoice, Target
from hermes.util.text import many

CONTEXT = "context_length"
MOST_FALLBACKS = 8
NO_LIST = (404, 405, 501)
"""A server of one's own may answer in conversations and have no list of models."""


def chosen(scene: Scene) -> Found:
    try:
        target = scene.providers.known_target(main_choice(scene.loaded))
    except HermesError as error:
        return [problem(f"no model can answer: {error}", error.hint or "hermes model")]
    named = f"{target.model} on {target.provider}"
    if target.source == NO_KEY_REASON:
        text = f"no key is set: only the small embedded model answers ({target.model})"
        return [warning(text, "hermes auth add openrouter (or another provider) adds a key")]
    return [fine(f"{named}: {target.source}")]


async def endpoint(scene: Scene) -> Found:
    target = _main(scene)
    if target is None or target.provider == LOCAL:
        return []
    answer = await scene.asking.answer(target)
    if answer.error is not None or not answer.has_list:
        return [_unanswered(answer, target)]
    listed = fine(f"{answer.host} answers and lists {many(len(answer.models), 'model')}")
    doubt = scene.providers.doubt(target)
    if not doubt:
        return [listed]
    return [listed, warning(doubt, f"`hermes models {target.provider}` lists them")]


async def context(scene: Scene) -> Found:
    """A window that is guessed too small is wasted, one too large loses turns."""
    target = _main(scene)
    if target is None or target.provider == LOCAL:
        return []
    if not scene.offline:
        await scene.asking.answer(target)  # its list may say how much the model reads
        target = _main(scene) or target
    size = target.profile.context_length
    endpoint = scene.providers.resolver.endpoint(target.provider)
    known = scene.providers.known.explain(endpoint, target.base_url, target.model)
    if scene.settings.model.context_length == size or any(e.field == CONTEXT for e in known):
        return [fine(f"{target.model} reads {size:,} tokens")]
    text = f"how much {target.model} can read is not known; {size:,} tokens are assumed"
    key = join_key(("providers", target.provider, "models", target.model, CONTEXT))
    return [warning(text, f"hermes config set '{key}' TOKENS")]


def _unanswered(answer: Answer, target: Target) -> Finding:
    error = answer.error
    if error is None:
        return fine(f"{answer.host} has no list of models, so it was not asked")
    if isinstance(error, CredentialRefused):
        return problem(
            f"{answer.host} refuses the key: {error}",
            f"get a new one, then: hermes auth add {target.provider}",
        )
    if isinstance(error, QuotaSpent | RateLimited):
        return warning(f"{answer.host} answers, but: {error}", error.hint or "look at your account")
    if isinstance(error, Unreachable):
        advice = error.hint or "look at the network, a proxy (HTTPS_PROXY) and the address"
        return problem(f"{answer.host} cannot be reached: {error}", advice)
    if isinstance(error, ProviderError) and error.status in NO_LIST:
        text = f"{answer.host} answers, but lists no models there (HTTP {error.status})"
        return warning(text, error.hint or "is that the right address?")
    return problem(f"{answer.host}: {error}", error.hint or "`hermes status --deep` tries again")


async def fallbacks(scene: Scene) -> Found:
    choices = list(fallback_choices(scene.settings))[:MOST_FALLBACKS]
    return list(await asyncio.gather(*(_fallback(scene, choice) for choice in choices)))


async def _fallback(scene: Scene, choice: ModelChoice) -> Finding:
    named = f"{choice.reason}: {choice.model} on {choice.provider}"
    try:
        target = scene.providers.known_target(choice)
    except HermesError as error:
        advice = error.hint or "correct fallback_providers with `hermes config edit`"
        return warning(f"{named} cannot be used: {error}", advice)
    if target.provider == LOCAL:
        return fine(f"{named} runs on this machine")
    answer = await scene.asking.answer(target)
    if answer.error is not None:
        advice = answer.error.hint or "correct fallback_providers with `hermes config edit`"
        return warning(f"{named} would not answer: {answer.error}", advice)
    doubt = scene.providers.doubt(target)
    if doubt:
        return warning(f"{named}: {doubt}", f"`hermes models {target.provider}` lists them")
    return fine(f"{named} answers")


def auxiliary(scene: Scene) -> Found:
    if _main(scene) is None:
        return []  # without a model nothing else works: said already
    tasks = whole_resolution(scene.loaded, scene.providers).auxiliary
    return [
        warning(
            f"auxiliary.{name}: {task.problem}",
            task.hint or f"hermes config set auxiliary.{name}.provider main",
        )
        for name, task in tasks.items()
        if task.problem
    ] or [fine(f"{many(len(tasks), 'auxiliary task')} have a model")]


def _main(scene: Scene) -> Target | None:
    try:
        return scene.providers.known_target(main_choice(scene.loaded))
    except HermesError:
        return None  # `chosen` tells why
