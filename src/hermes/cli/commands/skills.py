"""`hermes skills`: list and configure skills, and review what the agent wrote.

`skills_hub` adds the actions for skills of others.
"""

import shutil
import time
from argparse import Namespace
from collections.abc import Iterable
from io import StringIO
from typing import Any

import msgspec

from hermes import skills as skill_api
from hermes.app import external_warnings, skill_roots, visibility_context
from hermes.cli.context import YES, Cli, Command, arg
from hermes.cli.output import limit, positive
from hermes.config import edit
from hermes.config.edit import assign
from hermes.config.environment import is_secret_setting, mask
from hermes.config.home import tilde
from hermes.config.schema import MISSING, find, split_key
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.ops import moment
from hermes.skills.hub import SOURCE_NAMES, HubStore, LockFile, diff_files
from hermes.skills.writing import (
    MARK_FILE,
    UNUSED_DAYS,
    SkillProposal,
    SkillWriter,
    content_hash,
    list_files,
    parse_mark,
    read_overlay,
    scan_reasons,
    stale_skills,
)
from hermes.tui import Paint, one_line
from hermes.util.text import human_duration, many, plain, plain_line

# Output. Text of third parties is always cleaned first.

WIDTH = 110  #: Columns without a terminal.
NARROWEST = 40
CHAT_INDENT = 4  #: Columns by which a conversation indents output; see `cli.session`.


def line_width(cli: Cli) -> int:
    """Return the columns of a line. Output that is collected is shown in a conversation."""
    columns = shutil.get_terminal_size((WIDTH, 24)).columns
    return max(NARROWEST, columns - CHAT_INDENT * isinstance(cli.stdout, StringIO))


def say_diff(cli: Cli, text: str) -> None:
    roles = {"+": "accent", "-": "error", "@": "dim"}
    for line in plain(text).split("\n"):
        cli.show(cli.paint(roles.get(line[:1], "text"), line))


def say_problems(cli: Cli, problems: Iterable[str]) -> None:
    for problem in problems:
        cli.note(f"warning: {plain_line(problem)}")


def all_roots(cli: Cli) -> tuple[skill_api.SkillRoot, ...]:
    """Return all skill folders except those of plugins, which would have to be loaded."""
    return skill_roots(cli.load(), cli.home)


def skill_index(cli: Cli) -> skill_api.SkillIndex:
    return skill_api.SkillIndex(all_roots(cli))


def skill_visibility(cli: Cli) -> skill_api.VisibilityContext:
    """Return the visibility on this machine, without tools, which depend on the session."""
    return visibility_context(cli.load(), "cli")


COMMAND = Command("skills")

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
    hidden: str = ""  #: Why it is not used here.
    called_by: str = ""  #: `user` or `agent` if the other cannot call it.
    broken: str = ""  #: Why it cannot be loaded.


KINDS = [str(one) for one in skill_api.Source]


@COMMAND.action(
    "list",
    "list the skills on this machine",
    arg(
        "--source",
        default="",
        choices=[*KINDS, *SOURCE_NAMES],
        metavar="SOURCE",
        help=f"only those of {', '.join(KINDS)}, or installed from official, github, …",
    ),
    json=True,
)
def _list(args: Namespace, cli: Cli) -> None:
    say_problems(cli, external_warnings(cli.load()))
    skills, around = skill_index(cli), skill_visibility(cli)
    try:
        lock = HubStore(cli.home.skills / ".hub").lock()
    except ConfigError as error:
        say_problems(cli, [f"{error}; {error.hint}"])
        lock = LockFile()
    seen: dict[str, list[str]] = {}
    for root in all_roots(cli):
        for skill in skill_api.SkillIndex([root]).skills():
            seen.setdefault(skill.name, []).append(str(root.source))
    below = {name: sources[1] for name, sources in seen.items() if len(sources) > 1}
    found = [
        _row(skill, lock, below, skill_api.hidden_reason(skill, around))
        for skill in skills.skills()
    ]
    for one in skills.broken():
        folder, source = str(one.folder), str(one.source)
        row = SkillRow(name=one.folder.name, source=source, folder=folder, broken=one.reason)
        found.append(row)
    rows = [row for row in found if args.source in ("", row.source, row.installed_from)]
    empty = "no such skills" if args.source else "no skills yet: `hermes skills browse`"
    lines, last, room = [], "", line_width(cli)
    for row in sorted(rows, key=lambda row: (row.category, row.name)):
        if row.category != last:
            last = row.category
            lines.append(f"{plain_line(last)}:")
        lines.append(_line(row, room))
    cli.emit(rows, lines, empty=empty)


