"""`hermes backup`, `import` and `checkpoints`: copies of the home and of changed files."""

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from hermes import ops
from hermes.cli.context import YES, Cli, Command, arg, flag
from hermes.cli.output import progress_on
from hermes.config.home import Home, ensure_hermes_home, tilde
from hermes.core.errors import UsageError
from hermes.ops.backup import FULL, QUICK
from hermes.ops.output_files import report_unusable
from hermes.tools.checkpoints import (
    CheckpointOptions,
    Checkpoints,
    find_workspace,
    format_checkpoints,
    format_restored,
)
from hermes.tui import safe
from hermes.util.text import human_size, many


async def run_backup(args: Namespace, cli: Cli) -> None:
    now = datetime.now(UTC).astimezone()
    passed_over: tuple[str, ...] = ()
    if args.quick and args.output is None:
        taken = ops.Snapshots(cli.home).create(args.label, now)
        where, files, size = taken.path, taken.files, taken.bytes
    else:
        copied = await ops.copy_home(
            cli.home,
            output_file(args.output, cli.home, now),
            now,
            kind=QUICK if args.quick else FULL,
            label=args.label,
            progress=progress_on(cli, "packing"),
        )
        where, files, size = copied.path, len(copied.manifest.files), copied.bytes
        passed_over = copied.passed_over
        if cli.load().settings.store.url:
            cli.note(
                "note: sessions are on a PostgreSQL server and not included; copy them with pg_dump"
            )
    cli.emit(
        {"path": str(where), "files": files, "bytes": size, "passed_over": passed_over},
        f"{many(files, 'file')} in {tilde(where)} ({human_size(size)})",
    )
    if not args.json:
        for name in passed_over:
            cli.note(f"not included, cannot be read or named: {safe(name)}")
        if any((folder / ".git").exists() for folder in where.parents):
            cli.note("warning: it is inside a git work tree and holds your keys: do not commit it")
        cli.note(f"to restore it: hermes import {tilde(where)}")


def output_file(asked: Path | None, home: Home, now: datetime) -> Path:
    """Return the path of an archive: the requested file, or one with a default name."""
    profile = "" if home.is_default else f"{home.profile}-"
    name = f"hermes-backup-{profile}{now:%Y%m%d-%H%M%S}.zip"
    if asked is None:
        folder = ensure_hermes_home(home) / "backups"
        with report_unusable(folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        return folder / name
    try:
        path = asked.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"cannot tell where {asked} is") from error
    return path / name if path.is_dir() else path


BACKUP = Command(
    "backup",
    run_backup,
    "",
    arg("-o", "--output", type=Path, metavar="FILE", help="a new file, or a folder for it"),
    flag("-q", "--quick", help="settings, keys, memories and skills only"),
    arg("-l", "--label", default="", metavar="TEXT", help="what it is for"),
    json=True,
)


# `hermes import`: restore an archive of `hermes backup`.

SHOWN = 6


async def run_import(args: Namespace, cli: Cli) -> None:
    path = args.zip.expanduser()
    if cli.home.root.is_dir() and ops.has_unfinished_restore(cli.home):
        ops.finish_restore(cli.home)
    with ops.open_archive(path) as archive:
        ops.check_fits(cli.home, archive)
        in_the_way = ops.conflicts(cli.home, archive)
        if in_the_way and not args.force:
            raise UsageError(
                f"{cli.home.display()} has these already: {_list_names(in_the_way)}",
                hint="--force replaces them; a snapshot of what is here is kept",
            )
        archive.check_content()
        if in_the_way:
            cli.note(f"what is here now is kept as {await _snapshot_replaced(cli, archive)}")
    done = ops.restore_archive(cli.home, path)
    facts = done.manifest
    cli.say(
        f"{many(len(facts.files), 'file')} ({human_size(done.size)}) are back in"
        f" {cli.home.display()}: {_list_names(done.units)}"
    )
    label = f", {safe(facts.label)}" if facts.label else ""
    cli.say(f"they are from {safe(facts.created)} (Hermes {safe(facts.hermes)}{label})")
    cli.note("restart Hermes if it is running")


