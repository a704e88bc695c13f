"""`hermes model`: which model answers, choosing another, and trying one out."""

import argparse
import asyncio

import msgspec

from hermes.app.model_choice import asked_for, save_choice
from hermes.app.providers import Providers, trial_purse
from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.cli.model_wizard import Wizard
from hermes.cli.progress import ProgressLine
from hermes.cli.resolution import main_lines
from hermes.cli.style import Style
from hermes.config.home import tilde
from hermes.core.errors import HermesError
from hermes.ops.model_probe import Finding, probe
from hermes.ops.status import Resolution, main_resolution
from hermes.providers import Target
from hermes.util.clock import SystemClock

EPILOG = """\
examples:
  hermes model                                   choose from a list
  hermes model show                              what is in use, and why
  hermes model set groq:openai/gpt-oss-120b      a provider and a model
  hermes model set claude-opus-4-5               another model of the provider in use
  hermes model set custom:qwen3 --base-url http://127.0.0.1:8080/v1
  hermes model test                              one tiny call for each ability
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show and choose the model that answers."
    parser.epilog = EPILOG
    action = Actions(parser).add
    parser.set_defaults(act=_choose)
    action("show", _show, "show the model in use, and why it is used", json=True)
    set_ = action("set", _set, "use another model from now on")
    set_.add_argument("model", metavar="MODEL", help="a model, an alias, or provider:model")
    set_.add_argument("--base-url", metavar="URL", help="address of an endpoint of your own")
    test = action("test", _test, "try a model out: tiny calls that say what works", json=True)
    test.add_argument("model", metavar="MODEL", nargs="?", help="without it: the one in use")


run = run_action


def _choose(args: argparse.Namespace, cli: Cli) -> int:
    if not cli.interactive:
        args.json = False
        return _show(args, cli)
    return asyncio.run(_wizard(cli))


async def _wizard(cli: Cli) -> int:
    async with _providers(cli) as providers:
        text = await Wizard(cli, providers).choose()
        return _use(text, "", cli, providers) if text else 1


def _show(args: argparse.Namespace, cli: Cli) -> int:
    resolution = asyncio.run(_resolution(cli))
    if args.json:
        cli.json(msgspec.to_builtins(resolution))
    else:
        for line in main_lines(resolution, Style.of(cli.stdout)):
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
    """Save what `text` names, after it was resolved: what cannot be used is not saved."""
    choice = asked_for(text, cli.load(), _current(providers))
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
        return None  # nothing to keep of a choice that does not work


def _test(args: argparse.Namespace, cli: Cli) -> int:
    return asyncio.run(_try_out(args, cli))


async def _try_out(args: argparse.Namespace, cli: Cli) -> int:
    style = Style.of(cli.stdout)
    async with _providers(cli) as providers:
        choice = providers.main_choice()
        if args.model:
            choice = asked_for(args.model, cli.load(), _current(providers))
        target = providers.known_target(choice)
        if not args.json:
            cli.say(f"{target.model} on {target.provider} ({target.base_url or 'this machine'})")
        findings: list[Finding] = []
        async with trial_purse(cli.home, cli.load(), providers.clock) as purse:
            async for finding in probe(providers.maker.model(target, purse), target.profile):
                findings.append(finding)
                if not args.json:
                    cli.say(_line(finding, style))
    if args.json:
        facts = {"provider": target.provider, "model": target.model}
        cli.json({**facts, "findings": msgspec.to_builtins(findings)})
    return 0 if findings and findings[0].verdict == "works" else 1


def _line(finding: Finding, style: Style) -> str:
    dress = {"works": style.plain, "failed": style.bad}.get(finding.verdict, style.dim)
    return f"  {finding.name:<10} {dress(f'{finding.verdict:<9}')} {finding.detail}".rstrip()


def _providers(cli: Cli) -> Providers:
    return Providers(cli.home, cli.load(), SystemClock(), ProgressLine(cli.stderr))
