"""Small servers that speak as the real ones do: Home Assistant, Hue, ntfy, plain web sites.

Tests start them with `served`; a `before/<skill>.sh` runs this file, which writes the port:

    python3 everyday_servers.py home-assistant port &
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-long-lived-token"
Query = dict[str, list[str]]


class Web(BaseHTTPRequestHandler):
    """A status and a value for each request; `state` is that of the server."""

    def answer(self, path: str, query: Query, body: bytes) -> tuple[int, Any]:
        raise NotImplementedError

    @property
    def state(self) -> Any:
        return self.server.state  # type: ignore[attr-defined]

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        status, value = self.answer(parts.path, parse_qs(parts.query), body)
        plain = isinstance(value, str | bytes)
        text = value if plain else json.dumps(value)
        data = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if plain else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = _any  # noqa: N815 - the names of the base

    def log_message(self, *args: object) -> None:
        """No log."""


class Site(Web):
    """Pages by path; what was asked for is kept in `calls`."""

    def answer(self, path: str, query: Query, body: bytes) -> tuple[int, Any]:
        self.state.setdefault("calls", []).append((self.path, body, dict(self.headers)))
        found = self.state["pages"].get(path)
        if isinstance(found, int):
            return found, "an error"
        return (404, "not here") if found is None else (200, found)


class HomeAssistant(Web):
    def answer(self, path: str, query: Query, body: bytes) -> tuple[int, Any]:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, "401: Unauthorized"
        kind, *rest = path.removeprefix("/api/").split("/")
        if kind == "services" and rest:
            return self._called(rest, json.loads(body))
        if kind == "template":
            return 200, f"computed {json.loads(body)['template']}"
        if kind == "states" and rest:
            found = self.state["states"].get(rest[0])
            return (200, found) if found else (404, {"message": "Entity not found."})
        if kind == "states":
            return 200, list(self.state["states"].values())
        return 200, self.state[kind]

    def _called(self, service: list[str], data: dict[str, Any]) -> tuple[int, Any]:
        if service == ["light", "turn_on"]:
            bright = round(data.get("brightness_pct", 100) * 2.55)
            lamp = self.state["states"]["light.kitchen"]
            lamp["state"], lamp["attributes"]["brightness"] = "on", bright
        elif service == ["lock", "unlock"]:
            self.state["states"]["lock.front_door"]["state"] = "unlocked"
        else:
            return 400, "400: Bad Request"
        return 200, []


def home() -> dict[str, Any]:
    """A house as Home Assistant tells of it."""

    def entity(name: str, state: str, **attributes: str) -> dict[str, Any]:
        day = "2024-05-01T10:00:00+00:00"
        return {"entity_id": name, "state": state, "attributes": attributes, "last_changed": day}

    turn_on = {"description": "Turn on", "fields": {"brightness_pct": {}}}
    values = (("unavailable", "09"), ("20.5", "10"), ("21.5", "11"))
    past = [{"state": s, "last_changed": f"2024-05-01T{h}:00:00+00:00"} for s, h in values]
    entities = [
        entity("light.kitchen", "off", friendly_name="Kitchen"),
        entity("lock.front_door", "locked"),
        entity("sensor.living_temperature", "21.5", unit_of_measurement="°C"),
    ]
    return {
        "states": {each["entity_id"]: each for each in entities},
        "config": {"version": "2024.5.1", "location_name": "Home", "time_zone": "UTC"},
        "history": [past],
        "services": [{"domain": "light", "services": {"turn_on": turn_on}}],
    }


class Hue(Web):
    def answer(self, path: str, query: Query, body: bytes) -> tuple[int, Any]:
        if path == "/api":
            return 200, [{"success": {"username": "the-key"}}]
        key, kind, *rest = path.split("/")[2:]
        if key != "the-key":
            return 200, [{"error": {"type": 1, "description": "unauthorized user"}}]
        if rest:
            self.state[kind].setdefault(rest[0], {}).setdefault(rest[1], {}).update(
                json.loads(body)
            )
            return 200, [{"success": {}}]
        return 200, self.state[kind]


def lamps() -> dict[str, Any]:
    lights = {
        "1": {"name": "Kitchen", "state": {"on": False, "bri": 254, "reachable": True}},
        "2": {"name": "Cellar", "state": {"on": False, "bri": 1, "reachable": False}},
    }
    return {"lights": lights, "groups": {"1": {"name": "Home", "state": {"any_on": True}}}}


KINDS = {
    "home-assistant": (HomeAssistant, home),
    "hue": (Hue, lamps),
    "ntfy": (Site, lambda: {"pages": {"": "{}", "/": "{}"}}),
}


def made(handler: type[Web], state: Any) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.state = state  # type: ignore[attr-defined]
    return server


@contextmanager
def served(handler: type[Web], state: Any) -> Iterator[str]:
    """The address of a server that runs inside the block."""
    with made(handler, state) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def main(kind: str, file: str) -> None:
    handler, state = KINDS[kind]
    with made(handler, state()) as server:
        Path(file).write_text(str(server.server_port))
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
