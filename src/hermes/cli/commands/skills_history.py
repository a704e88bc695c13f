"""`hermes skills log`, `diff`, `undo`, `pending`, `approve`, `reject`, `stale`, `retire` and
`unretire`: skills that the agent wrote."""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from hermes.cli.commands.skills_common import all_roots, skill_index
from hermes.cli.context import Act, Actions, Cli, Style
from hermes.cli.output import add_yes, confirm, examples, positive
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
from hermes.util.text import human_duration, many, plain, plain_line

Work = Callable[[argparse.Namespace, Cli], Awaitable[int]]


def add_history_actions(actions: Actions) -> None:
    log = actions.add(
        "log",
        _async_action(_log),
        "what the agent learnt: changes of skills, the newest first",
        json=True,
        epilog=examples("hermes skills log deploy-blog -n 5"),
    )
    log.add_argument("name", nargs="?", default="", metavar="NAME", help="only of this skill")
    log.add_argument(
        "-n",
        "--limit",
        type=positive,
        default=DEFAULT_LOG_LENGTH,
        metavar="N",
        help=f"how many ({DEFAULT_LOG_LENGTH})",
    )
    diff = actions.add("diff", _async_action(_diff), "what a change did, line by line")
    diff.add_argument("id", nargs="?", default="", metavar="ID", help="the newest one without it")
    undo = actions.add(
        "undo",
        _async_action(_undo),
        "take one change back",
        description="Take one change back, as a change of its own, which can be undone too.\n"
        "What was changed later stays; where that is in the way, nothing is done.",
        epilog=examples("hermes skills undo 1a2b3c4d"),
    )
    undo.add_argument("id", metavar="ID", help="as `hermes skills log` shows it")
    add_yes(undo)
    pending = actions.add(
        "pending",
        _async_action(_pending),
        "changes that wait for you (skills.review: ask)",
        json=True,
    )
    pending.add_argument("id", nargs="?", default="", metavar="ID", help="show this one")
    for name, act, summary in (
        ("approve", _approve, "keep changes that wait for you"),
        ("reject", _reject, "drop changes that wait for you"),
    ):
        deciding = actions.add(name, _async_action(act), summary)
        deciding.add_argument("id", nargs="+", metavar="ID", help="as `pending` shows it")
    _add_retirement(actions)


def _add_retirement(actions: Actions) -> None:
    old = actions.add(
        "stale",
        _async_action(_list_stale),
        "skills of the agent that are no longer used",
        json=True,
    )
    old.add_argument(
        "--days", type=positive, default=UNUSED_DAYS, metavar="N", help=f"not for ({UNUSED_DAYS})"
    )
    retire = actions.add(
        "retire", _async_action(_retire), "put a skill away, so that it can come back"
    )
    retire.add_argument("name", metavar="NAME")
    unretire = actions.add("unretire", _async_action(_unretire), "bring a retired skill back")
    unretire.add_argument("name", metavar="NAME")


def skill_history(cli: Cli) -> SkillHistory:
    return SkillHistory(cli.home.skills, lambda text: cli.note(f"warning: {text}"))


def skill_writer(cli: Cli) -> SkillWriter:
    """Return a writer for changes of the user, which skip `skills.review`."""
    usage = SkillUsage(cli.home.skills / ".usage.json")
    history = skill_history(cli)
    return SkillWriter(cli.home.skills, skill_index(cli), history, scan_reasons, usage=usage)


def _async_action(work: Work) -> Act:
    def act(args: argparse.Namespace, cli: Cli) -> int:
        async def run() -> int:
            return await work(args, cli)

        return asyncio.run(run())

    return act


async def _log(args: argparse.Namespace, cli: Cli) -> int:
    found = await skill_history(cli).log(args.name, args.limit)
    if args.json:
        cli.json(found)
        return 0
    if not found:
        of = f" of {plain_line(args.name)}" if args.name else " of skills"
        cli.say(f"no change{of} is recorded yet")
    style = Style.of(cli.stdout)
    for commit in found:
        cli.say(_line(commit, style))
    return 0


