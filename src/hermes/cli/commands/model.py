"""`hermes model`, `models`, `fallback` and `local`: the models in use, and those there are."""

import argparse
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence

import msgspec

from hermes import ops
from hermes.app import (
    ListedModel,
    ModelFilter,
    ModelLister,
    ProviderModels,
    Providers,
    parse_choice,
    save_choice,
    trial_budget,
)
from hermes.cli.context import YES, Cli, Command, ProgressLine, arg, flag
from hermes.cli.output import has_picker, pick_named
from hermes.config import edit
from hermes.config.home import tilde
from hermes.config.loader import Loaded
from hermes.core.errors import HermesError, UsageError
from hermes.core.model import Price
from hermes.providers import CUSTOM, ENDPOINTS, ModelChoice, Target, endpoints
from hermes.providers import LOCAL as RESOLVER_LOCAL
from hermes.providers.local import (
    LocalModelFile,
    fetch_weights,
    local_models,
    resolve_weights,
    sha256_of,
    weights_name,
)
from hermes.tui import Paint
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, human_size, many

# Choose a provider and one of its models from lists.

SHOWN = 20


class ModelWizard:
    def __init__(self, cli: Cli, providers: Providers) -> None:
        self._cli, self._providers = cli, providers

    async def choose(self) -> str:
        """Return `provider:model`, or "" if the user leaves."""
        found = self._providers.resolver.candidates(ModelChoice())
        offers = [(one.endpoint.id, one.reason) for one in found]
        offers += [(f"{CUSTOM}:{n}", "custom_providers") for n in self._providers.custom_names()]
        offers += [(e.id, e.label) for e in ENDPOINTS if not e.needs_key and e.id != CUSTOM]
        for number, (name, why) in enumerate(offers, start=1):
            self._cli.say(f"{number:>3}  {name:<18} {why}")
        self._cli.note("another provider: hermes auth add PROVIDER")
        names, provider = [name for name, _ in offers], "-"
        while provider not in ("", *names):
            said = self._cli.ask("provider (number or name, empty to leave): ").strip()
            provider = pick_named(said, names)
            if provider not in ("", *names):
                self._cli.say(f"{provider!r} is not in the list")
        if not provider:
            return ""
        model = await self.model_of(provider)
        return f"{provider}:{model}" if model else ""

    async def model_of(self, provider: str) -> str:
        """Let the user choose a model of a provider; return "" for none."""
        if provider == RESOLVER_LOCAL:
            return await self._embedded_model()
        return await self.model_at(self._providers.lister.target(provider, None))

    async def _embedded_model(self) -> str:
        """Let the user choose an embedded model, or give the path or URL of a GGUF file."""
        folder = self._cli.home.models
        models = local_models(folder)
        states = [
            f"{one.label} ({'downloaded' if one.fetched else f'downloads {human_size(one.size)}'})"
            for one in models
        ]
        if has_picker(self._cli):
            from hermes.tui import PickerItem  # loads the terminal interface

            items = [
                PickerItem(one.name, state, one.name)
                for one, state in zip(models, states, strict=True)
            ]
            items.append(PickerItem("another", "the path of a .gguf file", ""))
            chosen = await self._cli.pick("Which model?", items)
            if chosen is None or chosen:
                return chosen or ""
        for number, (one, state) in enumerate(zip(models, states, strict=True), start=1):
            self._cli.say(f"{number:>3}  {one.name:<12} {state}")
        while True:
            question = "model (number, name, or path of a .gguf file; Enter for none): "
            said = pick_named(self._cli.ask(question).strip(), [one.name for one in models])
            try:
                return said and weights_name(resolve_weights(said, folder), folder)
            except UsageError as error:
                self._cli.say(str(error))

    async def model_at(self, target: Target) -> str:
        """Let the user choose a model at an address; return "" for none."""
        found = await self._providers.lister.models(target, ModelFilter())
        if found.note:
            self._cli.note(found.note)
        names = [one.facts.id for one in found.models]
        if not names or not has_picker(self._cli):
            return self._ask_model(names)
        from hermes.tui import PickerItem  # loads the terminal interface

        items = [PickerItem(name, "", name) for name in names]
        items.append(PickerItem("another", "a name that is not in this list", ""))
        chosen = await self._cli.pick("Which model?", items)
        if chosen == "":
            return self._cli.ask("model: ").strip()
        return chosen or ""

    def _ask_model(self, models: Sequence[str]) -> str:
        """Read a number, a name, or words that filter the list. Enter takes the only model."""
        shown = list(models)
        while True:
            for number, name in enumerate(shown[:SHOWN], start=1):
                self._cli.say(f"{number:>3}  {name}")
            if len(shown) > SHOWN:
                self._cli.say(f"     … and {many(len(shown) - SHOWN, 'more model')}")
            only = shown[0] if len(shown) == 1 else ""
            enter = f"Enter takes {only}" if only else "Enter for none"
            question = f"model (number, name, or words to search for; {enter}): "
            said = pick_named(self._cli.ask(question).strip() or only, shown[:SHOWN])
            if not said or said in models or not models:
                return said
            narrowed = [name for name in models if all(w in name for w in said.lower().split())]
            if not narrowed:
                self._cli.say(f"no model of the list has {said!r} in its name")
                if self._cli.confirm(f"use {said} anyway?"):
                    return said
            shown = narrowed or list(models)


