"""`hermes skills`: list, configure and maintain skills."""

from argparse import Namespace
from typing import Any

import msgspec

from hermes.app.skills import external_warnings
from hermes.cli.commands.skills_common import (
    all_roots,
    line_width,
    open_hub,
    say_findings,
    say_problems,
    skill_index,
    skill_visibility,
)
from hermes.cli.commands.skills_history import HISTORY, original_skill, skill_writer
from hermes.cli.commands.skills_hub import HUB
from hermes.cli.context import YES, Cli, Command, arg, flag
from hermes.cli.output import examples
from hermes.cli.terminal import one_line
from hermes.config.dotenv import is_secret_setting, mask
from hermes.config.edit import assign
from hermes.config.home import tilde
from hermes.config.schema import MISSING, find, split_key
from hermes.core.errors import ConfigError, UsageError
from hermes.skills import (
    SKILL_FILE,
    BrokenSkill,
    Skill,
    SkillIndex,
    SkillSetting,
    Source,
    hidden_reason,
    read_instructions,
    read_linked,
    unusable_reason,
)
from hermes.skills.hub import (
    SOURCE_NAMES,
    Hub,
    HubStore,
    LockFile,
    SkillInspection,
    audit_installed,
    restore_skill,
)
from hermes.skills.writing import read_overlay
from hermes.util.text import many, plain, plain_line

COMMAND = Command(
    "skills",
    description="Find, install, look after and share skills.\n\n"
    "A skill elsewhere is named by an identifier: official/<category>/<name>, owner/repo/path\n"
    "of GitHub, skills-sh/<owner>/<repo>/<skill>, the address of a site or a git repository\n"
    "(…/repo.git#branch:folder), or ./folder.",
)

# `hermes skills list` and `view`.


class SkillRow(msgspec.Struct, frozen=True, kw_only=True):
    """A skill in the list."""

    name: str
    source: str
    category: str = ""
    description: str = ""
    version: str = ""
    folder: str = ""
    installed_from: str = ""  #: Where an installed skill comes from: official, github, …
    identifier: str = ""
    trust: str = ""
    changed_copy_of: str = ""  #: The source of the original of a changed copy.
    hides: str = ""  #: The source of another skill of this name that this one hides.
    hidden: str = ""  #: Why the agent does not see it.
    broken: str = ""  #: Why it cannot be loaded.


KINDS = [str(one) for one in Source]


@COMMAND.action(
    "list",
    "the skills on this machine",
    arg(
        "--source",
        default="",
        choices=[*KINDS, *SOURCE_NAMES],
        metavar="SOURCE",
        help=f"only those of {', '.join(KINDS)}, or installed from official, github, …",
    ),
    json=True,
    description="List the skills on this machine: those the agent sees, hidden ones with the"
    "\nreason, and broken ones with what is wrong. Skills of plugins are not shown.",
    epilog=examples("hermes skills list --source hub"),
)
def _list(args: Namespace, cli: Cli) -> None:
    say_problems(cli, external_warnings(cli.load()))
    rows = [row for row in _rows(cli) if args.source in ("", row.source, row.installed_from)]
    empty = "no such skills" if args.source else "no skills yet: `hermes skills browse`"
    lines, last, room = [], "", line_width(cli)
    for row in sorted(rows, key=lambda row: (row.category, row.name)):
        if row.category != last:
            last = row.category
            lines.append(f"{plain_line(last)}:")
        lines.append(_line(row, room))
    cli.emit(rows, lines, empty=empty)


def _rows(cli: Cli) -> list[SkillRow]:
    skills = skill_index(cli)
    lock = _lock(cli)
    around = skill_visibility(cli)
    below = _shadowed_names(cli)
    found = [_row(skill, lock, below, hidden_reason(skill, around)) for skill in skills.skills()]
    return found + [_broken_row(one) for one in skills.broken()]


def _lock(cli: Cli) -> LockFile:
    """Return the installed skills; empty if the lock file cannot be read."""
    try:
        return HubStore(cli.home.skills / ".hub").lock()
    except ConfigError as error:
        say_problems(cli, [f"{error}; {error.hint}"])
        return LockFile()


def _broken_row(one: BrokenSkill) -> SkillRow:
    folder = one.folder
    return SkillRow(name=folder.name, source=str(one.source), folder=str(folder), broken=one.reason)


