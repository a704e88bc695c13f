"""What became of the platforms of a gateway that was just started."""

from hermes.cli.context import Cli
from hermes.cli.style import Style
from hermes.core.errors import HermesError
from hermes.gateway.process import background
from hermes.gateway.process.state_file import AdapterState
from hermes.util.plain import plain_line

MORE = "to look further: hermes gateway status, hermes logs gateway"
TRIES_AGAIN = {"waiting": "; it is tried again", "connecting": "; it takes its time"}


def tell_platforms(cli: Cli) -> int:
    """Say which are connected and which are not, and why; the exit code: 1 when none is."""
    state = background.connected(cli.home.root)
    if state is None:
        raise HermesError("the gateway ended, or does not say how it fares", hint=MORE)
    if not state.adapters:
        cli.say("no platform is set up: only scheduled jobs run")
        return 0
    style = Style.of(cli.stdout)
    width = max(len(each.platform) for each in state.adapters)
    for each in state.adapters:
        cli.say(_line(each, width, style))
    away = [each for each in state.adapters if each.state != "connected"]
    if away:
        cli.note(MORE)
    return 1 if len(away) == len(state.adapters) else 0


def _line(each: AdapterState, width: int, style: Style) -> str:
    if each.state == "connected":
        return f"{each.platform:<{width}}  connected"
    why = f": {plain_line(each.detail)}" if each.detail else ""
    line = f"{each.platform:<{width}}  not connected{why}{TRIES_AGAIN.get(each.state, '')}"
    return style.bad(line)
