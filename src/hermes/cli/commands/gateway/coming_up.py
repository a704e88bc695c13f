"""What became of the platforms of a gateway that was just started."""

from hermes.cli.context import Cli
from hermes.cli.style import Style
from hermes.core.errors import HermesError
from hermes.gateway import process
from hermes.gateway.process import AdapterState
from hermes.util.plain import plain_line

MORE = "to look further: hermes gateway status, hermes logs gateway"
TRIES_AGAIN = {"waiting": "; it is tried again", "connecting": "; it takes its time"}


def tell_platforms(cli: Cli) -> int:
    """Say which are connected and which are not, why, and what to do; the exit code: 1 when none
    is. Those that lack variables do not count: perhaps nobody wants them."""
    state = process.connected(cli.home.root)
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
        cli.say("\n".join(_lines(each, width, style)))
    if any(each.state != "connected" for each in state.adapters):
        cli.note(MORE)
    return 1 if wanted and "connected" not in wanted else 0


def _lines(each: AdapterState, width: int, style: Style) -> list[str]:
    if each.state == "connected":
        where = f" ({plain_line(each.detail)})" if each.detail else ""
        return [f"{each.platform:<{width}}  connected{where}"]
    why = f": {plain_line(each.detail)}" if each.detail else ""
    line = f"{each.platform:<{width}}  not connected{why}{TRIES_AGAIN.get(each.state, '')}"
    return [style.bad(line), *hint_lines(each, width)]


def hint_lines(each: AdapterState, width: int) -> list[str]:
    """What to do about it, below the line that begins with the name."""
    return [f"{'':<{width}}  {plain_line(each.hint)}"] if each.hint else []
