"""Uses the tools without a model: a loop of your own would call them like this."""

import json

from model_tools import get_tool_definitions, handle_function_call
from tools.approval import detect_dangerous_command
from tools.registry import registry
from toolsets import resolve_toolset


def shout(args, **kwargs):
    return json.dumps({"said": args["text"].upper()})


def main():
    print("file tools:", ", ".join(resolve_toolset("file")))
    schemas = get_tool_definitions(["file", "terminal"], quiet_mode=True)
    print("usable:", ", ".join(schema["function"]["name"] for schema in schemas))
    for command in ("echo hello", "rm -rf /"):
        dangerous, kind, why = detect_dangerous_command(command)
        print(f"{command!r}:", f"{kind}: {why}" if dangerous else "harmless")
        print("  ", handle_function_call("terminal", {"command": command}, task_id="demo"))
    registry.register(
        "shout",
        "demo",
        {
            "description": "Say it loudly.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
        shout,
    )
    print(registry.dispatch("shout", {"text": "hello"}))


if __name__ == "__main__":
    main()
