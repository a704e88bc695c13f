"""`hermes gateway status`."""

import argparse
import time
from typing import Any

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.gateway.coming_up import hint_lines
from hermes.cli.commands.gateway.process import add_system
from hermes.cli.context import Cli
from hermes.cli.style import Style
from hermes.gateway.process import AdapterState, GatewayState, Running, read_state, running
from hermes.gateway.services import installed_service
from hermes.util.plain import plain_line
from hermes.util.text import human_duration

STALE_SECONDS = 120.0
"""A gateway that has said nothing of itself for so long hangs."""


def add_actions(actions: Actions) -> None:
    status = actions.add("status", _status, "show whether it runs and who is connected", json=True)
    add_system(status)


def _status(args: argparse.Namespace, cli: Cli) -> int:
    found = running(cli.home.root)
    said = read_state(cli.home.root)
    state = said if found and said and said.pid == found.pid else None
    service = installed_service(cli.home, system=args.system)
    now = time.time()
    if args.json:
        facts: dict[str, Any] = {
            "running": found is not None,
            "home": str(cli.home.root),
            "pid": found.pid if found else None,
            "started_at": found.started_at if found else None,
            "version": found.version if found else None,
            "service": {"name": service.name, "state": service.state()} if service else None,
            "stale": bool(state and now - state.updated_at > STALE_SECONDS),
            "gateway": msgspec.to_builtins(state) if state else None,
        }
        cli.json(facts)
        return 0 if found else 1
    if service:
        cli.say(f"service   {service.name}: {service.state()}")
    if found is None:
        cli.say(f"gateway   not running in {cli.home.display()}")
        cli.note("to start it: hermes gateway start")
        return 1
    for line in _lines(found, state, now, Style.of(cli.stdout)):
        cli.say(line)
    return 0


def _lines(found: Running, state: GatewayState | None, now: float, style: Style) -> list[str]:
    began = human_duration(now - found.started_at)
    if state is None:
        return [f"gateway   starting: process {found.pid}, for {began}"]
    lines = [f"gateway   {state.state}: process {found.pid}, for {began}"]
    if now - state.updated_at > STALE_SECONDS:
        quiet = human_duration(now - state.updated_at)
        lines.append(style.bad(f"          it has said nothing of itself for {quiet}"))
    lines.append(
        f"queue     {state.waiting_in} in, {state.waiting_out} out, {state.turns} turns running"
    )
    lines.append(f"last      in {_ago(state.last_in, now)}, out {_ago(state.last_out, now)}")
    if state.cron:
        lines.append(f"cron      {plain_line(state.cron)}")
    lines += [style.bad(f"trouble   {plain_line(each)}") for each in state.troubles]
    width = max((len(_name(each)) for each in state.adapters), default=0)
    for each in state.adapters:
        lines += [_adapter(each, width, now, style), *hint_lines(each, width)]
    return lines if state.adapters else [*lines, "no platform is set up: hermes gateway setup"]


def _adapter(each: AdapterState, width: int, now: float, style: Style) -> str:
    dress = style.plain if each.state == "connected" else style.bad
    detail = f" ({plain_line(each.detail)})" if each.detail else ""
    waiting = f", {each.waiting_out} waiting" if each.waiting_out else ""
    line = f"{_name(each):<{width}}  {each.state}{detail}: in {_ago(each.last_in, now)}, out"
    return dress(f"{line} {_ago(each.last_out, now)}{waiting}")


def _name(each: AdapterState) -> str:
    return f"{each.platform}@{each.account}" if each.account else each.platform


def _ago(at: float | None, now: float) -> str:
    return "never" if at is None else f"{human_duration(now - at)} ago"
