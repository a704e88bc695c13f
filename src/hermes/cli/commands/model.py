"""`hermes model` and `hermes fallback`: the models in use, and how they are chosen."""

from argparse import Namespace
from collections.abc import Iterator, Sequence

import msgspec

from hermes.app.model_choice import ModelFilter, parse_choice, save_choice
from hermes.app.providers import Providers, trial_budget
from hermes.cli.context import YES, Cli, Command, ProgressLine, Style, arg
from hermes.cli.output import pick_named
from hermes.config.home import tilde
from hermes.core.errors import HermesError, UsageError
from hermes.core.model import Price
from hermes.ops.fallback_chain import add_fallback, clear_fallbacks, remove_fallback
from hermes.ops.model_probe import ProbeFinding, probe
from hermes.ops.status import Resolution, Resolved, main_resolution, whole_resolution
from hermes.providers import CUSTOM, ENDPOINTS, ModelChoice, Target
from hermes.util.concurrency import SystemClock
from hermes.util.text import many

# Choose a provider and one of its models from lists.

SHOWN = 20


class ModelWizard:
    def __init__(self, cli: Cli, providers: Providers) -> None:
        self._cli, self._providers = cli, providers

    async def choose(self) -> str:
        """Return `provider:model`, or "" if the user leaves."""
        offers = self._offers()
        for number, (name, why) in enumerate(offers, start=1):
            self._cli.say(f"{number:>3}  {name:<18} {why}")
        self._cli.note("another provider: hermes auth add PROVIDER")
        provider = self._pick("provider (number or name, empty to leave): ", [n for n, _ in offers])
        if not provider:
            return ""
        model = await self.model_of(provider)
        return f"{provider}:{model}" if model else ""

    async def model_of(self, provider: str) -> str:
        """Let the user choose a model of a provider; return "" for none."""
        return await self.model_at(self._providers.lister.target(provider, None))

    async def model_at(self, target: Target) -> str:
        """Let the user choose a model at an address; return "" for none."""
        found = await self._providers.lister.models(target, ModelFilter())
        if found.note:
            self._cli.note(found.note)
        return self._pick_model([one.facts.id for one in found.models])

    def _offers(self) -> list[tuple[str, str]]:
        """Return usable providers and why they are usable."""
        found = [
            (c.endpoint.id, c.reason) for c in self._providers.resolver.candidates(ModelChoice())
        ]
        own = [(f"{CUSTOM}:{name}", "custom_providers") for name in self._providers.custom_names()]
        here = [(e.id, e.label) for e in ENDPOINTS if not e.needs_key and e.id != CUSTOM]
        return [*found, *own, *here]

    def _pick_model(self, models: Sequence[str]) -> str:
        """Read a number, a name, or words that filter the list."""
        shown = list(models)
        while True:
            for number, name in enumerate(shown[:SHOWN], start=1):
                self._cli.say(f"{number:>3}  {name}")
            if len(shown) > SHOWN:
                self._cli.say(f"     … and {many(len(shown) - SHOWN, 'more model')}")
            said = self._cli.ask("model (number, name, or words to look for): ").strip()
            said = pick_named(said, shown[:SHOWN])
            if not said or said in models or not models:
                return said
            narrowed = [name for name in models if all(w in name for w in said.lower().split())]
            if not narrowed:
                self._cli.say(f"no model of the list has {said!r} in its name")
                if self._cli.confirm(f"use {said} all the same?"):
                    return said
            shown = narrowed or list(models)

    def _pick(self, prompt: str, names: Sequence[str]) -> str:
        while True:
            said = pick_named(self._cli.ask(prompt).strip(), names)
            if not said or said in names:
                return said
            self._cli.say(f"{said!r} is not in the list")


# Which model is used, and why.


def resolution_lines(resolution: "Resolution", style: Style) -> Iterator[str]:
    main = resolution.main
    if main.problem:
        yield format_fact("model", style.bad(f"{_model_label(main)}: {main.problem}"))
        if main.hint:
            yield format_fact("", main.hint)
        return
    yield format_fact("model", style.bold(_model_label(main)))
    yield format_fact("because", main.why)
    if main.base_url:
        yield format_fact("address", f"{main.base_url} ({main.api_mode})")
    for number, key in enumerate(main.keys):
        yield format_fact("" if number else "key", f"{key.key}  {style.dim(key.source)}")
    yield format_fact("context", f"{main.context_length:,} tokens")
    yield format_fact("price", price_text(main.price))
    for number, other in enumerate(resolution.also):
        yield format_fact("" if number else "also set up", f"{other.provider} ({other.why})")


def resolution_line(found: "Resolved", style: Style) -> str:
    """Return a line with the model, or with its problem."""
    if found.problem:
        return style.bad(f"{_model_label(found)}: {found.problem}")
    return _model_label(found)


def price_text(price: Price | None) -> str:
    if price is None:
        return "not known"
    if price.input == price.output == 0:
        return "free"
    dated = f", as of {price.date}" if price.date else ""
    return f"${price.input:g} in, ${price.output:g} out for a million tokens{dated}"


def _model_label(found: "Resolved") -> str:
    return f"{found.model} on {found.provider}" if found.model else found.provider


def format_fact(name: str, text: str) -> str:
    return f"{name:<12} {text}"


def _providers(cli: Cli) -> Providers:
    return Providers(cli.home, cli.load(), SystemClock(), ProgressLine(cli.stderr))


