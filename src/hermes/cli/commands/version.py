"""`hermes version`."""

import argparse
import asyncio
import platform
from contextlib import suppress

from hermes import __version__
from hermes.app.git import GitFailed, UserGit
from hermes.app.installation import Checkout, installation
from hermes.cli.context import Cli


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the version of hermes, what it runs on and where it is."
    parser.add_argument("--json", action="store_true", help="as a JSON object")


def run(args: argparse.Namespace, cli: Cli) -> int:
    facts = {
        "hermes": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "home": str(cli.home.root),
        **_program(),
    }
    if args.json:
        cli.json(facts)
    else:
        for name, value in facts.items():
            cli.say(f"{name:<8} {value}")
    return 0


def _program() -> dict[str, str]:
    """Where the program is, and of which commit as far as it is known."""
    found = installation()
    if not isinstance(found, Checkout):
        return {"program": f"installed by {found.installer}"}
    where = {"program": str(found.root)}
    if found.is_repository:
        with suppress(GitFailed):  # without git nobody knows
            where |= asyncio.run(_commit(found))
    return where


async def _commit(checkout: Checkout) -> dict[str, str]:
    git = UserGit(checkout.root)
    commit = await git.line("rev-parse", "--short=12", "HEAD")
    changed = await git.line("status", "--porcelain", "--untracked-files=no")
    return {"commit": f"{commit} with local changes" if changed else commit} if commit else {}
