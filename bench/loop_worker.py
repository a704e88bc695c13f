"""Run one turn of an agent in the environment of one contender.

    python loop_worker.py CONTENDER URL CALLS
    python loop_worker.py CONTENDER import

Both agents are created with their documented class. This file runs as a script, because the package
`bench` cannot be imported in the peer's environment. The second form only prints the CPU
milliseconds of importing the class.
"""

import sys
import time
from importlib import import_module
from typing import Any

MODULES = {"hermes": "hermes.compat.agent", "hermes-agent": "run_agent"}
TOOLSETS = ["todo", "file"]


def agent_class(contender: str) -> Any:
    return import_module(MODULES[contender]).AIAgent


def main() -> None:
    contender, url, *calls = sys.argv[1:]
    before = time.process_time()
    made = agent_class(contender)
    if url == "import":
        print((time.process_time() - before) * 1000)
        return
    agent = made(
        model="lab-model",
        base_url=f"{url}/v1",
        api_key="no-key-is-needed-here",
        quiet_mode=True,
        enabled_toolsets=TOOLSETS,
        skip_context_files=True,
        max_iterations=int(calls[0]) + 10,
    )
    print(agent.run_conversation("Work through the list.")["final_response"])


if __name__ == "__main__":
    main()
