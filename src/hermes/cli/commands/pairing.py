"""`hermes pairing`: users who were approved by a code, or wait for it."""

import time
from argparse import Namespace

import msgspec

from hermes.cli.context import Cli, Command, arg, table
from hermes.core.errors import UsageError
from hermes.gateway import PairingStore, manifests
from hermes.gateway.pairing import FOLDER, LIFE_SECONDS
from hermes.util.concurrency import SystemClock
from hermes.util.text import human_duration, many, plain_line

COMMAND = Command(
    "pairing",
    description="See who was let in by a code or waits for it; let in, and shut out.",
    epilog="""\
examples:
  hermes pairing list
  hermes pairing approve telegram K7PXM2QA
  hermes pairing revoke telegram 123456789

A stranger who writes to the agent in a private chat gets a code, which is good for an hour and
once. Codes are kept hashed: only the stranger can tell you theirs. After five wrong codes a
platform is locked for an hour.
""",
)


class PairingRow(msgspec.Struct, frozen=True):
    """A user in `hermes pairing list --json`."""

    platform: str
    user_id: str
    user_name: str
    state: str  #: `approved`, `pending` or `invited` (an invitation code without a user yet).
    at: float
    until: float | None = None  #: When the code expires.


@COMMAND.action(
    "list",
    "show who is let in and who waits",
    arg("platform", nargs="?", help="only this one"),
    json=True,
)
def _list(args: Namespace, cli: Cli) -> None:
    store = _store(cli)
    names = [_platform(args.platform, store)] if args.platform else store.platforms()
    rows = [row for name in names for row in _rows(store, name)]
    lines = table([(row.platform, row.state, _user_label(row, time.time())) for row in rows])
    cli.emit(rows, lines, empty="no user is approved by a code, and none waits")


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


@COMMAND.action(
    "approve",
    "let in the user who got this code",
    arg("platform"),
    arg("code", help="as the user got it; letter case does not matter"),
    json=True,
)
def _approve(args: Namespace, cli: Cli) -> None:
    store = _store(cli)
    platform = _platform(args.platform, store)
    user, approved = store.approve(platform, args.code)
    name = f" ({plain_line(approved.user_name)})" if approved.user_name else ""
    cli.emit(
        PairingRow(platform, user, approved.user_name, "approved", approved.approved_at),
        f"{plain_line(user)}{name} may talk to the agent on {platform} now",
    )


@COMMAND.action(
    "invite", "create a code that approves its first sender", arg("platform"), json=True
)
def _create_invitation(args: Namespace, cli: Cli) -> None:
    store = _store(cli)
    platform = _platform(args.platform, store)
    code = store.invite(platform)
    cli.emit(
        {"platform": platform, "code": code},
        f"{code} lets in the first who sends it in a private chat on {platform}, for an hour",
    )


@COMMAND.action(
    "revoke",
    "shut out a user who was let in by a code",
    arg("platform"),
    arg("user", help="the user's id, as `list` shows it"),
    json=True,
)
def _revoke(args: Namespace, cli: Cli) -> None:
    store = _store(cli)
    platform = _platform(args.platform, store)
    if not store.revoke(platform, args.user):
        hint = "`hermes pairing list` shows who was; users on a list are removed from the list"
        raise UsageError(f"{args.user!r} was not let in by a code on {platform}", hint=hint)
    cli.emit(
        {"platform": platform, "user_id": args.user, "revoked": True},
        f"{plain_line(args.user)} is shut out of {platform}",
    )
    if not args.json and cli.load().variable("GATEWAY_ALLOW_ALL_USERS"):
        cli.note("note: GATEWAY_ALLOW_ALL_USERS is set, so that any user may still be allowed")


@COMMAND.action(
    "clear-pending",
    "throw away the codes that wait",
    arg("platform", nargs="?", help="only of this one"),
    json=True,
)
def _clear(args: Namespace, cli: Cli) -> None:
    store = _store(cli)
    names = [_platform(args.platform, store)] if args.platform else store.platforms()
    gone = sum(store.clear_pending(name) for name in names)
    cli.emit({"cleared": gone}, f"threw away {many(gone, 'code')}")


def _store(cli: Cli) -> PairingStore:
    return PairingStore(cli.home.root / FOLDER, SystemClock())


def _platform(name: str, store: PairingStore) -> str:
    known = sorted({*manifests(), *store.platforms()})
    if name.lower() not in known:
        raise UsageError(f"there is no platform {name!r}", hint=f"there are {', '.join(known)}")
    return name.lower()
