"""An MCP server that is a program: `python program.py SCENE`. It does what the scene says.

Only the standard library, so that it starts quickly. It logs what it hears to $HEARD.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SCENE = sys.argv[1] if len(sys.argv) > 1 else "plain"
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
HUGE = "x" * 10_000_000 if SCENE == "liar" else ""
TOOLS = json.loads(Path(__file__).with_name("tools.json").read_text("utf-8").replace("HUGE", HUGE))


def tool(name, description="does something", schema=TEXT, **more):
    return {"name": name, "description": description, "inputSchema": schema, **more}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def complain(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def heard(message):
    if path := os.environ.get("HEARD"):
        with Path(path).open("a") as file:
            file.write(json.dumps(message) + "\n")


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message = json.loads(line)
    heard(message)
    return message


def ask(method, params):
    """A request to the client; what else comes meanwhile is only logged."""
    send({"id": "q1", "method": method, "params": params})
    while True:
        message = hear()
        if message.get("id") == "q1":
            return message


def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}


def initialize(params):
    versions = {"old": "2024-11-05", "future": "2099-01-01"}
    abilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
    if SCENE == "bare":
        abilities = {"tools": {}}
    return {
        "protocolVersion": versions.get(SCENE, params["protocolVersion"]),
        "capabilities": abilities,
        "serverInfo": {"name": "scripted", "version": "1.2"},
        "instructions": "Be nice.",
    }


def discover(_params):
    return {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
    }


def list_tools(params):
    if SCENE == "pages":
        number = int(params.get("cursor", 0))
        more = {} if number == 2 else {"nextCursor": str(number + 1)}
        return {"tools": [tool(f"tool{number}")], **more}
    if SCENE == "endless":
        number = int(params.get("cursor", 0))
        return {"tools": [tool(f"tool{number}")], "nextCursor": str(number + 1)}
    if SCENE == "refuses":
        return None
    if SCENE == "many":
        return {"tools": [tool(f"tool{number}") for number in range(3_000)]}
    if SCENE == "points":
        pointing = {"$schema": os.environ["POINTS_TO"], "type": "string"}
        schema = {"type": "object", "properties": {"a": pointing}}
        return {"tools": [tool("points", schema=schema)]}
    tools = list(TOOLS.get(SCENE, TOOLS["plain"]))
    if Path(os.environ.get("MORE", "/nowhere")).exists():
        tools.append(tool("new"))
    if SCENE == "shuffled":
        tools.reverse()
    return {"tools": tools, **json.loads(os.environ.get("LIST_FIELDS", "{}"))}


def call(number, params):
    name, given = params["name"], params.get("arguments", {})
    said = given.get("text", "")
    if name != "act":
        return text(f"{name} {said}")
    return ACTS[said.partition(" ")[0]](number, params, said.partition(" ")[2])


def die(_number, _params, _rest):
    complain("out of cheese")
    os._exit(3)


def until(_number, _params, rest):
    """Waits for a file; the number of this process."""
    while not Path(rest).exists():
        time.sleep(0.02)  # a process that has nothing else to do
    return text(str(os.getpid()))


def children(_number, _params, _rest):
    """Two processes that outlive a careless parent; their numbers."""
    one = subprocess.Popen(["sleep", "300"])
    two = subprocess.Popen(["setsid", "sleep", "300"])
    time.sleep(0.1)
    return text(f"{os.getpid()} {one.pid} {two.pid}")


def flood_stderr(_number, _params, _rest):
    for number in range(5_000):
        complain(f"complaint {number}")
    return text("done")


def progress(_number, params, _rest):
    token = params["_meta"]["progressToken"]
    for said in (
        {"progressToken": token, "progress": 1, "total": 2},
        {"progressToken": token, "progress": 2, "total": 2},
        {"progressToken": token, "progress": 2, "message": "almost\nthere"},
        {"progressToken": "another", "progress": 1},
    ):
        send({"method": "notifications/progress", "params": said})
    return text("done")


def noise(number, _params, _rest):
    say("Server started. Welcome!")
    say('{"jsonrpc": "2.0", broken')
    say("[[[[")
    send({"id": 999_999, "result": {}})
    send({"id": "what", "result": {}})
    send({"id": None, "error": {"code": 1, "message": "?"}})
    send({"id": [1], "result": {}})
    sys.stdout.write(
        json.dumps([{"jsonrpc": "2.0", "id": number, "result": text("in a batch")}]) + "\n"
    )
    sys.stdout.flush()


def page(number, _params, _rest):
    asked = {"mode": "url", "elicitationId": "1", "url": "https://example.com/in"}
    data = {"elicitations": [{**asked, "message": "sign in"}]}
    send({"id": number, "error": {"code": -32042, "message": "sign in", "data": data}})


BLOB = {"uri": "file:///b", "blob": "AAAA", "mimeType": "x/y"}


def kinds(_number, _params, _rest):
    return {
        "content": [
            {"type": "text", "text": "words"},
            {"type": "image", "data": "A" * 4_000, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": BLOB},
            {"type": "resource_link", "uri": "file:///c", "name": "see"},
            {"type": "dance"},
            7,
        ],
        "structuredContent": {"a": 1},
    }


def asked(_number, _params, rest):
    method, _, params = rest.partition(" ")
    answer = ask(method, json.loads(params or "{}"))
    return text(json.dumps(answer.get("result", answer.get("error"))))


def pair(number, _params, rest):
    """Two calls at a time; one of them asks when both are there."""
    PAIR[number] = rest
    if len(PAIR) == 2:
        ((asking, question),) = [(n, q) for n, q in PAIR.items() if q]
        method, _, params = question.partition(" ")
        answer = ask(method, json.loads(params))
        for each in PAIR:
            said = json.dumps(answer.get("result")) if each == asking else "waited"
            send({"id": each, "result": text(said)})


PAIR = {}


def changed(_number, _params, _rest):
    Path(os.environ["MORE"]).touch()
    send({"method": "notifications/tools/list_changed"})
    return text("done")


def verbatim(number, _params, rest):
    """The bytes of `rest`, with its number where NUMBER stands."""
    line = rest.replace("NUMBER", str(number)).encode("latin-1")
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def question(_number, params, rest):
    """Needs the answer to one question, a method and its parameters."""
    if "inputResponses" in params:
        return text(json.dumps(params["inputResponses"]["q"]))
    return {"resultType": "input_required", "inputRequests": {"q": asking(rest)}}


def asking(rest):
    method, _, params = rest.partition(" ")
    return {"method": method, "params": json.loads(params or "{}")}


def task(_number, _params, rest):
    """A task that is in the state `rest` whenever the client looks."""
    TASK.append(rest)
    return {"resultType": "task", "taskId": "t1", "status": "working", "pollIntervalMs": 1}


def look(_params):
    status, _, fields = TASK[0].partition(" ")
    TASK.append("look")
    fields = json.loads(fields.replace("NEW", f"q{len(TASK)}") or "{}")
    return {
        "resultType": "complete",
        "taskId": "t1",
        "status": status,
        "pollIntervalMs": 1,
    } | fields


TASK = []


def endless(act):
    """Return an act that goes on for ever."""

    def run(_number, _params, _rest):
        while True:
            act()

    return run


NOTE = {"method": "notifications/message", "params": {"level": "info", "data": "x"}}
NAMED = (die, until, children, flood_stderr, progress, noise, page, kinds, changed, pair, verbatim)
MODERN = (question, task)
ACTS = {each.__name__: each for each in NAMED + MODERN} | {
    "as_type": lambda _number, _params, rest: text("x", resultType=json.loads(rest)),
    "result": lambda _number, _params, rest: json.loads(rest),
    "ask": asked,
    "wait": pair,
    "hang": endless(hear),
    "flood_line": endless(lambda: sys.stdout.write("x" * 65_536)),
    "flood_notes": endless(lambda: send(NOTE)),
    "flood_nonsense": endless(lambda: say("la la la")),
    "flood_answers": endless(lambda: send({"id": 999_999, "result": {}})),
    "big": lambda _number, _params, rest: text("y" * int(rest)),
    "error": lambda _number, _params, rest: text(rest, isError=True),
    "refuse": lambda number, _params, rest: send(
        {"id": number, "error": {"code": -32000, "message": rest}}
    ),
    "environment": lambda *_: text(json.dumps(dict(os.environ))),
    "nothing": lambda *_: {"content": []},
    "nonsense": lambda *_: ["not", "an", "object"],
}


RESOURCE = {"uri": "file:///a", "name": "a", "mimeType": "text/plain", "description": "A"}
PROMPT = {
    "name": "greet",
    "description": "Hi",
    "arguments": [{"name": "who", "required": True}, {"name": "how"}],
}


def list_prompts(params):
    if SCENE != "slow pages":
        return {"prompts": [PROMPT]}
    time.sleep(0.05)
    return {"prompts": [PROMPT], "nextCursor": str(int(params.get("cursor", 0)) + 1)}


def get_prompt(params):
    said = f"greet {params['arguments'].get('who')}"
    return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}


WITHOUT_HANDSHAKE = {
    "server/discover": discover,
    "tasks/get": look,
    "tasks/update": lambda _params: {"resultType": "complete"},
}
ANSWERS = {
    **(WITHOUT_HANDSHAKE if SCENE == "modern" else {}),
    **({"server/discover": lambda _params: sys.exit("what?")} if SCENE == "touchy" else {}),
    "initialize": initialize,
    "tools/list": list_tools,
    "resources/list": lambda _params: {"resources": [RESOURCE]},
    "resources/read": lambda params: {"contents": [{"uri": params["uri"], "text": "inside"}]},
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
}


def begin():
    if SCENE == "banner":
        say("\n*** My MCP server 1.0 ***\n")
    if SCENE == "dies":
        sys.exit("cannot find my settings")
    while SCENE == "slow" and not Path(os.environ["GATE"]).exists():
        time.sleep(0.02)
    while SCENE == "mute":
        hear()


def serve():
    begin()
    while True:
        message = hear()
        number, method = message.get("id"), message.get("method")
        params = message.get("params") or {}
        if SCENE == "deaf" and method == "server/discover":
            continue
        if method == "tools/call":
            result = call(number, params)
            if result is not None:
                send({"id": number, "result": result})
        elif method in ANSWERS:
            result = ANSWERS[method](params)
            error = {"code": -32000, "message": "no licence"}
            send({"id": number, **({"error": error} if result is None else {"result": result})})
        elif number is not None and method:
            send({"id": number, "error": {"code": -32601, "message": "unknown"}})


serve()
