"""`hermes gateway`: chats on messaging platforms, the API server and scheduled work, always on."""

import getpass
import os
import pwd
import time
from argparse import Namespace
from pathlib import Path

import msgspec

from hermes import __version__
from hermes.cli.commands.gateway_setup import SETUP
from hermes.cli.context import Cli, Command, Style, arg, flag
from hermes.cli.scheduling import GatewayJobs
from hermes.config.environment import variable, variables
from hermes.config.home import Home, tilde
from hermes.config.installation import start_command
from hermes.config.settings.platforms import GatewaySettings
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.gateway import process, services
from hermes.gateway.process import (
    AdapterState,
    GatewayProcess,
    GatewayState,
    claim_home,
    read_state,
    running_gateway,
    running_gateways,
    stop_gateway,
)
from hermes.gateway.services import (
    GRACE_SECONDS,
    RESTART,
    ServiceSpec,
    installed_service,
    is_managed,
)
from hermes.util.text import human_duration, many, plain_line

COMMAND = Command(
    "gateway",
    description="The gateway connects the agent to messaging platforms and runs scheduled work.\n"
    "There is one for each home; it may be stopped at any moment, nothing is lost.",
    epilog="""\
examples:
  hermes gateway setup telegram          connect a platform, question by question
  hermes gateway run                     in this terminal, until Ctrl-C
  hermes gateway start                   in the background, or as the installed service
  hermes gateway install                 a service that starts with the machine
  hermes gateway status --json           who is connected, what waits

`status` exits with 1 when no gateway runs, `start` when none of its platforms could be connected.
""",
)
SYSTEM = flag("--system", help="the machine's service (Linux)")

# The platforms of a gateway that has just started.

MORE = "to look further: hermes gateway status, hermes logs gateway"
TRIES_AGAIN = {"waiting": "; it is tried again", "connecting": "; it takes its time"}


def report_platforms(cli: Cli) -> int:
    """Print which platforms are connected and what to do about the others.

    Return 1 if none is connected. Platforms without credentials do not count.
    """
    state = process.wait_connected(cli.home.root)
    if state is None:
        raise HermesError("the gateway ended, or does not say how it fares", hint=MORE)
    style = Style.of(cli.stdout)
    for trouble in state.troubles:
        cli.say(style.bad(plain_line(trouble)))
    wanted = [each.state for each in state.adapters if each.state != "incomplete"]
    if not wanted:
        cli.say("no platform is set up: only scheduled jobs run")
    width = max((len(each.platform) for each in state.adapters), default=0)
    for each in state.adapters:
        cli.say("\n".join(_start_lines(each, width, style)))
    if any(each.state != "connected" for each in state.adapters):
        cli.note(MORE)
    return 1 if wanted and "connected" not in wanted else 0


def _start_lines(each: AdapterState, width: int, style: Style) -> list[str]:
    if each.state == "connected":
        where = f" ({plain_line(each.detail)})" if each.detail else ""
        return [f"{each.platform:<{width}}  connected{where}"]
    why = f": {plain_line(each.detail)}" if each.detail else ""
    line = f"{each.platform:<{width}}  not connected{why}{TRIES_AGAIN.get(each.state, '')}"
    return [style.bad(line), *hint_lines(each, width)]


def hint_lines(each: AdapterState, width: int) -> list[str]:
    """Return the hint, indented below the line that names the platform."""
    return [f"{'':<{width}}  {plain_line(each.hint)}"] if each.hint else []


# `hermes gateway run`, `start`, `stop` and `restart`.


@COMMAND.action(
    "run",
    "run the gateway in this terminal",
    flag("--replace", help="stop the one that runs first"),
    flag("-q", "--quiet", help="print problems only"),
)
def _run(args: Namespace, cli: Cli) -> int:
    loaded = cli.load()
    found = running_gateway(cli.home.root)
    if args.replace and found:
        _stop_process(found, cli, force=True)
    with claim_home(cli.home, now=time.time(), version=__version__):
        from hermes.gateway.runner import start_gateway  # loads every part of the gateway

        code = int(
            start_gateway(
                cli.home, loaded, quiet=args.quiet, note=cli.note, scheduling=GatewayJobs()
            )
        )
    if code == RESTART and not is_managed():
        words = _command(quiet=args.quiet)
        os.execve(words[0], words, {**variables(), "HERMES_HOME": str(cli.home.root)})
    return code


