"""`hermes model` and `hermes fallback`: the models in use, and how they are chosen."""

import argparse
import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from hermes.app.model_choice import ModelFilter, parse_choice, save_choice
from hermes.app.providers import Providers, trial_budget
from hermes.cli.context import Actions, Cli, Command, ProgressLine, Style
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
            if said.isdigit() and 1 <= int(said) <= min(len(shown), SHOWN):
                return shown[int(said) - 1]
            if not said or said in models or not models:
                return said
            narrowed = [name for name in models if all(w in name for w in said.lower().split())]
            if not narrowed:
                self._cli.say(f"no model of the list has {said!r} in its name")
                if self._cli.ask(f"use {said} all the same? [y/N] ").lower() in ("y", "yes"):
                    return said
            shown = narrowed or list(models)

    def _pick(self, prompt: str, names: Sequence[str]) -> str:
        while True:
            said = self._cli.ask(prompt).strip()
            if said.isdigit() and 1 <= int(said) <= len(names):
                return names[int(said) - 1]
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


MODEL_EPILOG = """\
examples:
  hermes model                                   choose from a list
  hermes model show                              what is in use, and why
  hermes model set groq:openai/gpt-oss-120b      a provider and a model
  hermes model set claude-opus-4-5               another model of the provider in use
  hermes model set custom:qwen3 --base-url http://127.0.0.1:8080/v1
  hermes model test                              one tiny call for each ability
"""


