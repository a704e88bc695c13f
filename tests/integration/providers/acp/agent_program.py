"""An agent to test against: a real program that speaks the protocol and does as its plan says.

    python agent_program.py PLAN LOG

PLAN is a JSON file: `init` and `new` are merged into the answers of those names (`{"error": {…}}`
makes it an error), `turns` holds a list of acts for each prompt, the last one for all others.
LOG gets every message that came in, after a line with the environment and the process id.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path

plan = json.loads(Path(sys.argv[1]).read_text())
log = Path(sys.argv[2]).open("a", buffering=1)  # noqa: SIM115 - open for the whole run
inbox: "queue.Queue[dict]" = queue.Queue()
cancelled = threading.Event()
answers: "queue.Queue[dict]" = queue.Queue()


def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}))


def raw(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def listen():
    for line in sys.stdin:
        message = json.loads(line)
        log.write(line)
        if message.get("method") == "session/cancel":
            cancelled.set()
        elif "method" in message:
            inbox.put(message)
        else:
            answers.put(message)
    while plan.get("stubborn"):
        time.sleep(1)
    os._exit(0)


def chunk(session, name, text):
    update(session, {"sessionUpdate": name, "content": {"type": "text", "text": text}})


def die(code, words):
    sys.stderr.write(words)
    sys.stderr.flush()
    os._exit(code)


def ask(session, method, params):
    send(id=f"ask-{method}", method=method, params={"sessionId": session, **params})
    answers.get()


def fail(request, code, message, data=None):
    send(id=request["id"], error={"code": code, "message": message, "data": data})


def end(request, reason, more=None):
    send(id=request["id"], result={"stopReason": reason, **(more or {})})


def acts_of(session, request):
    """What can be planned: the name of each act and how it is done."""
    return {
        "say": lambda text: chunk(session, "agent_message_chunk", text),
        "think": lambda text: chunk(session, "agent_thought_chunk", text),
        "echo": lambda: chunk(
            session, "agent_message_chunk", request["params"]["prompt"][0]["text"]
        ),
        "update": lambda what: update(session, what),
        "raw": raw,
        "ask": lambda method, params: ask(session, method, params),
        "sleep": time.sleep,
        "await cancel": cancelled.wait,
        "die": die,
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "error": lambda *details: fail(request, *details),
        "end": lambda *details: end(request, *details),
    }


def update(session, what):
    send(method="session/update", params={"sessionId": session, "update": what})


def prompt(request, planned):
    acts = acts_of(request["params"]["sessionId"], request)
    for name, *given in planned:
        acts[name](*given)
        if name in ("error", "end"):
            return
    end(request, "end_turn")


def answer(request, usual, planned):
    if "error" in planned:
        send(id=request["id"], error=planned["error"])
    else:
        send(id=request["id"], result={**usual, **planned})


def main():
    if dying := plan.get("dies"):
        die(*dying)
    log.write(json.dumps({"environment": dict(os.environ), "pid": os.getpid()}) + "\n")
    threading.Thread(target=listen, daemon=True).start()
    turns, sessions = 0, 0
    while True:
        request = inbox.get()
        match request["method"]:
            case "initialize":
                answer(request, {"protocolVersion": 1}, plan.get("init", {}))
            case "session/new":
                sessions += 1
                answer(request, {"sessionId": f"s{sessions}"}, plan.get("new", {}))
            case "session/prompt":
                acts = plan["turns"][min(turns, len(plan["turns"]) - 1)]
                turns += 1
                threading.Thread(target=prompt, args=(request, acts), daemon=True).start()
            case _:
                send(id=request["id"], result={})


main()