def _row(skill: skill_api.Skill, lock: LockFile, below: dict[str, str], hidden: str) -> SkillRow:
    entry = lock.skills.get(skill.name) if skill.source is skill_api.Source.HUB else None
    overlay = read_overlay(skill.folder) if skill.source is skill_api.Source.USER else None
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
        called_by="user" if skill.is_user_only else "agent" if skill.is_model_only else "",
    )


def _line(row: SkillRow, room: int) -> str:
    marks = [row.source]
    if row.trust:
        marks.append(row.trust)
    if row.changed_copy_of:
        marks.append(f"your copy of the {row.changed_copy_of} one")
    elif row.hides:
        marks.append(f"hides the {row.hides} one")
    if row.called_by:
        marks.append(f"called by the {row.called_by} only")
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
    path = skill.folder / (args.file or skill_api.SKILL_FILE)
    text = (
        skill_api.read_linked(skill, args.file) if args.file else skill_api.read_instructions(skill)
    )
    if args.json:
        facts = msgspec.to_builtins(skill, enc_hook=str)  # the folder is not a JSON value
        cli.json({"skill": facts, "file": str(path), "text": text})
        return
    cli.note(f"{skill.source}: {plain_line(tilde(path))}")
    for warning in () if args.file else skill.warnings:
        cli.note(f"warning: {plain_line(warning)}")
    cli.show(plain(text).rstrip("\n"))


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
)
def _config(args: Namespace, cli: Cli) -> None:
    found = [one for one in declared_settings(cli) if args.key in ("", one.key)]
    if args.key and not found:
        raise UsageError(
            f"no skill has a setting {args.key}", hint="`hermes skills config` lists them"
        )
    if args.value is None:
        lines = []
        for one in found:
            how = "" if one.is_set else "  (not set)" if one.value is None else "  (the default)"
            shown = "" if one.value is None else f" = {plain_line(str(one.value))}"
            lines.append(f"{plain_line(one.key)}{shown}{how}")
            lines.append(f"    {one.skill}: {plain_line(one.description)}")
        cli.emit(found, lines, empty="no skill has settings")
        return
    change = assign(f"skills.config.{args.key}", args.value)
    edit.set_value(cli.home, change.parts, change.value)
    cli.say(f"skills.config.{args.key} set in {tilde(cli.home.config_file)}")


def declared_settings(cli: Cli) -> list[DeclaredSetting]:
    """Return the settings of all usable skills, with secrets masked."""
    values, here = cli.load().settings.skills.config, skill_visibility(cli)
    skills = [one for one in skill_index(cli).skills() if not skill_api.unusable_reason(one, here)]
    found = []
    for name, one in ((skill.name, setting) for skill in skills for setting in skill.settings):
        parts = split_key(one.key)
        value = find(values, parts)
        is_set = value is not MISSING and value is not None
        shown = value if is_set else one.default
        shown = mask(str(shown)) if is_set and is_secret_setting(parts) else shown
        found.append(DeclaredSetting(name, one.key, one.description, shown, is_set, one.prompt))
    return found


# `hermes skills log`, `diff`, `undo`, `pending`, `approve`, `reject`, `stale`, `retire` and
# `unretire`: skills that the agent wrote.

PROPOSALS = arg("id", nargs="+", metavar="ID", help="as `pending` shows it")
NAME = arg("name", metavar="NAME")