def configure_model(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show and choose the model that answers."
    parser.epilog = MODEL_EPILOG
    action = Actions(parser).add
    parser.set_defaults(act=_choose)
    action("show", _show, "show the model in use, and why it is used", json=True)
    set_ = action("set", _set, "use another model from now on")
    set_.add_argument("model", metavar="MODEL", help="a model, an alias, or provider:model")
    set_.add_argument("--base-url", metavar="URL", help="address of an endpoint of your own")
    test = action("test", _test, "try a model out: tiny calls that say what works", json=True)
    test.add_argument("model", metavar="MODEL", nargs="?", help="without it: the one in use")


def _choose(args: argparse.Namespace, cli: Cli) -> int:
    if not cli.interactive:
        args.json = False
        return _show(args, cli)
    return asyncio.run(_run_wizard(cli))


async def _run_wizard(cli: Cli) -> int:
    async with _providers(cli) as providers:
        text = await ModelWizard(cli, providers).choose()
        return _use(text, "", cli, providers) if text else 1


def _show(args: argparse.Namespace, cli: Cli) -> int:
    resolution = asyncio.run(_resolution(cli))
    if args.json:
        cli.json(msgspec.to_builtins(resolution))
    else:
        for line in resolution_lines(resolution, Style.of(cli.stdout)):
            cli.say(line)
    return 1 if resolution.main.problem else 0


async def _resolution(cli: Cli) -> Resolution:
    async with _providers(cli) as providers:
        return main_resolution(cli.load(), providers)


def _set(args: argparse.Namespace, cli: Cli) -> int:
    async def set_() -> int:
        async with _providers(cli) as providers:
            return _use(args.model, args.base_url or "", cli, providers)

    return asyncio.run(set_())


def _use(text: str, base_url: str, cli: Cli, providers: Providers) -> int:
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
    return 0


def _current(providers: Providers) -> Target | None:
    try:
        return providers.known_target(providers.main_choice())
    except HermesError:
        return None  # a broken choice has nothing worth keeping


def _test(args: argparse.Namespace, cli: Cli) -> int:
    return asyncio.run(_probe_model(args, cli))


async def _probe_model(args: argparse.Namespace, cli: Cli) -> int:
    style = Style.of(cli.stdout)
    async with _providers(cli) as providers:
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
        facts = {"provider": target.provider, "model": target.model}
        cli.json({**facts, "findings": msgspec.to_builtins(findings)})
    return 0 if findings and findings[0].verdict == "works" else 1


def _finding_line(finding: ProbeFinding, style: Style) -> str:
    dress = {"works": style.plain, "failed": style.bad}.get(finding.verdict, style.dim)
    return f"  {finding.name:<10} {dress(f'{finding.verdict:<9}')} {finding.detail}".rstrip()


def _providers(cli: Cli) -> Providers:
    return Providers(cli.home, cli.load(), SystemClock(), ProgressLine(cli.stderr))


MODEL = Command(configure_model)


# The result of the model settings.


def resolve_main_model(cli: Cli) -> Resolution:
    async def resolve() -> Resolution:
        loaded = cli.load()
        async with Providers(cli.home, loaded, SystemClock(), ProgressLine(cli.stderr)) as found:
            return main_resolution(loaded, found)

    return asyncio.run(resolve())


# `hermes fallback`.

FALLBACK_EPILOG = """\
examples:
  hermes fallback                                    show the chain
  hermes fallback add openrouter:openai/gpt-oss-120b
  hermes fallback add custom:qwen3 --base-url http://127.0.0.1:8080/v1
  hermes fallback remove 1
"""


def configure_fallback(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The models that answer, one after the other, when the first one cannot: it is\n"
        "overloaded, refuses the key or has no money left. Saved as fallback_providers."
    )
    parser.epilog = FALLBACK_EPILOG
    action = Actions(parser).add
    parser.set_defaults(act=_list, json=False)
    action("list", _list, "show the chain, and what of it can be used now", json=True)
    add = action("add", _add, "add a model at the end of the chain")
    add.add_argument("model", metavar="MODEL", help="provider:model, or an alias")
    add.add_argument("--base-url", default="", metavar="URL", help="address of its endpoint")
    add.add_argument(
        "--key-env", default="", metavar="NAME", help="the variable that holds its key"
    )
    remove = action("remove", _remove, "take a model out of the chain")
    remove.add_argument("which", metavar="WHICH", help="its number in the list, or its name")
    clear = action("clear", _clear, "take all of them out")
    clear.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _list(args: argparse.Namespace, cli: Cli) -> int:
    chain = asyncio.run(_chain(cli))
    if args.json:
        cli.json([msgspec.to_builtins(one) for one in chain])
        return 0
    for number, one in enumerate(chain, start=1):
        cli.say(f"{number:>3}  {resolution_line(one, Style.of(cli.stdout))}")
        if one.hint:
            cli.say(f"     {one.hint}")
    if not chain:
        cli.say("no fallbacks; to add one: hermes fallback add PROVIDER:MODEL")
    return 0


async def _chain(cli: Cli) -> tuple[Resolved, ...]:
    async with _providers(cli) as providers:
        return whole_resolution(cli.load(), providers).fallbacks


def _add(args: argparse.Namespace, cli: Cli) -> int:
    return asyncio.run(_add_checked(args, cli))


async def _add_checked(args: argparse.Namespace, cli: Cli) -> int:
    """Check the model and add it. A model that cannot be used is not saved."""
    async with _providers(cli) as providers:
        choice = parse_choice(args.model, cli.load(), None)
        if choice.is_auto:
            raise UsageError(
                f"{args.model!r} does not say which provider", hint="write it as PROVIDER:MODEL"
            )
        said = {"base_url": args.base_url, "key_env": args.key_env}
        given = {name: value for name, value in said.items() if value}
        if args.base_url:
            given["base_url_source"] = "--base-url"
        choice = msgspec.structs.replace(choice, **given)
        target = providers.known_target(choice)
        entry = {"provider": target.provider, "model": choice.model or target.model}
        entry |= {name: value for name, value in said.items() if value}
        main = providers.main_choice()
        if add_fallback(cli.home, entry):
            cli.say(f"{target.model} on {target.provider} answers when those before it cannot")
        else:
            cli.say(f"{target.model} on {target.provider} is in the chain already")
        if (main.provider, main.model) == (target.provider, target.model):
            cli.note("note: it is the model that answers first, too")
        return 0


def _remove(args: argparse.Namespace, cli: Cli) -> int:
    gone = remove_fallback(cli.home, args.which)
    cli.say(f"removed {gone.get('model', '?')} on {gone.get('provider', '?')}")
    return 0


def _clear(args: argparse.Namespace, cli: Cli) -> int:
    if not args.yes:
        if not cli.interactive:
            raise UsageError("removing all fallbacks needs --yes without a terminal")
        if cli.ask("Remove all fallbacks? [y/N] ").strip().lower() not in ("y", "yes"):
            cli.say("nothing was removed")
            return 1
    cli.say("removed all fallbacks" if clear_fallbacks(cli.home) else "there were none")
    return 0


FALLBACK = Command(configure_fallback)
