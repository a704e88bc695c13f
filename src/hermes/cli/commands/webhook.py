"""`hermes webhook`: addresses that other programs call to start a turn."""

import hashlib
import hmac
import secrets
import shlex
import time
from argparse import Namespace
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from hermes.cli.context import Cli, Command, arg, flag
from hermes.cli.scheduling import target_check
from hermes.cli.session import split_names
from hermes.config.home import ensure_hermes_home, unusable
from hermes.core.errors import HermesError, UsageError
from hermes.gateway import ReplyDelivery, WebhookRoute
from hermes.gateway.platforms.manifests import WEBHOOK
from hermes.gateway.platforms.webhook import subscriptions
from hermes.util.files import file_lock
from hermes.util.http import (
    HttpError,
    HttpResponse,
    fetch_blocking,
    from_here,
    http_address,
    is_loopback,
)
from hermes.util.text import plain_line

PLACES = ("log", "github_comment")  #: Delivery targets that are not platforms.
NO_CHATS = frozenset({"local", "webhook", "api_server"})
SOURCES = ("subscriptions", "config.yaml")
TEST_SECONDS = 30.0
SWITCHED_OFF = (
    "webhooks are not switched on: hermes config set WEBHOOK_ENABLED true,"
    " then hermes gateway start (or restart)"
)
SAMPLE = {"event_type": "test", "text": "a call of `hermes webhook test`"}
COMMAND = Command("webhook")