async def resolve_main_model(cli: Cli) -> Resolution:
    async with _providers(cli) as providers:
        return main_resolution(cli.load(), providers)


async def _choose(args: Namespace, cli: Cli, providers: Providers) -> int:
    if not cli.interactive:
        return await _show(args, cli, providers)
    text = await ModelWizard(cli, providers).choose()
    if text:
        _use(text, "", cli, providers)
    return 0 if text else 1


MODEL = Command(
    "model",
    _choose,
    "Show and choose the model that answers.",
    needs=_providers,
    epilog="""\
examples:
  hermes model                                   choose from a list
  hermes model show                              what is in use, and why
  hermes model set groq:openai/gpt-oss-120b      a provider and a model
  hermes model set claude-opus-4-5               another model of the provider in use
  hermes model set custom:qwen3 --base-url http://127.0.0.1:8080/v1
  hermes model test                              one tiny call for each ability
""",
)


@MODEL.action("show", "show the model in use, and why it is used", json=True)
async def _show(_args: Namespace, cli: Cli, providers: Providers) -> int:
    resolution = main_resolution(cli.load(), providers)
    cli.emit(resolution, resolution_lines(resolution, Style.of(cli.stdout)))
    return 1 if resolution.main.problem else 0


@MODEL.action(
    "set",
    "use another model from now on",
    arg("model", metavar="MODEL", help="a model, an alias, or provider:model"),
    arg("--base-url", metavar="URL", help="address of an endpoint of your own"),
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
    cli.say(f"{target.model} on {target.provider} answers from now on")
    cli.note(f"saved in {tilde(cli.home.config_file)}; to try it out: hermes model test")
    if doubt := providers.doubt(target):
        cli.note(f"note: {doubt}")


def _current(providers: Providers) -> Target | None:
    try:
        return providers.known_target(providers.main_choice())
    except HermesError:
        return None  # a broken choice has nothing worth keeping


@MODEL.action(
    "test",
    "try a model out: tiny calls that say what works",
    arg("model", metavar="MODEL", nargs="?", help="without it: the one in use"),
    json=True,
)
async def _test(args: Namespace, cli: Cli, providers: Providers) -> int:
    style = Style.of(cli.stdout)
    choice = providers.main_choice()
    if args.model:
        choice = parse_choice(args.model, cli.load(), _current(providers))
    target = providers.known_target(choice)
    if not args.json:
        cli.say(f"{target.model} on {target.provider} ({target.base_url or 'this machine'})")
    findings: list[ProbeFinding] = []
    async with trial_budget(cli.home, cli.load(), providers.clock) as budget:
        async for finding in probe(providers.maker.model(target, budget), target.profile):
            findings.append(finding)
            if not args.json:
                cli.say(_finding_line(finding, style))
    if args.json:
        cli.json({"provider": target.provider, "model": target.model, "findings": findings})
    return 0 if findings and findings[0].verdict == "works" else 1


def _finding_line(finding: ProbeFinding, style: Style) -> str:
    dress = {"works": style.plain, "failed": style.bad}.get(finding.verdict, style.dim)
    return f"  {finding.name:<10} {dress(f'{finding.verdict:<9}')} {finding.detail}".rstrip()


# `hermes fallback`.

FALLBACK = Command(
    "fallback",
    description="The models that answer, one after the other, when the first one cannot: it is\n"
    "overloaded, refuses the key or has no money left. Saved as fallback_providers.",
    epilog="""\
examples:
  hermes fallback                                    show the chain
  hermes fallback add openrouter:openai/gpt-oss-120b
  hermes fallback add custom:qwen3 --base-url http://127.0.0.1:8080/v1
  hermes fallback remove 1
""",
    default="list",
    needs=_providers,
)


@FALLBACK.action("list", "show the chain, and what of it can be used now", json=True)
async def _list(_args: Namespace, cli: Cli, providers: Providers) -> None:
    chain = whole_resolution(cli.load(), providers).fallbacks
    lines = []
    for number, one in enumerate(chain, start=1):
        lines.append(f"{number:>3}  {resolution_line(one, Style.of(cli.stdout))}")
        lines += [f"     {one.hint}"] if one.hint else []
    cli.emit(chain, lines, empty="no fallbacks; to add one: hermes fallback add PROVIDER:MODEL")


@FALLBACK.action(
    "add",
    "add a model at the end of the chain",
    arg("model", metavar="MODEL", help="provider:model, or an alias"),
    arg("--base-url", default="", metavar="URL", help="address of its endpoint"),
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
    is_new = add_fallback(cli.home, entry)
    state = "answers when those before it cannot" if is_new else "is in the chain already"
    cli.say(f"{target.model} on {target.provider} {state}")
    if (main.provider, main.model) == (target.provider, target.model):
        cli.note("note: it is the model that answers first, too")


@FALLBACK.action(
    "remove",
    "take a model out of the chain",
    arg("which", metavar="WHICH", help="its number in the list, or its name"),
    needs=None,
)
def _remove(args: Namespace, cli: Cli) -> None:
    gone = remove_fallback(cli.home, args.which)
    cli.say(f"removed {gone.get('model', '?')} on {gone.get('provider', '?')}")


@FALLBACK.action("clear", "take all of them out", YES, needs=None)
def _clear(_args: Namespace, cli: Cli) -> int:
    if not cli.confirm("Remove all fallbacks?"):
        cli.say("nothing was removed")
        return 1
    cli.say("removed all fallbacks" if clear_fallbacks(cli.home) else "there were none")
    return 0
