"""`hermes models` and `hermes local`: available models with prices, and the embedded model."""

import argparse
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.app.model_choice import ListedModel, ModelFilter, ModelLister, ProviderModels
from hermes.app.providers import Providers
from hermes.cli.context import YES, Cli, Command, ProgressLine, Style, arg, flag
from hermes.core.errors import HermesError, UsageError
from hermes.providers import LOCAL as RESOLVER_LOCAL
from hermes.providers import Target, endpoints
from hermes.providers.catalog import ModelFacts
from hermes.providers.local import (
    LocalModelFile,
    fetch_weights,
    local_models,
    resolve_weights,
    sha256_of,
)
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, human_size, many

ABILITIES = ("images", "tools", "reasoning", "deprecated")
UNITS = {"k": 1000, "m": 1_000_000}


async def run_models(args: Namespace, cli: Cli) -> int:
    if args.limit < 0:
        raise UsageError("--limit cannot be negative")
    if args.max_price is not None and not args.max_price >= 0:
        raise UsageError("--max-price cannot be negative")
    names = [custom.name for custom in cli.load().settings.custom_providers]
    provider, words = _split(args.words, names)
    if args.all and provider:
        raise UsageError(f"either {provider} or --all", hint="leave one of them out")
    abilities = (args.images, args.tools, args.reasoning)
    wanted = ModelFilter(tuple(words), *abilities, args.free, args.context, args.max_price)
    found: list[ProviderModels] = []
    async with Providers(cli.home, cli.load(), SystemClock(), ProgressLine(cli.stderr)) as parts:
        lister = ModelLister(parts.resolver, parts.known, parts.keyring, parts.client)
        current = _current(parts, needed=not (provider or args.all))
        for target in _targets(lister, cli, provider, current, every=args.all):
            used = current is not None and current.provider == target.provider
            in_use = current.model if current is not None and used else ""
            models = await lister.models(target, wanted, in_use=in_use, refresh=args.refresh)
            found.append(models)
    _show(found, args, cli)
    return 0 if any(provider_models.models for provider_models in found) else 1