@COMMAND.action("start", "start it in the background, or its service", SYSTEM)
def _start(args: Namespace, cli: Cli) -> int:
    found = running_gateway(cli.home.root)
    if found:
        cli.say(f"it runs already: process {found.pid}")
        return 0
    service = installed_service(cli.home, system=args.system)
    if service:
        service.start()
        cli.say(f"started the service {service.name}")
    else:
        started, output = (
            process.start_in_background(cli.home, _command(quiet=True)),
            cli.home.logs / "gateway.out",
        )
        cli.say(f"started: process {started.pid}; it prints to {tilde(output)}")
    return report_platforms(cli)


@COMMAND.action(
    "stop",
    "stop it; turns that run get some time to end",
    flag("--all", help="every gateway of yours"),
    flag("--force", help="kill it when it does not end"),
    SYSTEM,
)
def _stop(args: Namespace, cli: Cli) -> None:
    here = running_gateway(cli.home.root)
    found = running_gateways(cli.home) if args.all else [here] if here else []
    if not found:
        cli.say("no gateway of yours runs" if args.all else f"none runs in {cli.home.display()}")
    for each in found:
        service = installed_service(Home(Path(each.home)), system=args.system)
        # The service manager would restart a process that was stopped by a signal.
        if service and service.state() in ("active", "running") and not args.force:
            service.stop()
            cli.say(f"stopped the service {service.name}")
        else:
            _stop_process(each, cli, force=args.force)


@COMMAND.action(
    "restart",
    "stop it and start it again",
    flag("--force", help="kill it when it does not end"),
    SYSTEM,
)
def _restart(args: Namespace, cli: Cli) -> int:
    cli.load()  # do not stop a gateway that could not start again
    service = installed_service(cli.home, system=args.system)
    found = running_gateway(cli.home.root)
    if service:
        service.restart()
        cli.say(f"restarted the service {service.name}")
        return report_platforms(cli)
    if found:
        _stop_process(found, cli, force=args.force)
    return _start(args, cli)


def _stop_process(found: GatewayProcess, cli: Cli, *, force: bool) -> None:
    try:
        drain = cli.load().settings.gateway.drain_seconds
    except ConfigError:  # stopping must work with invalid settings too
        drain = GatewaySettings().drain_seconds
    seconds = drain + GRACE_SECONDS
    where = tilde(Path(found.home))
    state = read_state(Path(found.home))
    if state and state.pid == found.pid and state.turns:
        cli.note(f"{many(state.turns, 'turn')} may still end, for at most {drain:g} seconds")
    try:
        gone = stop_gateway(found, seconds=seconds, force=force)
    except PermissionError:
        problem = f"process {found.pid}, the gateway of {where}, belongs to another user"
        raise HermesError(problem, hint="stop it as that user, or with sudo") from None
    if not gone:
        raise HermesError(
            f"process {found.pid}, the gateway of {where}, did not end in {seconds:g} s",
            hint="--force kills it; nothing is lost, what was cut short goes on at the next start",
        )
    cli.say(f"stopped process {found.pid}, the gateway of {where}")


def _command(*, quiet: bool) -> list[str]:
    return [*start_command(), "gateway", "run", *(("--quiet",) if quiet else ())]


# `hermes gateway status`.

STALE_SECONDS = 120.0  #: A gateway whose state file is older than this hangs.