def _line(commit: SkillCommit, style: Style) -> str:
    names = plain_line(", ".join(commit.skills)) or "-"
    session = f"  [{plain_line(commit.session)}]" if commit.session else ""
    facts = f"{moment(commit.at)}  {plain_line(commit.who):<6} {names}"
    return f"{style.accent(commit.short)}  {facts}: {plain_line(commit.reason)}{style.dim(session)}"


async def _diff(args: argparse.Namespace, cli: Cli) -> int:
    history = skill_history(cli)
    commit = await history.commit(args.id)
    cli.say(_line(commit, Style.of(cli.stdout)))
    _say_diff(cli, await _copies_diff(cli, history, commit) or await history.diff(commit.id))
    return 0


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


def _say_diff(cli: Cli, text: str) -> None:
    style = Style.of(cli.stdout)
    dress = {"+": style.accent, "-": style.bad, "@": style.dim}
    for line in plain(text).rstrip("\n").split("\n"):
        cli.say(dress.get(line[:1], style.plain)(line))


async def _undo(args: argparse.Namespace, cli: Cli) -> int:
    history = skill_history(cli)
    commit = await history.commit(args.id)
    if not confirm(args, cli, f"Undo {_line(commit, Style())}?"):
        cli.say("nothing was changed")
        return 1
    done = await skill_writer(cli).undo(commit)
    cli.say(f"{commit.short} is undone, as change {done.short}")
    return 0


async def _pending(args: argparse.Namespace, cli: Cli) -> int:
    writer = skill_writer(cli)
    found = [await _refresh_proposal(cli, writer, args.id)] if args.id else writer.proposals.all()
    if args.json:
        cli.json(found)
        return 0
    if not found:
        kept = "" if cli.load().settings.skills.review == "ask" else "; changes are kept at once"
        cli.say(f"nothing waits for you{kept}")
        return 0
    style = Style.of(cli.stdout)
    for proposal in found:
        cli.say(_proposal_line(proposal, style))
    if args.id:
        _say_diff(cli, found[0].diff)
    else:
        cli.say("`hermes skills pending ID` shows one; then `approve ID` or `reject ID`")
    return 0


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


async def _approve(args: argparse.Namespace, cli: Cli) -> int:
    writer = skill_writer(cli)

    async def approve(proposal: str) -> str:
        return (await writer.approve(proposal)).text

    return await _decide_each(args, cli, approve)


async def _reject(args: argparse.Namespace, cli: Cli) -> int:
    writer = skill_writer(cli)

    async def reject(proposal: str) -> str:
        dropped = await writer.reject(proposal)
        return f"{dropped.id} rejected: {dropped.draft.action} {plain_line(dropped.draft.name)}"

    return await _decide_each(args, cli, reject)


async def _decide_each(
    args: argparse.Namespace, cli: Cli, decide: Callable[[str], Awaitable[str]]
) -> int:
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


async def _list_stale(args: argparse.Namespace, cli: Cli) -> int:
    skills, usage = skill_index(cli), SkillUsage(cli.home.skills / ".usage.json")
    found = stale_skills(skills.skills(), usage.all(), time.time(), args.days)
    away = list(skill_writer(cli).retired())
    if args.json:
        cli.json({"stale": found, "retired": away})
        return 0
    for each in found:
        facts = f"idle {each.idle_days}d, {many(each.uses, 'use')}"
        cli.say(f"{each.name}  {facts}  {plain_line(each.description)}")
    if found:
        cli.say("`hermes skills retire NAME` puts one away; `unretire` brings it back")
    else:
        cli.say(f"no skill the agent wrote was idle for {many(args.days, 'day')}")
    if away:
        cli.say(f"retired: {plain_line(', '.join(away))}")
    return 0


async def _retire(args: argparse.Namespace, cli: Cli) -> int:
    await skill_writer(cli).retire(args.name)
    cli.say(f"{plain_line(args.name)} is retired; `hermes skills unretire` brings it back")
    return 0


async def _unretire(args: argparse.Namespace, cli: Cli) -> int:
    await skill_writer(cli).unretire(args.name)
    cli.say(f"{plain_line(args.name)} is back")
    return 0
