"""The fake program `brv`: a context tree in the folder it is run in, as newer versions keep it.

It runs by itself, not inside the tests: the fixture copies it to a folder of PATH. `BRV_FAULT` in a
file in the same folder says how it misbehaves.
"""

import html
import json
import re
import sys
import time
from pathlib import Path

TREE = Path(".brv/context-tree")


def words(text):
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 2}


def say(command, success=True, **data):
    sys.stdout.write(json.dumps({"command": command, "success": success, "data": data}) + "\n")


def search(query):
    found = []
    for file in sorted(TREE.glob("**/*.html")):
        text = html.unescape(re.sub("<[^>]+>", " ", file.read_text("utf-8"))).strip()
        if words(query) & words(text):
            found.append({"path": str(file), "score": 0.9, "excerpt": text})
    return found


def curate(arguments):
    if "--session" not in arguments:
        step = {"step": "generate-html", "prompt": "Generate a <bv-topic>", "sessionId": "s-1"}
        return say("curate", ok=True, status="needs-llm-step", **step)
    envelope = json.loads(arguments[arguments.index("--response") + 1])
    path = re.match(r'<bv-topic path="([a-z0-9_/]+)" title="[^"]+"', envelope["html"])[1]
    assert envelope["html"].endswith("</bv-topic>")
    file = TREE / f"{path}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(envelope["html"], "utf-8")
    return say("curate", ok=True, status="done", filePath=str(file))


def main():
    folder = Path(sys.argv[0]).parent
    with (folder / "calls").open("a", encoding="utf-8") as calls:
        calls.write(json.dumps([str(Path.cwd()), *sys.argv[1:]]) + "\n")
    fault = folder / "fault"
    kind = fault.read_text() if fault.exists() else ""
    if kind == "garbage":
        sys.stdout.write("<html>")
        return 3
    if kind == "refuses":
        say(sys.argv[1], success=False, status="error", error="No provider connected.")
        return 1
    if kind == "hangs":
        time.sleep(600)
    verb, *arguments = sys.argv[1:]
    assert arguments[-2:] == ["--format", "json"]
    if verb == "search":
        assert arguments[1] == "--limit"
        found = search(arguments[0])
        say("search", status="completed", totalFound=len(found), results=found)
    elif verb == "query":
        say("query", event="response", content="thinking")
        text = " ".join(each["excerpt"] for each in search(arguments[0]))
        say("query", event="completed", status="completed", result=text, matchedDocs=[])
    else:
        assert verb == "curate"
        curate(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