async def _snapshot_replaced(cli: Cli, archive: ops.Archive) -> str:
    """Save the files that the import replaces as a snapshot; return its path."""
    now = datetime.now(UTC).astimezone()
    kind = archive.manifest.kind
    snapshots = ops.Snapshots(cli.home)
    if not ops.contents(cli.home, kind).items:
        return "nothing"
    target = snapshots.new_file("before import", now)
    progress = progress_on(cli, "keeping")
    await ops.copy_home(cli.home, target, now, kind=kind, label="before import", progress=progress)
    snapshots.prune(ops.KEPT_SNAPSHOTS, spared=archive.where)
    return tilde(target)


def _list_names(units: list[str]) -> str:
    more = f" and {len(units) - SHOWN} more" if len(units) > SHOWN else ""
    return ", ".join(safe(unit) for unit in units[:SHOWN]) + more


IMPORT = Command(
    "import",
    run_import,
    "",
    arg("zip", type=Path, metavar="ZIP", help="the archive"),
    flag("-f", "--force", help="replace what is here already"),
)


# `hermes checkpoints`: the files of this folder as they were before the agent changed them.

CHECKPOINTS = Command("checkpoints")
NUMBER = arg("number", type=int, metavar="N", help="1 is the newest")
FILE = arg("file", nargs="?", default="", help="only this file or folder")


def _open_checkpoints(cli: Cli) -> Checkpoints:
    folder = cli.home.root / "checkpoints"
    options = CheckpointOptions(max_snapshots=cli.load().settings.checkpoints.max_snapshots)
    return Checkpoints(folder, find_workspace(folder, Path.cwd()), Path.home(), options)


def _file(args: Namespace) -> str:
    return str(Path.cwd().resolve() / args.file) if args.file else ""


@CHECKPOINTS.action("list", "show the checkpoints of this folder, the newest first", json=True)
async def _list_checkpoints(_args: Namespace, cli: Cli) -> None:
    checkpoints = _open_checkpoints(cli)
    found = await checkpoints.list()
    command = "hermes checkpoints restore"
    cli.emit(found, format_checkpoints(found, checkpoints.problem, command=command))


@CHECKPOINTS.action("diff", "show what changed since a checkpoint", NUMBER, FILE)
async def _diff(args: Namespace, cli: Cli) -> None:
    text = await _open_checkpoints(cli).diff(args.number, _file(args))
    cli.show(text.rstrip("\n") or f"nothing has changed since checkpoint {args.number}")


@CHECKPOINTS.action(
    "restore",
    "go back to a checkpoint",
    NUMBER,
    FILE,
    flag("--force", help="also undo lines that you changed yourself"),
)
async def _restore(args: Namespace, cli: Cli) -> int:
    checkpoints = _open_checkpoints(cli)
    done = await checkpoints.restore(args.number, _file(args), force=args.force)
    cli.say(format_restored(done, command="hermes checkpoints restore"))
    for notice in checkpoints.notices():
        cli.note(notice)
    return 1 if done.kept else 0


@CHECKPOINTS.action("prune", "delete old checkpoints and free their space")
async def _prune(_args: Namespace, cli: Cli) -> None:
    cli.say(f"dropped {many(await _open_checkpoints(cli).prune(), 'checkpoint')}")


@CHECKPOINTS.action("clear", "delete all checkpoints of this folder", YES)
async def _clear(_args: Namespace, cli: Cli) -> None:
    checkpoints = _open_checkpoints(cli)
    if not cli.confirm(f"Forget all checkpoints of {checkpoints.workspace}?"):
        raise UsageError("nothing was changed")
    await checkpoints.clear()
    cli.say(f"no checkpoints are left of {checkpoints.workspace}")
