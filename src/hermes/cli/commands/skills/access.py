"""What the actions work with: the hub, the collection, and the user's consent."""

import argparse
import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from hermes.app.skills import skill_roots, visibility_context
from hermes.cli.actions import Act
from hermes.cli.commands.skills.wording import say_problems
from hermes.cli.context import Cli
from hermes.config.environment import search_path
from hermes.core.errors import UsageError
from hermes.skills import SkillIndex, SkillRoot, Source, VisibilityContext, optional_folder
from hermes.skills.hub import (
    SOURCE_NAMES,
    Hub,
    HubAddresses,
    HubError,
    HubOptions,
    check_source_name,
)

Work = Callable[[argparse.Namespace, Cli, Hub], Awaitable[int]]


def with_hub(work: Work) -> Act:
    """An action that needs the hub."""

    def act(args: argparse.Namespace, cli: Cli) -> int:
        async def run() -> int:
            async with Hub(hub_options(cli), lambda name: elsewhere(cli, name)) as hub:
                try:
                    return await work(args, cli, hub)
                finally:
                    say_problems(cli, hub.warnings())

        try:
            return asyncio.run(run())
        except BrokenPipeError:
            raise
        except OSError as error:  # the disk is full, or read-only, or something lies in the way
            place = f"{error.filename}: " if error.filename else ""
            raise HubError(f"the disk refuses: {place}{error.strerror or error}") from error

    return act


def hub_options(cli: Cli) -> HubOptions:
    loaded = cli.load()
    usual = HubAddresses()
    return HubOptions(
        root=cli.home.skills / ".hub",
        official=optional_folder(),
        token=loaded.secret("GITHUB_TOKEN") or loaded.secret("GH_TOKEN") or "",
        git=shutil.which("git", path=search_path()),
        ssh_agent=loaded.variable("SSH_AUTH_SOCK") or "",
        addresses=HubAddresses(
            github_api=loaded.variable("GITHUB_API_URL") or usual.github_api,
            github_web=loaded.variable("GITHUB_SERVER_URL") or usual.github_web,
            skills_sh=loaded.variable("SKILLS_API_URL") or usual.skills_sh,
        ),
    )


def all_roots(cli: Cli) -> tuple[SkillRoot, ...]:
    """Every folder with skills but those of plugins, whose code would have to be run."""
    return skill_roots(cli.load(), cli.home)


def collection(cli: Cli) -> SkillIndex:
    return SkillIndex(all_roots(cli))


def context(cli: Cli) -> VisibilityContext:
    """This machine and what is switched off. Which tools there are depends on the session."""
    return visibility_context(cli.load(), "cli")


def own_copy(cli: Cli, name: str) -> Path | None:
    """The folder of the user's own skill of this name, which counts instead of an installed one."""
    own = [root for root in all_roots(cli) if root.source is Source.USER]
    return next((one.folder for one in SkillIndex(own).skills() if one.name == name), None)


def elsewhere(cli: Cli, name: str) -> str:
    """The kind of a skill that an installed one of this name would hide: bundled or external."""
    hidden = [root for root in all_roots(cli) if root.source in (Source.EXTERNAL, Source.BUNDLED)]
    return next((str(one.source) for one in SkillIndex(hidden).skills() if one.name == name), "")


def consents(args: argparse.Namespace, cli: Cli, question: str) -> bool:
    """`--yes`, or an answer that is not the default, which is no."""
    if args.yes:
        return True
    if not cli.interactive:
        raise UsageError(
            "this needs --yes when nobody can be asked", hint=f"the question is: {question}"
        )
    return cli.ask(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def add_source(parser: argparse.ArgumentParser, summary: str) -> None:
    """`--source`, one of those that can be asked."""
    parser.add_argument("--source", type=_source, choices=SOURCE_NAMES, default="", help=summary)


def _source(name: str) -> str:
    try:
        return check_source_name(name) if name else ""
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error}; {error.hint}") from None


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
