"""Tools of the agent, for this script: each function calls one and returns its result as a dict.

A failure raises `ToolError`. Calls may be made from several threads and processes at once.
"""

# pathlib costs milliseconds at each start.
# ruff: noqa: PTH100, PTH118, PTH120, PTH123

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_local = threading.local()


class ScriptToolError(Exception):
    """A tool could not do its work, or was not allowed to."""


ScriptToolError.__name__ = ScriptToolError.__qualname__ = "ToolError"
ToolError = ScriptToolError  # the name that scripts use


def _connect() -> Any:
    with open(os.path.join(_FOLDER, "address.json"), encoding="utf-8") as file:
        address = json.load(file)
    if address["path"]:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address["path"])
    else:
        connection = socket.create_connection(("127.0.0.1", address["port"]))
    stream = connection.makefile("rwb")
    connection.close()  # the stream keeps it open
    stream.write(address["token"].encode() + b"\n")
    return stream


def _exchange(message: dict[str, Any]) -> dict[str, Any]:
    """Send one message and wait for its answer.

    The connection is this thread's and this process's. It is put away meanwhile, so that a signal
    handler that runs while we wait uses one of its own.
    """
    pid, stream = _local.__dict__.pop("connection", (0, None))
    if pid != os.getpid():
        stream = _connect()
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()
    line = stream.readline()
    if not line:
        raise ConnectionError("the agent is gone")
    _local.connection = (os.getpid(), stream)
    reply: dict[str, Any] = json.loads(line)
    return reply


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    given = {key: value for key, value in arguments.items() if value is not None}
    reply = _exchange({"kind": "tool", "name": name, "arguments": given})
    if "error" in reply:
        raise ToolError(reply["error"])
    result: dict[str, Any] = reply["result"]
    return result
