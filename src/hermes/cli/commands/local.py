"""`hermes local`: the embedded model."""

import argparse
import asyncio
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.cli.progress import ProgressLine
from hermes.core.errors import UsageError
from hermes.providers.local import (
    LocalModelFile,
    fetch_weights,
    local_models,
    resolve_weights,
    sha256_of,
)
from hermes.util.text import human_size

EPILOG = """\
examples:
  hermes local pull                     fetch the model that is in use
  hermes local pull 1.5b                a larger one
  hermes local pull https://example.org/model.gguf#sha256=0123…
  hermes local use ~/models/own.gguf    use a GGUF file of your own
  hermes local list
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "The embedded model answers when no key is configured. It is a starter: small and slow,"
        " but it needs no account and nothing leaves this machine."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    pull = actions.add("pull", _pull, "fetch weights (an id or an address)")
    pull.add_argument("model", nargs="?", help="0.5b, 1.5b or the address of a GGUF file")
    actions.add("list", _list, "show what there is", json=True)
    use = actions.add("use", _use, "choose the model (an id, a file or a path)")
    use.add_argument("model")
    remove = actions.add("rm", _remove, "delete fetched weights")
    remove.add_argument("model")
    remove.add_argument("--yes", action="store_true", help="do not ask")


run = run_action


def _pull(args: argparse.Namespace, cli: Cli) -> int:
    name = args.model or cli.load().settings.local.model
    weights = resolve_weights(name, cli.home.models)
    path = asyncio.run(fetch_weights(weights, cli.home.models, ProgressLine(cli.stderr)))
    if not weights.sha256:
        cli.note(f"SHA-256 {sha256_of(path)[0]}")
    cli.say(f"{weights.label} is in {path}")
    if name != cli.load().settings.local.model:
        cli.note(f"to use it: hermes local use {weights.id}")
    return 0


def _list(args: argparse.Namespace, cli: Cli) -> int:
    chosen = cli.load().settings.local.model
    models = local_models(cli.home.models)
    if args.json:
        facts = [msgspec.to_builtins(model, enc_hook=str) for model in models]
        used = [{"in_use": _means(chosen, model)} for model in models]
        cli.json([known | use for known, use in zip(facts, used, strict=True)])
        return 0
    for model in models:
        mark = "*" if _means(chosen, model) else " "
        state = str(model.path) if model.fetched else "not fetched"
        cli.say(f"{mark} {model.name:<12} {human_size(model.size):>9}  {model.label}  ({state})")
    if not any(_means(chosen, model) for model in models):
        cli.say(f"* {chosen}")
    return 0


def _use(args: argparse.Namespace, cli: Cli) -> int:
    weights = resolve_weights(args.model, cli.home.models)
    path = Path(weights.file)
    name = str(path) if path.is_absolute() and path.parent != cli.home.models else weights.id
    import_module("hermes.config.edit").set_value(cli.home, ("local", "model"), name)
    cli.say(f"the embedded model is now {weights.label}")
    if not (cli.home.models / weights.file).is_file():
        cli.note(f"it is fetched when it is first needed, or now: hermes local pull {weights.id}")
    return 0


def _remove(args: argparse.Namespace, cli: Cli) -> int:
    model = next((m for m in local_models(cli.home.models) if _means(args.model, m)), None)
    if model is None or not model.fetched:
        raise UsageError(f"{args.model!r} is not on this machine", hint="hermes local list")
    if not args.yes:
        answer = cli.ask(f"delete {model.path} ({human_size(model.size)})? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    model.path.unlink()
    cli.say(f"deleted {model.path}")
    return 0


def _means(name: str, model: LocalModelFile) -> bool:
    return name in (model.name, model.path.name, str(model.path))
