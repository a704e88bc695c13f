"""Give a task to another coding agent, in a git worktree of its own, and show what it changed.

  delegate.py claude task.md --check "pytest -q" --minutes 20 --dollars 2
  delegate.py codex task.md --read-only
  delegate.py opencode task.md --model anthropic/claude-sonnet-4-5

Knows claude (Claude Code), codex (Codex) and opencode. The worktree and its branch stay; nothing
is merged or pushed. Without --read-only the agent may edit files in the worktree; it gets no right
to skip its own permissions. Exit code: 0 done and the check passed, 1 it failed, 2 an error.
"""
# ruff: noqa: T201 - prints its answer; the agent gets this environment

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

INSTALL = {
    "claude": "npm install -g @anthropic-ai/claude-code, then claude once to log in",
    "codex": "npm install -g @openai/codex, then codex login",
    "opencode": "npm install -g opencode-ai, then opencode auth login",
}


class Problem(Exception):
    """Something the user has to correct."""


def command(options: argparse.Namespace, task: str, report: Path) -> list[str]:
    """The call of the agent without a person in front of it."""
    model = ["--model", options.model] if options.model else []
    if options.agent == "claude":
        mode = "plan" if options.read_only else "acceptEdits"
        rights = ["--allowedTools", ",".join(options.allow)] if options.allow else []
        limit = ["--max-budget-usd", f"{options.dollars:g}"] if options.dollars else []
        call = ["claude", "-p", "--output-format", "json", "--permission-mode", mode]
        return [*call, *rights, *limit, *model, "--", task]
    if options.agent == "codex":
        box = "read-only" if options.read_only else "workspace-write"
        return ["codex", "exec", "--sandbox", box, "-o", str(report), *model, "--", task]
    which = ["--agent", "plan"] if options.read_only else ["--agent", "build"]
    return ["opencode", "run", *which, *model, "--", task]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Problem(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def worktree(options: argparse.Namespace) -> Path:
    root = Path(git(Path(), "rev-parse", "--show-toplevel").strip())
    if git(root, "status", "--porcelain", "--untracked-files=no").strip():
        print("note: changes that are not committed are not in the worktree", file=sys.stderr)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = f"{options.agent}-{stamp}"
    folder = (options.folder or root.parent) / f"{root.name}-{name}"
    git(root, "worktree", "add", "-q", "-b", f"agent/{name}", str(folder), "HEAD")
    return folder


def call(arguments: list[str], folder: Path, log: Path, minutes: float) -> int | None:
    """The exit code, or None when the time was over."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(minutes * 60)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return None


def answer(agent: str, log: Path, report: Path) -> tuple[str, str]:
    """What the agent says at the end, and what it says about cost and session."""
    if report.is_file():
        return report.read_text("utf-8", "replace").strip(), ""
    text = log.read_text("utf-8", "replace").strip()
    if agent == "claude":
        try:
            found = json.loads(text.splitlines()[-1])
            facts = f"{found.get('total_cost_usd', 0):.2f} dollars, session {found['session_id']}"
            failed = "FAILED: " if found.get("is_error") else ""
            return failed + str(found.get("result", "")), facts
        except (ValueError, LookupError, TypeError, AttributeError):
            pass
    return text, ""


def work(options: argparse.Namespace) -> int:
    task = options.task.read_text("utf-8").strip()
    if not task:
        raise Problem(f"{options.task} is empty")
    if not shutil.which(options.agent):
        raise Problem(f"{options.agent} is not installed: {INSTALL[options.agent]}")
    folder = worktree(options)
    base = git(folder, "rev-parse", "HEAD").strip()
    log, report = (folder.with_name(f"{folder.name}.{end}") for end in ("log", "report"))
    start = time.monotonic()
    code = call(command(options, task, report), folder, log, options.minutes)
    seconds = time.monotonic() - start
    said, facts = answer(options.agent, log, report)
    git(folder, "add", "--all", "--intent-to-add")
    changes = git(folder, "diff", "--stat", base).strip()
    commits = git(folder, "log", "--oneline", f"{base}..HEAD").strip()
    ended = "time is over" if code is None else f"exit code {code}"
    print(f"{options.agent}: {ended} after {seconds:.0f} s{', ' + facts if facts else ''}")
    print(f"\n{said or '(it said nothing)'}\n")
    print(f"commits:\n{commits}\n" if commits else "", end="")
    print(changes or "no changes")
    checked = 0
    if options.check:
        done = subprocess.run(shlex.split(options.check), cwd=folder, check=False)
        checked = done.returncode
        print(f"check {options.check!r}: {'passed' if not checked else f'exit code {checked}'}")
    print(f"worktree {folder}, log {log}")
    print(f"read the diff: git -C {shlex.quote(str(folder))} diff {base[:12]}")
    return 1 if code or code is None or checked or said.startswith("FAILED: ") else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("agent", choices=INSTALL)
    parser.add_argument("task", type=Path, help="a text file with the task")
    parser.add_argument("--read-only", action="store_true", help="plan or review, change nothing")
    parser.add_argument("--allow", action="append", default=[], metavar="TOOL",
                        help='claude: a tool it may use, such as "Bash(pytest *)"')  # fmt: skip
    parser.add_argument("--model", default="")
    parser.add_argument("--minutes", type=float, default=30, help="then it is ended (30)")
    parser.add_argument("--dollars", type=float, default=0, help="limit, claude only")
    parser.add_argument("--check", default="", help="a command to run in the worktree afterwards")
    parser.add_argument("--folder", type=Path, help="where the worktree goes (beside the project)")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return work(options)
    except UnicodeError:
        print(f"error: {options.task} is no UTF-8 text", file=sys.stderr)
    except (Problem, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
