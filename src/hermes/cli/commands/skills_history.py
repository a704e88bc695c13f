"""`hermes skills log`, `diff`, `undo`, `pending`, `approve`, `reject`, `stale`, `retire` and
`unretire`: skills that the agent wrote."""

import time
from argparse import Namespace
from collections.abc import Awaitable, Callable

import msgspec

from hermes.cli.commands.skills_common import all_roots, say_diff, skill_index
from hermes.cli.context import YES, Cli, Command, Style, arg
from hermes.cli.output import examples, limit, positive
from hermes.core.errors import HermesError, UsageError
from hermes.ops.transcripts import moment
from hermes.skills import (
    DEFAULT_LOG_LENGTH,
    Skill,
    SkillCommit,
    SkillHistory,
    SkillIndex,
    SkillInvalid,
    SkillNotFound,
    SkillUsage,
    Source,
)
from hermes.skills.hub import diff_files
from hermes.skills.writing import (
    MARK_FILE,
    UNUSED_DAYS,
    SkillProposal,
    SkillWriter,
    content_hash,
    list_files,
    parse_mark,
    scan_reasons,
    stale_skills,
)
from hermes.util.text import human_duration, many, plain_line

HISTORY = Command("skills")  #: The actions of this module; `skills.py` adds them to the command.
PROPOSALS = arg("id", nargs="+", metavar="ID", help="as `pending` shows it")
NAME = arg("name", metavar="NAME")


def skill_history(cli: Cli) -> SkillHistory:
    return SkillHistory(cli.home.skills, lambda text: cli.note(f"warning: {text}"))


def skill_writer(cli: Cli) -> SkillWriter:
    """Return a writer for changes of the user, which skip `skills.review`."""
    usage = SkillUsage(cli.home.skills / ".usage.json")
    history = skill_history(cli)
    return SkillWriter(cli.home.skills, skill_index(cli), history, scan_reasons, usage=usage)


@HISTORY.action(
    "log",
    "what the agent learnt: changes of skills, the newest first",
    arg("name", nargs="?", default="", metavar="NAME", help="only of this skill"),
    limit(DEFAULT_LOG_LENGTH, "-n"),
    json=True,
    epilog=examples("hermes skills log deploy-blog -n 5"),
)
async def _log(args: Namespace, cli: Cli) -> None:
    found = await skill_history(cli).log(args.name, args.limit)
    empty = f"no change of {plain_line(args.name) or 'skills'} is recorded yet"
    style = Style.of(cli.stdout)
    cli.emit(found, line=lambda commit: _line(commit, style), empty=empty)


def _line(commit: SkillCommit, style: Style) -> str:
    names = plain_line(", ".join(commit.skills)) or "-"
    session = f"  [{plain_line(commit.session)}]" if commit.session else ""
    facts = f"{moment(commit.at)}  {plain_line(commit.who):<6} {names}"
    return f"{style.accent(commit.short)}  {facts}: {plain_line(commit.reason)}{style.dim(session)}"


@HISTORY.action(
    "diff",
    "what a change did, line by line",
    arg("id", nargs="?", default="", metavar="ID", help="the newest one without it"),
)
async def _diff(args: Namespace, cli: Cli) -> None:
    history = skill_history(cli)
    commit = await history.commit(args.id)
    cli.say(_line(commit, Style.of(cli.stdout)))
    text = await _copies_diff(cli, history, commit) or await history.diff(commit.id)
    say_diff(cli, text.rstrip("\n"))


async def _copies_diff(cli: Cli, history: SkillHistory, commit: SkillCommit) -> str:
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


def original_skill(cli: Cli, name: str) -> Skill | None:
    """Return the skill that is used if the user has none of this name."""
    others = [root for root in all_roots(cli) if root.source is not Source.USER]
    try:
        return SkillIndex(others).get(name)
    except (SkillNotFound, SkillInvalid):
        return None


