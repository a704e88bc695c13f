"""`hermes gateway install` and `uninstall`."""

import argparse
import getpass
import os
import pwd
from pathlib import Path

import msgspec

from hermes.cli.actions import Actions
from hermes.cli.commands.gateway.process import add_system
from hermes.cli.context import Cli
from hermes.config.environment import variable
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.gateway import services
from hermes.gateway.services import Job


def add_actions(actions: Actions) -> None:
    install = actions.add("install", _install, "make it a service that starts by itself")
    install.add_argument("--run-as", metavar="USER", help="with --system: who it runs as")
    install.add_argument("--no-start", action="store_true", help="do not start it now")
    uninstall = actions.add("uninstall", _uninstall, "stop the service and remove it")
    for each in (install, uninstall):
        add_system(each)


def _install(args: argparse.Namespace, cli: Cli) -> int:
    if args.run_as and not args.system:
        raise UsageError("--run-as needs --system", hint="a service of your own runs as you")
    home, job = _job(args, cli)
    service = services.service_of(home, system=args.system)
    for line in service.install(job):
        cli.say(line)
    if not args.no_start:
        service.start()
        cli.say(f"started {service.name}")
    return 0


def _uninstall(args: argparse.Namespace, cli: Cli) -> int:
    home = _job(args, cli)[0]
    service = services.service_of(home, system=args.system)
    if not service.installed():
        cli.say(f"there is no service {service.name}")
        return 0
    service.uninstall()
    cli.say(f"removed {service.name}; sessions and settings are untouched")
    return 0


def _job(args: argparse.Namespace, cli: Cli) -> tuple[Home, Job]:
    """What the service runs. With sudo it is for the user who called sudo, not for root."""
    drain = cli.load().settings.gateway.drain_seconds
    me = getpass.getuser()
    wanted = getattr(args, "run_as", None)
    user = (wanted or (os.geteuid() == 0 and variable("SUDO_USER")) or me) if args.system else me
    if user == me:
        return cli.home, services.job(cli.home, drain_seconds=drain)
    try:
        theirs = Path(pwd.getpwnam(user).pw_dir)
    except KeyError:
        raise UsageError(f"this machine has no user {user!r}") from None
    home = Home(theirs / ".hermes") if cli.home.root == Path.home() / ".hermes" else cli.home
    job = services.job(home, drain_seconds=drain, user=user)
    return home, msgspec.structs.replace(job, folder=theirs)