# Which model is used, and why.


def resolution_lines(resolution: ops.Resolution, paint: Paint) -> Iterator[str]:
    main = resolution.main
    if main.problem:
        yield format_fact("model", paint("error", f"{_model_label(main)}: {main.problem}"))
        if main.hint:
            yield format_fact("", main.hint)
        return
    yield format_fact("model", paint("strong", _model_label(main)))
    yield format_fact("because", main.why)
    if main.base_url:
        yield format_fact("address", f"{main.base_url} ({main.api_mode})")
    for number, key in enumerate(main.keys):
        yield format_fact("" if number else "key", f"{key.key}  {paint('dim', key.source)}")
    yield format_fact("context", f"{main.context_length:,} tokens")
    is_local = main.provider == RESOLVER_LOCAL
    yield format_fact("price", "local, no cost" if is_local else price_text(main.price))
    for number, other in enumerate(resolution.also):
        yield format_fact("" if number else "also set up", f"{other.provider} ({other.why})")


def resolution_line(found: ops.Resolved, paint: Paint) -> str:
    """Return a line with the model, or with its problem."""
    if found.problem:
        return paint("error", f"{_model_label(found)}: {found.problem}")
    return _model_label(found)


def price_text(price: Price | None) -> str:
    if price is None:
        return "unknown"
    if price.input == price.output == 0:
        return "free"
    dated = f", as of {price.date}" if price.date else ""
    return f"${price.input:g} in, ${price.output:g} out per million tokens{dated}"


def _model_label(found: ops.Resolved) -> str:
    return f"{found.model} on {found.provider}" if found.model else found.provider


def format_fact(name: str, text: str) -> str:
    return f"{name:<12} {text}"


def open_providers(cli: Cli, loaded: Loaded | None = None) -> Providers:
    return Providers(cli.home, loaded or cli.load(), SystemClock(), ProgressLine(cli.stderr))


async def resolve_main_model(cli: Cli) -> ops.Resolution:
    async with open_providers(cli) as providers:
        return ops.main_resolution(cli.load(), providers)


async def _choose(args: Namespace, cli: Cli, providers: Providers) -> int:
    if not cli.interactive:
        code: int = await _show(args, cli, providers)
        return code
    text = await ModelWizard(cli, providers).choose()
    if not text:
        cli.say("no model chosen: nothing was changed")
        return 1
    _use(text, "", cli, providers)
    return 0


MODEL = Command("model", _choose, "Show and choose the model that answers.", needs=open_providers)


@MODEL.action("show", "show the model in use, and why it is used", json=True)
async def _show(_args: Namespace, cli: Cli, providers: Providers) -> int:
    resolution = ops.main_resolution(cli.load(), providers)
    cli.emit(resolution, resolution_lines(resolution, cli.paint))
    return 1 if resolution.main.problem else 0


