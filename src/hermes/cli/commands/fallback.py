"""`hermes fallback`: the models that answer when the first one cannot."""

import argparse
import asyncio

import msgspec

from hermes.app.model_choice import asked_for
from hermes.app.providers import Providers
from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.cli.progress import ProgressLine
from hermes.cli.resolution import brief
from hermes.cli.style import Style
from hermes.core.errors import UsageError
from hermes.ops.fallback_chain import add_fallback, clear_fallbacks, remove_fallback
from hermes.ops.status import Resolved, whole_resolution
from hermes.util.clock import SystemClock

EPILOG = """\
examples:
  hermes fallback                                    show the chain
  hermes fallback add openrouter:openai/gpt-oss-120b
  hermes fallback add custom:qwen3 --base-url http://127.0.0.1:8080/v1
  hermes fallback remove 1
"""

run = run_action


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The models that answer, one after the other, when the first one cannot: it is\n"
        "overloaded, refuses the key or has no money left. Saved as fallback_providers."
    )
    parser.epilog = EPILOG
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
        cli.say(f"{number:>3}  {brief(one, Style.of(cli.stdout))}")
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
    """What cannot be used now is not saved."""
    async with _providers(cli) as providers:
        choice = asked_for(args.model, cli.load(), None)
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
            raise UsageError("removing all fallbacks needs --yes when nobody can be asked")
        if cli.ask("Remove all fallbacks? [y/N] ").strip().lower() not in ("y", "yes"):
            cli.say("nothing was removed")
            return 1
    cli.say("removed all fallbacks" if clear_fallbacks(cli.home) else "there were none")
    return 0


def _providers(cli: Cli) -> Providers:
    return Providers(cli.home, cli.load(), SystemClock(), ProgressLine(cli.stderr))
