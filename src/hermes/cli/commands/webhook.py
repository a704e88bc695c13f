"""`hermes webhook`: addresses that other programs call, and what the agent does then."""

import argparse
import hashlib
import hmac
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock
import httpx2
import msgspec

from hermes.cli.actions import Actions, run_action
from hermes.cli.context import Cli
from hermes.config.home import ensure_hermes_home, unusable
from hermes.core.errors import HermesError, UsageError
from hermes.gateway.platforms.webhook import subscriptions
from hermes.gateway.platforms.webhook.subscriptions import Route
from hermes.util.plain import plain_line

SHORTEST_SECRET = 16
TEST_SECONDS = 30.0
ANYWHERE = frozenset({"0.0.0.0", "::", ""})
SAMPLE = {"event_type": "test", "text": "a call of `hermes webhook test`"}
EPILOG = """\
examples:
  hermes webhook subscribe github-issues --events issues --prompt "New: {issue.title}" \\
      --deliver telegram
  hermes webhook list
  hermes webhook test github-issues --payload issue.json

A running gateway takes changes at once. Calls go to http://HOST:PORT/webhooks/NAME and are signed
with the secret: X-Hub-Signature-256 as GitHub sends it, or X-Gitlab-Token.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Addresses that other programs call, and what the agent does then."
    parser.epilog = EPILOG
    action = Actions(parser).add
    add = action("subscribe", _subscribe, "add an address, or change it", aliases=["add"])
    add.add_argument("name", help="the last part of the address")
    add.add_argument("--prompt", default="", help="what the agent is told; {a.b} is a value")
    add.add_argument("--events", default="", metavar="KINDS", help="only these, with commas")
    add.add_argument("--description", default="", help="for `list`")
    add.add_argument("--skills", default="", metavar="NAMES", help="loaded first, with commas")
    add.add_argument("--deliver", default="log", metavar="TARGET", help="where the answer goes")
    add.add_argument("--deliver-chat-id", default="", metavar="ID", help="the chat there")
    add.add_argument("--deliver-only", action="store_true", help="the text as it is, no agent")
    add.add_argument("--secret", help="what calls are signed with; without it one is made")
    add.add_argument("--force", action="store_true", help="replace the one of this name")
    add.add_argument("--json", action="store_true", help="as JSON")
    action("list", _list, "show the addresses", aliases=["ls"], json=True)
    remove = action("remove", _remove, "remove an address", aliases=["rm"])
    remove.add_argument("name")
    test = action("test", _test, "call an address of the running gateway, signed")
    test.add_argument("name")
    test.add_argument("--payload", metavar="FILE", help="the body, JSON (- is standard input)")
    test.add_argument("--event", default="", metavar="KIND", help="the kind of event it says")


run = run_action


def _subscribe(args: argparse.Namespace, cli: Cli) -> int:
    name = args.name
    subscriptions.check_name(name)
    if args.secret is not None and len(args.secret) < SHORTEST_SECRET:
        raise UsageError(
            f"the secret has fewer than {SHORTEST_SECRET} characters",
            hint="leave --secret out, and a good one is made",
        )
    if name in cli.load().settings.platforms.webhook.extra.routes:
        raise UsageError(
            f"{name!r} is a route of config.yaml",
            hint=f"change platforms.webhook.extra.routes.{name}",
        )
    chat = {"chat_id": args.deliver_chat_id} if args.deliver_chat_id else {}
    route = Route(
        events=_words(args.events),
        secret=args.secret or secrets.token_hex(32),
        prompt=args.prompt,
        skills=_words(args.skills),
        deliver=args.deliver,
        deliver_extra=chat,
        deliver_only=args.deliver_only,
        description=args.description,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with _Kept(cli) as kept:
        if name in kept.routes and not args.force:
            raise UsageError(
                f"there is an address {name!r} already", hint="--force replaces it, secret and all"
            )
        kept.routes[name] = route
    _show_new(name, route, args, cli)
    return 0


def _show_new(name: str, route: Route, args: argparse.Namespace, cli: Cli) -> None:
    address = f"{_address(cli)}/webhooks/{name}"
    if args.json:
        cli.json({"name": name, "url": address, "secret": route.secret})
        return
    cli.say(f"address  {address}")
    if args.secret is None:
        cli.say(f"secret   {route.secret}")
        cli.note("the secret is shown only now; put it where the calls come from")


def _list(args: argparse.Namespace, cli: Cli) -> int:
    routes = _Kept(cli).read()
    if args.json:
        cli.json([{"name": name, **_without_secret(each)} for name, each in routes.items()])
        return 0
    if not routes:
        cli.say("there are no addresses yet: hermes webhook subscribe NAME")
        return 0
    address = _address(cli)
    for name, each in routes.items():
        events = ", ".join(each.events) or "all events"
        about = f": {plain_line(each.description)}" if each.description else ""
        cli.say(f"{address}/webhooks/{name}  ({events} → {plain_line(each.deliver)}){about}")
    return 0


def _remove(args: argparse.Namespace, cli: Cli) -> int:
    with _Kept(cli) as kept:
        if args.name not in kept.routes:
            names = ", ".join(kept.routes) or "none yet"
            raise UsageError(f"there is no address {args.name!r}", hint=f"there are: {names}")
        del kept.routes[args.name]
    cli.say(f"removed {args.name}")
    return 0


def _test(args: argparse.Namespace, cli: Cli) -> int:
    extra = cli.load().settings.platforms.webhook.extra
    fixed = {name: subscriptions.route(name, raw) for name, raw in extra.routes.items()}
    routes = {**_Kept(cli).read(), **fixed}
    if args.name not in routes:
        names = ", ".join(routes) or "none yet"
        raise UsageError(f"there is no address {args.name!r}", hint=f"there are: {names}")
    body = _payload(args, cli)
    secret = routes[args.name].secret or extra.secret
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-Hub-Signature-256": f"sha256={signature}",
        **({"X-GitHub-Event": args.event} if args.event else {}),
    }
    address = f"{_address(cli)}/webhooks/{args.name}"
    try:
        answer = httpx2.post(
            address, content=body, headers=headers, timeout=TEST_SECONDS, trust_env=False
        )
    except httpx2.HTTPError as error:
        raise HermesError(
            f"{address} does not answer: {error}",
            hint="is the gateway running, with the platform webhook? hermes gateway status",
        ) from None
    cli.say(f"{answer.status_code}  {plain_line(answer.text)[:500]}")
    return 0 if answer.is_success else 1


def _payload(args: argparse.Namespace, cli: Cli) -> bytes:
    if args.payload is None:
        return msgspec.json.encode(SAMPLE)
    try:
        text = cli.stdin.read() if args.payload == "-" else Path(args.payload).read_text("utf-8")
        msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {args.payload}: {error}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{args.payload} is not JSON: {error}") from None
    return text.encode()


class _Kept:
    """The file of subscriptions; as a context manager it is changed, by one process at a time."""

    def __init__(self, cli: Cli) -> None:
        self._home, self._path = cli.home, cli.home.root / subscriptions.FILE
        self._lock = filelock.FileLock(f"{self._path}.lock", timeout=10, mode=0o600)
        self.routes: dict[str, Route] = {}

    def read(self) -> dict[str, Route]:
        return subscriptions.load(self._path)

    def __enter__(self) -> "_Kept":
        ensure_hermes_home(self._home)
        try:
            self._lock.acquire()
        except (filelock.Timeout, OSError) as error:
            raise HermesError(f"cannot lock {self._path}: {error}") from error
        try:
            self.routes = self.read()
        except HermesError:
            self._lock.release()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                subscriptions.save(self._path, self.routes)
        except OSError as error:
            raise unusable(self._path, error) from error
        finally:
            self._lock.release()


def _address(cli: Cli) -> str:
    """Of the server, as this machine reaches it."""
    extra = cli.load().settings.platforms.webhook.extra
    host = "127.0.0.1" if extra.host in ANYWHERE else extra.host
    return f"http://{f'[{host}]' if ':' in host else host}:{extra.port}"


def _without_secret(route: Route) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(route)
    facts.pop("secret", None)
    return facts


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for each in text.split(",") if (word := each.strip()))
