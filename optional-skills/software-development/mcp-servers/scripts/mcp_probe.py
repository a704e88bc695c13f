"""Start an MCP server, list its tools, call them. Speaks the protocol itself, with Python only.

  mcp_probe.py -- python3 server.py
  mcp_probe.py --call search_notes '{"words": "tea"}' -- python3 server.py
  mcp_probe.py --strict -- npx -y @scope/server

Reports what makes a server hard to use: tools without a description, parameters without one, no
annotations, output on standard output that is no message. Says how long the start took.
Exit code: 0 fine, 1 findings or a tool answered with an error, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

VERSION = "2025-06-18"
MOST = 4000


class Problem(Exception):
    """Something the user has to correct."""


class Server:
    """A server over standard input and output."""

    def __init__(self, command: list[str], seconds: float) -> None:
        self.seconds = seconds
        self.noise: list[str] = []
        self._number = 0
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            encoding="utf-8", errors="replace", bufsize=1,
        )  # fmt: skip
        for target in (self._read, self._complain):
            threading.Thread(target=target, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _complain(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self._errors.append(line.rstrip())
            del self._errors[:-20]

    def send(self, method: str, parameters: dict[str, Any], reply: bool = True) -> Any:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters}
        if reply:
            self._number += 1
            message["id"] = self._number
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Problem(f"the server ended: {self.reason()}") from None
        return self._answer(method) if reply else None

    def _answer(self, method: str) -> Any:
        last = time.monotonic() + self.seconds
        while True:
            try:
                line = self._lines.get(timeout=max(last - time.monotonic(), 0.01))
            except queue.Empty:
                raise Problem(f"no answer to {method} in {self.seconds:g} seconds") from None
            if line is None:
                raise Problem(f"the server ended: {self.reason()}")
            try:
                found = json.loads(line)
            except ValueError:
                self.noise.append(line.strip()[:200])
                continue
            if not isinstance(found, dict) or found.get("id") != self._number or "method" in found:
                continue  # a notification, or a question of the server
            if "error" in found:
                raise Problem(f"{method}: {found['error'].get('message')}")
            return found.get("result", {})

    def reason(self) -> str:
        time.sleep(0.2)  # the last lines of standard error may still be on their way
        return self._errors[-1] if self._errors else "without a word on standard error"

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def findings(tools: list[dict[str, Any]], strict: bool) -> Iterator[str]:
    for tool in tools:
        name, schema = tool["name"], tool.get("inputSchema") or {}
        if not tool.get("description"):
            yield f"{name} has no description"
        if schema.get("type") != "object":
            yield f"{name}: the schema is no object"
        for parameter, rules in (schema.get("properties") or {}).items():
            if strict and not rules.get("description"):
                yield f"{name}: {parameter} has no description"
        if strict and not tool.get("annotations"):
            yield f"{name} does not say whether it only reads or destroys (annotations)"


def shown(result: dict[str, Any]) -> str:
    parts = [each.get("text") or f"[{each.get('type')}]" for each in result.get("content", [])]
    text = "\n".join(parts)
    if not text and "structuredContent" in result:
        text = json.dumps(result["structuredContent"], ensure_ascii=False)
    return text[:MOST]


def work(server: Server, options: argparse.Namespace) -> int:
    start = time.monotonic()
    client = {"name": "mcp_probe", "version": "1"}
    wanted = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
    about = server.send("initialize", wanted)
    server.send("notifications/initialized", {}, reply=False)
    name = about.get("serverInfo", {}).get("name")
    offered = ", ".join(about.get("capabilities", {}))
    print(f"{name}, protocol {about.get('protocolVersion')}, {offered}")
    seconds = time.monotonic() - start
    print(f"started in {seconds:.1f} s (clients give up after some; 5 is slow)", file=sys.stderr)
    tools: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = server.send("tools/list", cursor)
        tools += page.get("tools", [])
        if not page.get("nextCursor"):
            break
        cursor = {"cursor": page["nextCursor"]}
    for tool in tools:
        needed = (tool.get("inputSchema") or {}).get("required", [])
        first = (tool.get("description") or "").strip().partition("\n")[0]
        print(f"- {tool['name']}({', '.join(needed)}): {first}")
    found = list(findings(tools, options.strict))
    failed = False
    for name, text in options.call:
        result = server.send("tools/call", {"name": name, "arguments": json.loads(text)})
        failed |= bool(result.get("isError"))
        print(f"{name}{' (error)' if result.get('isError') else ''}: {shown(result)}")
    found += [f"text that is no message on standard output: {line!r}" for line in server.noise[:3]]
    for finding in found:
        print(f"!! {finding}")
    return 1 if found or failed else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--call", nargs=2, action="append", default=[], metavar=("TOOL", "JSON"))
    parser.add_argument("--strict", action="store_true", help="also parameters and annotations")
    parser.add_argument("--seconds", type=float, default=30, help="for each answer (30)")
    parser.add_argument("command", nargs="+", help="after --")
    options = parser.parse_args()
    for _, text in options.call:
        try:
            good = isinstance(json.loads(text), dict)
        except ValueError:
            good = False
        if not good:
            parser.error(f"--call takes a JSON object, not {text!r}")
    return options


def main() -> int:
    options = arguments()
    try:
        server = Server(options.command, options.seconds)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        return work(server, options)
    except (Problem, KeyError, TypeError, AttributeError) as error:
        reason = (
            error
            if isinstance(error, Problem)
            else f"the answer has not the form of MCP: {error!r}"
        )
        print(f"error: {reason}", file=sys.stderr)
        return 2
    finally:
        server.close()


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
