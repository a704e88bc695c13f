"""Talk to Home Assistant through its REST API. Set HASS_URL and HASS_TOKEN (a long-lived token).

  hass.py check                                   does it answer, which version
  hass.py states --domain light --search kitchen
  hass.py get sensor.living_temperature --attributes
  hass.py call light.turn_on light.kitchen brightness_pct=40 color_name=red
  hass.py call climate.set_temperature climate.bath temperature=21.5
  hass.py history sensor.living_temperature --hours 24
  hass.py services light                          what can be called, with its fields
  hass.py template "{{ states('sun.sun') }}"

`call` shows the state before and after. Locks, alarms, covers, and calls without an entity need
--yes. Values are read as JSON where possible: 40, true, [255,0,0].
Exit code: 0 done, 1 nothing found or not done, 2 an error.
"""
# ruff: noqa: T201, TID251, UP017 - prints; settings are variables; runs on older Pythons too

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timedelta, timezone
from typing import Any

CAREFUL = {
    "lock",
    "alarm_control_panel",
    "cover",
    "valve",
    "homeassistant",
    "shell_command",
    "hassio",
}
SECONDS = 15
SHOWN = 12
NEEDS = "set HASS_URL (http://homeassistant.local:8123) and HASS_TOKEN (profile, security, tokens)"


class Problem(Exception):
    """Something the user has to correct, or a server that does not answer."""