def _shadowed_names(cli: Cli) -> dict[str, str]:
    """Return names that exist in several folders, with the source of the hidden skill."""
    seen: dict[str, list[str]] = {}
    for root in all_roots(cli):
        for skill in SkillIndex([root]).skills():
            seen.setdefault(skill.name, []).append(str(root.source))
    return {name: sources[1] for name, sources in seen.items() if len(sources) > 1}


def _row(skill: Skill, lock: LockFile, below: dict[str, str], hidden: str) -> SkillRow:
    entry = lock.skills.get(skill.name) if skill.source is Source.HUB else None
    overlay = read_overlay(skill.folder) if skill.source is Source.USER else None
    return SkillRow(
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


def _line(row: SkillRow, room: int) -> str:
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


@COMMAND.action(
    "view",
    "show one skill",
    arg("name", metavar="NAME", help="also as category/name"),
    arg("file", nargs="?", default="", metavar="FILE", help="a file of it"),
    json=True,
)
def _view(args: Namespace, cli: Cli) -> None:
    skill = skill_index(cli).get(args.name)
    path = skill.folder / (args.file or SKILL_FILE)
    text = read_linked(skill, args.file) if args.file else read_instructions(skill)
    if args.json:
        facts = msgspec.to_builtins(skill, enc_hook=str)  # the folder is not a JSON value
        cli.json({"skill": facts, "file": str(path), "text": text})
        return
    cli.note(f"{skill.source}: {plain_line(tilde(path))}")
    for warning in () if args.file else skill.warnings:
        cli.note(f"warning: {plain_line(warning)}")
    cli.say(plain(text).rstrip("\n"))


# `hermes skills config`.


class DeclaredSetting(msgspec.Struct, frozen=True):
    skill: str
    key: str
    description: str
    value: Any  #: The configured value, or the default.
    is_set: bool
    prompt: str = ""  #: The question for the user.


@COMMAND.action(
    "config",
    "show the settings of skills, or set one",
    arg("key", nargs="?", default="", metavar="KEY"),
    arg("value", nargs="?", default=None, metavar="VALUE", help="as YAML"),
    json=True,
    description="Show the settings that skills declare, with their values; with KEY and VALUE,"
    "\nset one. They are kept in config.yaml as skills.config.<key>.",
    epilog=examples("hermes skills config", "hermes skills config wiki.path ~/wiki"),
)
def _config(args: Namespace, cli: Cli) -> None:
    found = [one for one in declared_settings(cli) if args.key in ("", one.key)]
    if args.key and not found:
        raise UsageError(
            f"no skill has a setting {args.key}", hint="`hermes skills config` lists them"
        )
    if args.value is None:
        cli.emit(found, line=_setting_lines, empty="no skill has settings")
        return
    change = assign(f"skills.config.{args.key}", args.value)
    from hermes.config import edit  # ruamel.yaml, needed only to write

    edit.set_value(cli.home, change.parts, change.value)
    cli.say(f"skills.config.{args.key} set in {tilde(cli.home.config_file)}")


def _setting_lines(one: DeclaredSetting) -> str:
    how = "" if one.is_set else "  (the default)" if one.value is not None else "  (not set)"
    shown = "" if one.value is None else f" = {plain_line(str(one.value))}"
    about = f"    {one.skill}: {plain_line(one.description)}"
    return f"{plain_line(one.key)}{shown}{how}\n{about}"


def declared_settings(cli: Cli) -> list[DeclaredSetting]:
    """Return the settings of all usable skills, with secrets masked."""
    values, here = cli.load().settings.skills.config, skill_visibility(cli)
    return [
        _declared_setting(skill.name, setting, values)
        for skill in skill_index(cli).skills()
        if not unusable_reason(skill, here)
        for setting in skill.settings
    ]


def _declared_setting(skill: str, setting: SkillSetting, values: dict[str, Any]) -> DeclaredSetting:
    parts = split_key(setting.key)
    value = find(values, parts)
    is_set = value is not MISSING and value is not None
    shown = value if is_set else setting.default
    if is_set and is_secret_setting(parts):
        shown = mask(str(shown))
    return DeclaredSetting(skill, setting.key, setting.description, shown, is_set, setting.prompt)


# `hermes skills audit`, `quarantine` and `reset`.


@COMMAND.action(
    "audit",
    "compare the installed skills with their hashes, and scan them again",
    json=True,
    description="Compare every file of the installed skills with the hash it was installed with"
    "\nand scan them again. The exit code is 1 when something is wrong.",
    needs=open_hub,
)
async def _audit(args: Namespace, cli: Cli, hub: Hub) -> int:
    found = audit_installed(hub)
    if args.json:
        cli.json(found)
        return 0 if found.clean else 1
    if not found.skills and not found.strays:
        cli.say("nothing is installed from the hub")
    for one in found.skills:
        _say_audit(cli, one)
    for folder in found.strays:
        cli.say(f"{plain_line(folder)}: not installed by the hub; move it out of the hub's folder")
    return 0 if found.clean else 1


def _say_audit(cli: Cli, one: SkillInspection) -> None:
    if not one.is_tampered:
        cli.say(f"{one.name}: as installed ({one.trust})")
    else:
        cli.say(f"{one.name}: CHANGED since it was installed")
        for what in ("changed", "missing", "added"):
            for name in getattr(one, what):
                cli.say(f"  {what:<8} {plain_line(name)}")
        if one.problem:
            cli.say(f"  {plain_line(one.problem)}")
        cli.say(f"  `hermes skills reset {one.name} --restore` puts the files back")
    if one.verdict not in ("", "safe"):
        say_findings(cli, one.verdict, one.findings)


@COMMAND.action(
    "quarantine",
    "list the skills that were refused",
    flag("--clean", help="delete them"),
    arg("name", nargs="?", default="", metavar="NAME", help="only this one"),
    json=True,
    needs=open_hub,
)
async def _quarantine(args: Namespace, cli: Cli, hub: Hub) -> None:
    if args.clean:
        gone = hub.quarantine.clean(args.name)
        cli.say(f"deleted {many(len(gone), 'refused skill')}")
        return
    held = [one for one in hub.quarantine.refused() if args.name in ("", one.name)]
    cli.emit(
        held,
        line=lambda one: (
            f"{one.name}  {one.at}  {plain_line(one.identifier)}\n    {plain_line(one.reason)}"
        ),
        empty="nothing is in quarantine",
    )


@COMMAND.action(
    "reset",
    "drop your changes of a skill that is not your own",
    arg("name", metavar="NAME"),
    flag("--restore", help="fetch the installed files again"),
    YES,
    description="A skill that is bundled or installed is changed in a copy. Reset drops the"
    "\ncopy, so that the original counts again. With --restore, an installed skill whose"
    "\nfiles were changed on the disk is fetched once more.",
    epilog=examples("hermes skills reset arxiv", "hermes skills reset pdf --restore --yes"),
    needs=open_hub,
)
async def _reset(args: Namespace, cli: Cli, hub: Hub) -> int:
    writer = skill_writer(cli)
    try:
        copied = writer.overlay_of(args.name)
    except UsageError:
        return await _restore_installed(args, cli, hub)
    left = original_skill(cli, copied.name)
    what = f"drop your copy of {plain_line(copied.name)}"
    if left is None:
        what += f", whose {copied.source} original is gone"
    if not cli.confirm(f"{what[0].upper()}{what[1:]}?"):
        cli.say("nothing was changed")
        return 1
    reason = f"back to the {copied.source} skill {copied.name}"
    commit = (await writer.reset(args.name, reason)).commit
    undo = f"; `hermes skills undo {commit.short}` takes this back" if commit else ""
    now = f"the {left.source} skill counts again" if left else "nothing is left of it"
    cli.say(f"dropped your copy of {plain_line(copied.name)}: {now}{undo}")
    return await _restore_installed(args, cli, hub) if args.restore else 0


async def _restore_installed(args: Namespace, cli: Cli, hub: Hub) -> int:
    installed = args.name in hub.store.lock().skills
    if not args.restore or not installed:
        raise UsageError(
            f"there is no changed copy of {args.name}",
            hint="--restore fetches its installed files again"
            if installed
            else "`hermes skills list` says which skills are copies",
        )
    if not cli.confirm(f"Replace the files of {args.name} with those of its source?"):
        cli.say("nothing was changed")
        return 1
    await restore_skill(hub, args.name)
    cli.say(f"{args.name} is as it was installed")
    return 0


COMMAND.actions += (*HUB.actions, *HISTORY.actions)
