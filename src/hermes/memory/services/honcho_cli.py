"""`hermes honcho …`: what is set, and what the service holds. There only while it is in use."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes.config.home import Home, current_home, tilde
from hermes.core.errors import HermesError, UsageError
from hermes.memory.holographic.provider import HolographicProvider
from hermes.memory.holographic.store import MAX_FACTS
from hermes.memory.notes import MemoryScope as Notes
from hermes.memory.notes import NoteFile, note_locations
from hermes.memory.provider import Dict
from hermes.memory.services.base import (
    change_options,
    options_file,
    read_options,
    redact_outgoing,
    redact_query,
    safe_id,
)
from hermes.memory.services.honcho import (
    ABOUT,
    CHARS_PER_TOKEN,
    LEVELS,
    MODES,
    PAGE,
    HonchoOptions,
    HonchoWorkspace,
    open_workspace,
)
from hermes.util.text import many

LOCK_SECONDS = 10
SYNCED = "notes"
"""The session of notes and facts that were told by `sync` and `migrate`."""

Act = Callable[[argparse.Namespace, Home], int | None]


def register_cli(parser: argparse.ArgumentParser) -> None:
    parser.description = "See what Honcho holds of you, and set how it is used."
    parser.add_argument(
        "--target-profile", metavar="NAME", help="of another profile than the one in use"
    )
    parser.set_defaults(func=lambda args: _status(args, _home(args)))
    actions = parser.add_subparsers(title="actions", metavar="ACTION")

    def add(name: str, act: Act, summary: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=summary, description=summary)
        action.set_defaults(func=lambda args: act(args, _home(args)))
        return action

    add("setup", _setup, "how the key and the address are set")
    status = add("status", _status, "what is set, and whether Honcho answers")
    status.add_argument("--all", action="store_true", help="of all profiles")
    add("peers", _peers, "who is known in the workspace")
    add("sessions", _sessions, "the conversations of the workspace")
    at = add("map", _map, "let conversations in this folder be one session")
    at.add_argument("name", nargs="?", default="", metavar="NAME", help="of the session")
    at.add_argument("--remove", action="store_true", help="no more")
    peer = add("peer", _peer, "names, and how hard Honcho thinks")
    peer.add_argument("--user", metavar="NAME", help="what you are called")
    peer.add_argument("--ai", metavar="NAME", help="what the agent is called")
    peer.add_argument("--reasoning", choices=LEVELS, help="when Honcho is asked")
    mode = add("mode", _mode, "recall into turns (context), tools, or both (hybrid)")
    mode.add_argument("mode", nargs="?", choices=MODES)
    tokens = add("tokens", _tokens, "how much is recalled into a turn")
    tokens.add_argument("--context", type=int, metavar="N", help="of what fits your message")
    tokens.add_argument(
        "--dialectic", type=int, metavar="N", help="of what Honcho thinks between turns; 0 is none"
    )
    identity = add("identity", _identity, "who is who, and with --show what is known")
    identity.add_argument("--show", action="store_true", help="ask Honcho")
    add("enable", lambda _args, home: _set(home, enabled=True), "use Honcho")
    add("disable", lambda _args, home: _set(home, enabled=False), "send and recall nothing")
    add("sync", _sync, "tell Honcho the notes on you that it does not know yet")
    add("migrate", _migrate, "tell Honcho the facts that the local provider holds of you")


def _home(args: argparse.Namespace) -> Home:
    return Home.resolve(args.target_profile) if args.target_profile else current_home()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


@contextmanager
def _workspace(home: Home) -> Iterator[HonchoWorkspace]:
    workspace = open_workspace(home, _options(home))
    try:
        yield workspace
    finally:
        workspace.api.close()


def _options(home: Home) -> HonchoOptions:
    return read_options(home, ABOUT.name, HonchoOptions)


def _set(home: Home, **values: Any) -> int:
    change_options(home, ABOUT.name, HonchoOptions, **values)
    _say(f"saved in {tilde(options_file(home, ABOUT.name))}")
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
        _say(f"profile    {home.profile}{'' if options.enabled else ' (disabled)'}")
        _say(f"workspace  {workspace.name} at {workspace.api.host}")
        _say(f"peers      {workspace.user} and {workspace.ai}")
        _say(f"mode       {options.mode}, reasoning {options.reasoning}")
        try:
            pending = workspace.pending()
        except HermesError as error:
            _say(f"service    {error}")
            return 1
    waits = "no workspace yet" if pending is None else f"{many(pending, 'thing')} to think about"
    _say(f"service    answers, {waits}")
    return 0


def _peers(_args: argparse.Namespace, home: Home) -> None:
    with _workspace(home) as workspace:
        _say_names(workspace.peers(), "peers")


def _sessions(_args: argparse.Namespace, home: Home) -> None:
    with _workspace(home) as workspace:
        _say_names(workspace.sessions(), "sessions")


def _say_names(found: list[Dict], what: str) -> None:
    for each in found:
        _say(f"{str(each.get('created_at') or '')[:10]}  {each.get('id')}")
    if not found:
        _say(f"no {what} yet")
    if len(found) == PAGE:
        _say(f"(the first {PAGE})")


def _map(args: argparse.Namespace, home: Home) -> int:
    mapped, folder = dict(_options(home).sessions), str(Path.cwd())
    if not args.name and not args.remove:
        for place, session in mapped.items():
            _say(f"{tilde(Path(place))}: {session}")
        if not mapped:
            _say("no folder is mapped: each conversation is a session of its own")
        return 0
    mapped.pop(folder, None)
    if args.name:
        mapped[folder] = safe_id(args.name)
    return _set(home, sessions=mapped)


def _peer(args: argparse.Namespace, home: Home) -> int:
    said = {"user_peer": args.user, "ai_peer": args.ai, "reasoning": args.reasoning}
    values = {key: value for key, value in said.items() if value is not None}
    options = _options(home)
    if not values:
        _say(f"you {options.user_peer or 'owner'}, the agent {options.ai_peer}")
        _say(f"reasoning {options.reasoning}")
        return 0
    names = {key: safe_id(value) if key != "reasoning" else value for key, value in values.items()}
    user, ai = names.get("user_peer", options.user_peer), names.get("ai_peer", options.ai_peer)
    if (user or "owner") == ai:
        raise UsageError("you and the agent cannot have one name", hint="choose another")
    return _set(home, **names)


def _mode(args: argparse.Namespace, home: Home) -> int:
    if args.mode:
        return _set(home, mode=args.mode)
    _say(_options(home).mode)
    return 0


def _tokens(args: argparse.Namespace, home: Home) -> int:
    said = {"recall_chars": args.context, "dialectic_chars": args.dialectic}
    values = {key: count * CHARS_PER_TOKEN for key, count in said.items() if count is not None}
    if any(count < 0 for count in values.values()):
        raise UsageError("there is no negative number of tokens", hint="0 is none")
    if values:
        return _set(home, **values)
    options = _options(home)
    _say(f"context    {options.recall_chars // CHARS_PER_TOKEN}")
    _say(f"dialectic  {options.dialectic_chars // CHARS_PER_TOKEN}")
    return 0


def _identity(args: argparse.Namespace, home: Home) -> None:
    with _workspace(home) as workspace:
        for who, peer in (("you", workspace.user), ("the agent", workspace.ai)):
            _say(f"{who}: {peer}")
            if args.show:
                known = [*workspace.card(peer), *_lines(workspace, peer)]
                _say("\n".join(f"  {line}" for line in known) or "  nothing is known")


def _lines(workspace: HonchoWorkspace, peer: str) -> list[str]:
    text = workspace.representation(peer, "", PAGE)
    return [line for line in text.splitlines() if line.strip()]


def _setup(_args: argparse.Namespace, _home: Home) -> None:
    _say(f"`hermes memory setup {ABOUT.name}` asks for the key and the address")


def _sync(_args: argparse.Namespace, home: Home) -> None:
    own = note_locations(home.memories, Notes())
    files = (NoteFile(home.memories, own[target], LOCK_SECONDS) for target in ("memory", "user"))
    _tell(home, {note for file in files for note in file.read()}, "note")


def _migrate(_args: argparse.Namespace, home: Home) -> None:
    local = HolographicProvider()
    local.initialize(SYNCED, hermes_home=str(home.root))
    try:
        facts = local.entries("", MAX_FACTS)
    finally:
        local.shutdown()
    _tell(home, {fact["text"] for fact in facts if "outdated_by" not in fact}, "fact")


def _tell(home: Home, texts: set[str], kind: str) -> None:
    """Each of the texts, unless it is known."""
    said = {redact_outgoing(text) for text in texts}
    known = 0
    with _workspace(home) as workspace:
        for text in sorted(said):
            if any(each["text"] == text for each in workspace.query(redact_query(text), PAGE)):
                known += 1
            else:
                workspace.conclude(text, SYNCED)
    _say(f"{many(len(said) - known, kind)} told, {known} known already")