def _split(words: Sequence[str], custom_names: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Split off the first word if it names a provider."""
    if not words:
        return "", ()
    name = words[0].removeprefix("custom:")
    if endpoints.find_endpoint(words[0].lower()) or name.lower() in map(str.lower, custom_names):
        return words[0], words[1:]
    return "", words


def _current(parts: Providers, *, needed: bool) -> Target | None:
    """Return the model in use; a broken choice is an error only if it was requested."""
    try:
        return parts.known_target(parts.main_choice())
    except HermesError:
        if needed:
            raise
        return None


def _targets(
    lister: ModelLister, cli: Cli, provider: str, current: Target | None, *, every: bool
) -> Iterator[Target]:
    if not every:
        target = lister.target(provider, current) if provider else current
        if target is None or target.provider == RESOLVER_LOCAL:
            hint = "`hermes local list` shows the embedded ones; `hermes models PROVIDER` others"
            raise UsageError("the embedded model is in use, which has no list", hint=hint)
        yield target
        return
    names = lister.with_keys()
    if current is not None and current.provider not in (RESOLVER_LOCAL, *names):
        names = (current.provider, *names)
    if not names:
        raise UsageError("no provider has a key", hint="hermes auth add PROVIDER")
    for name in names:
        try:
            yield lister.target(name, current)
        except HermesError as error:
            cli.note(f"{name}: {error}")


def _tokens(text: str) -> int:
    number, unit = text.lower().removesuffix("b"), 1
    if number[-1:] in UNITS:
        number, unit = number[:-1], UNITS[number[-1]]
    try:
        tokens = float(number) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens") from None
    if not 0 <= tokens < 1e12:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens")
    return int(tokens)


def _show(found: Sequence[ProviderModels], args: Namespace, cli: Cli) -> None:
    limit = args.limit or None
    if args.json:
        cli.json([_provider_facts(one, limit) for one in found])
        return
    style = Style.of(cli.stdout)
    for one in found:
        cli.say(style.bold(_heading(one)))
        for line in _lines(one.models[:limit]):
            cli.say(style.accent(line) if line.startswith("*") else line)
        hidden = len(one.models) - len(one.models[:limit])
        if hidden:
            cli.say(style.dim(f"  … and {many(hidden, 'more model')}; --limit 0 shows all"))
        if one.note:
            cli.note(one.note)


def _heading(one: ProviderModels) -> str:
    age = ""
    if one.fetched_at is not None:
        age = f", listed {human_duration(time.time() - one.fetched_at)} ago"
    return f"{one.label} ({one.base_url}): {many(len(one.models), 'model')}{age}"


def _lines(models: Sequence[ListedModel]) -> Iterator[str]:
    width = max((len(one.facts.id) for one in models), default=0)
    for one in models:
        facts = one.facts
        mark = "*" if one.in_use else " "
        abilities = " ".join(name for name in ABILITIES if getattr(facts, name))
        cells = f"{_short(facts.context_length):>6}  {_format_price(one):>17}  {abilities}"
        yield f"{mark} {facts.id:<{width}}  {cells}".rstrip()


def _short(tokens: int | None) -> str:
    """`128k`, `1m`, `1.05m`; a question mark when it is not known."""
    if not tokens:
        return "?"
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.2f}".rstrip("0").rstrip(".") + "m"
    return f"{tokens / 1000:.0f}k"


def _format_price(one: ListedModel) -> str:
    price = one.facts.price
    if price is None:
        return "?"
    if not (price.input or price.output):
        return "free"
    mark = "~" if one.sources.get("price", "").startswith("comes with") else ""
    return f"{mark}{_dollars(price.input)} / {_dollars(price.output)}"


def _dollars(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 0.1 or not amount else f"${amount:.4f}".rstrip("0")


def _provider_facts(one: ProviderModels, limit: int | None) -> dict[str, Any]:
    models = [
        {**_facts(listed.facts), "in_use": listed.in_use, "sources": listed.sources}
        for listed in one.models[:limit]
    ]
    return {**msgspec.to_builtins(one), "total": len(one.models), "models": models}


def _facts(facts: ModelFacts) -> dict[str, Any]:
    """Return all fields, including unknown ones."""
    return {name: getattr(facts, name) for name in facts.__struct_fields__ if name != "aliases"}


MODELS = Command(
    "models",
    run_models,
    "List models with their context window, price and abilities.",
    arg("words", nargs="*", metavar="PROVIDER WORDS", help="a provider, then words of the name"),
    arg("--context", type=_tokens, default=0, metavar="N", help="with room for N tokens (200k)"),
    arg("--max-price", type=float, metavar="N", help="for at most N dollars a million tokens"),
    arg("--limit", type=int, default=50, metavar="N", help="show N of each provider (50); 0: all"),
    flag("--images", help="only those that see images"),
    flag("--tools", help="only those that can use tools"),
    flag("--reasoning", help="only those that think"),
    flag("--free", help="only those that cost nothing"),
    flag("--all", help="of every provider with a key"),
    flag("--refresh", help="ask the provider now"),
    json=True,
    epilog="""\
The price is in US dollars for a million tokens read / written; ~ marks one that comes with Hermes
and not from the provider's list. A list is asked for again after a day.

examples:
  hermes models                           of the provider in use
  hermes models openrouter claude         whose names have "claude" in them
  hermes models gemini --images --max-price 5
  hermes models --all --free --tools
  hermes models ollama --refresh --json
""",
)


# `hermes local`.

LOCAL = Command(
    "local",
    description="The embedded model answers when no key is configured. It is a starter: small and"
    " slow, but it needs no account and nothing leaves this machine.",
    epilog="""\
examples:
  hermes local pull                     fetch the model that is in use
  hermes local pull 1.5b                a larger one
  hermes local pull https://example.org/model.gguf#sha256=0123…
  hermes local use ~/models/own.gguf    use a GGUF file of your own
  hermes local list
""",
)


@LOCAL.action(
    "pull",
    "fetch weights (an id or an address)",
    arg("model", nargs="?", help="0.5b, 1.5b or the address of a GGUF file"),
)
async def _pull(args: Namespace, cli: Cli) -> None:
    name = args.model or cli.load().settings.local.model
    weights = resolve_weights(name, cli.home.models)
    path = await fetch_weights(weights, cli.home.models, ProgressLine(cli.stderr))
    if not weights.sha256:
        cli.note(f"SHA-256 {sha256_of(path)[0]}")
    cli.say(f"{weights.label} is in {path}")
    if name != cli.load().settings.local.model:
        cli.note(f"to use it: hermes local use {weights.id}")


@LOCAL.action("list", "show what there is", json=True)
def _list(_args: Namespace, cli: Cli) -> None:
    chosen = cli.load().settings.local.model
    models = local_models(cli.home.models)
    facts = [
        {**msgspec.to_builtins(model, enc_hook=str), "in_use": _is_name_of(chosen, model)}
        for model in models
    ]
    lines = []
    for model in models:
        mark = "*" if _is_name_of(chosen, model) else " "
        state = str(model.path) if model.fetched else "not fetched"
        size = f"{human_size(model.size):>9}"
        lines.append(f"{mark} {model.name:<12} {size}  {model.label}  ({state})")
    if not any(each["in_use"] for each in facts):
        lines.append(f"* {chosen}")
    cli.emit(facts, lines)


@LOCAL.action("use", "choose the model (an id, a file or a path)", arg("model"))
def _use(args: Namespace, cli: Cli) -> None:
    weights = resolve_weights(args.model, cli.home.models)
    path = Path(weights.file)
    name = str(path) if path.is_absolute() and path.parent != cli.home.models else weights.id
    from hermes.config import edit  # ruamel.yaml, needed only to write

    edit.set_value(cli.home, ("local", "model"), name)
    cli.say(f"the embedded model is now {weights.label}")
    if not (cli.home.models / weights.file).is_file():
        cli.note(f"it is fetched when it is first needed, or now: hermes local pull {weights.id}")


@LOCAL.action("rm", "delete fetched weights", arg("model"), YES)
def _remove(args: Namespace, cli: Cli) -> int:
    model = next((m for m in local_models(cli.home.models) if _is_name_of(args.model, m)), None)
    if model is None or not model.fetched:
        raise UsageError(f"{args.model!r} is not on this machine", hint="hermes local list")
    if not cli.confirm(f"delete {model.path} ({human_size(model.size)})?"):
        return 1
    model.path.unlink()
    cli.say(f"deleted {model.path}")
    return 0


def _is_name_of(name: str, model: LocalModelFile) -> bool:
    return name in (model.name, model.path.name, str(model.path))
