"""`hermes skills` actions for the hub: search, install, update, publish, snapshots and taps."""

import argparse
from pathlib import Path

import msgspec

from hermes.cli.commands.skills_common import (
    add_source,
    say_candidate,
    say_difference,
    say_findings,
    say_offers,
    say_problems,
    skill_index,
    skill_visibility,
    user_copy,
    with_hub,
)
from hermes.cli.context import Actions, Cli, run_action
from hermes.cli.output import add_yes, confirm, examples
from hermes.config.home import tilde
from hermes.core.errors import UsageError
from hermes.skills import SKILL_FILE, SkillHistory, Source, hidden_reason
from hermes.skills.hub import (
    SET_TOKEN,
    AuditEvent,
    Hub,
    InstallCandidate,
    InstallRefused,
    PublishPlan,
    RefusedSkill,
    SearchResult,
    UpdateState,
    UpdateStatus,
    check_update,
    check_updates,
    export_bundle,
    import_bundle,
    plan_publication,
    prepare_skill,
    publish,
)
from hermes.skills.scanner import SourceTrust
from hermes.skills.writing import read_overlay
from hermes.util.text import human_size, many, plain, plain_line


def add_search_actions(actions: Actions) -> None:
    browse = actions.add(
        "browse",
        with_hub(_browse),
        "list the skills of a source",
        json=True,
        description="List the skills of a source; without --source, the official ones and those of"
        "\nyour taps.",
        epilog=examples("hermes skills browse", "hermes skills browse --source github"),
    )
    search = actions.add(
        "search",
        with_hub(_search),
        "search for skills",
        json=True,
        description="Search the official skills, your taps, well-known repositories and skills.sh.",
        epilog=examples(
            "hermes skills search pdf",
            "hermes skills search owner/repo pdf --source github",
            "hermes skills search https://example.com --source well-known",
        ),
    )
    search.add_argument("words", nargs="+", metavar="WORDS")
    inspect = actions.add(
        "inspect",
        with_hub(_inspect),
        "show a skill and what the scan says, without installing it",
        json=True,
        description="Show a skill that is not installed, or a refused one that is in quarantine.",
        epilog=examples("hermes skills inspect anthropics/skills/skills/pdf --text"),
    )
    inspect.add_argument("identifier", metavar="IDENTIFIER")
    inspect.add_argument("--text", action="store_true", help=f"its {SKILL_FILE} too")
    for parser in (browse, search, inspect):
        add_source(parser, "where to look")


