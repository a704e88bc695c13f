"""`hermes skills` for skills of others: search, install, audit, update, publish and share them."""

import argparse
import shutil
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from hermes.cli.commands.skills import (
    COMMAND,
    all_roots,
    line_width,
    original_skill,
    say_diff,
    say_problems,
    skill_index,
    skill_visibility,
    skill_writer,
)
from hermes.cli.context import YES, Arg, Cli, Command, arg, flag
from hermes.config.environment import search_path
from hermes.config.home import tilde
from hermes.core.errors import HermesError, UsageError
from hermes.skills import (
    SKILL_FILE,
    Skill,
    SkillEntry,
    SkillHistory,
    SkillIndex,
    SkillRoot,
    Source,
    hidden_reason,
    optional_folder,
    search_skills,
)
from hermes.skills import hub as skill_hub
from hermes.skills.scanner import ScanFinding, SourceTrust
from hermes.skills.writing import read_overlay
from hermes.tui import one_line
from hermes.util.text import human_size, many, plain, plain_line

MOST_FINDINGS, MOST_FOUND = 20, 12
VERDICTS = {"safe": "nothing suspicious", "caution": "caution", "dangerous": "dangerous"}


def offer_lines(cli: Cli, offers: Sequence[skill_hub.SkillOffer]) -> list[str]:
    lines = []
    for offer in offers:
        count = f"  ({many(offer.installs, 'install')})" if offer.installs else ""
        text = plain_line(offer.description) or f"from {offer.source}"
        lines.append(f"{plain_line(offer.identifier)}{count}")
        lines.append(f"    {one_line(text, line_width(cli) - 4)}")
    return lines


def say_findings(cli: Cli, verdict: str, findings: Sequence[ScanFinding]) -> None:
    role = {"dangerous": "error", "caution": "warn"}.get(verdict, "text")
    cli.say(f"scan:     {cli.paint(role, VERDICTS.get(verdict, verdict))}")
    for one in findings[:MOST_FINDINGS]:
        place = f"{plain_line(one.file)}:{one.line}" if one.line else plain_line(one.file)
        cli.say(f"  {one.severity:<8} {place}  {plain_line(one.why)}")
        if one.text:
            cli.say(f"           {one_line(plain_line(one.text), line_width(cli) - 11)}")
    if len(findings) > MOST_FINDINGS:
        cli.say(f"  and {many(len(findings) - MOST_FINDINGS, 'more finding')}")


def say_candidate(cli: Cli, one: skill_hub.InstallCandidate) -> None:
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


@asynccontextmanager
async def open_hub(cli: Cli) -> AsyncIterator[skill_hub.Hub]:
    """Open the hub; print its warnings at the end."""

    def hidden_source(name: str) -> str:
        """Return the source of a skill that an installed one would hide."""
        hidden = find_in(cli, name, Source.EXTERNAL, Source.BUNDLED)
        return str(hidden.source) if hidden else ""

    try:
        async with skill_hub.Hub(hub_options(cli), hidden_source) as hub:
            try:
                yield hub
            finally:
                say_problems(cli, hub.warnings())
    except BrokenPipeError:
        raise
    except OSError as error:  # for example a full or read-only disk
        place = f"{error.filename}: " if error.filename else ""
        raise skill_hub.HubError(f"the disk refuses: {place}{error.strerror or error}") from error


def hub_options(cli: Cli) -> skill_hub.HubOptions:
    loaded = cli.load()
    usual = skill_hub.HubAddresses()
    return skill_hub.HubOptions(
        root=cli.home.skills / ".hub",
        official=optional_folder(),
        token=loaded.secret("GITHUB_TOKEN") or loaded.secret("GH_TOKEN") or "",
        git=shutil.which("git", path=search_path()),
        ssh_agent=loaded.variable("SSH_AUTH_SOCK") or "",
        addresses=skill_hub.HubAddresses(
            github_api=loaded.variable("GITHUB_API_URL") or usual.github_api,
            github_web=loaded.variable("GITHUB_SERVER_URL") or usual.github_web,
            skills_sh=loaded.variable("SKILLS_API_URL") or usual.skills_sh,
        ),
    )


