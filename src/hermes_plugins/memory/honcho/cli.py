"""`hermes honcho …`: options and stored data. Available only while Honcho is the provider."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes.sdk import HermesError, Home, UsageError, current_home, many, tilde
from hermes.sdk.memory import (
    Dict,
    Inspectable,
    change_options,
    find_provider,
    options_file,
    read_notes,
    read_options,
    redact_outgoing,
    redact_query,
    safe_id,
)
from hermes_plugins.memory.honcho import (
    CHARS_PER_TOKEN,
    HONCHO,
    LEVELS,
    MODES,
    PAGE_SIZE,
    HonchoOptions,
    HonchoWorkspace,
    open_workspace,
)

MAX_FACTS = 5000  #: The local provider stores at most this many.
SYNCED = "notes"  #: Session of the notes and facts sent by `sync` and `migrate`.

Act = Callable[[argparse.Namespace, Home], int | None]


def register_cli(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what Honcho stores about you, and change how it is used."
    parser.add_argument(
        "--target-profile", metavar="NAME", help="another profile than the active one"
    )
    parser.set_defaults(func=lambda args: _status(args, _home(args)))
    actions = parser.add_subparsers(title="actions", metavar="ACTION")

    def add(name: str, act: Act, summary: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=summary, description=summary)
        action.set_defaults(func=lambda args: act(args, _home(args)))
        return action

    add("setup", _setup, "show how to set the key and the address")
    status = add("status", _status, "show the options and whether Honcho answers")
    status.add_argument("--all", action="store_true", help="for all profiles")
    add("peers", _peers, "list the peers of the workspace")
    add("sessions", _sessions, "list the conversations of the workspace")
    at = add("map", _map, "use one session for all conversations in this folder")
    at.add_argument("name", nargs="?", default="", metavar="NAME", help="name of the session")
    at.add_argument("--remove", action="store_true", help="remove the mapping")
    peer = add("peer", _peer, "show or set peer names and reasoning effort")
    peer.add_argument("--user", metavar="NAME", help="your peer name")
    peer.add_argument("--ai", metavar="NAME", help="the agent's peer name")
    peer.add_argument("--reasoning", choices=LEVELS, help="reasoning effort of answers")
    mode = add("mode", _mode, "recall into turns (context), tools, or both (hybrid)")
    mode.add_argument("mode", nargs="?", choices=MODES)
    tokens = add("tokens", _tokens, "show or set how much is recalled into a turn")
    tokens.add_argument("--context", type=int, metavar="N", help="tokens recalled per message")
    tokens.add_argument(
        "--dialectic", type=int, metavar="N", help="tokens generated between turns; 0 for none"
    )
    identity = add("identity", _identity, "show the peers, and with --show what is known of them")
    identity.add_argument("--show", action="store_true", help="ask Honcho")
    add("enable", lambda _args, home: _set(home, enabled=True), "use Honcho")
    add("disable", lambda _args, home: _set(home, enabled=False), "send and recall nothing")
    add("sync", _sync, "send your notes that Honcho does not know yet")
    add("migrate", _migrate, "send the facts that the local provider stores about you")


def _home(args: argparse.Namespace) -> Home:
    return Home.resolve(args.target_profile) if args.target_profile else current_home()


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


@contextmanager
def _workspace(home: Home) -> Iterator[HonchoWorkspace]:
    workspace = open_workspace(home, _options(home))
    try:
        yield workspace
    finally:
        workspace.client.close()


def _options(home: Home) -> HonchoOptions:
    return read_options(home, HONCHO.name, HonchoOptions)


def _set(home: Home, **values: Any) -> int:
    change_options(home, HONCHO.name, HonchoOptions, **values)
    _print(f"saved in {tilde(options_file(home, HONCHO.name))}")
    return 0


def _status(args: argparse.Namespace, home: Home) -> int:
    homes = [home]
    if getattr(args, "all", False):
        others = sorted((home.default_root / "profiles").glob("*/"))
        homes = [Home(home.default_root), *(Home(folder) for folder in others)]
    return max([_status_of(each) for each in homes])


def _status_of(home: Home) -> int:
    options = _options(home)
    with _workspace(home) as workspace:
        _print(f"profile    {home.profile}{'' if options.enabled else ' (disabled)'}")
        _print(f"workspace  {workspace.name} at {workspace.client.host}")
        _print(f"peers      {workspace.user} and {workspace.ai}")
        _print(f"mode       {options.mode}, reasoning {options.reasoning}")
        try:
            pending = workspace.pending()
        except HermesError as error:
            _print(f"service    {error}")
            return 1
    queue = "no workspace yet" if pending is None else f"{many(pending, 'unit')} queued"
    _print(f"service    answers, {queue}")
    return 0


def _peers(_args: argparse.Namespace, home: Home) -> None:
    with _workspace(home) as workspace:
        _print_names(workspace.peers(), "peers")


def _sessions(_args: argparse.Namespace, home: Home) -> None:
    with _workspace(home) as workspace:
        _print_names(workspace.sessions(), "sessions")


def _print_names(found: list[Dict], what: str) -> None:
    for each in found:
        _print(f"{str(each.get('created_at') or '')[:10]}  {each.get('id')}")
    if not found:
        _print(f"no {what} yet")
    if len(found) == PAGE_SIZE:
        _print(f"(the first {PAGE_SIZE})")


def _map(args: argparse.Namespace, home: Home) -> int:
    mapped, folder = dict(_options(home).sessions), str(Path.cwd())
    if not args.name and not args.remove:
        for place, session in mapped.items():
            _print(f"{tilde(Path(place))}: {session}")
        if not mapped:
            _print("no folder is mapped: each conversation has its own session")
        return 0
    mapped.pop(folder, None)
    if args.name:
        mapped[folder] = safe_id(args.name)
    return _set(home, sessions=mapped)


def _peer(args: argparse.Namespace, home: Home) -> int:
    given = {"user_peer": args.user, "ai_peer": args.ai, "reasoning": args.reasoning}
    values = {key: value for key, value in given.items() if value is not None}
    options = _options(home)
    if not values:
        _print(f"you {options.user_peer or 'owner'}, the agent {options.ai_peer}")
        _print(f"reasoning {options.reasoning}")
        return 0
    names = {key: safe_id(value) if key != "reasoning" else value for key, value in values.items()}
    user, ai = names.get("user_peer", options.user_peer), names.get("ai_peer", options.ai_peer)
    if (user or "owner") == ai:
        raise UsageError("you and the agent cannot have the same name", hint="choose another")
    return _set(home, **names)


def _mode(args: argparse.Namespace, home: Home) -> int:
    if args.mode:
        return _set(home, mode=args.mode)
    _print(_options(home).mode)
    return 0


def _tokens(args: argparse.Namespace, home: Home) -> int:
    given = {"recall_chars": args.context, "dialectic_chars": args.dialectic}
    values = {key: count * CHARS_PER_TOKEN for key, count in given.items() if count is not None}
    if any(count < 0 for count in values.values()):
        raise UsageError("a number of tokens cannot be negative", hint="use 0 for none")
    if values:
        return _set(home, **values)
    options = _options(home)
    _print(f"context    {options.recall_chars // CHARS_PER_TOKEN}")
    _print(f"dialectic  {options.dialectic_chars // CHARS_PER_TOKEN}")
    return 0


def _identity(args: argparse.Namespace, home: Home) -> None:
    with _workspace(home) as workspace:
        for who, peer in (("you", workspace.user), ("the agent", workspace.ai)):
            _print(f"{who}: {peer}")
            if args.show:
                known = [*workspace.card(peer), *_lines(workspace, peer)]
                _print("\n".join(f"  {line}" for line in known) or "  nothing is known")


def _lines(workspace: HonchoWorkspace, peer: str) -> list[str]:
    text = workspace.representation(peer, "", PAGE_SIZE)
    return [line for line in text.splitlines() if line.strip()]


def _setup(_args: argparse.Namespace, _home: Home) -> None:
    _print(f"to set the key and the address: hermes memory setup {HONCHO.name}")


def _sync(_args: argparse.Namespace, home: Home) -> None:
    _send(home, set(read_notes(home)), "note")


def _migrate(_args: argparse.Namespace, home: Home) -> None:
    local = find_provider("holographic", home)
    local.initialize(SYNCED, hermes_home=str(home.root))
    try:
        facts = local.entries("", MAX_FACTS) if isinstance(local, Inspectable) else []
    finally:
        local.shutdown()
    _send(home, {fact["text"] for fact in facts if "outdated_by" not in fact}, "fact")


def _send(home: Home, texts: set[str], kind: str) -> None:
    """Send each text that Honcho does not know yet."""
    redacted = {redact_outgoing(text) for text in texts}
    known = 0
    with _workspace(home) as workspace:
        for text in sorted(redacted):
            if any(each["text"] == text for each in workspace.query(redact_query(text), PAGE_SIZE)):
                known += 1
            else:
                workspace.conclude(text, SYNCED)
    _print(f"{many(len(redacted) - known, kind)} sent, {known} already known")