async def _browse(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    return _show(args, cli, await hub.browse(args.source))


async def _search(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    return _show(args, cli, await hub.search(" ".join(args.words), args.source))


def _show(args: argparse.Namespace, cli: Cli, found: SearchResult) -> int:
    if args.json:
        cli.json(found)
        return 0
    say_offers(cli, found.offers)
    if not found.offers:
        cli.say("nothing was found")
    say_problems(cli, found.problems)
    return 0


async def _inspect(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    held = hub.quarantine.find(args.identifier)
    if held is not None:
        return _show_quarantined(args, cli, *held)
    one = await hub.prepare(args.identifier, args.source)
    hub.quarantine.discard(one.staged)
    decision = one.decision()
    if args.json:
        facts = {
            "name": one.name,
            "description": one.skill.description,
            "identifier": one.identifier,
            "source": one.source,
            "trust": one.trust,
            "origin": one.origin,
            "verdict": one.report.verdict,
            "allowed": decision.allowed,
            "findings": one.findings,
            "files": {name: len(data) for name, data in one.files.items()},
        }
        cli.json(facts)
        return 0
    say_candidate(cli, one)
    cli.say(f"install:  {'yes' if decision.allowed else 'no'}; {plain_line(decision.reason)}")
    _say_files(args, cli, one.files)
    return 0


def _show_quarantined(
    args: argparse.Namespace, cli: Cli, held: RefusedSkill, files: dict[str, bytes]
) -> int:
    if args.json:
        cli.json({**msgspec.to_builtins(held), "quarantined": True})
        return 0
    cli.say(f"{held.name} is in quarantine since {held.at}: {plain_line(held.reason)}")
    cli.say(f"from:     {plain_line(held.origin.address or held.identifier)}")
    say_findings(cli, held.verdict, held.findings)
    _say_files(args, cli, files)
    return 0


def _say_files(args: argparse.Namespace, cli: Cli, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        cli.say(f"  {human_size(len(data)):>9}  {plain_line(name)}")
    if args.text:
        cli.say("")
        cli.say(plain(files.get(SKILL_FILE, b"").decode("utf-8", "replace")))


# `hermes skills install` and `uninstall`.

THIRD_PARTY = (
    "This skill was written by a third party. It tells the agent what to do on this machine;\n"
    "the scan finds known tricks, not every one. Install it only if you trust its author."
)


def add_install_actions(actions: Actions) -> None:
    install = actions.add(
        "install",
        with_hub(_install),
        "fetch, scan and install a skill",
        description="Fetch a skill into quarantine, scan it, and install it when the rules and you"
        "\nsay so. --force installs one with findings; a dangerous one is never installed.",
        epilog=examples(
            "hermes skills install official/devops/kubernetes",
            "hermes skills install anthropics/skills/skills/pdf",
            "hermes skills install https://example.com/team/skills.git#main:notes --yes",
        ),
    )
    install.add_argument("identifier", metavar="IDENTIFIER")
    add_source(install, "where it is")
    install.add_argument("--category", default="", help="file it under this one")
    install.add_argument(
        "--force", action="store_true", help="in spite of findings, or of changes made here"
    )
    add_yes(install)
    uninstall = actions.add("uninstall", with_hub(_uninstall), "remove an installed skill")
    uninstall.add_argument("name", metavar="NAME")
    add_yes(uninstall)


async def _install(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    candidate = await hub.prepare(args.identifier, args.source, args.category)
    try:
        hub.check_name(candidate, force=args.force)
        held = candidate.installed
        if held and held.sha256 == candidate.sha256 and candidate.current == candidate.files:
            cli.say(f"{candidate.name} is installed already, and there is no newer version")
            return 0
        return 0 if install_candidate(args, cli, hub, candidate, force=args.force) else 1
    finally:
        hub.quarantine.discard(candidate.staged)


def install_candidate(
    args: argparse.Namespace, cli: Cli, hub: Hub, candidate: InstallCandidate, *, force: bool
) -> bool:
    """Show the skill, ask, and install it. Return False if the user says no.

    Raises `Refused` if the install policy forbids it.
    """
    say_candidate(cli, candidate)
    if candidate.installed:
        say_difference(cli, candidate)
    decision = candidate.decision(force=force)
    if not decision.allowed:
        hub.refuse(candidate, decision.reason)
        hint = "--force installs it all the same" if decision.asks else "nothing overrides this"
        raise InstallRefused(
            f"{candidate.name} is not installed: {plain_line(decision.reason)}",
            hint=f"{hint}; `hermes skills inspect {candidate.name}` shows it in quarantine",
        )
    if candidate.locally_changed and args.yes and not force:
        raise InstallRefused(
            f"{candidate.name} was changed here: {', '.join(candidate.locally_changed)}",
            hint="--force replaces the changes; without --yes you are asked",
        )
    if not _confirm_install(args, cli, candidate):
        cli.say(f"{candidate.name} was left as it is")
        return False
    entry = hub.accept(candidate, force=force)
    what = "updated" if candidate.installed else "installed"
    cli.say(f"{what} {candidate.name} in {tilde(entry.folder(hub.store.skills, candidate.name))}")
    own = user_copy(cli, candidate.name)
    if own is not None:
        cli.note(f"your own skill in {tilde(own)} counts instead of it")
    hidden = hidden_reason(candidate.skill, skill_visibility(cli))
    if hidden:
        cli.note(f"it stays hidden here: {plain_line(hidden)}")
    _say_needs(cli, candidate)
    return True


def _confirm_install(args: argparse.Namespace, cli: Cli, candidate: InstallCandidate) -> bool:
    """Ask before installing, except for skills of Hermes and of trusted repositories."""
    if candidate.locally_changed:
        cli.say(f"changed here since it was installed: {', '.join(candidate.locally_changed)}")
        return confirm(args, cli, f"Replace the changes with this version of {candidate.name}?")
    if candidate.installed:
        return confirm(args, cli, f"Install this version of {candidate.name}?")
    if candidate.trust is not SourceTrust.COMMUNITY:
        return True
    cli.say(THIRD_PARTY)
    return confirm(args, cli, f"Install {candidate.name}?")


def _say_needs(cli: Cli, candidate: InstallCandidate) -> None:
    names = [plain_line(variable.name) for variable in candidate.skill.variables]
    if names:
        cli.say(f"it needs {', '.join(names)}: `hermes config set {names[0]} VALUE`")
    if candidate.skill.settings:
        cli.say("it has settings: `hermes skills config` shows them")


async def _uninstall(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    entry = hub.installed(args.name)
    if not confirm(args, cli, f"Remove {args.name}, installed from {entry.identifier}?"):
        cli.say("nothing was removed")
        return 1
    hub.uninstall(args.name)
    cli.say(f"removed {args.name}")
    own = user_copy(cli, args.name)
    if own is not None:
        drop = f"; `hermes skills reset {args.name}` drops it" if read_overlay(own) else ""
        cli.note(f"your own skill in {tilde(own)} stays, and counts{drop}")
    return 0


# `hermes skills check` and `update`.


def add_update_actions(actions: Actions) -> None:
    checking = actions.add(
        "check", with_hub(_check), "say which installed skills have updates", json=True
    )
    update = actions.add(
        "update",
        with_hub(_update),
        "install new versions, after showing what changes",
        epilog=examples("hermes skills update", "hermes skills update pdf --yes"),
    )
    for parser in (checking, update):
        parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    update.add_argument(
        "--force", action="store_true", help="in spite of findings, or of changes made here"
    )
    add_yes(update)


async def _check(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    found = await check_updates(hub, args.names)
    if args.json:
        facts = [{"name": one.name, "state": one.state, "reason": one.reason} for one in found]
        cli.json(facts)
        return 0
    if not found:
        cli.say("nothing is installed from the hub")
    for one in found:
        _say_updates(cli, one)
    if any(one.state is UpdateState.NEWER for one in found):
        cli.say("`hermes skills update` shows what changes, and asks")
    return 0


async def _update(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    entries = {name: hub.installed(name) for name in args.names} or hub.store.lock().skills
    if not entries:
        cli.say("nothing is installed from the hub")
    failed = False
    for name, entry in sorted(entries.items()):
        one = await check_update(hub, name, entry)
        failed |= one.state not in (UpdateState.CURRENT, UpdateState.NEWER)
        if one.candidate is None:
            _say_updates(cli, one)
            continue
        try:
            failed |= not install_candidate(args, cli, hub, one.candidate, force=args.force)
        except InstallRefused as error:
            failed = True
            cli.note(f"{error}; {error.hint}")
        finally:
            hub.quarantine.discard(one.candidate.staged)
    return 1 if failed else 0


def _say_updates(cli: Cli, one: UpdateStatus) -> None:
    reason = f": {plain_line(one.reason)}" if one.reason else ""
    cli.say(f"{one.name}: {one.state}{reason}")


# `hermes skills publish`.


def add_publish_actions(actions: Actions) -> None:
    action = actions.add(
        "publish",
        with_hub(_publish),
        "offer a skill to a repository, as a pull request",
        json=True,
        description="Scan a skill and offer it to a repository at GitHub: a branch, a commit and a"
        "\npull request. It needs a token that may write to the repository, in GITHUB_TOKEN.",
        epilog=examples(
            "hermes skills publish ./my-skill --to github --repo me/skills --dry-run",
        ),
    )
    action.add_argument("path", metavar="PATH", help="the folder of the skill, or its name")
    action.add_argument("--to", choices=("github",), default="github", help="where (github)")
    action.add_argument("--repo", required=True, metavar="OWNER/REPO")
    action.add_argument("--path", dest="folder", default="", help="its folder there (skills/NAME)")
    action.add_argument("--dry-run", action="store_true", help="only show what would be sent")
    add_yes(action)


async def _publish(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    parcel = await prepare_skill(_skill_folder(cli, args.path), cli.load().secrets())
    if not args.dry_run and not hub.api.has_token:
        raise UsageError(
            "publishing needs a token of GitHub that may write to the repository",
            hint=f"set it: {SET_TOKEN.partition(' (')[0]}",
        )
    plan = await plan_publication(hub.api, parcel, args.repo, args.folder)
    if not args.json:
        _say_plan(cli, plan)
    if args.dry_run:
        if args.json:
            cli.json(_facts(plan))
        else:
            cli.say("nothing was sent")
        return 0
    if not confirm(args, cli, f"Send this to {plan.repo}?"):
        cli.say("nothing was sent")
        return 1
    done = await publish(hub.api, plan)
    name = parcel.skill.name
    hub.store.log_event(AuditEvent(what="published", skill=name, identifier=done.url))
    if args.json:
        cli.json({**_facts(plan), "url": done.url, "is_new": done.is_new})
    else:
        cli.say(f"{'opened' if done.is_new else 'is open already:'} {plain_line(done.url)}")
    return 0


def _skill_folder(cli: Cli, path: str) -> str:
    """Return the folder with this path, or of the skill with this name."""
    return path if Path(path).expanduser().exists() else str(skill_index(cli).get(path).folder)


def _say_plan(cli: Cli, plan: PublishPlan) -> None:
    cli.say(f"repository: {plan.repo}, for its branch {plain_line(plan.base)}")
    cli.say(f"branch:     {plan.parcel.branch}")
    cli.say(f"title:      {plan.title}")
    for name in plan.changed:
        size = human_size(len(plan.parcel.files[name]))
        cli.say(f"  send      {size:>9}  {plan.folder}/{plain_line(name)}")
    for name in plan.removed:
        cli.say(f"  remove               {plan.folder}/{plain_line(name)}")
    say_findings(cli, plan.parcel.verdict, plan.parcel.findings)


def _facts(plan: PublishPlan) -> dict[str, object]:
    return {
        "skill": plan.parcel.skill.name,
        "repo": plan.repo,
        "base": plan.base,
        "branch": plan.parcel.branch,
        "folder": plan.folder,
        "changed": plan.changed,
        "removed": plan.removed,
        "verdict": plan.parcel.verdict,
        "findings": plan.parcel.findings,
    }


# `hermes skills snapshot export` and `import`.


def add_snapshot_actions(actions: Actions) -> None:
    parser = actions.add(
        "snapshot",
        run_action,  # the subcommands show their own help
        "all installed and own skills as one file",
        epilog=examples(
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
    own = [skill for skill in skill_index(cli).skills() if skill.source is Source.USER]
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
        cli.json(done)
        return 1 if done.refused else 0
    cli.say(f"imported {many(len(done.stored), 'skill')}")
    if done.skipped:
        cli.say(f"left alone, as they are there: {', '.join(map(plain_line, done.skipped))}")
    for name, reason in done.refused.items():
        cli.note(f"not imported: {plain_line(name)}: {plain_line(reason)}")
    return 1 if done.refused else 0


# `hermes skills tap`: additional sources for searches.


def add_tap_actions(actions: Actions) -> None:
    parser = actions.add(
        "tap",
        run_action,  # the subcommands show their own help
        "repositories and sites that are searched too",
        epilog=examples("hermes skills tap add owner/repo", "hermes skills tap list"),
    )
    below = Actions(parser)
    add = below.add("add", with_hub(_add), "add a repository at GitHub, or a site")
    remove = below.add("remove", with_hub(_remove), "search it no more")
    below.add("list", with_hub(_list), "show them", json=True)
    add.add_argument("tap", metavar="OWNER/REPO", help="or https://site")
    remove.add_argument("tap", metavar="OWNER/REPO")


async def _add(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    tap = hub.taps.normalize(args.tap)
    count = len(await hub.sources.tap(tap).browse())
    if not count:
        raise UsageError(f"there are no skills in {tap}", hint="nothing was added")
    with hub.store.exclusive():
        is_new = hub.taps.add(tap)
    if not is_new:
        cli.say(f"{tap} is a tap already")
        return 0
    cli.say(f"added {tap} with {many(count, 'skill')}")
    return 0


async def _remove(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    tap = hub.taps.normalize(args.tap)
    with hub.store.exclusive():
        removed = hub.taps.remove(tap)
    if not removed:
        raise UsageError(f"{tap} is not a tap", hint="`hermes skills tap list` shows them")
    cli.say(f"removed {tap}; what was installed from it stays")
    return 0


async def _list(args: argparse.Namespace, cli: Cli, hub: Hub) -> int:
    found = hub.taps.all()
    if args.json:
        cli.json(found)
        return 0
    if not found:
        cli.say("no taps: `hermes skills tap add owner/repo`")
    for tap in found:
        cli.say(plain_line(tap))
    return 0