@MODEL.action(
    "set",
    "use another model from now on",
    arg("model", metavar="MODEL", help="a model, an alias, or provider:model"),
    arg("--base-url", metavar="URL", help="URL of your own endpoint"),
)
async def _set(args: Namespace, cli: Cli, providers: Providers) -> None:
    _use(args.model, args.base_url or "", cli, providers)


def _use(text: str, base_url: str, cli: Cli, providers: Providers) -> None:
    """Resolve the named model and save it. A model that cannot be used is not saved."""
    choice = parse_choice(text, cli.load(), _current(providers))
    if base_url:
        choice = msgspec.structs.replace(choice, base_url=base_url, base_url_source="--base-url")
    target = providers.known_target(choice)
    save_choice(cli.home, choice, target)
    cli.say(f"now using {target.model} on {target.provider}")
    cli.note(f"saved in {tilde(cli.home.config_file)}; to try it out: hermes model test")
    if doubt := providers.doubt(target):
        cli.note(f"note: {doubt}")


def _current(providers: Providers, *, needed: bool = False) -> Target | None:
    """Return the model in use. A broken choice is None, or an error if the model is `needed`."""
    try:
        return providers.known_target(providers.main_choice())
    except HermesError:
        if needed:
            raise
        return None


@MODEL.action(
    "test",
    "test a model with a few tiny calls",
    arg("model", metavar="MODEL", nargs="?", help="default: the current model"),
    json=True,
)
async def _test(args: Namespace, cli: Cli, providers: Providers) -> int:
    paint = cli.paint
    choice = providers.main_choice()
    if args.model:
        choice = parse_choice(args.model, cli.load(), _current(providers))
    target = providers.known_target(choice)
    if not args.json:
        cli.say(f"{target.model} on {target.provider} ({target.base_url or 'this machine'})")
    findings: list[ops.ProbeFinding] = []
    async with trial_budget(cli.home, cli.load(), providers.clock) as budget:
        async for finding in ops.probe(providers.maker.model(target, budget), target.profile):
            findings.append(finding)
            if not args.json:
                role = {"works": "text", "failed": "error"}.get(finding.verdict, "dim")
                verdict = paint(role, f"{finding.verdict:<9}")
                cli.say(f"  {finding.name:<10} {verdict} {finding.detail}".rstrip())
    if args.json:
        cli.json({"provider": target.provider, "model": target.model, "findings": findings})
    return 0 if findings and findings[0].verdict == "works" else 1


# `hermes fallback`.

FALLBACK = Command("fallback", default="list", needs=open_providers)


@FALLBACK.action("list", "show the fallbacks and whether they are usable", json=True)
async def _list(_args: Namespace, cli: Cli, providers: Providers) -> None:
    chain = ops.whole_resolution(cli.load(), providers).fallbacks
    lines = []
    for number, one in enumerate(chain, start=1):
        lines.append(f"{number:>3}  {resolution_line(one, cli.paint)}")
        lines += [f"     {one.hint}"] if one.hint else []
    cli.emit(chain, lines, empty="no fallbacks; to add one: hermes fallback add PROVIDER:MODEL")


@FALLBACK.action(
    "add",
    "add a model at the end of the list",
    arg("model", metavar="MODEL", help="provider:model, or an alias"),
    arg("--base-url", default="", metavar="URL", help="URL of its endpoint"),
    arg("--key-env", default="", metavar="NAME", help="the variable that holds its key"),
)
async def _add(args: Namespace, cli: Cli, providers: Providers) -> None:
    """Check the model and add it. A model that cannot be used is not saved."""
    choice = parse_choice(args.model, cli.load(), None)
    if choice.is_auto:
        hint = "write it as PROVIDER:MODEL"
        raise UsageError(f"{args.model!r} does not say which provider", hint=hint)
    options = {"base_url": args.base_url, "key_env": args.key_env}
    given = {name: value for name, value in options.items() if value}
    source = {"base_url_source": "--base-url"} if args.base_url else {}
    choice = msgspec.structs.replace(choice, **given, **source)
    target = providers.known_target(choice)
    entry = {"provider": target.provider, "model": choice.model or target.model, **given}
    main = providers.main_choice()
    is_new = ops.add_fallback(cli.home, entry)
    state = "is used when the models before it fail" if is_new else "is already a fallback"
    cli.say(f"{target.model} on {target.provider} {state}")
    if (main.provider, main.model) == (target.provider, target.model):
        cli.note("note: it is also the first model")