def find_in(cli: Cli, name: str, *sources: Source) -> Skill | None:
    """Return the skill of this name in the folders of these sources."""
    roots = [root for root in all_roots(cli) if root.source in sources]
    return next((one for one in SkillIndex(roots).skills() if one.name == name), None)


def source_option(summary: str) -> Arg:
    """Return `--source` with the names of the searchable sources."""

    def source(name: str) -> str:
        try:
            return skill_hub.check_source_name(name) if name else ""
        except UsageError as error:
            raise argparse.ArgumentTypeError(f"{error}; {error.hint}") from None

    return arg("--source", type=source, choices=skill_hub.SOURCE_NAMES, default="", help=summary)


hub_action = partial(COMMAND.action, needs=open_hub)
WHERE_TO_LOOK = source_option("where to look")


# `hermes skills audit`, `quarantine` and `reset`.


@hub_action(
    "audit", "compare the installed skills with their hashes, and scan them again", json=True
)
async def _audit(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> int:
    found = skill_hub.audit_installed(hub)
    if args.json:
        cli.json(found)
        return 0 if found.clean else 1
    if not found.skills and not found.strays:
        cli.say("nothing is installed from the hub")
    for one in found.skills:
        if not one.is_tampered:
            cli.say(f"{one.name}: as installed ({one.trust})")
        else:
            cli.say(f"{one.name}: CHANGED since it was installed")
            changes = {"changed": one.changed, "missing": one.missing, "added": one.added}
            for what, name in ((what, name) for what, names in changes.items() for name in names):
                cli.say(f"  {what:<8} {plain_line(name)}")
            for problem in filter(None, [one.problem]):
                cli.say(f"  {plain_line(problem)}")
            cli.say(f"  `hermes skills reset {one.name} --restore` puts the files back")
        if one.verdict not in ("", "safe"):
            say_findings(cli, one.verdict, one.findings)
    for folder in found.strays:
        cli.say(f"{plain_line(folder)}: not installed by the hub; move it out of the hub's folder")
    return 0 if found.clean else 1


@hub_action(
    "quarantine",
    "list the skills that were refused",
    flag("--clean", help="delete them"),
    arg("name", nargs="?", default="", metavar="NAME", help="only this one"),
    json=True,
)
async def _quarantine(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
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


@hub_action(
    "reset",
    "discard your changes to a bundled or installed skill",
    arg("name", metavar="NAME"),
    flag("--restore", help="fetch the installed files again"),
    YES,
)
async def _reset(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    writer = skill_writer(cli)
    try:
        copied = writer.overlay_of(args.name)
    except UsageError:
        await _restore_installed(args, cli, hub)
        return
    left = original_skill(cli, copied.name)
    what = f"Drop your copy of {plain_line(copied.name)}"
    if left is None:
        what += f", whose {copied.source} original is gone"
    cli.require(f"{what}?")
    reason = f"back to the {copied.source} skill {copied.name}"
    commit = (await writer.reset(args.name, reason)).commit
    undo = f"; `hermes skills undo {commit.short}` takes this back" if commit else ""
    now = f"the {left.source} skill counts again" if left else "nothing is left of it"
    cli.say(f"dropped your copy of {plain_line(copied.name)}: {now}{undo}")
    if args.restore:
        await _restore_installed(args, cli, hub)


async def _restore_installed(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    installed = args.name in hub.store.lock().skills
    if not args.restore or not installed:
        raise UsageError(
            f"there is no changed copy of {args.name}",
            hint="--restore fetches its installed files again"
            if installed
            else "`hermes skills list` says which skills are copies",
        )
    cli.require(f"Replace the files of {args.name} with those of its source?")
    await skill_hub.restore_skill(hub, args.name)
    cli.say(f"{args.name} is as it was installed")


@hub_action(
    "browse", "list the skills on this machine and those to install", WHERE_TO_LOOK, json=True
)
async def _browse(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    _show(cli, await hub.browse(args.source), () if args.source else skill_index(cli).entries())


@hub_action(
    "search",
    "search the skills on this machine and those to install",
    arg("words", nargs="+", metavar="WORDS"),
    WHERE_TO_LOOK,
    json=True,
)
async def _search(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    words, roots = " ".join(args.words), () if args.source else all_roots(cli)
    # Optional skills are ranked together with those on this machine.
    optional = [SkillRoot(each, Source.BUNDLED) for each in filter(None, [optional_folder()])]
    index = SkillIndex([*roots, *optional])
    ranked = search_skills(index.entries(), words, MOST_FOUND, index.instructions)
    here = [entry for entry in ranked if entry.root < len(roots)]
    try:
        found = await hub.search(words, args.source)
    except skill_hub.HubError as error:  # no source answers
        if not here:
            raise
        found = skill_hub.SkillSearchResult((), (str(error),))
    names = {entry.name for entry in ranked}
    fitting = [each for each in found.offers if each.source != "official" or each.name in names]
    _show(cli, msgspec.structs.replace(found, offers=tuple(fitting)), here)


def _show(cli: Cli, found: skill_hub.SkillSearchResult, entries: Sequence[SkillEntry] = ()) -> None:
    """Show the offers after the skills on this machine, and problems of sources before both."""
    if not cli.as_json:
        say_problems(cli, found.problems)
    here = [
        skill_hub.SkillOffer(str(entry.source), entry.name, entry.name, entry.description)
        for entry in entries
    ]
    installed = {("official", offer.name) for offer in here}
    offers = [each for each in found.offers if (each.source, each.name) not in installed]
    lines = offer_lines(cli, offers)
    if here:
        lines = [
            "on this machine:",
            *offer_lines(cli, here),
            *(["", "to install:"] if lines else ()),
            *lines,
        ]
    facts = {**msgspec.to_builtins(found), "offers": offers, "installed": here}
    cli.emit(facts, lines or ["nothing found"])


@hub_action(
    "inspect",
    "show a skill and what the scan says, without installing it",
    arg("identifier", metavar="IDENTIFIER"),
    flag("--text", help=f"its {SKILL_FILE} too"),
    WHERE_TO_LOOK,
    json=True,
)
async def _inspect(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    if found := hub.quarantine.find(args.identifier):
        held, files = found
        if args.json:
            cli.json({**msgspec.to_builtins(held), "quarantined": True})
            return
        cli.say(f"{held.name} is in quarantine since {held.at}: {plain_line(held.reason)}")
        cli.say(f"from:     {plain_line(held.origin.address or held.identifier)}")
        say_findings(cli, held.verdict, held.findings)
        _say_files(args, cli, files)
        return
    one = await hub.prepare(args.identifier, args.source)
    hub.quarantine.discard(one.staged)
    decision = one.decision()
    if args.json:
        names = ("name", "identifier", "source", "trust", "origin", "findings")
        facts = {
            **{name: getattr(one, name) for name in names},
            "description": one.skill.description,
            "verdict": one.report.verdict,
            "allowed": decision.allowed,
            "files": {name: len(data) for name, data in one.files.items()},
        }
        cli.json(facts)
        return
    say_candidate(cli, one)
    cli.say(f"install:  {'yes' if decision.allowed else 'no'}; {plain_line(decision.reason)}")
    _say_files(args, cli, one.files)


def _say_files(args: Namespace, cli: Cli, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        cli.say(f"  {human_size(len(data)):>9}  {plain_line(name)}")
    if args.text:
        cli.say("\n" + plain(files.get(SKILL_FILE, b"").decode("utf-8", "replace")))


# `hermes skills install` and `uninstall`.

THIRD_PARTY = (
    "This skill was written by a third party. It tells the agent what to do on this machine;\n"
    "the scan finds known tricks, not every one. Install it only if you trust its author."
)


@hub_action(
    "install",
    "fetch, scan and install a skill",
    arg("identifier", metavar="IDENTIFIER"),
    source_option("where it is"),
    arg("--category", default="", help="file it under this one"),
    flag("--all", help="all skills of a folder or repository"),
    flag("--force", help="in spite of findings, or of changes made here"),
    YES,
)
async def _install(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> int:
    if not args.all:
        return await _install_one(args, cli, hub, args.identifier)
    offers = await hub.list_place(args.identifier, args.source)
    for line in (f"{many(len(offers), 'skill')}:", *offer_lines(cli, offers)):
        cli.say(line)
    code = 0
    for offer in offers:
        cli.say("")
        try:
            code = await _install_one(args, cli, hub, offer.identifier) or code
        except HermesError as error:  # the others are installed all the same
            hint = f" ({plain_line(error.hint)})" if error.hint else ""
            cli.note(f"{plain_line(offer.name)}: {plain_line(str(error))}{hint}")
            code = error.exit_code
    return code


async def _install_one(args: Namespace, cli: Cli, hub: skill_hub.Hub, identifier: str) -> int:
    candidate = await hub.prepare(identifier, args.source, args.category)
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
    args: Namespace,
    cli: Cli,
    hub: skill_hub.Hub,
    candidate: skill_hub.InstallCandidate,
    *,
    force: bool,
) -> bool:
    """Show the skill, ask, and install it. Return False if the user says no.

    Raises `Refused` if the install policy forbids it.
    """
    say_candidate(cli, candidate)
    if candidate.installed:
        cli.say(f"changes:  {skill_hub.summarize_changes(candidate.current, candidate.files)}")
        say_diff(cli, candidate.difference)
    decision = candidate.decision(force=force)
    if not decision.allowed:
        hub.refuse(candidate, decision.reason)
        hint = "--force installs it anyway" if decision.asks else "nothing overrides this"
        raise skill_hub.InstallRefused(
            f"{candidate.name} is not installed: {plain_line(decision.reason)}",
            hint=f"{hint}; `hermes skills inspect {candidate.name}` shows it in quarantine",
        )
    if candidate.locally_changed and args.yes and not force:
        raise skill_hub.InstallRefused(
            f"{candidate.name} was changed here: {', '.join(candidate.locally_changed)}",
            hint="--force replaces the changes; without --yes you are asked",
        )
    question = f"Install {candidate.name}?"
    if candidate.locally_changed:
        changed = ", ".join(candidate.locally_changed)
        cli.say(f"changed here since it was installed: {changed}")
        question = f"Replace the changes with this version of {candidate.name}?"
    elif candidate.installed:
        question = f"Install this version of {candidate.name}?"
    elif candidate.trust is SourceTrust.COMMUNITY:
        cli.say(THIRD_PARTY)
    # Skills of Hermes and of trusted repositories are installed without a question.
    is_asked = candidate.installed or candidate.trust is SourceTrust.COMMUNITY
    if (is_asked or candidate.locally_changed) and not cli.confirm(question):
        cli.say(f"{candidate.name} was left as it is")
        return False
    _accept(cli, hub, candidate, force=force)
    return True


def _accept(
    cli: Cli, hub: skill_hub.Hub, candidate: skill_hub.InstallCandidate, *, force: bool
) -> None:
    """Install the skill, and say what it needs."""
    entry = hub.accept(candidate, force=force)
    what = "updated" if candidate.installed else "installed"
    cli.say(f"{what} {candidate.name} in {tilde(entry.folder(hub.store.skills, candidate.name))}")
    if own := find_in(cli, candidate.name, Source.USER):
        cli.note(f"your own skill in {tilde(own.folder)} counts instead of it")
    hidden = hidden_reason(candidate.skill, skill_visibility(cli))
    if hidden:
        cli.note(f"it stays hidden here: {plain_line(hidden)}")
    names = [plain_line(variable.name) for variable in candidate.skill.variables]
    if names:
        cli.say(f"it needs {', '.join(names)}: `hermes config set {names[0]} VALUE`")
    if candidate.skill.settings:
        cli.say("it has settings: `hermes skills config` shows them")


@hub_action("uninstall", "remove an installed skill", arg("name", metavar="NAME"), YES)
async def _uninstall(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    entry = hub.installed(args.name)
    question = f"Remove {args.name}, installed from {entry.identifier}?"
    cli.require(question, "nothing was removed")
    hub.uninstall(args.name)
    cli.say(f"removed {args.name}")
    if own := find_in(cli, args.name, Source.USER):
        drop = f"; `hermes skills reset {args.name}` drops it" if read_overlay(own.folder) else ""
        cli.note(f"your own skill in {tilde(own.folder)} stays, and counts{drop}")


# `hermes skills check` and `update`.


@hub_action(
    "check",
    "list installed skills that have updates",
    arg("names", nargs="*", metavar="NAME", help="only these"),
    json=True,
)
async def _check(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    found = await skill_hub.check_updates(hub, args.names)
    facts = [{"name": one.name, "state": one.state, "reason": one.reason} for one in found]
    lines = [_update_line(one) for one in found]
    if any(one.state is skill_hub.UpdateState.NEWER for one in found):
        lines.append("`hermes skills update` shows what changes, and asks")
    cli.emit(facts, lines, empty="nothing is installed from the hub")


@hub_action(
    "update",
    "install new versions, after showing what changes",
    arg("names", nargs="*", metavar="NAME", help="only these"),
    flag("--force", help="in spite of findings, or of changes made here"),
    YES,
)
async def _update(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> int:
    entries = {name: hub.installed(name) for name in args.names} or hub.store.lock().skills
    if not entries:
        cli.say("nothing is installed from the hub")
    failed = False
    for name, entry in sorted(entries.items()):
        one = await skill_hub.check_update(hub, name, entry)
        failed |= one.state not in (skill_hub.UpdateState.CURRENT, skill_hub.UpdateState.NEWER)
        if one.candidate is None:
            cli.say(_update_line(one))
            continue
        try:
            failed |= not install_candidate(args, cli, hub, one.candidate, force=args.force)
        except skill_hub.InstallRefused as error:
            failed = True
            cli.note(f"{error}; {error.hint}")
        finally:
            hub.quarantine.discard(one.candidate.staged)
    return 1 if failed else 0


def _update_line(one: skill_hub.UpdateStatus) -> str:
    return f"{one.name}: {one.state}{f': {plain_line(one.reason)}' if one.reason else ''}"


# `hermes skills publish`.


@hub_action(
    "publish",
    "offer a skill to a repository, as a pull request",
    arg("path", metavar="PATH", help="the folder of the skill, or its name"),
    arg("--to", choices=("github",), default="github", help="where (github)"),
    arg("--repo", required=True, metavar="OWNER/REPO"),
    arg("--path", dest="folder", default="", help="its folder there (skills/NAME)"),
    flag("--dry-run", help="only show what would be sent"),
    YES,
    json=True,
)
async def _publish(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    is_path = Path(args.path).expanduser().exists()
    folder = args.path if is_path else str(skill_index(cli).get(args.path).folder)
    parcel = await skill_hub.prepare_skill(folder, cli.load().secrets())
    if not args.dry_run and not hub.api.has_token:
        problem = "publishing needs a token of GitHub that may write to the repository"
        raise UsageError(problem, hint=f"set it: {skill_hub.SET_TOKEN.partition(' (')[0]}")
    plan = await skill_hub.plan_publication(hub.api, parcel, args.repo, args.folder)
    facts = {
        "skill": plan.parcel.skill.name,
        **{name: getattr(plan, name) for name in ("repo", "base", "folder", "changed", "removed")},
        **{name: getattr(plan.parcel, name) for name in ("branch", "verdict", "findings")},
    }
    if not args.json:
        _say_plan(cli, plan)
    if args.dry_run:
        cli.emit(facts, "nothing was sent")
        return
    cli.require(f"Send this to {plan.repo}?", "nothing was sent")
    done = await skill_hub.publish(hub.api, plan)
    name = parcel.skill.name
    hub.store.log_event(skill_hub.AuditEvent(what="published", skill=name, identifier=done.url))
    cli.emit(
        {**facts, "url": done.url, "is_new": done.is_new},
        f"{'opened' if done.is_new else 'is open already:'} {plain_line(done.url)}",
    )


def _say_plan(cli: Cli, plan: skill_hub.PublishPlan) -> None:
    cli.say(f"repository: {plan.repo}, for its branch {plain_line(plan.base)}")
    cli.say(f"branch:     {plan.parcel.branch}")
    cli.say(f"title:      {plan.title}")
    for name in plan.changed:
        size = human_size(len(plan.parcel.files[name]))
        cli.say(f"  send      {size:>9}  {plan.folder}/{plain_line(name)}")
    for name in plan.removed:
        cli.say(f"  remove               {plan.folder}/{plain_line(name)}")
    say_findings(cli, plan.parcel.verdict, plan.parcel.findings)


# `hermes skills snapshot export` and `import`.


SNAPSHOT = Command("snapshot", help="export or import all installed and own skills", needs=open_hub)
COMMAND.actions.append(SNAPSHOT)
FILE = arg("file", type=Path, metavar="FILE")


@SNAPSHOT.action(
    "export", "write them to a file", FILE, flag("--force", help="replace FILE when it exists")
)
async def _export(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    target = args.file.expanduser().absolute()
    if target.exists() and not target.is_file():
        raise UsageError(f"{args.file} is not a file")
    if target.exists() and not args.force:
        raise UsageError(f"{args.file} exists", hint="--force replaces it")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    own = [skill for skill in skill_index(cli).skills() if skill.source is Source.USER]
    done = skill_hub.export_bundle(hub, cli.home.skills, own, target)
    cli.say(f"wrote {many(len(done.skills), 'skill')} to {args.file}")


@SNAPSHOT.action(
    "import",
    "read them from a file",
    FILE,
    flag("--force", help="replace those that are there; in spite of findings"),
    json=True,
)
async def _import(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> int:
    file = args.file.expanduser()
    if not file.is_file():
        raise UsageError(f"there is no file {args.file}")
    history = SkillHistory(cli.home.skills, cli.note)
    done = await skill_hub.import_bundle(hub, cli.home.skills, history, file, force=args.force)
    lines = [f"imported {many(len(done.stored), 'skill')}"]
    if done.skipped:
        lines.append(f"left alone, as they are there: {', '.join(map(plain_line, done.skipped))}")
    cli.emit(done, lines)
    for name, reason in () if args.json else done.refused.items():
        cli.note(f"not imported: {plain_line(name)}: {plain_line(reason)}")
    return 1 if done.refused else 0


# `hermes skills tap`: additional sources for searches.


TAP = Command("tap", help="manage further repositories and sites to search", needs=open_hub)
COMMAND.actions.append(TAP)


@TAP.action(
    "add",
    "add a repository at GitHub, or a site",
    arg("tap", metavar="OWNER/REPO", help="or https://site"),
)
async def _add(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    tap = hub.taps.normalize(args.tap)
    count = len(await hub.sources.tap(tap).browse())
    if not count:
        raise UsageError(f"there are no skills in {tap}", hint="nothing was added")
    with hub.store.exclusive():
        is_new = hub.taps.add(tap)
    if not is_new:
        cli.say(f"{tap} is a tap already")
        return
    cli.say(f"added {tap} with {many(count, 'skill')}")


@TAP.action("remove", "search it no more", arg("tap", metavar="OWNER/REPO"))
async def _remove(args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    tap = hub.taps.normalize(args.tap)
    with hub.store.exclusive():
        removed = hub.taps.remove(tap)
    if not removed:
        raise UsageError(f"{tap} is not a tap", hint="`hermes skills tap list` shows them")
    cli.say(f"removed {tap}; what was installed from it stays")


@TAP.action("list", "show them", json=True)
async def _list(_args: Namespace, cli: Cli, hub: skill_hub.Hub) -> None:
    empty = "no taps: `hermes skills tap add owner/repo`"
    cli.emit(hub.taps.all(), line=plain_line, empty=empty)