@COMMAND.action("status", "show whether it runs and who is connected", SYSTEM, json=True)
def _status(args: Namespace, cli: Cli) -> int:
    found = running_gateway(cli.home.root)
    said = read_state(cli.home.root)
    state = said if found and said and said.pid == found.pid else None
    service = installed_service(cli.home, system=args.system)
    now = time.time()
    facts = {
        "running": found is not None,
        "home": str(cli.home.root),
        "pid": found.pid if found else None,
        "started_at": found.started_at if found else None,
        "version": found.version if found else None,
        "service": {"name": service.name, "state": service.state()} if service else None,
        "stale": bool(state and now - state.updated_at > STALE_SECONDS),
        "gateway": state,
    }
    lines = [f"service   {service.name}: {service.state()}"] if service else []
    if found is not None:
        lines += _status_lines(found, state, now, Style.of(cli.stdout))
    else:
        lines.append(f"gateway   not running in {cli.home.display()}")
    cli.emit(facts, lines)
    if found is None and not args.json:
        cli.note("to start it: hermes gateway start")
    return 0 if found else 1


def _status_lines(
    found: GatewayProcess, state: GatewayState | None, now: float, style: Style
) -> list[str]:
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
    width = max((len(_platform_name(each)) for each in state.adapters), default=0)
    for each in state.adapters:
        lines += [_adapter(each, width, now, style), *hint_lines(each, width)]
    return lines if state.adapters else [*lines, "no platform is set up: hermes gateway setup"]


def _adapter(each: AdapterState, width: int, now: float, style: Style) -> str:
    dress = style.plain if each.state == "connected" else style.bad
    detail = f" ({plain_line(each.detail)})" if each.detail else ""
    waiting = f", {each.waiting_out} waiting" if each.waiting_out else ""
    line = (
        f"{_platform_name(each):<{width}}  {each.state}{detail}: in {_ago(each.last_in, now)}, out"
    )
    return dress(f"{line} {_ago(each.last_out, now)}{waiting}")


def _platform_name(each: AdapterState) -> str:
    return f"{each.platform}@{each.account}" if each.account else each.platform


def _ago(at: float | None, now: float) -> str:
    return "never" if at is None else f"{human_duration(now - at)} ago"


# `hermes gateway install` and `uninstall`.


@COMMAND.action(
    "install",
    "make it a service that starts by itself",
    arg("--run-as", metavar="USER", help="with --system: who it runs as"),
    flag("--no-start", help="do not start it now"),
    SYSTEM,
)
def _install(args: Namespace, cli: Cli) -> None:
    if args.run_as and not args.system:
        raise UsageError("--run-as needs --system", hint="a service of your own runs as you")
    home, spec = _service_spec(args, cli)
    service = services.find_service(home, system=args.system)
    for line in service.install(spec):
        cli.say(line)
    if not args.no_start:
        service.start()
        cli.say(f"started {service.name}")


@COMMAND.action("uninstall", "stop the service and remove it", SYSTEM)
def _uninstall(args: Namespace, cli: Cli) -> None:
    home = _service_spec(args, cli)[0]
    service = services.find_service(home, system=args.system)
    if not service.installed():
        cli.say(f"there is no service {service.name}")
        return
    service.uninstall()
    cli.say(f"removed {service.name}; sessions and settings are untouched")


def _service_spec(args: Namespace, cli: Cli) -> tuple[Home, ServiceSpec]:
    """Return what the service runs. With sudo, it runs as the calling user, not as root."""
    drain = cli.load().settings.gateway.drain_seconds
    me = getpass.getuser()
    wanted = getattr(args, "run_as", None)
    user = (wanted or (os.geteuid() == 0 and variable("SUDO_USER")) or me) if args.system else me
    if user == me:
        return cli.home, services.service_spec(cli.home, drain_seconds=drain)
    try:
        theirs = Path(pwd.getpwnam(user).pw_dir)
    except KeyError:
        raise UsageError(f"this machine has no user {user!r}") from None
    home = Home(theirs / ".hermes") if cli.home.root == Path.home() / ".hermes" else cli.home
    job = services.service_spec(home, drain_seconds=drain, user=user)
    return home, msgspec.structs.replace(job, folder=theirs)


COMMAND.actions.append(SETUP)