@FALLBACK.action(
    "remove",
    "remove a model from the list",
    arg("which", metavar="WHICH", help="its number in the list, or its name"),
    needs=None,
)
def _remove(args: Namespace, cli: Cli) -> None:
    gone = ops.remove_fallback(cli.home, args.which)
    cli.say(f"removed {gone.get('model', '?')} on {gone.get('provider', '?')}")


@FALLBACK.action("clear", "remove all of them", YES, needs=None)
def _clear(_args: Namespace, cli: Cli) -> None:
    cli.require("Remove all fallbacks?", "nothing was removed")
    cli.say("removed all fallbacks" if ops.clear_fallbacks(cli.home) else "there were none")


# `hermes models`: the models of a provider, with prices.

ABILITIES = ("images", "tools", "reasoning", "deprecated")
UNITS = {"k": 1000, "m": 1_000_000}


async def run_models(args: Namespace, cli: Cli) -> int:
    if args.limit < 0:
        raise UsageError("--limit cannot be negative")
    if args.max_price is not None and not args.max_price >= 0:
        raise UsageError("--max-price cannot be negative")
    names = [custom.name.lower() for custom in cli.load().settings.custom_providers]
    first = args.words[0].lower() if args.words else ""
    is_provider = endpoints.find_endpoint(first) or first.removeprefix("custom:") in names
    provider, *words = args.words if first and is_provider else ["", *args.words]
    if args.all and provider:
        raise UsageError(f"either {provider} or --all", hint="leave one of them out")
    abilities = (args.images, args.tools, args.reasoning)
    wanted = ModelFilter(tuple(words), *abilities, args.free, args.context, args.max_price)
    found: list[ProviderModels] = []
    async with open_providers(cli) as parts:
        lister = ModelLister(parts.resolver, parts.known, parts.keyring, parts.client)
        current = _current(parts, needed=not (provider or args.all))
        shown = (provider or (current.provider if current else "")) if not args.all else ""
        if shown == RESOLVER_LOCAL:
            _list_local(args, cli)
            cli.note("these are embedded models; for others: hermes models PROVIDER")
            return 0
        for target in _targets(lister, cli, provider, current, every=args.all):
            used = current is not None and current.provider == target.provider
            in_use = current.model if current is not None and used else ""
            models = await lister.models(target, wanted, in_use=in_use, refresh=args.refresh)
            found.append(models)
    _show_models(found, args, cli)
    return 0 if any(provider_models.models for provider_models in found) else 1


def _targets(
    lister: ModelLister, cli: Cli, provider: str, current: Target | None, *, every: bool
) -> Iterator[Target]:
    if not every:
        target = lister.target(provider, current) if provider else current
        if target is not None:
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


def _show_models(found: Sequence[ProviderModels], args: Namespace, cli: Cli) -> None:
    limit = args.limit or None
    if args.json:
        facts = []
        for one in found:
            models = [
                {name: getattr(each.facts, name) for name in each.facts.__struct_fields__}
                | {"in_use": each.in_use, "sources": each.sources}
                for each in one.models[:limit]
            ]
            for model in models:
                del model["aliases"]
            total = {"total": len(one.models), "models": models}
            facts.append({**msgspec.to_builtins(one), **total})
        cli.json(facts)
        return
    paint = cli.paint
    for one in found:
        age = ""
        if one.fetched_at is not None:
            age = f", listed {human_duration(time.time() - one.fetched_at)} ago"
        heading = f"{one.label} ({one.base_url}): {many(len(one.models), 'model')}{age}"
        cli.say(paint("strong", heading))
        for line in _model_lines(one.models[:limit]):
            cli.say(paint("accent", line) if line.startswith("*") else line)
        hidden = len(one.models) - len(one.models[:limit])
        if hidden:
            cli.say(paint("dim", f"  … and {many(hidden, 'more model')}; --limit 0 shows all"))
        if one.note:
            cli.note(one.note)


