"""Run a session of many turns in the environment of one contender.

    python cache_worker.py CONTENDER WIRE MODEL URL TURNS

Both agents are created with their documented class. This file runs as a script, because the package
`bench` cannot be imported in the peer's environment.
"""

import sys
from importlib import import_module
from typing import Any

MODULES = {"hermes": "hermes.compat.agent", "hermes-agent": "run_agent"}
PEER_MODES = {"anthropic": "anthropic_messages", "custom": "chat_completions"}
KEY = "sk-ant-api03-no-key-is-needed-here"


def user_message(turn: int) -> str:
    """Return the user's message of a turn; turns are counted from 1."""
    return (
        f"[turn {turn}] Read the next three pieces of notes.txt and tell me in one sentence what "
        "is new in them. Keep to the order of the file."
    )


def main() -> None:
    contender, provider, model, url, turns = sys.argv[1:]
    options: dict[str, Any] = {"model": model, "provider": provider, "base_url": url}
    if contender != "hermes":
        options["api_mode"] = PEER_MODES[provider]
    made = import_module(MODULES[contender]).AIAgent
    agent = made(**options, api_key=KEY, quiet_mode=True, max_iterations=30)
    history: list[Any] | None = None
    for turn in range(1, int(turns) + 1):
        result = agent.run_conversation(user_message(turn), conversation_history=history)
        if not result["completed"]:
            raise SystemExit(f"turn {turn} ended with {result.get('error')}")
        history = result["messages"]


if __name__ == "__main__":
    main()