def skill_history(cli: Cli) -> skill_api.SkillHistory:
    return skill_api.SkillHistory(cli.home.skills, lambda text: cli.note(f"warning: {text}"))


def skill_writer(cli: Cli) -> SkillWriter:
    """Return a writer for changes of the user, which skip `skills.review`."""
    usage = skill_api.SkillUsage(cli.home.skills / ".usage.json")
    history = skill_history(cli)
    return SkillWriter(cli.home.skills, skill_index(cli), history, scan_reasons, usage=usage)


@COMMAND.action(
    "log",
    "show how the agent changed skills, newest first",
    arg("name", nargs="?", default="", metavar="NAME", help="only of this skill"),
    limit(skill_api.DEFAULT_LOG_LENGTH, "-n"),
    json=True,
)
async def _log(args: Namespace, cli: Cli) -> None:
    found = await skill_history(cli).log(args.name, args.limit)
    empty = f"no change of {plain_line(args.name) or 'skills'} is recorded yet"
    paint = cli.paint
    cli.emit(found, line=lambda commit: _commit_line(commit, paint), empty=empty)


def _commit_line(commit: skill_api.SkillCommit, paint: Paint) -> str:
    names = plain_line(", ".join(commit.skills)) or "-"
    session = f"  [{plain_line(commit.session)}]" if commit.session else ""
    facts = f"{moment(commit.at)}  {plain_line(commit.who):<6} {names}"
    words = f"{facts}: {plain_line(commit.reason)}{paint('dim', session)}"
    return f"{paint('accent', commit.short)}  {words}"


@COMMAND.action(
    "diff",
    "show a change line by line",
    arg("id", nargs="?", default="", metavar="ID", help="the newest one without it"),
)
async def _diff(args: Namespace, cli: Cli) -> None:
    history = skill_history(cli)
    commit = await history.commit(args.id)
    cli.say(_commit_line(commit, cli.paint))
    text = await _copies_diff(cli, history, commit) or await history.diff(commit.id)
    say_diff(cli, text.rstrip("\n"))


async def _copies_diff(
    cli: Cli, history: skill_api.SkillHistory, commit: skill_api.SkillCommit
) -> str:
    """Return the changes to copied skills, without the copying itself.

    Return "" for a change without copies, and if an original has changed since.
    """
    found: list[str] = []
    for files in await history.folders_added_with(MARK_FILE, commit.id):
        try:
            mark = parse_mark(files.pop(MARK_FILE))
        except msgspec.DecodeError:
            return ""
        skill = original_skill(cli, mark.name)
        if skill is None or content_hash(skill.folder) != mark.hash:
            return ""
        before = {path: (skill.folder / path).read_bytes() for path in list_files(skill.folder)}
        found += [f"in a copy of the {mark.source} one:", diff_files(before, files)]
    return "\n".join(found)


def original_skill(cli: Cli, name: str) -> skill_api.Skill | None:
    """Return the skill that is used if the user has none of this name."""
    others = [root for root in all_roots(cli) if root.source is not skill_api.Source.USER]
    try:
        return skill_api.SkillIndex(others).get(name)
    except (skill_api.SkillNotFound, skill_api.SkillInvalid):
        return None


@COMMAND.action(
    "undo",
    "undo a change",
    arg("id", metavar="ID", help="as `hermes skills log` shows it"),
    YES,
)
async def _undo(args: Namespace, cli: Cli) -> None:
    history = skill_history(cli)
    commit = await history.commit(args.id)
    cli.require(f"Undo {_commit_line(commit, Paint())}?")
    done = await skill_writer(cli).undo(commit)
    cli.say(f"{commit.short} is undone, as change {done.short}")


