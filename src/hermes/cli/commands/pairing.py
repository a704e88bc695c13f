"""`hermes pairing`: users who were approved by a code, or wait for it."""

import argparse
import time

import msgspec

from hermes.cli.context import Actions, Cli, Command
from hermes.core.errors import UsageError
from hermes.gateway.pairing import FOLDER, LIFE_SECONDS, PairingStore
from hermes.gateway.platforms.registry import manifests
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, many, plain_line

EPILOG = """\
examples:
  hermes pairing list
  hermes pairing approve telegram K7PXM2QA
  hermes pairing revoke telegram 123456789

A stranger who writes to the agent in a private chat gets a code, which is good for an hour and
once. Codes are kept hashed: only the stranger can tell you theirs. After five wrong codes a
platform is locked for an hour.
"""


class PairingRow(msgspec.Struct, frozen=True):
    """A user in `hermes pairing list --json`."""

    platform: str
    user_id: str
    user_name: str
    state: str
    """`approved`, `pending` or `invited` (an invitation code without a user yet)."""
    at: float
    until: float | None = None
    """When the code expires."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "See who was let in by a code or waits for it; let in, and shut out."
    parser.epilog = EPILOG
    action = Actions(parser).add
    shown = action("list", _list, "show who is let in and who waits", json=True)
    shown.add_argument("platform", nargs="?", help="only this one")
    approve = action("approve", _approve, "let in the user who got this code", json=True)
    approve.add_argument("platform")
    approve.add_argument("code", help="as the user got it; letter case does not matter")
    invite = action(
        "invite",
        _create_invitation,
        "create a code that approves its first sender",
        json=True,
    )
    invite.add_argument("platform")
    revoke = action("revoke", _revoke, "shut out a user who was let in by a code", json=True)
    revoke.add_argument("platform")
    revoke.add_argument("user", help="the user's id, as `list` shows it")
    clear = action("clear-pending", _clear, "throw away the codes that wait", json=True)
    clear.add_argument("platform", nargs="?", help="only of this one")


def _list(args: argparse.Namespace, cli: Cli) -> int:
    store = _store(cli)
    names = [_platform(args.platform, store)] if args.platform else store.platforms()
    rows = [row for name in names for row in _rows(store, name)]
    if args.json:
        cli.json(rows)
        return 0
    if not rows:
        cli.say("no user is approved by a code, and none waits")
        return 0
    now, width = time.time(), max(len(row.platform) for row in rows)
    for row in rows:
        cli.say(f"{row.platform:<{width}}  {row.state:<8}  {_user_label(row, now)}")
    return 0


def _user_label(row: PairingRow, now: float) -> str:
    if row.state == "invited" and row.until is not None:
        return f"the first who sends the code, for another {human_duration(row.until - now)}"
    name = f" ({plain_line(row.user_name)})" if row.user_name else ""
    return f"{plain_line(row.user_id)}{name}, {human_duration(now - row.at)}"


def _rows(store: PairingStore, platform: str) -> list[PairingRow]:
    waiting = [
        PairingRow(
            platform, each.user_id, each.user_name, state, each.made_at, each.made_at + LIFE_SECONDS
        )
        for state, found in (
            ("invited", store.invitations(platform)),
            ("pending", store.pending(platform)),
        )
        for each in found
    ]
    return waiting + [
        PairingRow(platform, user, each.user_name, "approved", each.approved_at)
        for user, each in store.approved(platform).items()
    ]


def _approve(args: argparse.Namespace, cli: Cli) -> int:
    store = _store(cli)
    platform = _platform(args.platform, store)
    user, approved = store.approve(platform, args.code)
    if args.json:
        cli.json(PairingRow(platform, user, approved.user_name, "approved", approved.approved_at))
        return 0
    name = f" ({plain_line(approved.user_name)})" if approved.user_name else ""
    cli.say(f"{plain_line(user)}{name} may talk to the agent on {platform} now")
    return 0


def _create_invitation(args: argparse.Namespace, cli: Cli) -> int:
    store = _store(cli)
    platform = _platform(args.platform, store)
    code = store.invite(platform)
    if args.json:
        cli.json({"platform": platform, "code": code})
        return 0
    cli.say(f"{code} lets in the first who sends it in a private chat on {platform}, for an hour")
    return 0


def _revoke(args: argparse.Namespace, cli: Cli) -> int:
    store = _store(cli)
    platform = _platform(args.platform, store)
    if not store.revoke(platform, args.user):
        raise UsageError(
            f"{args.user!r} was not let in by a code on {platform}",
            hint="`hermes pairing list` shows who was; users on a list are removed from the list",
        )
    if args.json:
        cli.json({"platform": platform, "user_id": args.user, "revoked": True})
        return 0
    cli.say(f"{plain_line(args.user)} is shut out of {platform}")
    if cli.load().variable("GATEWAY_ALLOW_ALL_USERS"):
        cli.note("note: GATEWAY_ALLOW_ALL_USERS is set, which may let in everybody all the same")
    return 0


def _clear(args: argparse.Namespace, cli: Cli) -> int:
    store = _store(cli)
    names = [_platform(args.platform, store)] if args.platform else store.platforms()
    gone = sum(store.clear_pending(name) for name in names)
    if args.json:
        cli.json({"cleared": gone})
        return 0
    cli.say(f"threw away {many(gone, 'code')}")
    return 0


def _store(cli: Cli) -> PairingStore:
    return PairingStore(cli.home.root / FOLDER, SystemClock())


def _platform(name: str, store: PairingStore) -> str:
    known = sorted({*manifests(), *store.platforms()})
    if name.lower() not in known:
        raise UsageError(f"there is no platform {name!r}", hint=f"there are {', '.join(known)}")
    return name.lower()


COMMAND = Command(configure)
