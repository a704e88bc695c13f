"""Control Philips Hue lamps through the bridge at home. Set HUE_BRIDGE (its address) and HUE_KEY.

  hue.py pair                         (press the button of the bridge first; prints the key)
  hue.py lights                       hue.py groups
  hue.py set "Kitchen" --on --brightness 40 --kelvin 2700
  hue.py set 3 --off                  hue.py set "Living room" --group --color "#ff8800"
Exit code: 0 done, 1 nothing found or not reachable, 2 an error.
"""
# ruff: noqa: T201, TID251 - prints its answer; its settings are variables of the environment

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.request
from typing import Any

SECONDS = 10


class Problem(Exception):
    """Something the user has to correct, or a bridge that does not answer."""


def ask(method: str, path: str, body: Any = None) -> Any:
    bridge = os.environ.get("HUE_BRIDGE", "").rstrip("/")
    if not bridge:
        raise Problem("set HUE_BRIDGE to the address of the bridge, such as 192.168.1.20")
    base = bridge if re.match(r"https?://", bridge) else f"http://{bridge}"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(f"{base}/api{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            found = json.loads(answer.read().decode())
    except urllib.error.HTTPError as error:
        raise Problem(f"the bridge answered {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from the bridge at {base}: {error}") from None
    errors = [each["error"] for each in found if "error" in each] if isinstance(found, list) else []
    if errors:
        kinds = {1: "the key is not known: pair first", 101: "press the button of the bridge first"}
        raise Problem(kinds.get(errors[0].get("type"), str(errors[0].get("description"))))
    return found


def key() -> str:
    found = os.environ.get("HUE_KEY", "")
    if not found:
        raise Problem("HUE_KEY is not set: press the button of the bridge, then run: hue.py pair")
    return found


def pair(_: argparse.Namespace) -> int:
    made = ask("POST", "", {"devicetype": "hermes#skill"})
    print(f"HUE_KEY={made[0]['success']['username']}")
    return 0


def lights(_: argparse.Namespace) -> int:
    found = ask("GET", f"/{key()}/lights")
    for number, light in found.items():
        state = light["state"]
        bright = f" {round(state['bri'] / 2.54)} %" if state.get("on") and "bri" in state else ""
        away = "" if state.get("reachable", True) else "  not reachable"
        print(f"{number}  {light['name']}  {'on' if state['on'] else 'off'}{bright}{away}")
    return 0 if found else 1


def groups(_: argparse.Namespace) -> int:
    found = ask("GET", f"/{key()}/groups")
    for number, group in found.items():
        state = group.get("state", {})
        some = "all on" if state.get("all_on") else "some on" if state.get("any_on") else "off"
        print(f"{number}  {group['name']}  {group.get('type', '')}  {some}")
    return 0 if found else 1


EVERYTHING = "0"
"""The group of all lamps; the bridge does not list it."""


def number_of(name: str, things: dict[str, Any]) -> str:
    if name in things:
        return name
    found = [number for number, each in things.items() if each["name"].lower() == name.lower()]
    if len(found) != 1:
        names = ", ".join(each["name"] for each in things.values())
        raise Problem(f"{len(found)} are named {name!r}; there are: {names}")
    return found[0]


def xy(colour: str) -> list[float]:
    """A web colour in the coordinates of the bridge."""
    found = re.fullmatch(r"#?([0-9a-fA-F]{6})", colour)
    if not found:
        raise Problem(f"{colour!r} is no colour such as #ff8800")
    parts = [int(found[1][n : n + 2], 16) / 255 for n in (0, 2, 4)]
    red, green, blue = (((p + 0.055) / 1.055) ** 2.4 if p > 0.04045 else p / 12.92 for p in parts)
    x = red * 0.4124 + green * 0.3576 + blue * 0.1805
    y = red * 0.2126 + green * 0.7152 + blue * 0.0722
    z = red * 0.0193 + green * 0.1192 + blue * 0.9505
    total = x + y + z
    if not total:
        raise Problem("black is no colour of a lamp; use --off")
    return [round(x / total, 4), round(y / total, 4)]


def change(options: argparse.Namespace) -> int:
    wanted: dict[str, Any] = {}
    if options.on or options.off:
        wanted["on"] = bool(options.on)
    if options.brightness is not None:
        wanted.update(on=True, bri=max(1, min(254, round(options.brightness * 2.54))))
    if options.kelvin and options.kelvin > 0:
        wanted["ct"] = max(153, min(500, round(1_000_000 / options.kelvin)))
    if options.color:
        wanted["xy"] = xy(options.color)
    if not wanted:
        raise Problem("nothing to set: --on, --off, --brightness, --kelvin or --color")
    kind, last = ("groups", "action") if options.group else ("lights", "state")
    if options.group and options.name == EVERYTHING and not options.yes:
        print("not done: group 0 is every lamp of the house; ask the user, then add --yes")
        return 1
    things = ask("GET", f"/{key()}/{kind}")
    if options.group:
        things[EVERYTHING] = {"name": "every lamp"}
    number = number_of(options.name, things)
    ask("PUT", f"/{key()}/{kind}/{number}/{last}", wanted)
    print(f"{things[number]['name']}: {json.dumps(wanted)}")
    if not things[number].get("state", {}).get("reachable", True):
        print("it is not reachable: is the switch at the wall on?", file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    named = (("pair", pair, "get a key"), ("lights", lights, "lamps"), ("groups", groups, "rooms"))
    for name, run, text in named:
        actions.add_parser(name, help=text).set_defaults(run=run)
    it = actions.add_parser("set", help="switch, dim, colour")
    it.set_defaults(run=change)
    it.add_argument("name", help="number or name")
    it.add_argument("--group", action="store_true", help="a room or zone, not a lamp")
    it.add_argument("--yes", action="store_true", help="the user agreed to group 0, all lamps")
    it.add_argument("--on", action="store_true")
    it.add_argument("--off", action="store_true")
    it.add_argument("--brightness", type=float, help="1 to 100")
    it.add_argument("--kelvin", type=float, help="2000 warm to 6500 cold")
    it.add_argument("--color", help="#rrggbb")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except (LookupError, TypeError, AttributeError):
        print("error: the answer is not that of a Hue bridge; check HUE_BRIDGE", file=sys.stderr)
        return 2
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