@HISTORY.action(
    "undo",
    "take one change back",
    arg("id", metavar="ID", help="as `hermes skills log` shows it"),
    YES,
    description="Take one change back, as a change of its own, which can be undone too.\n"
    "What was changed later stays; where that is in the way, nothing is done.",
    epilog=examples("hermes skills undo 1a2b3c4d"),
)
async def _undo(args: Namespace, cli: Cli) -> int:
    history = skill_history(cli)
    commit = await history.commit(args.id)
    if not cli.confirm(f"Undo {_line(commit, Style())}?"):
        cli.say("nothing was changed")
        return 1
    done = await skill_writer(cli).undo(commit)
    cli.say(f"{commit.short} is undone, as change {done.short}")
    return 0


@HISTORY.action(
    "pending",
    "changes that wait for you (skills.review: ask)",
    arg("id", nargs="?", default="", metavar="ID", help="show this one"),
    json=True,
)
async def _pending(args: Namespace, cli: Cli) -> None:
    writer = skill_writer(cli)
    found = [await _refresh_proposal(cli, writer, args.id)] if args.id else writer.proposals.all()
    kept = "" if cli.load().settings.skills.review == "ask" else "; changes are kept at once"
    style = Style.of(cli.stdout)
    lines = [_proposal_line(proposal, style) for proposal in found]
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


def _proposal_line(proposal: SkillProposal, style: Style) -> str:
    draft = proposal.draft
    age = f"{human_duration(time.time() - proposal.at)} ago"
    what = f"{draft.action} {plain_line(draft.name)}"
    reason = f": {plain_line(draft.reason)}" if draft.reason else ""
    return f"{style.accent(proposal.id)}  {age:>12}  {draft.who:<6} {what}{reason}"


@HISTORY.action("approve", "keep changes that wait for you", PROPOSALS)
async def _approve(args: Namespace, cli: Cli) -> int:
    writer = skill_writer(cli)

    async def approve(proposal: str) -> str:
        return (await writer.approve(proposal)).text

    return await _decide_each(args, cli, approve)


@HISTORY.action("reject", "drop changes that wait for you", PROPOSALS)
async def _reject(args: Namespace, cli: Cli) -> int:
    writer = skill_writer(cli)

    async def reject(proposal: str) -> str:
        dropped = await writer.reject(proposal)
        return f"{dropped.id} rejected: {dropped.draft.action} {plain_line(dropped.draft.name)}"

    return await _decide_each(args, cli, reject)


async def _decide_each(args: Namespace, cli: Cli, decide: Callable[[str], Awaitable[str]]) -> int:
    """Decide each proposal; a failure does not stop the others."""
    code = 0
    for proposal in args.id:
        try:
            cli.say(plain_line(await decide(proposal)))
        except HermesError as error:
            hint = f" ({error.hint})" if error.hint else ""
            cli.note(f"{plain_line(proposal)}: {plain_line(f'{error}{hint}')}")
            code = code or error.exit_code
    return code


@HISTORY.action(
    "stale",
    "skills of the agent that are no longer used",
    arg("--days", type=positive, default=UNUSED_DAYS, metavar="N", help=f"not for ({UNUSED_DAYS})"),
    json=True,
)
async def _list_stale(args: Namespace, cli: Cli) -> None:
    skills, usage = skill_index(cli), SkillUsage(cli.home.skills / ".usage.json")
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


@HISTORY.action("retire", "put a skill away, so that it can come back", NAME)
async def _retire(args: Namespace, cli: Cli) -> None:
    await skill_writer(cli).retire(args.name)
    cli.say(f"{plain_line(args.name)} is retired; `hermes skills unretire` brings it back")


@HISTORY.action("unretire", "bring a retired skill back", NAME)
async def _unretire(args: Namespace, cli: Cli) -> None:
    await skill_writer(cli).unretire(args.name)
    cli.say(f"{plain_line(args.name)} is back")
