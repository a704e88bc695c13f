"""`hermes skills list` and `view`: the skills there are on this machine."""

import argparse

import msgspec

from hermes.app.skills import external_warnings
from hermes.cli.actions import Actions
from hermes.cli.commands.skills.access import all_roots, collection, context
from hermes.cli.commands.skills.wording import document, example, say_problems, width
from hermes.cli.context import Cli
from hermes.cli.render import one_line
from hermes.config.home import tilde
from hermes.core.errors import ConfigError
from hermes.skills import (
    SKILL_FILE,
    BrokenSkill,
    Skill,
    SkillIndex,
    Source,
    hidden_reason,
    read_instructions,
    read_linked,
)
from hermes.skills.hub import SOURCE_NAMES, HubStore, LockFile
from hermes.skills.writing import read_overlay
from hermes.util.plain import plain, plain_line


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as it is listed."""

    name: str
    source: str
    category: str = ""
    description: str = ""
    version: str = ""
    folder: str = ""
    installed_from: str = ""
    """The source of an installed one: official, github, …"""
    identifier: str = ""
    trust: str = ""
    changed_copy_of: str = ""
    """The source of the original."""
    hides: str = ""
    """The source of another skill of this name, which does not count."""
    hidden: str = ""
    """Why the agent does not see it."""
    broken: str = ""
    """Why it does not load."""


def add_actions(actions: Actions) -> None:
    listing = actions.add(
        "list",
        _list,
        "the skills on this machine",
        json=True,
        description="List the skills on this machine: those the agent sees, hidden ones with the"
        "\nreason, and broken ones with what is wrong. Skills of plugins are not shown.",
        epilog=example("hermes skills list --source hub"),
    )
    kinds = [str(one) for one in Source]
    listing.add_argument(
        "--source",
        default="",
        choices=[*kinds, *SOURCE_NAMES],
        metavar="SOURCE",
        help=f"only those of {', '.join(kinds)}, or installed from official, github, …",
    )
    view = actions.add("view", _view, "show one skill", json=True)
    view.add_argument("name", metavar="NAME", help="also as category/name")
    view.add_argument("file", nargs="?", default="", metavar="FILE", help="a file of it")


def _list(args: argparse.Namespace, cli: Cli) -> int:
    say_problems(cli, external_warnings(cli.load()))
    rows = [row for row in _rows(cli) if args.source in ("", row.source, row.installed_from)]
    if args.json:
        document(cli, rows)
        return 0
    if not rows:
        cli.say("no such skills" if args.source else "no skills yet: `hermes skills browse`")
    last, room = "", width(cli)
    for row in sorted(rows, key=lambda row: (row.category, row.name)):
        if row.category != last:
            last = row.category
            cli.say(f"{plain_line(last)}:")
        cli.say(_line(row, room))
    return 0


def _rows(cli: Cli) -> list[Row]:
    skills = collection(cli)
    lock = _lock(cli)
    around = context(cli)
    below = _below(cli)
    found = [_row(skill, lock, below, hidden_reason(skill, around)) for skill in skills.skills()]
    return found + [_broken_row(one) for one in skills.broken()]


def _lock(cli: Cli) -> LockFile:
    """What is installed; nothing when that cannot be known."""
    try:
        return HubStore(cli.home.skills / ".hub").lock()
    except ConfigError as error:
        say_problems(cli, [f"{error}; {error.hint}"])
        return LockFile()


def _broken_row(one: BrokenSkill) -> Row:
    folder = one.folder
    return Row(name=folder.name, source=str(one.source), folder=str(folder), broken=one.reason)


def _below(cli: Cli) -> dict[str, str]:
    """Names that exist in more than one folder, with the source of the second."""
    seen: dict[str, list[str]] = {}
    for root in all_roots(cli):
        for skill in SkillIndex([root]).skills():
            seen.setdefault(skill.name, []).append(str(root.source))
    return {name: sources[1] for name, sources in seen.items() if len(sources) > 1}


def _row(skill: Skill, lock: LockFile, below: dict[str, str], hidden: str) -> Row:
    entry = lock.skills.get(skill.name) if skill.source is Source.HUB else None
    overlay = read_overlay(skill.folder) if skill.source is Source.USER else None
    return Row(
        name=skill.name,
        source=str(skill.source),
        category=skill.category,
        description=skill.description,
        version=skill.version,
        folder=str(skill.folder),
        installed_from=entry.source if entry else "",
        identifier=entry.identifier if entry else "",
        trust=entry.trust if entry else "",
        changed_copy_of=str(overlay.source) if overlay else "",
        hides=below.get(skill.name, ""),
        hidden=hidden,
    )


def _line(row: Row, room: int) -> str:
    marks = [row.source]
    if row.trust:
        marks.append(row.trust)
    if row.changed_copy_of:
        marks.append(f"your copy of the {row.changed_copy_of} one")
    elif row.hides:
        marks.append(f"hides the {row.hides} one")
    if row.hidden:
        marks.append(f"hidden: {row.hidden}")
    if row.broken:
        marks.append(f"broken: {row.broken}")
    head = f"  {plain_line(row.name)} [{plain_line(', '.join(marks))}]"
    return f"{head} {one_line(plain_line(row.description), max(20, room - len(head) - 1))}".rstrip()


def _view(args: argparse.Namespace, cli: Cli) -> int:
    skill = collection(cli).get(args.name)
    path = skill.folder / (args.file or SKILL_FILE)
    text = read_linked(skill, args.file) if args.file else read_instructions(skill)
    if args.json:
        facts = msgspec.to_builtins(skill, enc_hook=str)  # its folder is no JSON
        document(cli, {"skill": facts, "file": str(path), "text": text})
        return 0
    cli.note(f"{skill.source}: {plain_line(tilde(path))}")
    for warning in () if args.file else skill.warnings:
        cli.note(f"warning: {plain_line(warning)}")
    cli.say(plain(text).rstrip("\n"))
    return 0
