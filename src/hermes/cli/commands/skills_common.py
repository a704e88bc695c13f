"""What the actions of `hermes skills` share: the hub, the skill index, and output."""

import argparse
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.app.skills import skill_roots, visibility_context
from hermes.cli.context import Arg, Cli, Style, arg
from hermes.cli.terminal import one_line
from hermes.config.environment import search_path
from hermes.core.errors import UsageError
from hermes.skills import SkillIndex, SkillRoot, Source, VisibilityContext, optional_folder
from hermes.skills.hub import (
    SOURCE_NAMES,
    Hub,
    HubAddresses,
    HubError,
    HubOptions,
    InstallCandidate,
    SkillOffer,
    check_source_name,
    summarize_changes,
)
from hermes.skills.scanner import ScanFinding
from hermes.util.text import human_size, many, plain, plain_line

# Output. Text of third parties is always cleaned first.

WIDTH = 110  #: Columns without a terminal.
NARROWEST = 40
CHAT_INDENT = 4  #: Columns by which a conversation indents output; see `cli.session`.
MOST_FINDINGS = 20
VERDICTS = {"safe": "nothing suspicious", "caution": "caution", "dangerous": "dangerous"}


def line_width(cli: Cli) -> int:
    """Return the columns of a line. Output not sent to stdout is shown in a conversation."""
    columns = shutil.get_terminal_size((WIDTH, 24)).columns
    return max(NARROWEST, columns if cli.stdout is sys.stdout else columns - CHAT_INDENT)


def offer_lines(cli: Cli, offers: Sequence[SkillOffer]) -> list[str]:
    lines = []
    for offer in offers:
        count = f"  ({many(offer.installs, 'install')})" if offer.installs else ""
        text = plain_line(offer.description) or f"from {offer.source}"
        lines.append(f"{plain_line(offer.identifier)}{count}")
        lines.append(f"    {one_line(text, line_width(cli) - 4)}")
    return lines


def say_findings(cli: Cli, verdict: str, findings: Sequence[ScanFinding]) -> None:
    style = Style.of(cli.stdout)
    dress = {"dangerous": style.bad, "caution": style.warn}.get(verdict, style.plain)
    cli.say(f"scan:     {dress(VERDICTS.get(verdict, verdict))}")
    for one in findings[:MOST_FINDINGS]:
        place = f"{plain_line(one.file)}:{one.line}" if one.line else plain_line(one.file)
        cli.say(f"  {one.severity:<8} {place}  {plain_line(one.why)}")
        if one.text:
            cli.say(f"           {one_line(plain_line(one.text), line_width(cli) - 11)}")
    if len(findings) > MOST_FINDINGS:
        cli.say(f"  and {many(len(findings) - MOST_FINDINGS, 'more finding')}")


def say_candidate(cli: Cli, one: InstallCandidate) -> None:
    skill = one.skill
    version = f" {plain_line(skill.version)}" if skill.version else ""
    cli.say(f"{skill.name}{version}: {plain_line(skill.description)}")
    cli.say(f"from:     {plain_line(one.origin.address or one.identifier)}")
    by = [plain_line(fact) for fact in (skill.author, skill.license) if fact]
    cli.say(f"trust:    {one.trust}" + (f", {', '.join(by)}" if by else ""))
    size = human_size(sum(map(len, one.files.values())))
    cli.say(f"files:    {many(len(one.files), 'file')}, {size}")
    say_findings(cli, one.report.verdict, one.findings)
    for warning in skill.warnings:
        cli.say(f"note:     {plain_line(warning)}")


def say_difference(cli: Cli, one: InstallCandidate) -> None:
    cli.say(f"changes:  {summarize_changes(one.current, one.files)}")
    say_diff(cli, one.difference)


def say_diff(cli: Cli, text: str) -> None:
    style = Style.of(cli.stdout)
    dress = {"+": style.accent, "-": style.bad, "@": style.dim}
    for line in plain(text).split("\n"):
        cli.say(dress.get(line[:1], style.plain)(line))


def say_problems(cli: Cli, problems: Iterable[str]) -> None:
    for problem in problems:
        cli.note(f"warning: {plain_line(problem)}")


@asynccontextmanager
async def open_hub(cli: Cli) -> AsyncIterator[Hub]:
    """Open the hub; print its warnings at the end."""
    try:
        async with Hub(hub_options(cli), lambda name: hidden_source(cli, name)) as hub:
            try:
                yield hub
            finally:
                say_problems(cli, hub.warnings())
    except BrokenPipeError:
        raise
    except OSError as error:  # for example a full or read-only disk
        place = f"{error.filename}: " if error.filename else ""
        raise HubError(f"the disk refuses: {place}{error.strerror or error}") from error


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
    """Return all skill folders except those of plugins, which would have to be loaded."""
    return skill_roots(cli.load(), cli.home)


def skill_index(cli: Cli) -> SkillIndex:
    return SkillIndex(all_roots(cli))


def skill_visibility(cli: Cli) -> VisibilityContext:
    """Return the visibility on this machine, without tools, which depend on the session."""
    return visibility_context(cli.load(), "cli")


def user_copy(cli: Cli, name: str) -> Path | None:
    """Return the folder of the user's own skill of this name, which hides an installed one."""
    own = [root for root in all_roots(cli) if root.source is Source.USER]
    return next((one.folder for one in SkillIndex(own).skills() if one.name == name), None)


def hidden_source(cli: Cli, name: str) -> str:
    """Return the source of a skill that an installed one would hide: bundled or external."""
    hidden = [root for root in all_roots(cli) if root.source in (Source.EXTERNAL, Source.BUNDLED)]
    return next((str(one.source) for one in SkillIndex(hidden).skills() if one.name == name), "")


def _source(name: str) -> str:
    try:
        return check_source_name(name) if name else ""
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error}; {error.hint}") from None


def source_option(summary: str) -> Arg:
    """Return `--source` with the names of the searchable sources."""
    return arg("--source", type=_source, choices=SOURCE_NAMES, default="", help=summary)