def ask(path: str, body: Any = None) -> Any:
    url, token = os.environ.get("HASS_URL", "").rstrip("/"), os.environ.get("HASS_TOKEN", "")
    if not url or not token:
        raise Problem(NEEDS)
    if not re.match(r"https?://", url):
        raise Problem(f"HASS_URL must start with http:// or https://, not {url!r}")
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        request = urllib.request.Request(f"{url}/api/{path}", data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            text = answer.read().decode("utf-8", "replace")
            plain = "json" not in answer.headers.get("Content-Type", "")
    except urllib.error.HTTPError as error:
        raise Problem(reason(error, path)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Problem(f"no answer from {url}: {error}") from None
    return text if plain else json.loads(text)


def reason(error: urllib.error.HTTPError, path: str) -> str:
    detail = error.read(500).decode("utf-8", "replace").strip()
    if error.code == 401:
        return "Home Assistant refused the token (401): make a new long-lived token"
    if error.code == 404:
        return f"there is no {path} (404): look with states or services"
    return f"Home Assistant answered {error.code}: {detail}"


def title(state: dict[str, Any]) -> str:
    return str(state.get("attributes", {}).get("friendly_name", ""))


def line(state: dict[str, Any]) -> str:
    unit = " " + str(state.get("attributes", {}).get("unit_of_measurement", ""))
    return f"{state['entity_id']}  {state['state']}{unit.rstrip()}  {title(state)}".rstrip()


def check(_: argparse.Namespace) -> int:
    config = ask("config")
    where = f"{config.get('location_name', '')}, {config.get('time_zone', '')}"
    print(f"Home Assistant {config.get('version', '?')} answers ({where})")
    return 0


def states(options: argparse.Namespace) -> int:
    word = options.search.lower()
    found = [
        state
        for state in ask("states")
        if options.domain in ("", state["entity_id"].partition(".")[0])
        and word in f"{state['entity_id']} {title(state)}".lower()
        and options.state in ("", state["state"])
    ]
    for state in sorted(found, key=lambda each: str(each["entity_id"])):
        print(line(state))
    print(f"{len(found)} entities", file=sys.stderr)
    return 0 if found else 1


def get(options: argparse.Namespace) -> int:
    state = ask(f"states/{urllib.parse.quote(options.entity)}")
    print(line(state))
    print(f"  changed {state.get('last_changed', '?')}")
    if options.attributes:
        for name, value in sorted(state.get("attributes", {}).items()):
            print(f"  {name}: {json.dumps(value, ensure_ascii=False)}")
    return 0


def value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def call(options: argparse.Namespace) -> int:
    domain, _, service = options.service.partition(".")
    if not service:
        raise Problem(f"{options.service!r}: a service is written as light.turn_on")
    fields = [word for word in options.words if "=" in word]
    entities = [word for word in options.words if "=" not in word]
    touched = {domain, *(entity.partition(".")[0] for entity in entities)}
    if (touched & CAREFUL or not entities) and not options.yes:
        what = ", ".join(entities) or "no entity: it may concern everything"
        print(f"not done: {options.service} on {what}; ask the user, then add --yes")
        return 1
    before = [ask(f"states/{urllib.parse.quote(entity)}") for entity in entities]
    data: dict[str, Any] = {
        name: value(text) for name, _, text in (f.partition("=") for f in fields)
    }
    if entities:
        data["entity_id"] = entities
    ask(f"services/{domain}/{urllib.parse.quote(service)}", data)
    if entities:
        time.sleep(options.wait)
    for old in before:
        new = ask(f"states/{urllib.parse.quote(old['entity_id'])}")
        same = " (unchanged)" if old["state"] == new["state"] else ""
        print(f"{old['entity_id']}: {old['state']} -> {new['state']}{same}")
        if new["state"] == "unavailable":
            print("  it is unavailable: no power or no connection", file=sys.stderr)
    if not entities:
        print("done")
    return 0


def history(options: argparse.Namespace) -> int:
    start = datetime.now(timezone.utc) - timedelta(hours=options.hours)
    query = urllib.parse.urlencode({"filter_entity_id": options.entity, "minimal_response": ""})
    path = f"history/period/{urllib.parse.quote(start.isoformat())}?{query}"
    rows: list[dict[str, str]] = next(iter(ask(path)), [])
    for row in rows if options.all else rows[-SHOWN:]:
        print(f"{row['last_changed'][:19]}  {row['state']}")
    numbers = []
    for row in rows:
        try:
            numbers.append(float(row["state"]))
        except ValueError:
            continue
    if numbers:
        mean = sum(numbers) / len(numbers)
        print(f"{len(rows)} values, least {min(numbers):g}, most {max(numbers):g}, mean {mean:.2f}")
    return 0 if rows else 1


def services(options: argparse.Namespace) -> int:
    found = [each for each in ask("services") if options.domain in ("", each["domain"])]
    for each in found:
        for name, facts in sorted(each["services"].items()):
            fields = ", ".join(facts.get("fields", {}))
            print(f"{each['domain']}.{name}  {facts.get('description', '')}")
            if fields and options.domain:
                print(f"    fields: {fields}")
    return 0 if found else 1


def template(options: argparse.Namespace) -> int:
    print(ask("template", {"template": options.text}))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text)
        made.set_defaults(run=run)
        return made

    action("check", check, "does it answer")
    it = action("states", states, "entities and their states")
    it.add_argument("--domain", default="", help="light, sensor, switch, climate, …")
    it.add_argument("--search", default="", help="part of the id or name")
    it.add_argument("--state", default="", help="only in this state, such as on")
    it = action("get", get, "one entity")
    it.add_argument("entity")
    it.add_argument("--attributes", action="store_true")
    it = action("call", call, "call a service")
    it.add_argument("service", help="such as light.turn_on")
    it.add_argument("words", nargs="*", help="entities, and fields as name=value")
    it.add_argument("--yes", action="store_true", help="the user has agreed")
    it.add_argument("--wait", type=float, default=1.5, help="seconds before looking again (1.5)")
    it = action("history", history, "the last values")
    it.add_argument("entity")
    it.add_argument("--hours", type=float, default=24)
    it.add_argument("--all", action="store_true", help=f"not only the last {SHOWN}")
    action("services", services, "what can be called").add_argument("domain", nargs="?", default="")
    action("template", template, "let Home Assistant compute a template").add_argument("text")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(options))
    except BrokenPipeError:
        raise
    except (Problem, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