def _model_lines(models: Sequence[ListedModel]) -> Iterator[str]:
    width = max((len(one.facts.id) for one in models), default=0)
    for one in models:
        facts = one.facts
        mark = "*" if one.in_use else " "
        abilities = " ".join(name for name in ABILITIES if getattr(facts, name))
        size = facts.context_length
        room = f"{size / 1000:.0f}k" if size else "?"
        if size and size >= 1_000_000:
            room = f"{size / 1_000_000:.2f}".rstrip("0").rstrip(".") + "m"
        cells = f"{room:>6}  {_format_price(one):>17}  {abilities}"
        yield f"{mark} {facts.id:<{width}}  {cells}".rstrip()


def _format_price(one: ListedModel) -> str:
    def dollars(amount: float) -> str:
        return f"${amount:.2f}" if amount >= 0.1 or not amount else f"${amount:.4f}".rstrip("0")

    price = one.facts.price
    if price is None or not (price.input or price.output):
        return "?" if price is None else "free"
    mark = "~" if one.sources.get("price", "").startswith("comes with") else ""
    return f"{mark}{dollars(price.input)} / {dollars(price.output)}"


MODELS = Command(
    "models",
    run_models,
    "List models with their context window, price and abilities.",
    arg("words", nargs="*", metavar="PROVIDER WORDS", help="a provider, then words in the name"),
    arg(
        "--context",
        type=_tokens,
        default=0,
        metavar="N",
        help="only with a context of N tokens (200k)",
    ),
    arg("--max-price", type=float, metavar="N", help="only up to N dollars per million tokens"),
    arg("--limit", type=int, default=50, metavar="N", help="show N of each provider (50); 0: all"),
    flag("--images", help="only models that read images"),
    flag("--tools", help="only models that can use tools"),
    flag("--reasoning", help="only models with reasoning"),
    flag("--free", help="only free models"),
    flag("--all", help="all providers with a key"),
    flag("--refresh", help="fetch the list again"),
    json=True,
)


# `hermes local`.

LOCAL = Command("local")


@LOCAL.action(
    "pull",
    "download weights (an id or a URL)",
    arg("model", nargs="?", help="0.5b, 1.5b or the URL of a GGUF file"),
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


@LOCAL.action("list", "list the embedded models", json=True)
def _list_local(_args: Namespace, cli: Cli) -> None:
    chosen = cli.load().settings.local.model
    facts, lines = [], []
    for model in local_models(cli.home.models):
        in_use = _is_name_of(chosen, model)
        facts.append({**msgspec.to_builtins(model, enc_hook=str), "in_use": in_use})
        state = str(model.path) if model.fetched else "not downloaded"
        size = f"{human_size(model.size):>9}"
        lines.append(f"{' *'[in_use]} {model.name:<12} {size}  {model.label}  ({state})")
    if not any(each["in_use"] for each in facts):
        lines.append(f"* {chosen}")
    cli.emit(facts, lines)


@LOCAL.action("use", "choose the model (an id, a file or a path)", arg("model"))
def _use_local(args: Namespace, cli: Cli) -> None:
    weights = resolve_weights(args.model, cli.home.models)
    edit.set_value(cli.home, ("local", "model"), weights_name(weights, cli.home.models))
    cli.say(f"the embedded model is now {weights.label}")
    if not (cli.home.models / weights.file).is_file():
        cli.note(f"it is downloaded at first use, or now: hermes local pull {weights.id}")


@LOCAL.action("rm", "delete downloaded weights", arg("model"), YES)
def _remove_local(args: Namespace, cli: Cli) -> None:
    model = next((m for m in local_models(cli.home.models) if _is_name_of(args.model, m)), None)
    if model is None or not model.fetched:
        raise UsageError(f"{args.model!r} is not on this machine", hint="hermes local list")
    cli.require(f"delete {model.path} ({human_size(model.size)})?", "")
    model.path.unlink()
    cli.say(f"deleted {model.path}")


def _is_name_of(name: str, model: LocalModelFile) -> bool:
    return name in (model.name, model.path.name, str(model.path))