@COMMAND.action(
    "pending",
    "list changes that wait for approval (skills.review: ask)",
    arg("id", nargs="?", default="", metavar="ID", help="show this one"),
    json=True,
)
async def _pending(args: Namespace, cli: Cli) -> None:
    writer = skill_writer(cli)
    found = [await _refresh_proposal(cli, writer, args.id)] if args.id else writer.proposals.all()
    kept = "" if cli.load().settings.skills.review == "ask" else "; changes are kept at once"
    lines = []
    for proposal in found:
        draft, age = proposal.draft, f"{human_duration(time.time() - proposal.at)} ago"
        what = f"{draft.action} {plain_line(draft.name)}"
        reason = f": {plain_line(draft.reason)}" if draft.reason else ""
        name = cli.paint("accent", proposal.id)
        lines.append(f"{name}  {age:>12}  {draft.who:<6} {what}{reason}")
    cli.emit(found, lines, empty=f"nothing waits for you{kept}")
    if args.json or not found:
        return
    if args.id:
        say_diff(cli, found[0].diff.rstrip("\n"))
    else:
        cli.say("`hermes skills pending ID` shows one; then `approve ID` or `reject ID`")


async def _refresh_proposal(cli: Cli, writer: SkillWriter, name: str) -> SkillProposal:
    """Return a proposal against the current files, or the original one if it no longer applies."""
    proposal = writer.proposals.get(name)
    try:
        return await writer.refreshed_proposal(proposal.id)
    except UsageError as error:
        reject = f"`hermes skills reject {proposal.id}` drops it"
        cli.note(f"warning: it does not fit any more: {plain_line(str(error))}; {reject}")
        return proposal


@COMMAND.action("approve", "accept changes that wait for approval", PROPOSALS)
async def _approve(args: Namespace, cli: Cli) -> int:
    return await _decide_each(args, cli, approve=True)


@COMMAND.action("reject", "reject changes that wait for approval", PROPOSALS)
async def _reject(args: Namespace, cli: Cli) -> int:
    return await _decide_each(args, cli, approve=False)


async def _decide_each(args: Namespace, cli: Cli, *, approve: bool) -> int:
    """Decide each proposal; a failure does not stop the others."""
    writer, code = skill_writer(cli), 0
    for proposal in args.id:
        try:
            if approve:
                text = (await writer.approve(proposal)).text
            else:
                dropped = await writer.reject(proposal)
                text = f"{dropped.id} rejected: {dropped.draft.action} {dropped.draft.name}"
            cli.say(plain_line(text))
        except HermesError as error:
            hint = f" ({error.hint})" if error.hint else ""
            cli.note(f"{plain_line(proposal)}: {plain_line(f'{error}{hint}')}")
            code = code or error.exit_code
    return code


@COMMAND.action(
    "stale",
    "list skills of the agent that are no longer used",
    arg("--days", type=positive, default=UNUSED_DAYS, metavar="N", help=f"not for ({UNUSED_DAYS})"),
    json=True,
)
async def _list_stale(args: Namespace, cli: Cli) -> None:
    skills, usage = skill_index(cli), skill_api.SkillUsage(cli.home.skills / ".usage.json")
    found = stale_skills(skills.skills(), usage.all(), time.time(), args.days)
    away = list(skill_writer(cli).retired())
    lines = []
    for each in found:
        facts = f"idle {each.idle_days}d, {many(each.uses, 'use')}"
        lines.append(f"{each.name}  {facts}  {plain_line(each.description)}")
    if found:
        lines.append("`hermes skills retire NAME` puts one away; `unretire` brings it back")
    else:
        lines.append(f"no skill the agent wrote was idle for {many(args.days, 'day')}")
    lines += [f"retired: {plain_line(', '.join(away))}"] if away else []
    cli.emit({"stale": found, "retired": away}, lines)


@COMMAND.action("retire", "retire a skill; it can be brought back", NAME)
async def _retire(args: Namespace, cli: Cli) -> None:
    await skill_writer(cli).retire(args.name)
    cli.say(f"{plain_line(args.name)} is retired; `hermes skills unretire` brings it back")


@COMMAND.action("unretire", "bring a retired skill back", NAME)
async def _unretire(args: Namespace, cli: Cli) -> None:
    await skill_writer(cli).unretire(args.name)
    cli.say(f"{plain_line(args.name)} is back")
