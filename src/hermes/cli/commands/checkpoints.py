"""`hermes checkpoints`: the files of this folder as they were before the agent changed them."""

from argparse import Namespace
from pathlib import Path

from hermes.cli.context import YES, Cli, Command, arg, flag
from hermes.core.errors import UsageError
from hermes.tools.checkpoints import (
    CheckpointOptions,
    Checkpoints,
    find_workspace,
    format_checkpoints,
    format_restored,
)
from hermes.util.text import many

COMMAND = Command(
    "checkpoints",
    description="Before the agent changes files of a folder, their state is kept. Going back undoes"
    " what the agent did and keeps what you changed yourself.",
    epilog="""\
examples:
  hermes checkpoints list
  hermes checkpoints diff 1             what changed since the newest one
  hermes checkpoints restore 2          undo what the agent did since the second newest
  hermes checkpoints restore 2 src/a.py
""",
)
NUMBER = arg("number", type=int, metavar="N", help="1 is the newest")
FILE = arg("file", nargs="?", default="", help="only this file or folder")


def _open(cli: Cli) -> Checkpoints:
    folder = cli.home.root / "checkpoints"
    options = CheckpointOptions(max_snapshots=cli.load().settings.checkpoints.max_snapshots)
    return Checkpoints(folder, find_workspace(folder, Path.cwd()), Path.home(), options)


def _file(args: Namespace) -> str:
    return str(Path.cwd().resolve() / args.file) if args.file else ""


@COMMAND.action("list", "show the checkpoints of this folder, the newest first", json=True)
async def _list(_args: Namespace, cli: Cli) -> None:
    checkpoints = _open(cli)
    found = await checkpoints.list()
    command = "hermes checkpoints restore"
    cli.emit(found, format_checkpoints(found, checkpoints.problem, command=command))


@COMMAND.action("diff", "show what changed since a checkpoint", NUMBER, FILE)
async def _diff(args: Namespace, cli: Cli) -> None:
    text = await _open(cli).diff(args.number, _file(args))
    cli.say(text.rstrip("\n") or f"nothing has changed since checkpoint {args.number}")


@COMMAND.action(
    "restore",
    "go back to a checkpoint",
    NUMBER,
    FILE,
    flag("--force", help="also where you changed the same lines yourself"),
)
async def _restore(args: Namespace, cli: Cli) -> int:
    checkpoints = _open(cli)
    done = await checkpoints.restore(args.number, _file(args), force=args.force)
    cli.say(format_restored(done, command="hermes checkpoints restore"))
    for notice in checkpoints.notices():
        cli.note(notice)
    return 1 if done.kept else 0


@COMMAND.action("prune", "drop old checkpoints and free their room")
async def _prune(_args: Namespace, cli: Cli) -> None:
    cli.say(f"dropped {many(await _open(cli).prune(), 'checkpoint')}")


@COMMAND.action("clear", "forget all checkpoints of this folder", YES)
async def _clear(_args: Namespace, cli: Cli) -> None:
    checkpoints = _open(cli)
    if not cli.confirm(f"Forget all checkpoints of {checkpoints.workspace}?"):
        raise UsageError("nothing was changed")
    await checkpoints.clear()
    cli.say(f"no checkpoints are left of {checkpoints.workspace}")
