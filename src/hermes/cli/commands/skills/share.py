"""`hermes skills publish`: offer a skill to others."""

import argparse
from pathlib import Path

from hermes.cli.actions import Actions
from hermes.cli.commands.skills.access import add_yes, collection, consents, with_hub
from hermes.cli.commands.skills.wording import document, example, say_findings
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.skills.hub import (
    SET_TOKEN,
    AuditEvent,
    Hub,
    PublishPlan,
    plan_publication,
    prepare_skill,
    publish,
    utc_now,
)
from hermes.util.plain import plain_line
from hermes.util.text import human_size


def add_actions(actions: Actions) -> None:
    action = actions.add(
        "publish",
        with_hub(_publish),
        "offer a skill to a repository, as a pull request",
        json=True,
        description="Scan a skill and offer it to a repository at GitHub: a branch, a commit and a"
        "\npull request. It needs a token that may write to the repository, in GITHUB_TOKEN.",
        epilog=example(
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
    parcel = await prepare_skill(_folder(cli, args.path), cli.load().secrets())
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
            document(cli, _facts(plan))
        else:
            cli.say("nothing was sent")
        return 0
    if not consents(args, cli, f"Send this to {plan.repo}?"):
        cli.say("nothing was sent")
        return 1
    done = await publish(hub.api, plan)
    name = parcel.skill.name
    hub.store.log_event(AuditEvent(at=utc_now(), what="published", skill=name, identifier=done.url))
    if args.json:
        document(cli, {**_facts(plan), "url": done.url, "is_new": done.is_new})
    else:
        cli.say(f"{'opened' if done.is_new else 'is open already:'} {plain_line(done.url)}")
    return 0


def _folder(cli: Cli, path: str) -> str:
    """A folder, or the one of the skill that is called so."""
    return path if Path(path).expanduser().exists() else str(collection(cli).get(path).folder)


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
