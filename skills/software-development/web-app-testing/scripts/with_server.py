"""Start servers, wait until they answer, run a command, end the servers.

  with_server.py --server "npm run dev" --url http://127.0.0.1:5173/ -- python3 check.py
  with_server.py --server "python3 api.py" --url http://127.0.0.1:8000/health \\
                 --server "npm run dev" --url http://127.0.0.1:5173/ -- npx playwright test

Each --server has its --url, in the same order. Output of the servers goes to server-1.log, …
Exit code: that of the command; 2 an error, 3 a server did not answer.
"""
# ruff: noqa: T201 - prints its answer; servers get this environment

from __future__ import annotations

import argparse
import http.client
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PAUSE = 0.2


def answers(url: str) -> bool:
    """Whether anything but a server error comes back."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return int(answer.status) < 500
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError, http.client.HTTPException):
        return False


def tail(file: Path) -> str:
    return "\n".join(file.read_text("utf-8", "replace").splitlines()[-15:])


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server and what it has started."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
        except (ProcessLookupError, PermissionError):
            return
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
        return


def work(options: argparse.Namespace) -> int:
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, (command, url) in enumerate(zip(options.server, options.url), 1):  # noqa: B905
            if answers(url):
                print(f"error: {url} answers already; end that server first", file=sys.stderr)
                return 2
            log = options.logs / f"server-{number}.log"
            with log.open("wb") as out:
                process = subprocess.Popen(
                    shlex.split(command), stdout=out, stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
            running.append(process)
            last = time.monotonic() + options.wait
            while not answers(url):
                if process.poll() is not None or time.monotonic() > last:
                    ended = process.returncode
                    why = f"ended with {ended}" if ended is not None else f"no answer at {url}"
                    print(f"error: {command}: {why}\n{tail(log)}", file=sys.stderr)
                    return 3
                time.sleep(PAUSE)
            print(f"{url} answers", file=sys.stderr)
        return subprocess.run(options.command, check=False).returncode
    finally:
        for process in reversed(running):
            end(process)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", action="append", required=True, help="a command")
    parser.add_argument("--url", action="append", required=True, help="answers when it is ready")
    parser.add_argument("--wait", type=float, default=60, help="seconds for each server (60)")
    parser.add_argument("--logs", type=Path, default=Path(), help="the folder of the logs")
    parser.add_argument("command", nargs="+", help="after --")
    options = parser.parse_args()
    if len(options.server) != len(options.url):
        parser.error("each --server needs its --url")
    return options


def main() -> int:
    options = arguments()
    try:
        return work(options)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
