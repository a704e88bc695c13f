"""`hermes skills snapshot export` and `import`."""

import argparse
from pathlib import Path

from hermes.cli.actions import Actions, run_action
from hermes.cli.commands.skills.access import collection, with_hub
from hermes.cli.commands.skills.wording import document, example
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.skills import SkillHistory, Source
from hermes.skills.hub import Hub, export_bundle, import_bundle
from hermes.util.plain import plain_line
from hermes.util.text import many


def add_actions(actions: Actions) -> None:
    parser = actions.add(
        "snapshot",
        run_action,  # replaced by the help of those below
        "all installed and own skills as one file",
        epilog=example(
            "hermes skills snapshot export skills.tar.gz",
            "hermes skills snapshot import skills.tar.gz",
        ),
    )
    below = Actions(parser)
    writing = below.add("export", with_hub(_export), "write them to a file")
    writing.add_argument("file", type=Path, metavar="FILE")
    writing.add_argument("--force", action="store_true", help="replace FILE when it exists")
    reading = below.add(
        "import",
        with_hub(_import),
        "read them from a file",
        json=True,
        description="Read skills from a snapshot. All hashes are checked first; each skill is"
        "\nscanned. Skills that are there already are left alone.",
    )
    reading.add_argument("file", type=Path, metavar="FILE")
    reading.add_argument(
        "--force", action="store_true", help="replace those that are there; in spite of findings"
    )


async def _export(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    target = args.file.expanduser().absolute()
    if target.exists() and not target.is_file():
        raise UsageError(f"{args.file} is not a file")
    if target.exists() and not args.force:
        raise UsageError(f"{args.file} exists", hint="--force replaces it")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    own = [skill for skill in collection(cli).skills() if skill.source is Source.USER]
    done = export_bundle(hub, cli.home.skills, own, target)
    cli.say(f"wrote {many(len(done.skills), 'skill')} to {args.file}")
    return 0


async def _import(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    file = args.file.expanduser()
    if not file.is_file():
        raise UsageError(f"there is no file {args.file}")
    history = SkillHistory(cli.home.skills, cli.note)
    done = await import_bundle(hub, cli.home.skills, history, file, force=args.force)
    if args.json:
        document(cli, done)
        return 1 if done.refused else 0
    cli.say(f"imported {many(len(done.stored), 'skill')}")
    if done.skipped:
        cli.say(f"left alone, as they are there: {', '.join(map(plain_line, done.skipped))}")
    for name, reason in done.refused.items():
        cli.note(f"not imported: {plain_line(name)}: {plain_line(reason)}")
    return 1 if done.refused else 0
