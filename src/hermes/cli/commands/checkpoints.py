"""`hermes checkpoints`: the files of this folder as they were before the agent changed them."""

import argparse
import asyncio
from pathlib import Path

import msgspec

from hermes.cli.context import Actions, Cli, Command
from hermes.core.errors import UsageError
from hermes.tools.checkpoints import (
    CheckpointOptions,
    Checkpoints,
    find_workspace,
    format_checkpoints,
    format_restored,
)
from hermes.util.text import many

EPILOG = """\
examples:
  hermes checkpoints list
  hermes checkpoints diff 1             what changed since the newest one
  hermes checkpoints restore 2          undo what the agent did since the second newest
  hermes checkpoints restore 2 src/a.py
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Before the agent changes files of a folder, their state is kept. Going back undoes what"
        " the agent did and keeps what you changed yourself."
    )
    parser.epilog = EPILOG
    actions = Actions(parser)
    actions.add("list", _list, "show the checkpoints of this folder, the newest first", json=True)
    diff = actions.add("diff", _diff, "show what changed since a checkpoint")
    restore = actions.add("restore", _restore, "go back to a checkpoint")
    for action in (diff, restore):
        action.add_argument("number", type=int, metavar="N", help="1 is the newest")
        action.add_argument("file", nargs="?", default="", help="only this file or folder")
    restore.add_argument(
        "--force", action="store_true", help="also where you changed the same lines yourself"
    )
    actions.add("prune", _prune, "drop old checkpoints and free their room")
    clear = actions.add("clear", _clear, "forget all checkpoints of this folder")
    clear.add_argument("--yes", action="store_true", help="do not ask")


def _open(cli: Cli) -> Checkpoints:
    folder = cli.home.root / "checkpoints"
    options = CheckpointOptions(max_snapshots=cli.load().settings.checkpoints.max_snapshots)
    return Checkpoints(folder, find_workspace(folder, Path.cwd()), Path.home(), options)


def _file(args: argparse.Namespace) -> str:
    return str(Path.cwd().resolve() / args.file) if args.file else ""


def _list(args: argparse.Namespace, cli: Cli) -> int:
    checkpoints = _open(cli)
    found = asyncio.run(checkpoints.list())
    if args.json:
        cli.json([msgspec.to_builtins(each) for each in found])
    else:
        cli.say(
            format_checkpoints(found, checkpoints.problem, command="hermes checkpoints restore")
        )
    return 0


def _diff(args: argparse.Namespace, cli: Cli) -> int:
    text = asyncio.run(_open(cli).diff(args.number, _file(args)))
    cli.say(text.rstrip("\n") or f"nothing has changed since checkpoint {args.number}")
    return 0


def _restore(args: argparse.Namespace, cli: Cli) -> int:
    checkpoints = _open(cli)
    done = asyncio.run(checkpoints.restore(args.number, _file(args), force=args.force))
    cli.say(format_restored(done, command="hermes checkpoints restore"))
    for notice in checkpoints.notices():
        cli.note(notice)
    return 1 if done.kept else 0


def _prune(_args: argparse.Namespace, cli: Cli) -> int:
    cli.say(f"dropped {many(asyncio.run(_open(cli).prune()), 'checkpoint')}")
    return 0


def _clear(args: argparse.Namespace, cli: Cli) -> int:
    checkpoints = _open(cli)
    if not args.yes:
        answer = cli.ask(f"Forget all checkpoints of {checkpoints.workspace}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise UsageError("nothing was changed")
    asyncio.run(checkpoints.clear())
    cli.say(f"no checkpoints are left of {checkpoints.workspace}")
    return 0


COMMAND = Command(configure)
