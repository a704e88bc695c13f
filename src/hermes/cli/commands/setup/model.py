"""`hermes setup model`: a provider, its key, one of its models."""

import argparse
import asyncio

from hermes.app.providers import Providers
from hermes.cli.commands.auth import checked_key
from hermes.cli.commands.setup.asking import fresh, run_command
from hermes.cli.context import Cli
from hermes.cli.explain_model import resolution
from hermes.cli.model_wizard import Wizard
from hermes.cli.progress import ProgressLine
from hermes.cli.resolution import brief
from hermes.cli.style import Style
from hermes.config import edit
from hermes.core.errors import HermesError, UsageError
from hermes.ops.auth import Desk
from hermes.providers import CUSTOM, LOCAL, Endpoint, endpoints
from hermes.util.clock import SystemClock

KNOWN = ("openrouter", "anthropic", "openai", "gemini", "nous", "ollama")
"""Offered beside those that are set up; any other can be typed."""
OWN_KEY = "CUSTOM_API_KEY"
LONGEST_KEY = 16_384


def ask(cli: Cli) -> None:
    now = resolution(fresh(cli)).main
    cli.say(f"  now: {brief(now, Style.of(cli.stdout))}")
    if now.provider == LOCAL:
        cli.say("  A small model of its own: no key, nothing leaves this machine. One key of a")
        cli.say("  provider makes Hermes strong.")
    offers = _offers(cli)
    for number, (name, why) in enumerate(offers, start=1):
        cli.say(f"  {number:>2}  {name:<14} {why}")
    while True:
        said = cli.ask("  provider, by number or name (Enter keeps): ").strip()
        if not said:
            return
        try:
            _use(_named(said, [name for name, _ in offers]), cli)
        except UsageError as error:
            cli.say(f"  {error}")
        else:
            return


def apply(args: argparse.Namespace, cli: Cli) -> bool:
    has_key = bool(args.api_key_env or args.api_key_stdin)
    if not (args.provider or args.model or args.base_url or has_key):
        return False
    provider = args.provider or (CUSTOM if args.base_url else "")
    if not provider and not has_key:
        run_command(cli, "model", "set", args.model)
        return True
    if not provider:
        raise UsageError("the key of which provider?", hint="name it with --provider")
    if provider == CUSTOM and not args.model:
        raise UsageError("an endpoint of your own needs a model", hint="name it with --model")
    key = checked_key(_given_key(args, cli)) if has_key else ""
    _choose_with_key(provider, args.model or "", args.base_url or "", key, cli)
    return True


def _offers(cli: Cli) -> list[tuple[str, str]]:
    """Providers and why one would take them."""
    found = resolution(fresh(cli))
    ready = [found.main.provider, *(one.provider for one in found.also)]
    offers = {name: "ready" for name in ready if name not in (LOCAL, CUSTOM)}
    for name in KNOWN:
        if endpoint := endpoints.find_endpoint(name):
            offers.setdefault(endpoint.id, endpoint.label)
    offers[CUSTOM] = "a server of your own, by its address"
    offers[LOCAL] = "the embedded model: no key, works offline once it is fetched (491 MB)"
    return list(offers.items())


def _named(said: str, offered: list[str]) -> str:
    if said.isdigit() and 1 <= int(said) <= len(offered):
        return offered[int(said) - 1]
    return said


def _use(name: str, cli: Cli) -> None:
    if name == CUSTOM:
        _own_endpoint(cli)
        return
    if name == LOCAL:
        _choose(LOCAL, "", "", cli)
        if cli.ask("  fetch its weights now (491 MB)? [y/N] ").strip().lower() in ("y", "yes"):
            run_command(cli, "local", "pull")
        return
    endpoint = _desk(cli).endpoint(name)
    if endpoint.needs_key and not _desk(cli).rows(endpoint):
        run_command(cli, "auth", "add", endpoint.id)
    try:
        model = asyncio.run(_picked(endpoint.id, cli))
    except UsageError:
        raise
    except HermesError as error:
        cli.say(f"  its models cannot be listed: {error}")
        model = cli.ask("  model (Enter for its default): ").strip()
    _choose(endpoint.id, model, "", cli)


async def _picked(provider: str, cli: Cli) -> str:
    async with _providers(cli, {}) as providers:
        return await Wizard(cli, providers).model_of(provider)


async def _picked_at(address: str, key: str, cli: Cli) -> str:
    said = {"provider": CUSTOM, "base_url": address, "api_key": key, "default": "-"}
    async with _providers(cli, {f"model.{name}": value for name, value in said.items()}) as there:
        return await Wizard(cli, there).model_at(await there.main())


def _providers(cli: Cli, overrides: dict[str, str]) -> Providers:
    loaded = fresh(cli).load(overrides)
    return Providers(cli.home, loaded, SystemClock(), ProgressLine(cli.stderr))


def _own_endpoint(cli: Cli) -> None:
    address = cli.ask("  its address, such as http://127.0.0.1:8080/v1: ").strip()
    if not address:
        return
    key = cli.ask_secret("  its key (not shown; Enter for none): ").strip()
    key = checked_key(key) if key else ""
    if model := asyncio.run(_picked_at(address, key, cli)):
        _choose_with_key(CUSTOM, model, address, key, cli)


def _choose(provider: str, model: str, base_url: str, cli: Cli) -> None:
    endpoint = endpoints.find_endpoint(provider.lower())
    if not model and endpoint is not None:
        model = endpoint.default_model
    text = f"{provider}:{model}"
    run_command(cli, "model", "set", text, *(("--base-url", base_url) if base_url else ()))


def _given_key(args: argparse.Namespace, cli: Cli) -> str:
    if args.api_key_stdin:
        return cli.stdin.read(LONGEST_KEY + 1)
    found = fresh(cli).load().variable(args.api_key_env)
    if not found:
        raise UsageError(
            f"the variable {args.api_key_env} is not set", hint="or pipe the key: --api-key-stdin"
        )
    return found


def _choose_with_key(provider: str, model: str, base_url: str, key: str, cli: Cli) -> None:
    """A provider's key goes to auth.json, before the model, which is not saved without it. That of
    an address of one's own goes to .env, and config.yaml names it: once the address is saved, so
    that it is never meant for another one."""
    endpoint = _desk(cli).endpoint(provider)
    if key and endpoint.id != CUSTOM:
        _refuse_keyless(endpoint)
        _desk(cli).add(endpoint, key, "")
    _choose(provider, model, base_url, cli)
    if key and endpoint.id == CUSTOM:
        edit.set_variable(cli.home, OWN_KEY, key)
        edit.set_value(cli.home, ("model", "api_key"), f"${{{OWN_KEY}}}")


def _refuse_keyless(endpoint: Endpoint) -> None:
    if endpoint.id == LOCAL or endpoint.api_mode == "acp":
        raise UsageError(f"{endpoint.label} takes no key")


def _desk(cli: Cli) -> Desk:
    return Desk(cli.home, fresh(cli).load(), SystemClock())
