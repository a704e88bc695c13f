"""`hermes gateway run`, `start`, `stop` and `restart`."""

import argparse
import os
import time
from importlib import import_module
from pathlib import Path

from hermes import __version__
from hermes.app.installation import start_command
from hermes.cli.actions import Actions
from hermes.cli.commands.gateway.coming_up import tell_platforms
from hermes.cli.context import Cli
from hermes.cli.scheduling import GatewayJobs
from hermes.config.environment import variables
from hermes.config.home import Home, tilde
from hermes.config.settings.platforms import GatewaySettings
from hermes.core.errors import ConfigError, HermesError
from hermes.gateway import process
from hermes.gateway.process import Running, all_running, claimed, read_state, running, stop
from hermes.gateway.services import GRACE_SECONDS, RESTART, installed_service, under_a_manager
from hermes.util.text import many

RUNNER = "hermes.gateway.runner"
"""Loaded only by `run`: it brings the agent and the platforms with it."""


def add_actions(actions: Actions) -> None:
    run = actions.add("run", _run, "run the gateway in this terminal")
    run.add_argument("--replace", action="store_true", help="stop the one that runs first")
    run.add_argument("-q", "--quiet", action="store_true", help="print problems only")
    start = actions.add("start", _start, "start it in the background, or its service")
    stopping = actions.add("stop", _stop, "stop it; turns that run get some time to end")
    stopping.add_argument("--all", action="store_true", help="every gateway of yours")
    restart = actions.add("restart", _restart, "stop it and start it again")
    for each in (stopping, restart):
        each.add_argument("--force", action="store_true", help="kill it when it does not end")
    for each in (start, stopping, restart):
        add_system(each)


def add_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", action="store_true", help="the machine's service (Linux)")


def _run(args: argparse.Namespace, cli: Cli) -> int:
    loaded = cli.load()
    found = running(cli.home.root)
    if args.replace and found:
        _end(found, cli, force=True)
    with claimed(cli.home, now=time.time(), version=__version__):
        runner = import_module(RUNNER)
        code = int(
            runner.start_gateway(
                cli.home, loaded, quiet=args.quiet, note=cli.note, scheduling=GatewayJobs()
            )
        )
    if code == RESTART and not under_a_manager():
        words = _command(quiet=args.quiet)
        os.execve(words[0], words, {**variables(), "HERMES_HOME": str(cli.home.root)})
    return code


def _start(args: argparse.Namespace, cli: Cli) -> int:
    found = running(cli.home.root)
    if found:
        cli.say(f"it runs already: process {found.pid}")
        return 0
    service = installed_service(cli.home, system=args.system)
    if service:
        service.start()
        cli.say(f"started the service {service.name}")
        return tell_platforms(cli)
    started = process.start(cli.home, _command(quiet=True))
    cli.say(f"started: process {started.pid}; it prints to {tilde(cli.home.logs / 'gateway.out')}")
    return tell_platforms(cli)


def _stop(args: argparse.Namespace, cli: Cli) -> int:
    found = all_running(cli.home) if args.all else _own(cli.home)
    if not found:
        cli.say("no gateway of yours runs" if args.all else f"none runs in {cli.home.display()}")
        return 0
    for each in found:
        _end_somehow(each, args, cli)
    return 0


def _restart(args: argparse.Namespace, cli: Cli) -> int:
    cli.load()  # one that could not start again is not stopped
    service = installed_service(cli.home, system=args.system)
    found = running(cli.home.root)
    if service:
        service.restart()
        cli.say(f"restarted the service {service.name}")
        return tell_platforms(cli)
    if found:
        _end(found, cli, force=args.force)
    return _start(args, cli)


def _own(home: Home) -> list[Running]:
    found = running(home.root)
    return [found] if found else []


def _end_somehow(found: Running, args: argparse.Namespace, cli: Cli) -> None:
    """By its service, which would otherwise wonder; else by a signal."""
    service = installed_service(Home(Path(found.home)), system=args.system)
    if service and service.state() in ("active", "running") and not args.force:
        service.stop()
        cli.say(f"stopped the service {service.name}")
    else:
        _end(found, cli, force=args.force)


def _end(found: Running, cli: Cli, *, force: bool) -> None:
    drain = _drain_seconds(cli)
    seconds = drain + GRACE_SECONDS
    where = tilde(Path(found.home))
    state = read_state(Path(found.home))
    if state and state.pid == found.pid and state.turns:
        turns = many(state.turns, "turn")
        cli.note(f"{turns} may still end, for at most {drain:g} seconds")
    try:
        gone = stop(found, seconds=seconds, force=force)
    except PermissionError:
        raise HermesError(
            f"process {found.pid}, the gateway of {where}, belongs to another user",
            hint="stop it as that user, or with sudo",
        ) from None
    if not gone:
        raise HermesError(
            f"process {found.pid}, the gateway of {where}, did not end in {seconds:g} s",
            hint="--force kills it; nothing is lost, what was cut short goes on at the next start",
        )
    cli.say(f"stopped process {found.pid}, the gateway of {where}")


def _drain_seconds(cli: Cli) -> float:
    """A gateway can be stopped whatever became of the settings since it started."""
    try:
        return cli.load().settings.gateway.drain_seconds
    except ConfigError:
        return GatewaySettings().drain_seconds


def _command(*, quiet: bool) -> list[str]:
    return [*start_command(), "gateway", "run", *(("--quiet",) if quiet else ())]