@COMMAND.action(
    "subscribe",
    "add an address, or change it",
    arg("name", help="the last part of the address"),
    arg("--prompt", default="", help="the message to the agent; {a.b} is a value"),
    arg("--events", default="", metavar="KINDS", help="only these, with commas"),
    arg("--description", default="", help="for `list`"),
    arg("--skills", default="", metavar="NAMES", help="loaded first, with commas"),
    arg("--deliver", default="log", metavar="TARGET", help="where the answer goes"),
    arg("--deliver-chat-id", default="", metavar="ID", help="the chat there"),
    flag("--deliver-only", help="the text as it is, no agent"),
    arg("--secret", help="what calls are signed with; without it one is made"),
    flag("--force", help="replace the one of this name"),
    json=True,
    aliases=("add",),
)
async def _subscribe(args: Namespace, cli: Cli) -> None:
    name, extra = args.name, cli.load().settings.platforms.webhook.extra
    subscriptions.check_name(name)
    here = is_loopback(extra.host)
    if args.secret is not None and (
        why := subscriptions.secret_problem(args.secret, on_loopback=here)
    ):
        hint = "leave --secret out, and a good one is made"
        raise UsageError(f"calls would be refused: {why}", hint=hint)
    if name in extra.routes:
        problem = f"{name!r} is a route of config.yaml"
        raise UsageError(problem, hint=f"change platforms.webhook.extra.routes.{name}")
    route = WebhookRoute(
        events=split_names([args.events]),
        secret=args.secret or secrets.token_hex(32),
        prompt=args.prompt,
        skills=split_names([args.skills]),
        deliver=args.deliver,
        deliver_extra={"chat_id": args.deliver_chat_id} if args.deliver_chat_id else {},
        deliver_only=args.deliver_only,
        description=args.description,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    short = subscriptions.secret_warning(route.secret)
    doubts = (short and f"{name} {short}", await _check_delivery(route, cli))
    if route.skills:
        from hermes.cron import check_skills  # only this option needs it

        check_skills(cli.home, cli.load(), route.skills)
    with _SubscriptionFile(cli) as kept:
        if name in kept.routes and not args.force:
            raise UsageError(
                f"there is an address {name!r} already", hint="--force replaces it, secret and all"
            )
        kept.routes[name] = route
    address = f"{_address(cli)}/webhooks/{name}"
    shown = f"\nsecret   {route.secret}" if args.secret is None else ""
    facts = {"name": name, "url": address, "secret": route.secret}
    cli.emit(facts, f"address  {address}{shown}")
    if shown and not args.json:
        cli.note("the secret is shown only now; put it where the calls come from")
    from hermes.gateway import is_configured  # imports every manifest

    off = "" if is_configured(WEBHOOK, cli.load()) else SWITCHED_OFF
    for note in filter(None, (*doubts, off)):
        cli.note(f"warning: {note}")


async def _check_delivery(route: WebhookRoute, cli: Cli) -> str:
    """Return why answers cannot be delivered at present, or "".

    Raises `UsageError` for a target that can never work.
    """
    chat = str(route.deliver_extra.get("chat_id", ""))
    if route.deliver in PLACES:
        if chat:
            raise UsageError("--deliver-chat-id needs a platform", hint="--deliver telegram, say")
        needs_token = route.deliver == "github_comment" and not cli.load().variable("GITHUB_TOKEN")
        return "github_comment needs the variable GITHUB_TOKEN" if needs_token else ""
    try:
        if route.deliver in NO_CHATS:
            raise UsageError(f"{route.deliver} has no chats to deliver to")
        from hermes.cron import check_platform  # only this option needs it

        await check_platform(route.deliver)
    except UsageError as error:
        hint = f"write {', '.join(PLACES)}, or a platform such as telegram or telegram:CHAT:THREAD"
        raise UsageError(str(error), hint=hint) from None
    try:
        target = ReplyDelivery(route.deliver, {"chat_id": chat}).target()
        await target_check(cli.home, cli.load())(target)
    except UsageError as error:
        return f"answers cannot be delivered yet: {error}; {error.hint}"
    return ""


@COMMAND.action("list", "show the addresses", json=True, aliases=("ls",))
def _list(args: Namespace, cli: Cli) -> None:
    fixed = _static_routes(cli)
    routes = {**_SubscriptionFile(cli).read(), **fixed}
    facts = [
        {"name": name, "source": SOURCES[name in fixed], **msgspec.to_builtins(each)}
        for name, each in routes.items()
    ]
    for fact in facts:
        fact.pop("secret", None)
    if args.json or not routes:
        cli.emit(facts, empty="there are no addresses yet: hermes webhook subscribe NAME")
        return
    address = _address(cli)
    for name, each in routes.items():
        events = ", ".join(each.events) or "all events"
        about = f": {plain_line(each.description)}" if each.description else ""
        where = f" ({SOURCES[True]})" if name in fixed else ""
        cli.say(f"{address}/webhooks/{name}  ({events} → {plain_line(each.deliver)}){where}{about}")
        secret, why = _check_secret(each, cli)
        if why:
            cli.note(f"warning: {name} accepts no calls: {why}")
        elif known := subscriptions.secret_warning(secret):
            cli.note(f"warning: {name} {known}")


def _static_routes(cli: Cli) -> dict[str, WebhookRoute]:
    """Return the routes of config.yaml."""
    written = cli.load().settings.platforms.webhook.extra.routes
    return {name: subscriptions.parse_route(name, raw) for name, raw in written.items()}


def _check_secret(route: WebhookRoute, cli: Cli) -> tuple[str, str]:
    """Return the secret of a route, and why calls with it are refused ("" if they are not)."""
    loaded = cli.load()
    extra = loaded.settings.platforms.webhook.extra
    secret = route.secret or subscriptions.common_secret(extra, loaded.unset)
    return secret, subscriptions.secret_problem(secret, on_loopback=is_loopback(extra.host))


@COMMAND.action("remove", "remove an address", arg("name"), aliases=("rm",))
def _remove(args: Namespace, cli: Cli) -> None:
    with _SubscriptionFile(cli) as kept:
        if args.name not in kept.routes:
            raise _no_address(args.name, kept.routes)
        del kept.routes[args.name]
    cli.say(f"removed {args.name}")


@COMMAND.action(
    "test",
    "call an address of the running gateway, signed",
    arg("name"),
    arg("--payload", metavar="FILE", help="the body, JSON (- is standard input)"),
    arg("--event", default="", metavar="KIND", help="the kind of event it says"),
)
def _test(args: Namespace, cli: Cli) -> int:
    routes = {**_SubscriptionFile(cli).read(), **_static_routes(cli)}
    if args.name not in routes:
        raise _no_address(args.name, routes)
    route = routes[args.name]
    secret, why = _check_secret(route, cli)
    if why:
        raise UsageError(f"{args.name} accepts no calls: {why}")
    # Random white space makes each body unique: two equal calls within a second would count as
    # duplicates.
    body = _payload(args, cli) + bytes(secrets.choice(b" \t\n") for _ in range(40))
    headers = _signed_headers(body, secret)
    if args.event:
        headers["X-GitHub-Event"] = args.event
    address = f"{_address(cli)}/webhooks/{args.name}"
    try:
        with httpx2.Client(trust_env=False) as client:
            answer = fetch_blocking(
                client, "POST", address, content=body, headers=headers, seconds=TEST_SECONDS
            )
    except HttpError as error:
        hint = "is the gateway running, with the platform webhook? hermes gateway status"
        raise HermesError(f"{address} {error}", hint=hint) from None
    cli.say(f"{answer.status}  {plain_line(answer.body.decode('utf-8', 'replace'))[:500]}")
    nothing = _ignored_reason(answer, route)
    if nothing:
        cli.note(nothing)
    return 0 if 200 <= answer.status < 300 and not nothing else 1


def _no_address(name: str, routes: Iterable[str]) -> UsageError:
    hint = f"there are: {', '.join(routes) or 'none yet'}"
    return UsageError(f"there is no address {name!r}", hint=hint)


def _signed_headers(body: bytes, secret: str) -> dict[str, str]:
    """Return the headers of a call with a unique id and a signed timestamp."""
    stamp = str(int(time.time()))
    signed = stamp.encode() + b"." + body
    return {
        "Content-Type": "application/json",
        "X-Webhook-Id": f"test-{secrets.token_hex(8)}",
        "X-Webhook-Timestamp": stamp,
        "X-Webhook-Signature": hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest(),
    }


def _ignored_reason(answer: HttpResponse, route: WebhookRoute) -> str:
    """Return why an accepted call was ignored; "" if it was not."""
    try:
        status = msgspec.json.decode(answer.body, type=dict[str, Any]).get("status")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    if status == "duplicate":
        return "it was taken before, so nothing is done"
    if status != "ignored":
        return ""
    if not route.events:
        return "a ping only tries the address, so nothing is done"
    return f"it takes {', '.join(route.events)} only: --event {shlex.quote(route.events[0])}"


def _payload(args: Namespace, cli: Cli) -> bytes:
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


class _SubscriptionFile:
    """The subscription file. As a context manager it locks the file and saves changes."""

    def __init__(self, cli: Cli) -> None:
        self._home, self._path = cli.home, cli.home.root / subscriptions.FILE
        self._held = ExitStack()
        self.routes: dict[str, WebhookRoute] = {}

    def read(self) -> dict[str, WebhookRoute]:
        return subscriptions.load_routes(self._path)

    def __enter__(self) -> "_SubscriptionFile":
        ensure_hermes_home(self._home)
        try:
            self._held.enter_context(file_lock(Path(f"{self._path}.lock"), 10))
        except OSError as error:
            raise HermesError(f"cannot lock {self._path}: {error}") from error
        try:
            self.routes = self.read()
        except HermesError:
            self._held.close()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                subscriptions.save_routes(self._path, self.routes)
        except OSError as error:
            raise unusable(self._path, error) from error
        finally:
            self._held.close()


def _address(cli: Cli) -> str:
    """Return the address of the server for calls from this machine."""
    extra = cli.load().settings.platforms.webhook.extra
    return http_address(from_here(extra.host), extra.port)
