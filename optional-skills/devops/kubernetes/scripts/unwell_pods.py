"""List the pods that are not well, with the reason, from `kubectl get pods -A -o json`.

  kubectl get pods -A -o json | unwell_pods.py
  unwell_pods.py pods.json --restarts 3

The phase of a pod in CrashLoopBackOff, or of one that is not Ready, is Running; so this looks at
the containers and conditions. Exit code: 0 all are well, 1 some are not, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXITS = {126: "cannot be run", 127: "command not found", 139: "crashed", 143: "SIGTERM"}


def ended(state: dict[str, Any]) -> str:
    """The exit code in words. 137 is out of memory only when Kubernetes says so."""
    code, reason = state.get("exitCode"), state.get("reason", "")
    if code == 137 and reason != "OOMKilled":
        return "exit 137 (SIGKILL: a liveness probe or a slow stop, see the events)"
    words = reason if reason not in ("", "Error") else EXITS.get(code, "")
    return f"exit {code}" + (f" ({words})" if words else "")


def container(status: dict[str, Any], init: bool, most: int) -> Iterator[str]:
    state = status.get("state") or {}
    last = (status.get("lastState") or {}).get("terminated")
    found = []
    waiting, terminated = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason") not in ("ContainerCreating", "PodInitializing", None):
        found.append(str(waiting["reason"]))
    if terminated and terminated.get("exitCode"):
        found.append(ended(terminated))
    if last and (found or status.get("restartCount", 0) >= most):
        found.append(f"before: {ended(last)}")
    if status.get("restartCount", 0) >= most:
        found.append(f"{status['restartCount']} restarts")
    if found:
        yield f"{'init container' if init else 'container'} {status['name']}: {', '.join(found)}"


def unwell(pod: dict[str, Any], most: int) -> list[str]:
    status = pod.get("status", {})
    phase = status.get("phase", "Unknown")
    if phase == "Succeeded":
        return []
    found = []
    if phase != "Running":
        found.append(" ".join(filter(None, (phase, status.get("reason")))))
    if pod["metadata"].get("deletionTimestamp"):
        found.append(f"terminating since {pod['metadata']['deletionTimestamp']}")
    for key in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(key) or []:
            found += container(each, key.startswith("init"), most)
    for each in status.get("conditions") or []:
        if each.get("status") == "False" and each.get("type") in ("Ready", "PodScheduled"):
            words = each.get("message") or each.get("reason") or ""
            found.append(f"not {each['type']}" + (f": {words}" if words else ""))
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", default="-", help="JSON of kubectl (standard input)")
    parser.add_argument("--restarts", type=int, default=5, help="as many are a finding (5)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text("utf-8")
        found = json.loads(text)
        pods = found.get("items", [found])
        rows = [(pod["metadata"], unwell(pod, options.restarts)) for pod in pods]
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        print("error: this is no output of kubectl get pods -o json", file=sys.stderr)
        return 2
    bad = [(place, reasons) for place, reasons in rows if reasons]
    for place, reasons in bad:
        print(f"{place.get('namespace', 'default')}/{place.get('name')}: {'; '.join(reasons)}")
    print(f"{len(bad)} of {len(rows)} pods are not well", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
