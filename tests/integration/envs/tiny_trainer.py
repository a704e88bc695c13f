"""A trainer without libraries: rollouts through the capture endpoint, rewards, metrics.

It is started as the user's `rl.trainer_command`: `python tiny_trainer.py MODE`.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ENV = {name: value for name, value in os.environ.items() if name.startswith("HERMES_RL_")}


def post(path: str, body: dict[str, Any]) -> Any:
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{ENV['HERMES_RL_CAPTURE_URL']}{path}", data)
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def train(steps: int) -> None:
    for step in range(steps):
        name = f"step-{step}"
        body = {"model": "m", "messages": [{"role": "user", "content": "Say yes."}]}
        text = post(f"/{name}/v1/chat/completions", body)["choices"][0]["message"]["content"]
        done = post(f"/{name}/finish", {"reward": float("Yes" in text), "task": "yes"})
        (sample,) = done["samples"]
        line = {
            "step": step,
            "reward": done["reward"],
            "tokens": sum(sample["mask"]),
            "note": os.environ.get("WANDB_API_KEY", "no key"),
        }
        with Path(ENV["HERMES_RL_METRICS"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    mode = sys.argv[1]
    own, other = os.environ.get("WANDB_API_KEY"), os.environ.get("OTHER_API_KEY")
    sys.stdout.write(f"trainer of {ENV['HERMES_RL_ENVIRONMENT']}\nkey: {own} {other}\n")
    sys.stdout.flush()
    if mode == "crash":
        raise RuntimeError("out of memory")
    if mode == "log":
        sys.stdout.write(json.dumps({"step": 1, "loss": 0.5}) + "\n")
        return
    train(3)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode in ("forever", "stubborn"):
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(ENV["HERMES_RL_RUN_DIR"], "child").write_text(f"{child.pid} {os.getpid()}")
        time.sleep(600)


if __name__ == "__main__":
    main()
